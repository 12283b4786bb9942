// What surrounds one transaction, and the history of one key. Both look only at the operations that the page
// carries, and say so where some are left out.

function txnLink(t) {
  const { history: all } = run();
  const alias = aliasOf(t);
  const text = alias && alias !== all.name(t) ? `${alias} (${all.name(t)})` : all.name(t);
  return h("button", { type: "button", class: "link", onclick: () => go({ txn: t }) }, cut(text, 40));
}

function keyLink(key) {
  return h("button", { type: "button", class: "link", onclick: () => go({ key }) }, cut(key, 40));
}

const DEEDS = { r: "read", w: "wrote", a: "appended to" };
const OUTCOMES = ["committed", "aborted", "outcome unknown"];

/** A transaction: what it did, whom it read from, who read from it, what came before and after it. */
function transactionPanel() {
  const { history: all } = run();
  const t = state.txn;
  if (!all || t === null) return null;
  const operations = all.operations(t);
  const which = shownInstance();
  const fault = all.faults.get(t);
  const facts = fault ? ["fault", fault.detail, `${moment(all, all.begin[t], 1)} to ${moment(all, all.end[t], 1)}`].filter(Boolean) : [`session ${all.sessions[all.lane[t]]}`, all.lines ? `line ${all.line[t]}` : null, OUTCOMES[all.outcome[t]],
    all.axis === "place" ? null : `${moment(all, all.begin[t], 1)} to ${moment(all, all.end[t], 1)}`].filter(Boolean);
  const lane = all.lanes[all.lane[t]].txns;
  const place = lane.indexOf(t);
  const beside = [["Before it in the session", lane[place - 1]], ["After it", lane[place + 1]]].filter(([, o]) => o !== undefined);
  const { sources, readers } = operations ? neighbours(t) : { sources: [], readers: [] };
  const list = (title, items) => h("div", {}, h("h3", {}, title), items.length
    ? h("ul", {}, items.slice(0, 40).map((item) => h("li", {}, item)), items.length > 40 ? h("li", {}, `… ${items.length - 40} more`) : null)
    : h("p", { class: "dim" }, "none that this page carries"));
  return h("div", { class: "detail", id: "transaction", role: "region", "aria-label": `Transaction ${all.name(t)}` },
    h("div", {}, h("h3", {}, aliasOf(t) && aliasOf(t) !== all.name(t) ? `${aliasOf(t)}, ${cut(all.name(t), 60)} ` : `${cut(fault ? fault.name : all.name(t), 60)} `,
      h("button", { type: "button", class: "small", onclick: () => go({ txn: null }) }, "Close")),
    h("p", { class: "dim" }, facts.join(" · ")),
    which < 0 ? null : h("p", {}, instances()[which].example < 0
      ? `An instance of ${titleOf(anomaly()).toLowerCase()} is seen here. The drawing above is the smallest example of its kind.`
      : `Part of the example above: ${titleOf(anomaly()).toLowerCase()}.`),
    operations ? h("ol", { class: "ops" }, operations.map((op) => h("li", {}, `${DEEDS[op.type]} `, keyLink(all.keyNames[op.key]),
      op.type === "a" ? ` ${showValue(op.value, 12)}` : ` = ${showValue(op.value, 12)}`)))
      : h("p", {}, `${counted(all.size[t], "operation")}, which this page does not carry.`)),
    list("It read from", sources), list("Read by", readers),
    list("In its session", beside.map(([title, o]) => [`${title}: `, txnLink(o)])));
}

/** Whom a transaction read from and who read from it, by values. */
function neighbours(t) {
  const { history: all } = run();
  const use = all.byKey();
  const sources = new Map();
  const readers = new Map();
  const note = (map, other, key) => other !== t && map.set(other, (map.get(other) || new Set()).add(all.keyNames[key]));
  const start = all.starts[t];
  for (let i = start; i < start + all.size[t]; i++) {
    const key = all.opKey[i];
    const value = all.opValue[i];
    if (all.opKind[i] === 0) {
      for (const write of use[key].writes) if (sees(value, all.opValue[write.i])) note(sources, write.t, key);
    } else {
      for (const read of use[key].reads) if (sees(all.opValue[read.i], value)) note(readers, read.t, key);
    }
  }
  const shown = (map) => [...map].map(([other, keys]) => [txnLink(other), h("span", { class: "dim" }, ` ${cut([...keys].join(", "), 40)}`)]);
  return { sources: shown(sources), readers: shown(readers) };
}

/** Whether a read returned what a write wrote; of a list, whether its last element is that. */
function sees(read, written) {
  if (read !== null && typeof read === "object" && read.list) return read.length > 0 && read.list[read.length - 1] === written;
  return read === written;
}

/** Keys, those with the most operations first. */
function usedKeys(all) {
  const count = (use) => use.reads.length + use.writes.length;
  all.mostUsed ||= all.byKey().map((use, i) => [all.keyNames[i], count(use)]).sort((a, b) => b[1] - a[1]).map(([name]) => name);
  return all.mostUsed;
}

/** The key to show: the one that was asked for, else one of the step, else one of the example. */
function shownKey() {
  if (state.key !== null) return state.key;
  const of = (places) => {
    for (const [alias, i] of places) {
      const txn = example().witness.transactions.find((t) => t.alias === alias);
      if (txn?.operations[i]) return txn.operations[i].key;
    }
  };
  const key = of(step()?.operations || []) ?? step()?.edges.map((e) => example().witness.edges[e]?.key).find((one) => one !== undefined) ?? of((example()?.witness.transactions || [])
    .flatMap((t) => t.operations.map((op, i) => (op.matters ? [t.alias, i] : null)).filter(Boolean)));
  return key === undefined ? null : String(key);
}

