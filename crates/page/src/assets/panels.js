// What stands around the drawings: verdict, levels, anomalies, what could not have been seen, steps.

const SIGNS = { holds: "✓", violated: "✗", unknown: "?" };

function header() {
  const of = run();
  const facts = of.result.history;
  const counts = [
    counted(facts.sessions, "session"),
    counted(facts.transactions, "transaction") + outcomes(facts),
    counted(facts.operations, "operation"),
    counted(facts.keys, "key"),
  ];
  return h("header", { class: "top" },
    h("div", { class: "title" },
      h("h1", { class: of.outcome }, h("span", { class: "sign", "aria-hidden": "true" }, SIGNS[of.outcome]), " ", of.sentence),
      h("div", { class: "tools" },
        h("button", { type: "button", onclick: openHelp, title: "Keys (?)" }, "Keys ", h("kbd", {}, "?")),
        h("button", { type: "button", onclick: switchTheme, id: "theme" }, themeName()))),
    h("p", { class: "meta" }, [facts.path, `format ${facts.format}`, ...counts, duration(of.result), `anomalist ${of.result.anomalist}`]
      .filter(Boolean).map((part, i) => [h("span", { class: i ? "whole" : null }, part), " "])),
    aboutRun(of.about),
    page.command ? h("p", { class: "meta" }, h("code", {}, page.command), " ", copyButton(() => page.command, "the command")) : null,
    of.result.vacuous ? h("p", { class: "note" }, `But ${of.result.vacuous}.`) : null,
    of.history ? null : h("p", { class: "note" },
      "The history itself is not in this page: only the transactions of the examples are drawn."),
    asked(of.result).map((line) => h("p", { class: "meta" }, line)),
    (of.result.notes || []).map((note) => h("p", { class: "note" }, note)));
}

/** Where a run comes from: its first lines, and the rest on demand. */
function aboutRun(text) {
  const [first, second = "", ...rest] = text.trim().split("\n").map((line) => line.trim());
  const short = `${first} ${second}`.trim();
  if (!short) return null;
  return rest.length ? h("details", { class: "meta about" }, h("summary", {}, short), rest.join("\n")) : h("p", { class: "meta about" }, short);
}

/** What was asked besides levels: single anomalies, and the levels that transactions declare. */
function asked({ sought = [], mixed }) {
  const lines = sought.map((one) => `Asked for ${one.code}: ${one.answer}${one.reason ? ` (${one.reason})` : ""}.`);
  if (mixed) lines.push(`Each transaction at the level it declares: ${mixed.verdict}. ${mixed.explanation || mixed.reason || ""}`);
  return lines;
}

function outcomes(facts) {
  const parts = [[facts.aborted, "aborted"], [facts.indeterminate, "of unknown outcome"]];
  const named = parts.filter(([n]) => n > 0).map(([n, word]) => `${grouped(n)} ${word}`);
  return named.length ? ` (${named.join(", ")})` : "";
}

function duration(result) {
  const t = result.timing_ms;
  return t ? `checked in ${((t.load + t.check) / 1000).toFixed(t.load + t.check < 100 ? 3 : 1)} s` : null;
}

/** Several runs: a column for each, a row for each level; a heading shows its run. */
function runTable() {
  if (page.runs.length < 2) return null;
  const levels = [];
  for (const of of page.runs) for (const l of of.result.levels) if (!levels.includes(l.level)) levels.push(l.level);
  const verdict = (of, level) => {
    const found = of.result.levels.filter((l) => l.level === level).map((l) => l.verdict);
    return ["violated", "unknown", "holds"].find((word) => found.includes(word));
  };
  const start = sharedFolder(page.runs.map((of) => of.name));
  const head = (of, i) => h("th", { scope: "col" },
    h("button", { type: "button", "aria-pressed": String(i === state.run), title: of.name, onclick: () => go({ run: i }) }, of.name.slice(start)));
  return h("section", { class: "runs", "aria-label": "Runs" },
    h("h2", {}, "Runs"),
    h("div", { class: "wide", role: "region", "aria-label": "Levels of each run", tabindex: "0" },
      h("table", { class: "ladder" },
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "level"), page.runs.map(head))),
        h("tbody", {}, levels.map((level) => h("tr", {}, h("th", { scope: "row" }, level),
          page.runs.map((of, i) => cell(verdict(of, level), "", undefined, leadTo(i, [level])))))))));
}

