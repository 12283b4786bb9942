// Search and filters over the timeline.

const FOUND = 20;

/** What a search finds: transactions by name, alias or line, sessions, keys. */
function search(text) {
  const { history: all } = run();
  const wanted = text.trim().toLowerCase();
  const results = [];
  const add = (label, action) => results.length < FOUND && results.push({ label, action });
  if (!wanted) return results;
  for (const txn of example()?.witness.transactions || []) {
    const t = placeOf(txn);
    if (txn.alias.toLowerCase() === wanted && t !== undefined) add(`transaction ${txn.alias} of the example`, () => showTransaction(t));
  }
  anomalies().forEach((a, i) => {
    if (`${a.title || ""} ${a.kind} ${a.code}`.toLowerCase().includes(wanted)) add(`anomaly: ${titleOf(a)} (${a.code})`, () => go({ anomaly: i }));
  });
  if (!all) return results;
  const line = /^line (\d+)$/.exec(wanted);
  for (let t = 0; t < all.count && results.length < FOUND; t++) {
    const hit = line ? all.line[t] === Number(line[1]) : all.name(t).toLowerCase() === wanted;
    if (hit) add(`transaction ${all.name(t)}, session ${all.sessions[all.lane[t]]}`, () => showTransaction(t));
  }
  all.sessions.forEach((name, i) => {
    if (name.toLowerCase() === wanted) add(`session ${name}`, () => setFilter({ session: String(i) }));
  });
  all.readOperations();
  for (const key of all.keyNames) {
    if (key.toLowerCase().startsWith(wanted)) add(`key ${key}`, () => go({ key }));
    if (results.length >= FOUND) break;
  }
  return results;
}

function showTransaction(t) {
  go({ txn: t });
  timeline?.reveal([t]);
}

let searchInput;

function searchBox() {
  const list = h("ul", { id: "found", role: "listbox", "aria-label": "Results", hidden: true });
  let results = [];
  let at = 0;
  const show = () => {
    list.hidden = !searchInput.value.trim();
    searchInput.setAttribute("aria-expanded", String(!list.hidden));
    set(list, results.map((r, i) => h("li", { role: "option", id: `found-${i}`, "aria-selected": String(i === at) },
      h("button", { type: "button", tabindex: "-1", onclick: () => choose(i) }, r.label))),
    !list.hidden && !results.length ? h("li", { role: "option", "aria-disabled": "true" }, "nothing of this name") : null);
  };
  const choose = (i) => {
    const chosen = results[i];
    searchInput.value = "";
    results = [];
    show();
    if (!chosen) return;
    chosen.action();
    announce(chosen.label);
  };
  searchInput = h("input", {
    type: "search", placeholder: "Transaction, key, session …", "aria-label": "Search", role: "combobox",
    "aria-controls": "found", "aria-expanded": "false", autocomplete: "off",
    oninput: () => ((results = search(searchInput.value)), (at = 0), show()),
    onkeydown: (e) => {
      if (e.key === "ArrowDown" || e.key === "ArrowUp") {
        e.preventDefault();
        at = clamp(at + (e.key === "ArrowDown" ? 1 : -1), 0, Math.max(results.length - 1, 0));
        searchInput.setAttribute("aria-activedescendant", `found-${at}`);
        show();
      } else if (e.key === "Enter") choose(at);
      else if (e.key === "Escape") (searchInput.value = ""), show(), searchInput.blur();
    },
  });
  return h("div", { class: "search" }, searchInput, " ", h("kbd", {}, "/"), list);
}

function setFilter(change) {
  Object.assign(timeline.filter, change);
  timeline.applyFilter();
  timeline.redraw();
  showFilters();
}

let filterRow;

function showFilters() {
  const { history: all } = run();
  const { filter } = timeline;
  const pick = (label, name, options) => h("select", { "aria-label": label, onchange: (e) => setFilter({ [name]: e.target.value }) },
    options.map(([value, text]) => h("option", { value, selected: filter[name] === value ? true : null }, text)));
  const sessions = all.sessions.slice(0, 2000).map((name, i) => [String(i), cut(`session ${name}`, 30)]);
  const kinds = [["", "everything"], ["r", "reads"], ["w", "writes"], ["a", "appends"], ["aborted", "aborted"], ["unknown", "outcome unknown"]];
  const keyInput = h("input", { "aria-label": "Only transactions that touch this key", placeholder: "key", value: filter.key,
    onchange: (e) => setFilter({ key: e.target.value.trim() }) });
  const active = filter.session !== "" || filter.key !== "" || filter.kind !== "";
  const unknown = filter.key !== "" && all.keyNumber(filter.key) === undefined;
  set(filterRow, "Show ", pick("Sessions", "session", [["", "all sessions"], ...sessions]), pick("Kind", "kind", kinds), keyInput,
    active ? h("button", { type: "button", onclick: () => setFilter({ session: "", key: "", kind: "" }) }, "Clear") : null,
    unknown ? h("span", { class: "note" }, "no transaction with this key is carried") : null);
}
