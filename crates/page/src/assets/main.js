// Puts the page together, and the keys.

let timeline;
let minimap;

function exampleSection() {
  const shown = example();
  if (!shown) return withoutAnomaly();
  const all = examples();
  const folded = shown.witness.transactions.filter((t) => t.bystander).length;
  const drawing = h("div", { class: "drawing", id: "drawing" });
  const section = h("section", { class: "example" },
    h("div", { class: "bar" },
      h("h2", {}, anomaly().count > 1 ? "Smallest example" : "Example"),
      h("span", { class: "dim" }, `${grouped(shown.witness.transactions.length - folded)} of ${counted(run().result.history.transactions, "transaction")}`),
      h("span", { class: "space" }),
      all.length > 1 ? [h("button", { type: "button", "aria-label": "Previous example", onclick: () => go({ example: (state.example + all.length - 1) % all.length }) }, "‹"),
        h("span", {}, `${state.example + 1} of ${all.length}`),
        h("button", { type: "button", "aria-label": "Next example", onclick: () => go({ example: (state.example + 1) % all.length }) }, "›")] : null,
      folded ? h("button", { type: "button", id: "evidence", "aria-pressed": String(state.evidence), onclick: () => go({ evidence: !state.evidence }, true) },
        `Evidence (${folded})`) : null,
      copyMenu()),
    drawing);
  drawing.draw = () => {
    const { svg, types } = drawExample(Math.max(drawing.clientWidth, 300));
    set(drawing, svg, legend(types));
  };
  return section;
}

/** What to look at where nothing contradicts: the verdict's basis, and the keys that most transactions used. */
function withoutAnomaly() {
  const { history: all, outcome, result } = run();
  const { transactions, aborted, indeterminate } = result.history;
  const committed = transactions - aborted - indeterminate;
  const used = all ? usedKeys(all) : [];
  return h("section", { class: "none" }, h("h2", {}, "No anomaly was found"),
    h("p", {}, outcome === "holds" ? `The reads of ${committed === 1 ? "the committed transaction" : `all ${grouped(committed)} committed transactions`} agree with the levels that hold.`
      : "No level is known to be violated; why levels are unknown stands below the table."),
    all ? h("p", {}, "Choose a transaction on the timeline to see its reads and writes, or a key to see its versions.") : null,
    used.length ? h("p", {}, "Keys, the most used first: ", used.slice(0, 12).map((key) => [keyLink(key), " "]), used.length > 12 ? `and ${grouped(used.length - 12)} more` : "") : null);
}

function runSection() {
  const { history: all } = run();
  if (!all) return null;
  timeline = new Timeline(all);
  minimap = new Minimap(timeline);
  timeline.onDraw = () => minimap.draw();
  filterRow = h("div", { class: "filters" });
  const left = all.count - all.carried;
  const faults = all.faults.size + all.outages.length;
  const about = `${counted(all.count - all.faults.size, "transaction")}${faults ? ` and ${counted(faults, "fault")}` : ""}; ${aboutAxis(all)[1]}`;
  timeline.canvas.setAttribute("aria-label", `Timeline: ${about}. Search finds single transactions.`);
  minimap.canvas.setAttribute("aria-label", "The whole run: how many transactions began when, and where the examples are");
  const zoomBy = (label, text, act) => h("button", { type: "button", "aria-label": label, title: label, onclick: act }, text);
  return h("section", { class: "run", "aria-label": "The run" },
    h("div", { class: "bar" }, h("h2", {}, "The run"), h("span", { class: "dim" }, about), h("span", { class: "space" }), h("span", { id: "jump" }), searchBox()),
    minimap.canvas,
    h("div", { class: "bar controls" }, filterRow, h("span", { class: "space" }),
      anomalies().length ? zoomBy("Show the example", "Example", revealExample) : null,
      zoomBy("Whole run", "Whole run", () => timeline.show(0, all.last)),
      all.sessions.length > MOST_LANES ? [zoomBy("Sessions above", "▲", () => timeline.scrollBy(-6)), zoomBy("Sessions below", "▼", () => timeline.scrollBy(6))] : null,
      zoomBy("Zoom in", "+", () => timeline.zoom(0.6)), zoomBy("Zoom out", "−", () => timeline.zoom(1.7))),
    h("div", { class: "pointed" }, timeline.canvas, timeline.tip),
    h("p", { class: "legend" }, "Filled: committed. Hollow: aborted. Dashed: outcome unknown. Red marks: anomalies. ",
      faults ? "Shaded: faults. " : "", "Drag to move; Ctrl and wheel, or a click and the wheel, to zoom.",
      all.sessions.length > MOST_LANES ? " The sessions of the example stand on top." : "",
      left ? ` The operations of ${counted(left, "transaction")} are left out to keep this page small; those of the examples and their keys come first.` : ""),
    h("div", { id: "selected" }));
}

