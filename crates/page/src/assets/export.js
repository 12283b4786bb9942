// The example that is shown, in other languages. Names from histories are quoted as each of them wants it.

/** What can be copied: a name, and how to make the text. */
function exports() {
  const shown = example();
  const picture = state.example === 0 ? anomaly().picture : null;
  return [
    ["Text", () => asText(shown)],
    ["SVG", () => picture?.svg ?? drawnSvg()],
    ["DOT (Graphviz)", () => picture?.dot ?? asDot(shown)],
    ["TikZ", () => asTikz(shown)],
    ["Mermaid", () => asMermaid(shown)],
    ["SQL, a column per session", () => asSql(shown)],
    ["History of this example", () => asHistory(shown)],
    ["Link to this step", () => location.href],
  ].filter(Boolean);
}

const LOOKS = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-family", "font-size", "font-weight", "text-anchor", "paint-order"];

/** The drawing of the page, with its looks written into it. Used where the page carries no picture. */
function drawnSvg() {
  const drawn = document.querySelector("#drawing svg");
  const copied = drawn.cloneNode(true);
  const [from, to] = [drawn, copied].map((svg) => [svg, ...svg.querySelectorAll("*")]);
  from.forEach((element, i) => {
    const looks = getComputedStyle(element);
    to[i].removeAttribute("style");
    for (const name of ["class", "role", "tabindex"]) to[i].removeAttribute(name);
    for (const name of LOOKS) to[i].setAttribute(name, looks.getPropertyValue(name));
  });
  copied.setAttribute("xmlns", SVG);
  return new XMLSerializer().serializeToString(copied);
}

function bySession(shown) {
  const sessions = new Map();
  for (const txn of shown.witness.transactions) {
    const name = String(txn.session);
    sessions.set(name, (sessions.get(name) || []).concat(txn));
  }
  return [...sessions];
}

function deedsOf(txn) {
  return boxLines(txn).map((line) => line.text);
}

function asText(shown) {
  const a = anomaly();
  const who = shown.witness.transactions.map((t) => `  ${t.alias} (${[t.name === t.alias ? null : t.name, `session ${t.session}`,
    t.line ? `line ${t.line}` : null, t.outcome].filter(Boolean).join(", ")})  ${deedsOf(t).join(" ")}`);
  const numbered = shown.steps.some((one) => one.depth) ? (one) => `  ${"  ".repeat(one.depth || 0)}${one.text}` : (one, i) => `  ${i + 1}. ${one.text}`;
  return [`${a.kind} (${a.code})${a.title ? `: ${a.title}` : ""}, ${times(a.count)}.`, ...who, ...shown.steps.map(numbered), ""].join("\n");
}

function asMermaid(shown) {
  const quote = (text) => `"${text.replace(/[^\w .,:()[\]=+…-]/g, (c) => `#${c.codePointAt(0)};`)}"`;
  const ids = new Map(shown.witness.transactions.map((t, i) => [t.alias, `t${i}`]));
  const lines = ["flowchart TB"];
  bySession(shown).forEach(([session, txns], i) => {
    lines.push(`  subgraph s${i}[${quote(`session ${session}`)}]`);
    for (const t of txns) lines.push(`    ${ids.get(t.alias)}[${quote([t.alias, ...deedsOf(t)].join(" ; ")).replaceAll(" ; ", "<br/>")}]`);
    lines.push("  end");
  });
  const id = (alias) => (alias === null ? "initial([initial state])" : ids.get(alias));
  for (const arrow of shown.witness.arrows || []) lines.push(`  ${id(arrow.from)} ${arrow.behind ? "-.->" : "==>"}|${quote(arrow.label)}| ${id(arrow.to)}`);
  return `${lines.join("\n")}\n`;
}

