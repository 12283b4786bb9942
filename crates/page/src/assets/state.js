// What the reader looks at, kept in the address: run, anomaly, example, step, transaction, key. Whatever
// changes it calls `go`, and everything that shows it listens.

const state = { run: 0, anomaly: 0, example: 0, step: 0, txn: null, key: null, evidence: false };
const listeners = [];
let page;

/** The run that is shown. */
function run() {
  return page.runs[state.run];
}

/** Anomalies, the most severe first: what breaks a required level, then what breaks the weakest level. */
function anomalies(of = run()) {
  if (of.sorted) return of.sorted;
  const { levels, anomalies: found, required = [] } = of.result;
  const rank = (a) => {
    const broken = (l) => l.verdict === "violated" && l.anomalies.includes(a.kind);
    const at = levels.findIndex(broken);
    const needed = levels.some((l) => broken(l) && required.includes(l.level));
    return (needed ? 0 : 1000) + (at < 0 ? 900 : at);
  };
  of.sorted = found.map((a, i) => ({ ...a, picture: of.pictures[i], places: ascending(of.instances[i]), rank: rank(a) }));
  of.sorted.sort((a, b) => a.rank - b.rank);
  return of.sorted;
}

/** Numbers from their differences. */
function ascending(differences = []) {
  let last = 0;
  return differences.map((by) => (last += by));
}

/** Where an example begins: the first of its transactions that is in the history; undefined if none is. */
function startOf(shown, history) {
  const places = shown.witness.transactions.filter((t) => !t.bystander).map(placeOf).filter((t) => t !== undefined);
  return places.length ? places.reduce((a, b) => (history.begin[b] < history.begin[a] ? b : a)) : undefined;
}

/** Every instance whose place is known, in the order of time: {t, anomaly, example}; example is -1 where the page has none for it. */
function instances() {
  const of = run();
  if (of.placed || !of.history) return of.placed || [];
  const { begin } = of.history;
  of.placed = anomalies().flatMap((a, anomaly) => {
    const members = examples(a).map((shown) => new Set(shown.witness.transactions.map(placeOf)));
    const known = new Set();
    const list = a.places.map((t) => {
      // An example stands for one instance, even if it shares transactions with others.
      const example = members.findIndex((all, i) => !known.has(i) && all.has(t));
      known.add(example);
      return { t, anomaly, example };
    });
    examples(a).forEach((shown, example) => {
      const t = known.has(example) ? undefined : startOf(shown, of.history);
      if (t !== undefined) list.push({ t, anomaly, example });
    });
    return list;
  }).sort((a, b) => begin[a.t] - begin[b.t] || a.anomaly - b.anomaly);
  return of.placed;
}

/** Which instance is shown; -1 if none is. */
function shownInstance() {
  const here = (one) => one.anomaly === state.anomaly && (state.txn === null ? one.example === state.example : one.t === state.txn);
  return instances().findIndex(here);
}

/** The kind of anomaly that is shown. */
function anomaly() {
  return anomalies()[state.anomaly];
}

/** The examples of a kind. */
function examples(of = anomaly()) {
  return of ? [of, ...(of.further || [])] : [];
}

/** The example that is shown: witness, steps, explanation. */
function example() {
  return examples()[state.example];
}

function step() {
  return example()?.steps?.[state.step];
}

/** The levels that an anomaly breaks: required ones, or the weakest. */
function broken(a) {
  const { levels, required = [] } = run().result;
  const all = levels.filter((l) => l.verdict === "violated" && l.anomalies.includes(a.kind));
  const needed = all.filter((l) => required.includes(l.level));
  return (needed.length ? needed : all.slice(0, 2)).map((l) => l.level);
}

/** Changes what is shown. `quiet`: without an entry in the history of the browser. */
function go(change, quiet) {
  const before = { ...state };
  if ("run" in change && change.run !== state.run) {
    Object.assign(state, { anomaly: 0, example: 0, step: 0, txn: null, key: null });
  }
  if ("anomaly" in change && change.anomaly !== state.anomaly) Object.assign(state, { example: 0, step: 0 });
  if ("example" in change && change.example !== state.example) state.step = 0;
  Object.assign(state, change);
  const address = hash();
  if (address !== location.hash) remember(address || "#", quiet);
  for (const listener of listeners) listener(before);
}

function remember(address, quiet) {
  try {
    window.history[quiet ? "replaceState" : "pushState"](null, "", address);
  } catch {
    // A document inside another one may have no address of its own.
  }
}

function hash() {
  const parts = [];
  if (page.runs.length > 1) parts.push(`run=${state.run + 1}`);
  if (anomaly()) parts.push(`anomaly=${encodeURIComponent(anomaly().kind)}`);
  if (state.example) parts.push(`example=${state.example + 1}`);
  if (state.step) parts.push(`step=${state.step + 1}`);
  if (state.txn !== null) parts.push(`transaction=${state.txn}`);
  if (state.key !== null) parts.push(`key=${encodeURIComponent(state.key)}`);
  return parts.length ? `#${parts.join("&")}` : "";
}

/** Reads the address; what it names and does not exist is left out. */
function fromHash() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  const number = (name, count) => clamp(Math.trunc(Number(wanted.get(name) || 1)) - 1 || 0, 0, Math.max(count - 1, 0));
  // Without an address, what is violated comes first.
  const first = Math.max(page.runs.findIndex((one) => one.outcome === "violated"), 0);
  const change = { run: wanted.has("run") ? number("run", page.runs.length) : first, txn: null, key: wanted.get("key") };
  const of = page.runs[change.run];
  const kinds = anomalies(of).map((a) => a.kind);
  change.anomaly = Math.max(kinds.indexOf(wanted.get("anomaly")), 0);
  const shown = examples(anomalies(of)[change.anomaly]);
  change.example = number("example", shown.length);
  change.step = number("step", shown[change.example]?.steps?.length || 0);
  const txn = wanted.get("transaction");
  if (txn !== null && /^\d+$/.test(txn) && Number(txn) < (of.history?.count || 0)) change.txn = Number(txn);
  // All at once: `go` resets what belongs to another run or anomaly.
  const before = { ...state };
  Object.assign(state, change);
  for (const listener of listeners) listener(before);
}

/** Where a transaction of an example is in the history; undefined if the page has no history. */
function placeOf(txn) {
  return run().history ? run().places[txn.name] : undefined;
}

/** The alias of a transaction in the example that is shown. */
function aliasOf(t) {
  return example()?.witness.transactions.find((txn) => placeOf(txn) === t)?.alias;
}