/** Shows an instance on the timeline, and its example where there is one. */
function showInstance(i) {
  const one = instances()[i];
  if (!one) return;
  go({ anomaly: one.anomaly, example: Math.max(one.example, 0), txn: one.t });
  if (one.example < 0) {
    timeline?.pin([one.t]);
    timeline?.reveal([one.t]);
  }
  announce(`Anomaly ${grouped(i + 1)} of ${grouped(instances().length)}: ${titleOf(anomaly())}`);
}

/** The next or previous instance; from a place without one, the nearest in that direction in view. */
function instanceBy(by) {
  const all = instances();
  if (!all.length) return;
  const now = shownInstance();
  showInstance(now < 0 ? (by > 0 ? 0 : all.length - 1) : (now + by + all.length) % all.length);
}

/** Where one is among all instances, with the way to others. */
function instanceBar() {
  const all = instances();
  if (!all.length) return null;
  const now = shownInstance();
  const total = anomalies().reduce((sum, a) => sum + a.count, 0);
  const more = total > all.length ? h("span", { class: "dim" }, ` marked (${grouped(total)} found)`) : null;
  const to = (label, key, text, act) => h("button", { type: "button", "aria-label": label, title: `${label}${key ? ` (${key})` : ""}`, onclick: act }, text);
  return h("span", { class: "instances" }, to("First anomaly", "", "First anomaly", () => showInstance(0)),
    to("Previous anomaly in time", ",", "‹", () => instanceBy(-1)),
    h("span", { id: "instance" }, now < 0 ? `${grouped(all.length)} marked` : `${grouped(now + 1)} of ${grouped(all.length)}`, more),
    to("Next anomaly in time", ".", "›", () => instanceBy(1)));
}

function revealExample() {
  const places = (example()?.witness.transactions || []).filter((t) => !t.bystander).map(placeOf).filter((t) => t !== undefined);
  timeline?.pin(places);
  timeline?.reveal(places);
}

/** Scrolls the strip of versions to those of the example, the version before them first. */
function showHot(parent) {
  const hot = parent?.querySelector(".strip .hot")?.closest("li");
  const first = hot?.previousElementSibling || hot;
  if (first) first.parentElement.scrollLeft = first.offsetLeft - first.parentElement.offsetLeft;
}

/** Scrolls the list of anomalies to the one that is shown. */
function showCard(list) {
  const card = list.querySelector(".card.on");
  const below = card ? card.offsetTop + card.offsetHeight + 60 - list.clientHeight : 0;
  list.scrollTop = Math.max(0, below);
}

/** Everything anew: another run. */
function build() {
  timeline = minimap = null;
  const focus = keepFocus();
  const app = document.getElementById("app");
  set(app, h("div", { id: "head" }), h("main", { id: "explorer" },
    h("div", { id: "runs" }), h("div", { class: "three" }, h("div", { class: "left" }, h("div", { id: "left" })), h("div", { class: "middle", id: "middle" }), h("div", { class: "right", id: "right" })),
    h("div", { id: "run" })));
  set(document.getElementById("run"), runSection());
  if (timeline) showFilters();
  document.title = `${run().sentence} ${run().result.history.path}`;
  refresh(null);
  if (state.txn === null) revealExample();
  else timeline?.reveal([state.txn]);
  focus();
}

/** Shows the state; `before` is what was shown, null if nothing was. */
function refresh(before) {
  if (before && before.run !== state.run) return build();
  const changed = (...names) => !before || names.some((name) => before[name] !== state[name]);
  const at = (id) => document.getElementById(id);
  const focus = keepFocus();
  if (changed("run")) set(at("head"), header());
  if (changed("run")) set(at("runs"), runTable());
  if (changed("anomaly")) {
    set(at("left"), ladder(), cards());
    // Where the list is long and a run stands below, the list scrolls.
    at("left").parentElement.parentElement.classList.toggle("many", Boolean(run().history) && at("left").scrollHeight > 640);
    showCard(at("left"));
  }
  // Without an explanation its column is left out.
  const explained = steps();
  at("right").hidden = !explained;
  at("right").parentElement.classList.toggle("two", !explained);
  set(at("right"), explained, explained && unseen());
  set(at("middle"), exampleSection(), explained ? null : unseen(), keyPanel());
  at("drawing")?.draw();
  showHot(at("middle"));
  if (changed("txn") && timeline) set(at("selected"), transactionPanel());
  if (timeline) set(at("jump"), instanceBar());
  if (before && changed("anomaly", "example")) revealExample();
  timeline?.redraw();
  focus();
}