/** The versions of a key in their order, with who wrote and who read each. */
function keyPanel() {
  const { history: all } = run();
  if (!all) return null;
  const name = example() || state.key !== null ? shownKey() : usedKeys(all)[0] ?? null;
  if (name === null) return null;
  const key = all.keyNumber(name);
  if (key === undefined) return null;
  const { versions, order } = versionsOf(all, key);
  const hot = versions.map((v) => [v.writer, ...v.readers].some((t) => t !== undefined && aliasOf(t)));
  const near = (i) => versions.length <= 14 || hot.some((on, j) => on && Math.abs(i - j) <= 2) || i === 0 || i === versions.length - 1;
  const items = [];
  let left = 0;
  const gap = () => {
    if (left) items.push(h("li", {}, h("span", { class: "version" }, `… ${left} more`)));
    left = 0;
  };
  versions.forEach((version, i) => {
    if (!near(i)) {
      left++;
      return;
    }
    gap();
    const readers = [...new Set(version.readers)];
    items.push(h("li", {}, h("div", {}, h("div", { class: `version${hot[i] ? " hot" : ""}` }, version.text),
      h("div", { class: "users" }, version.writer === undefined ? null : ["by ", txnLink(version.writer), h("br")],
        readers.length ? ["read by ", readers.slice(0, 3).map((t) => [txnLink(t), " "]), readers.length > 3 ? `and ${readers.length - 3} more` : ""] : "not read"))));
  });
  gap();
  const missing = all.carried < all.count ? " Transactions whose operations this page does not carry are missing." : "";
  return h("section", { class: "key" },
    h("h2", {}, "Key ", h("span", { class: "asis" }, `${cut(name, 40)} `), h("span", { class: "hint" }, order, missing)),
    h("ol", { class: "strip", tabindex: "0", "aria-label": `Versions of ${name}` }, items));
}

function versionsOf(all, key) {
  const { reads, writes } = all.byKey()[key];
  const order = all.orders[key];
  const isList = order.length > 0 || writes.some(({ i }) => all.opKind[i] === 2);
  const readers = new Map();
  let initial = [];
  for (const { t, i } of reads) {
    const value = all.opValue[i];
    const seen = value !== null && typeof value === "object" && value.list ? (value.length ? value.list[value.length - 1] : undefined) : value;
    if (isList && (seen === undefined || seen === null)) initial.push(t);
    else readers.set(seen, (readers.get(seen) || []).concat(t));
  }
  const writers = new Map(writes.map(({ t, i }) => [all.opValue[i], t]));
  if (isList) {
    const rest = [...writers.keys()].filter((v) => !order.includes(v));
    const version = (v) => ({ text: `+${showValue(v)}`, writer: writers.get(v), readers: readers.get(v) || [] });
    const unread = (v) => (all.outcome[writers.get(v)] === 1 ? "aborted" : "not in the longest read");
    return { versions: [{ text: "[]", readers: initial }, ...order.map(version), ...rest.map((v) => ({ ...version(v), text: `+${showValue(v)} (${unread(v)})` }))],
      order: "in the order of the longest list read." };
  }
  const sorted = writes.map(({ t, i }) => ({ value: all.opValue[i], t }));
  const byCommit = all.axis === "timestamps";
  sorted.sort((a, b) => (byCommit ? all.end[a.t] - all.end[b.t] : all.begin[a.t] - all.begin[b.t]) || a.t - b.t);
  const inOrder = byCommit ? sorted : afterWhatTheyRead(all, key, sorted);
  const versions = inOrder.map(({ value, t }) => ({ text: `${showValue(value)}${all.outcome[t] === 1 ? " (aborted)" : ""}`, writer: t, readers: readers.get(value) || [] }));
  for (const [value, who] of readers) {
    const where = value === all.initial ? "initial" : "written by none that this page carries";
    if (!writers.has(value)) versions.unshift({ text: `${showValue(value)} (${where})`, readers: who });
  }
  const how = byCommit ? "in the order of commit timestamps." : all.axis === "clock"
    ? "in the order in which their writers began, each after the version that its writer read."
    : "each after the version that its writer read; the history has no times.";
  return { versions, order: how };
}

/** Writes of a key in their order, but each after the write of the version that its writer read before. */
function afterWhatTheyRead(all, key, writes) {
  const byValue = new Map(writes.map((write) => [write.value, write]));
  const placed = new Set();
  const list = [];
  for (const last of writes) {
    // What was read before, back to what is placed; versions that were read in a circle end there too.
    const chain = [];
    for (let write = last; write && !placed.has(write); write = byValue.get(firstRead(all, key, write.t))) {
      placed.add(write);
      chain.unshift(write);
    }
    list.push(...chain);
  }
  return list;
}

/** What a transaction read of a key before it wrote it; undefined if it did not. */
function firstRead(all, key, t) {
  const start = all.starts[t];
  for (let i = start; start >= 0 && i < start + all.size[t]; i++) {
    if (all.opKey[i] === key) return all.opKind[i] === 0 ? all.opValue[i] : undefined;
  }
}