/** How much of all names is the folder that they share. */
function sharedFolder(names) {
  let length = Math.min(...names.map((name) => name.lastIndexOf("/") + 1));
  while (length > 0 && !names.every((name) => name.slice(0, length) === names[0].slice(0, length) && name[length - 1] === "/")) length--;
  return length;
}

/** What shows the first anomaly that breaks one of these levels of a run; null if there is none. */
function leadTo(i, levels) {
  const of = page.runs[i];
  const kinds = of.result.levels.filter((l) => levels.includes(l.level)).flatMap((l) => l.anomalies);
  const at = anomalies(of).findIndex((a) => kinds.includes(a.kind));
  return at < 0 ? null : () => {
    go({ run: i });
    go({ anomaly: at, example: 0, step: 0 });
  };
}

function cell(verdict, more, title, action) {
  if (!verdict) return h("td", { class: "none" });
  const content = [h("span", { "aria-hidden": "true" }, `${SIGNS[verdict]} `), h("span", { class: "word" }, verdict)];
  return h("td", { class: verdict, title }, action ? h("button", { type: "button", class: "link", onclick: action }, content) : content, more);
}

/** The matrix of levels: a row per family, a column for what the order must respect. */
function ladder() {
  const { columns, rows } = run().ladder;
  const why = (c) => c.reason || c.anomalies.map(([name, n]) => `${name} ×${grouped(n)}`).join(", ");
  return h("section", { class: "levels" },
    h("h2", {}, "Levels"),
    h("table", { class: "ladder" },
      h("thead", {}, h("tr", {}, h("td", {}), columns.map((title) => h("th", { scope: "col" }, title)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, h("th", { scope: "row" }, row.name),
        row.cells.map((c) => c
          ? cell(c.verdict, c.required ? h("span", { class: "required", title: "required" }, " req.") : null,
            [c.levels.join(", "), why(c)].filter(Boolean).join(": "), leadTo(state.run, c.levels))
          : cell()))))), whyUnknown());
}

/** Why levels are unknown: each reason once, with its levels. */
function whyUnknown() {
  const open = run().result.levels.filter((l) => l.verdict === "unknown" && l.reason);
  if (!open.length) return null;
  const reasons = new Map();
  for (const { level, reason } of open) reasons.set(reason, (reasons.get(reason) || []).concat(level));
  return h("details", { class: "why", open: run().outcome === "unknown" },
    h("summary", {}, `Why ${counted(open.length, "level")} ${open.length === 1 ? "is" : "are"} unknown`),
    h("ul", {}, [...reasons].map(([reason, levels]) => h("li", {}, reason[0].toUpperCase() + reason.slice(1), ". ",
      reasons.size > 1 ? h("span", {}, `(${levels.join(", ")})`) : null))));
}

function cards() {
  const list = anomalies();
  if (!list.length) return h("section", {}, h("h2", {}, "Anomalies"), h("p", {}, "No anomaly was found."));
  return h("section", { class: "anomalies" },
    h("h2", {}, "Anomalies ", h("span", { class: "hint" }, h("kbd", {}, "n"), " ", h("kbd", {}, "p"))),
    h("ul", {}, list.map((a, i) => h("li", {},
      h("button", {
        type: "button", class: `card${i === state.anomaly ? " on" : ""}`,
        "aria-current": i === state.anomaly ? "true" : null, onclick: () => go({ anomaly: i, example: 0, step: 0 }),
      }, h("b", {}, titleOf(a)), h("span", { class: "code" }, `${a.title ? `${a.code} ` : ""}×${grouped(a.count)}`),
        h("small", {}, a.same_as ? `same example as ${a.same_as}; ` : "", `breaks ${broken(a).join(", ") || "no level asked about"}`))))));
}