/** Remembers which control has the focus, and gives it back to the one that took its place. */
function keepFocus() {
  const now = document.activeElement;
  const parent = now?.closest?.("#left, #right, #middle, #selected, #head, #runs, #jump");
  if (!parent) return () => {};
  const all = () => [...(document.getElementById(parent.id)?.querySelectorAll("button, summary, [tabindex]") || [])];
  const place = all().indexOf(now);
  return () => (document.contains(now) ? null : all()[place]?.focus({ preventScroll: true }));
}

const KEYS = [
  ["← →", "previous and next sentence of the explanation"], ["n p", "next and previous kind of anomaly"], [". ,", "next and previous anomaly in time, of any kind"], ["e", "expand: what forces the step, and the refuted alternative"],
  ["v", "show the transactions that only give evidence"], ["w s", "zoom in and out"], ["a d", "move left and right"], ["+ −", "zoom in and out"], ["[ ]", "sessions above and below"],
  ["0", "the whole run"], ["x", "the example on the timeline"], ["/", "search"], ["t", "light or dark"], ["Esc", "close"], ["?", "this list"],
];

let help;

function openHelp() {
  help ||= document.body.appendChild(h("dialog", { "aria-label": "Keys" }, h("h2", {}, "Keys"),
    h("table", {}, h("tbody", {}, KEYS.map(([keys, what]) => h("tr", {}, h("td", {}, keys.split(" ").map((k) => [h("kbd", {}, k), " "])), h("td", {}, what))))),
    h("p", {}, h("button", { type: "button", onclick: () => help.close() }, "Close"))));
  help.showModal();
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function themeName() {
  return isDark() ? "Light" : "Dark";
}

function switchTheme() {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  document.getElementById("theme").textContent = themeName();
  timeline?.redraw();
}

function stepBy(by) {
  const count = example()?.steps?.length || 0;
  if (count) go({ step: clamp(state.step + by, 0, count - 1) }, true);
}

function anomalyBy(by) {
  const count = anomalies().length;
  if (count) go({ anomaly: (state.anomaly + by + count) % count, example: 0, step: 0 });
}

function expand() {
  state.expanded = !state.expanded;
  refresh({ ...state });
  document.querySelector(".because summary")?.focus({ preventScroll: true });
}

const ACTIONS = {
  ArrowLeft: () => stepBy(-1), ArrowRight: () => stepBy(1), n: () => anomalyBy(1), p: () => anomalyBy(-1), e: expand,
  v: () => go({ evidence: !state.evidence }, true), w: () => timeline?.zoom(0.7), s: () => timeline?.zoom(1.43), a: () => timeline?.pan(-0.2), d: () => timeline?.pan(0.2),
  "+": () => timeline?.zoom(0.6), "=": () => timeline?.zoom(0.6), "-": () => timeline?.zoom(1.7), 0: () => timeline?.show(0, timeline.history.last),
  "[": () => timeline?.scrollBy(-6), "]": () => timeline?.scrollBy(6), x: revealExample, "/": () => searchInput?.focus(), t: switchTheme, "?": openHelp,
  ".": () => instanceBy(1), ",": () => instanceBy(-1),
  Escape: () => (state.txn !== null || state.key !== null) && go({ txn: null, key: null }),
};

function onKey(e) {
  if (e.ctrlKey || e.metaKey || e.altKey || help?.open || e.target.closest?.("input, select, textarea")) return;
  const action = ACTIONS[e.key];
  if (!action) return;
  e.preventDefault();
  action();
}

async function start() {
  page = await loadData();
  if (!page.runs.length) return;
  document.documentElement.classList.add("js");
  fromHash();
  build();
  listeners.push(refresh);
  document.addEventListener("keydown", onKey);
  window.addEventListener("popstate", fromHash);
  window.addEventListener("hashchange", fromHash);
  new ResizeObserver(() => {
    document.getElementById("drawing")?.draw();
    timeline?.redraw();
  }).observe(document.getElementById("app"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => timeline?.redraw());
  document.documentElement.dataset.ready = "true";
}

start();