/** The example as a graph: a cluster per session, arrows in the order of the drawing. */
function asDot(shown) {
  const quote = (text) => `"${visible(String(text)).replace(/[\\"]/g, "\\$&").replaceAll("\n", "\\n")}"`;
  const ids = new Map(shown.witness.transactions.map((t, i) => [t.alias, `t${i}`]));
  const lines = ["digraph witness {", "  node [shape=box, style=rounded, fontname=monospace];", "  edge [fontname=monospace];"];
  bySession(shown).forEach(([session, txns], i) => {
    lines.push(`  subgraph cluster_${i} {`, `    label=${quote(`session ${session}`)};`);
    for (const t of txns) lines.push(`    ${ids.get(t.alias)} [label=${quote([t.alias, ...deedsOf(t)].join("\n"))}];`);
    lines.push("  }");
  });
  const arrows = shown.witness.arrows || [];
  if (arrows.some((a) => a.from === null || a.to === null)) lines.push('  initial [label="initial state"];');
  const id = (alias) => (alias === null ? "initial" : ids.get(alias));
  for (const arrow of arrows) lines.push(`  ${id(arrow.from)} -> ${id(arrow.to)} [label=${quote(arrow.label)}${arrow.behind ? ", style=dashed" : ""}];`);
  return `${lines.join("\n")}\n}\n`;
}

const TEX = { "\\": "\\textbackslash{}", "^": "\\^{}", "~": "\\~{}", "…": "\\dots{}" };