function titleOf(a) {
  // A code is a name, an everyday title the beginning of a line.
  return a.title ? a.title[0].toUpperCase() + a.title.slice(1) : a.code;
}

function unseen() {
  const list = run().unseen;
  if (!list.length) return null;
  return h("section", { class: "unseen" },
    h("h2", {}, "Could not have been seen"),
    h("ul", {}, list.map((u) => h("li", {}, h("details", {}, h("summary", {}, u.code.replaceAll("-", " ")),
      h("p", {}, u.message, " ", u.advice))))));
}

/** The explanation: a sentence per step, each with what it rests on. */
function steps() {
  const shown = example();
  if (!shown) return null;
  const list = shown.steps || [];
  const isProof = list.some((one) => one.depth);
  return h("section", { class: "steps" },
    h("h2", {}, "Why this is a contradiction ",
      h("span", { class: "hint" }, h("kbd", {}, "←"), " ", h("kbd", {}, "→"))),
    isProof ? h("p", { class: "dim" }, "No single cycle shows it. Each alternative is refuted in turn, indented below it.") : null,
    h("ol", { class: isProof ? "proof" : null }, list.map((one, i) => stepItem(shown, one, i))),
    shown.steps ? null : h("p", { class: "pre" }, shown.explanation),
    next());
}

function stepItem(shown, one, i) {
  const on = i === state.step;
  const types = [...new Set(one.edges.map((e) => shown.witness.edges[e]?.type).filter(Boolean))];
  return h("li", { class: `step depth-${Math.min(one.depth || 0, 8)}${on ? " on" : ""}` },
    h("button", { type: "button", "aria-current": on ? "step" : null, onclick: () => go({ step: i }) },
      h("span", { class: `number ${types[0] || ""}` }, i + 1),
      h("span", {}, named(shown, one.text))),
    on ? because(shown, one) : null);
}

/** A sentence with the transactions of the example set off. */
function named(shown, text) {
  const aliases = new Set(shown.witness.transactions.map((t) => t.alias));
  return text.split(/(\b[A-Za-z][\w:.-]*\b)/).map((word) => (aliases.has(word) ? h("b", {}, word) : word));
}

/** What the edges of a step rest on, and the alternative that this refutes. */
function because(shown, one) {
  const edges = one.edges.map((e) => shown.witness.edges[e]).filter(Boolean);
  const shows = (e) => (e.shown_by ? e.fact : e.reason ? `${e.reason[0].toUpperCase()}${e.reason.slice(1)}.` : null);
  const rests = edges.flatMap((e) => [...(e.path || []).map((p) => p.fact), shows(e)]);
  const facts = [...new Set(rests.filter(Boolean))];
  const refuted = edges.map((e) => e.otherwise).filter(Boolean);
  if (!facts.length && !refuted.length) return null;
  return h("details", { class: "because", open: state.expanded ? true : null, ontoggle: (e) => (state.expanded = e.target.open) },
    h("summary", {}, "Expand: what forces it ", h("kbd", {}, "e")),
    facts.length ? h("ul", {}, facts.map((f) => h("li", {}, named(shown, f)))) : null,
    refuted.map((r) => h("p", { class: "refuted" }, h("b", {}, "Refuted alternative. "), named(shown, r))));
}

function next() {
  const path = run().result.history.path;
  const level = broken(anomaly())[0];
  if (!page.next || !level || path === "-") return null;
  const command = page.next.replace("{level}", level).replace("{path}", () => quoted(path));
  return h("div", { class: "next" }, h("h2", {}, "Next"),
    h("p", {}, h("code", {}, command), " ", copyButton(() => command, "the command")));
}

function quoted(text) {
  return /^[\w./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