function asTikz(shown) {
  const tex = (text) => text.replace(/[\\^~…]|[{}$&#_%]/g, (c) => TEX[c] || `\\${c}`);
  const ids = new Map(shown.witness.transactions.map((t, i) => [t.alias, `t${i}`]));
  const lines = ["% \\usetikzlibrary{arrows.meta}", "\\begin{tikzpicture}[>=Stealth, txn/.style={draw, rounded corners, align=left, font=\\ttfamily\\small}]"];
  let row = 0;
  bySession(shown).forEach(([session, txns], i) => {
    lines.push(`  \\node[font=\\small] at (${i * 5}, 1.2) {session ${tex(session)}};`);
    for (const t of txns) {
      lines.push(`  \\node[txn] (${ids.get(t.alias)}) at (${i * 5}, ${(-1.8 * row).toFixed(1)}) {${[`\\textbf{${tex(t.alias)}}`, ...deedsOf(t).map(tex)].join("\\\\ ")}};`);
      row += 1;
    }
  });
  const initial = (shown.witness.arrows || []).some((a) => a.from === null || a.to === null);
  if (initial) lines.push("  \\node[txn] (initial) at (-4, 0) {initial state};");
  const id = (alias) => (alias === null ? "initial" : ids.get(alias));
  for (const arrow of shown.witness.arrows || []) {
    lines.push(`  \\draw[->, ${arrow.behind ? "dashed" : "thick"}] (${id(arrow.from)}) to[bend left=18] node[fill=white, font=\\scriptsize] {${tex(arrow.label)}} (${id(arrow.to)});`);
  }
  return `${lines.join("\n")}\n\\end{tikzpicture}\n`;
}

/** When each transaction of an example ran: as recorded, else after what it follows in its session and what it read from. */
function spansOf(shown) {
  const { arrows = [] } = shown.witness;
  const transactions = drawnTransactions(shown);
  const recorded = transactions.map(spanOf);
  if (recorded.every(Boolean)) return recorded;
  const places = new Map(transactions.map((txn, i) => [txn.alias, i]));
  const starts = transactions.map(() => 0);
  // As often as there are transactions: no chain is longer, and a cycle comes to an end.
  for (let round = 0; round < transactions.length; round++) {
    transactions.forEach((txn, i) => {
      const before = transactions.findLastIndex((o, j) => j < i && o.session === txn.session);
      const read = arrows.filter((a) => a.to === txn.alias && a.type === "wr" && a.from !== null).map((a) => places.get(a.from));
      for (const j of [before, ...read]) if (j >= 0 && j !== i) starts[i] = Math.min(Math.max(starts[i], starts[j] + 1), transactions.length);
    });
  }
  return starts.map((start) => [start, start + 0.9]);
}

/** The example as SQL over a table of keys and values: a column per session, a row per statement, in the order of time. */
function asSql(shown) {
  const quote = (value) => `'${visible(String(value)).replaceAll("'", "''")}'`;
  const text = (value) => visible(typeof value === "object" && value !== null ? JSON.stringify(value) : String(value));
  const statement = (op) => {
    const where = `WHERE k = ${quote(op.key)};`;
    if (op.type === "r") return `SELECT v FROM kv ${where} -- ${text(op.shown.replace(/^r\(.*?,|\)$/g, ""))}`;
    return op.type === "w" ? `UPDATE kv SET v = ${op.value === null ? "NULL" : quote(op.value)} ${where}` : `UPDATE kv SET v = v || ${quote(` ${op.value}`)} ${where}`;
  };
  const transactions = drawnTransactions(shown);
  const rows = spansOf(shown).flatMap(([begin, end], i) => {
    const txn = transactions[i];
    const matter = txn.operations.filter((op) => op.matters);
    const last = Number.isFinite(end) ? end : begin + 1;
    const deeds = [`BEGIN; -- ${txn.alias}`, ...matter.map(statement), txn.outcome === "aborted" ? "ROLLBACK;" : "COMMIT;"];
    return deeds.map((deed, j) => ({ session: String(txn.session), deed, at: begin + ((last - begin) * j) / (deeds.length - 1), i, j }));
  }).sort((a, b) => a.at - b.at || a.j - b.j || a.i - b.i);
  const sessions = [...new Set(transactions.map((t) => String(t.session)))];
  const wide = sessions.map((s) => Math.max(`session ${s}`.length, ...rows.filter((r) => r.session === s).map((r) => r.deed.length)));
  const line = (cells) => `${cells.map((cell, i) => cell.padEnd(wide[i])).join(" | ").trimEnd()}`;
  const keys = [...new Set(transactions.flatMap((t) => t.operations.filter((op) => op.matters).map((op) => op.key)))];
  const initial = run().history?.initial;
  const first = typeof initial === "number" ? quote(initial) : transactions.some((t) => t.operations.some((op) => op.type === "a")) ? "''" : "NULL";
  return [`-- ${anomaly().kind}: ${titleOf(anomaly())}. Reads are followed by what they returned.`,
    "-- The order within overlapping transactions is a guess: a history says when transactions began and ended.",
    "CREATE TABLE kv (k TEXT PRIMARY KEY, v TEXT);", ...keys.map((key) => `INSERT INTO kv VALUES (${quote(key)}, ${first});`), "",
    line(sessions.map((s) => `session ${visible(s)}`)), wide.map((n) => "-".repeat(n)).join("-+-"),
    ...rows.map((r) => line(sessions.map((s) => (s === r.session ? r.deed : "")))), ""].join("\n");
}

/** The transactions of the example as a history file: the format of docs/format.md. */
function asHistory(shown) {
  const lines = shown.witness.transactions.map((txn) => {
    const ops = txn.operations.map((op, i) => [op.type === "a" ? "append" : op.type, op.key, wholeValue(txn, i, op.value)]);
    const line = { session: txn.session, id: txn.name, ops };
    if (txn.outcome) line.outcome = txn.outcome;
    for (const field of ["start", "commit", "invoked", "completed"]) if (txn[field] !== undefined) line[field] = txn[field];
    return JSON.stringify(line);
  });
  const initial = run().history?.initial;
  return [JSON.stringify({ anomalist: 1, initial: initial === undefined ? null : initial }), ...lines, ""].join("\n");
}

/** A value in full: results shorten long lists, the history has them whole. */
function wholeValue(txn, i, value) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return value;
  const place = placeOf(txn);
  const op = place === undefined || txn.operations_total ? undefined : run().history.operations(place)?.[i];
  return op ? op.value.list.slice(0, op.value.length) : value.end;
}

function copyMenu() {
  const menu = h("details", { class: "menu" }, h("summary", { role: "button" }, "Copy ▾"),
    h("div", {}, exports().map(([name, make]) => h("button", {
      type: "button", onclick: () => {
        menu.open = false;
        copy(make(), name);
      },
    }, name))));
  return menu;
}
