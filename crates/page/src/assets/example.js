// The drawing of an example: sessions are columns, transactions boxes with the operations that matter, time
// runs down. Where columns would be too narrow, the boxes stand in one list and arrows run beside it.

const LETTER = 7.25;
const LINE = 19;
const HEAD = 34;
/** The room between two columns, from most to least. */
const BETWEEN = [110, 84, 64];

/** The transactions to draw: those of the contradiction, and on demand those that only show an order. */
function drawnTransactions(shown) {
  const asked = (t) => state.evidence || (state.expanded && step()?.transactions.includes(t.alias));
  return shown.witness.transactions.filter((t) => !t.bystander || asked(t));
}

/** The lines of a box: operations that matter, and dots for others. */
function boxLines(txn) {
  const lines = [];
  txn.operations.forEach((op, i) => {
    if (op.matters) lines.push({ text: op.shown, place: i });
    else if (lines.at(-1)?.text !== "…") lines.push({ text: "…" });
  });
  if (txn.operations_total && lines.at(-1)?.text !== "…") lines.push({ text: "…" });
  return lines;
}

/** When a transaction began and ended: of the history where there is one, else as the result says. */
function spanOf(txn) {
  const at = placeOf(txn);
  const { history: all } = run();
  if (at !== undefined) return all.axis === "place" ? null : [all.begin[at], all.end[at]];
  const first = (value) => (Array.isArray(value) ? value[0] : value);
  if (txn.invoked !== undefined) return [txn.invoked, txn.completed ?? Infinity];
  if (txn.commit !== undefined) return [first(txn.start ?? txn.commit), first(txn.commit)];
  return null;
}

/** A line in so many letters. Of a list the end stays, which says most. */
function fitted(line, letters) {
  let text = line;
  for (const most of [3, 2, 1]) {
    if (text.length <= letters) return text;
    text = text.replace(/\[([^\][]*)\]/g, (list, inner) => {
      const values = inner.split(" ");
      return values.length > most + 1 ? `[… ${values.slice(-most).join(" ")}]` : list;
    });
  }
  return cut(text, letters);
}

/** A moment beside a drawing that spans `spread`. */
function tickText(at, spread) {
  const { history: all, result } = run();
  // Without the history, the result says what its times count; the first of them is not known.
  const axis = all || (result.history.clock ? { axis: "clock", unit: result.history.clock, origin: "0" } : null);
  return cut(axis ? moment(axis, at, spread / 40) : grouped(at), 14);
}

/** Where boxes go, in columns or in a list. */
function layOut(shown, width) {
  const boxes = drawnTransactions(shown).map((txn) => {
    const lines = boxLines(txn);
    return { txn, lines, span: spanOf(txn), height: HEAD + LINE * lines.length + 8 };
  });
  const timed = boxes.length > 0 && boxes.every((box) => box.span);
  if (timed) boxes.sort((a, b) => a.span[0] - b.span[0]);
  const sessions = [...new Set(boxes.map((box) => String(box.txn.session)))];
  const moments = timed ? boxes.flatMap((box) => box.span).filter(Number.isFinite) : [];
  const spread = Math.max(...moments, 0) - Math.min(...moments, Infinity);
  const gutter = timed ? Math.max(...moments.map((at) => tickText(at, spread).length), 4) * 6.6 + 20 : 12;
  // Room for a label between columns, unless that makes them too narrow.
  const room = (gap) => Math.min(270, (width - gutter - 40 - gap * (sessions.length - 1)) / sessions.length);
  const between = BETWEEN.find((gap) => room(gap) >= 170) || BETWEEN.at(-1);
  // As wide as the longest line, where that is short, and never too narrow for names.
  const letters = Math.max(...boxes.flatMap((box) => box.lines.map((line) => line.text.length)), 10);
  const column = room(between);
  const inList = column < clamp(letters * LETTER + 24, 100, 150);
  const initial = shown.witness.arrows?.some((a) => a.from === null || a.to === null);
  const top = (inList ? 8 : 40) + (initial ? 64 : 0);
  if (inList) {
    let y = top;
    for (const box of boxes) {
      Object.assign(box, { x: 8, y, width: width - 8 - (width < 460 ? 84 : 190) });
      y += box.height + 12;
    }
    return { boxes, inList, height: y, ticks: [], columns: [], initial, spread, narrow: width < 460 };
  }
  const x = (box) => gutter + 20 + sessions.indexOf(String(box.txn.session)) * (column + between);
  for (const box of boxes) Object.assign(box, { x: x(box), width: column });
  const { bottom, ticks } = timed ? byTime(boxes, top) : byOrder(boxes, top, shown.witness.arrows || []);
  const columns = sessions.map((session, i) => ({ session, x: gutter + 20 + i * (column + between), width: column }));
  return { boxes, inList, height: bottom + 12, ticks, columns, initial, gutter, spread, narrow: between < 100 };
}

/** Without times: below what is before it in its session, and below what it read from. */
function byOrder(boxes, top, arrows) {
  const placed = new Map();
  const above = (box) => {
    const before = boxes.slice(0, boxes.indexOf(box)).filter((o) => o.x === box.x);
    const read = arrows.filter((a) => a.to === box.txn.alias && a.type === "wr").map((a) => boxes.find((o) => o.txn.alias === a.from));
    return [...before, ...read].filter((o) => o && o !== box);
  };
  // A cycle of reads ends where it comes back to a box that is being placed.
  const place = (box) => {
    if (placed.has(box)) return placed.get(box);
    placed.set(box, top);
    const y = Math.max(top, ...above(box).map((o) => place(o) + (o.x === box.x ? o.height + 18 : 30)));
    placed.set(box, y);
    box.y = y;
    return y;
  };
  boxes.forEach(place);
  for (const box of boxes) {
    // A cycle may have put two boxes of a session into one place.
    for (const o of boxes.slice(0, boxes.indexOf(box))) if (o.x === box.x && o.y + o.height + 8 > box.y) box.y = o.y + o.height + 18;
  }
  return { bottom: Math.max(top, ...boxes.map((box) => box.y + box.height)), ticks: [] };
}

/** Begins and ends in the order of time, as far apart as the boxes need. */
function byTime(boxes, top) {
  const events = boxes.flatMap((box) => [{ at: box.span[0], box, begins: true }, { at: box.span[1], box }]);
  events.sort((a, b) => a.at - b.at || Number(Boolean(b.begins)) - Number(Boolean(a.begins)));
  const ticks = [];
  let y = top - 20;
  for (const event of events) {
    const { box } = event;
    y += 20;
    if (event.begins) {
      const above = boxes.filter((o) => o !== box && o.x === box.x && o.bottom !== undefined).map((o) => o.bottom + 14);
      y = Math.max(y, ...above);
      box.y = y;
    } else {
      y = Math.max(y, box.y + box.height);
      box.bottom = y;
      box.height = y - box.y;
    }
    if (Number.isFinite(event.at)) ticks.push({ y, at: event.at });
  }
  return { bottom: y, ticks };
}

/** The drawing, in an element as wide as `width`. */
function drawExample(width) {
  const shown = example();
  const plan = layOut(shown, width);
  const arrows = arrowsOf(shown);
  const svg = s("svg", { width, height: plan.height, viewBox: `0 0 ${width} ${plan.height}`, role: "group",
    "aria-label": `${titleOf(anomaly())}: ${plan.boxes.map((b) => b.txn.alias).join(", ")}` });
  for (const column of plan.columns) {
    svg.append(s("rect", { class: "lane", x: column.x - 10, y: 4, width: column.width + 20, height: plan.height - 8, rx: 8 }),
      s("text", { class: "d", x: column.x + column.width / 2, y: 24, "text-anchor": "middle" }, cut(`session ${column.session}`, 34)));
  }
  drawTicks(svg, plan, width);
  const boxes = new Map(plan.boxes.map((box) => [box.txn.alias, box]));
  const hot = new Set((step()?.operations || []).map(String));
  for (const arrow of arrows.filter(isNow)) {
    for (const end of [arrow.from_operation, arrow.to_operation]) if (end) hot.add(String(end));
  }
  // Arrows pass behind boxes, their labels stand beside them.
  const labels = drawArrows(svg, arrows, boxes, plan);
  for (const box of plan.boxes) svg.append(drawBox(box, plan, hot));
  if (plan.initial) svg.append(drawInitial(plan));
  for (const one of labels) svg.append(one.group);
  return { svg, types: arrows.filter((a) => ends(a, boxes, plan)).map((a) => a.type) };
}

function drawTicks(svg, plan, width) {
  let last = -100;
  for (const tick of plan.ticks) {
    svg.append(s("path", { class: "tick", d: `M${plan.gutter - 6},${tick.y}H${width - 6}` }));
    if (tick.y - last < 15) continue;
    last = tick.y;
    svg.append(s("text", { class: "d", x: plan.gutter - 12, y: tick.y + 4, "text-anchor": "end" }, tickText(tick.at, plan.spread)));
  }
}

function drawBox(box, plan, hot) {
  const { txn, x, y, width } = box;
  const letters = Math.floor((width - 24) / LETTER);
  // Beside columns stands an axis; a list has no room for one.
  const when = plan.inList && box.span ? box.span.filter(Number.isFinite).map((at) => tickText(at, plan.spread)).join(" to ") : null;
  const parts = [txn.outcome, txn.name === txn.alias ? null : txn.name, plan.inList ? `session ${txn.session}` : null, when,
    txn.line ? `line ${txn.line}` : null].filter(Boolean);
  const fits = (list) => list.join(" · ").length <= letters - txn.alias.length;
  while (parts.length > 1 && !fits(parts)) parts.pop();
  const where = parts.join(" · ");
  const place = placeOf(txn);
  const select = () => place !== undefined && go({ txn: place });
  const now = step()?.transactions.includes(txn.alias);
  const group = s("g", {
    class: `${txn.bystander ? "by" : "main"}${now ? " now" : ""}`, "data-txn": txn.alias,
    role: place === undefined ? null : "button", tabindex: place === undefined ? null : 0,
    onclick: select, onkeydown: (e) => (e.key === "Enter" || e.key === " ") && (e.preventDefault(), select()),
  }, s("rect", { class: "box", x, y, width, height: box.height, rx: 8 }),
  s("text", { class: "b", x: x + 12, y: y + 21 }, `${txn.alias} `),
  s("text", { class: "d", x: x + 20 + txn.alias.length * LETTER, y: y + 21 }, `${cut(where, Math.max(6, letters - txn.alias.length))} `));
  box.lines.forEach((line, i) => {
    const at = y + HEAD + LINE * i + 10;
    if (hot.has(`${txn.alias},${line.place}`)) {
      group.append(s("rect", { class: "hot", x: x + 6, y: at - 13, width: width - 12, height: LINE - 1, rx: 4 }));
    }
    group.append(s("text", { x: x + 12, y: at }, `${fitted(line.text, letters)} `, line.text.length > letters ? s("title", {}, line.text) : null));
  });
  return group;
}

function drawInitial(plan) {
  const box = initialBox(plan);
  return s("g", {}, s("rect", { class: "box", ...box, rx: 8 }),
    s("text", { class: "d", x: box.x + box.width / 2, y: box.y + 18, "text-anchor": "middle" }, "initial state"));
}

function initialBox(plan) {
  const first = plan.boxes[0] || { x: 10, width: 120 };
  return { x: first.x, y: plan.inList ? 8 : 36, width: first.width, height: 26 };
}

/** Where an operation, or a transaction as a whole, is in its box. */
function lineOf(box, operation) {
  const at = operation ? box.lines.findIndex((line) => line.place === operation[1]) : -1;
  return at < 0 ? null : box.y + HEAD + LINE * at + 6;
}

/** The curve of an arrow; null if one of its ends is not drawn. */
function ends(arrow, boxes, plan) {
  const of = (alias) => (alias === null ? { ...initialBox(plan), lines: [] } : boxes.get(alias));
  const [from, to] = [of(arrow.from), of(arrow.to)];
  if (!from || !to) return null;
  const start = lineOf(from, arrow.from_operation);
  const stop = lineOf(to, arrow.to_operation);
  const right = (box) => box.x + box.width;
  if (isBelowInitial(arrow, from, to, plan)) {
    // Straight down or up, side by side.
    const [x, first] = arrow.from === null ? [from.x + from.width * 0.3, from] : [to.x + to.width * 0.7, to];
    const box = first === from ? to : from;
    const [above, below] = [[x, first.y + first.height + 1], [x, box.y - 1]];
    return arrow.from === null ? curve(above, below, [0, 12], [0, -12]) : curve(below, above, [0, -12], [0, 12]);
  }
  if (plan.inList || from.x === to.x) {
    const [a, b] = [start ?? from.y + 17, stop ?? to.y + 17];
    const far = clamp(Math.abs(a - b) * 0.22, 22, plan.inList ? 100 : 52);
    return curve([right(from), a], [right(to) + 2, b], [far, 0], [far, 0]);
  }
  const rightward = to.x > from.x;
  const a = [rightward ? right(from) : from.x, start ?? from.y + 17];
  const b = [rightward ? to.x - 2 : right(to) + 2, stop ?? to.y + 17];
  const pull = Math.max(36, Math.abs(b[0] - a[0]) * 0.5) * (rightward ? 1 : -1);
  return around(curve(a, b, [pull, 0], [-pull, 0]), plan);
}

/** Whether an arrow connects the initial state with the box right below it. */
function isBelowInitial(arrow, from, to, plan) {
  if ((arrow.from !== null && arrow.to !== null) || from.x !== to.x) return false;
  const box = arrow.from === null ? to : from;
  return plan.boxes.every((other) => other.x !== box.x || other.y >= box.y);
}

/** A way between columns that passes boxes of columns between them above or below, if the direct one would meet one. */
function around(way, plan) {
  const [a, b] = [way[0], way.at(-1)];
  const [left, right] = [Math.min(a[0], b[0]), Math.max(a[0], b[0])];
  const between = plan.columns.filter((column) => column.x > left && column.x + column.width < right);
  const initial = plan.initial ? [initialBox(plan)] : [];
  const met = [...plan.boxes, ...initial].filter((box) => box.x > left && box.x + box.width < right);
  const meets = ([x, y]) => met.some((box) => x > box.x - 4 && x < box.x + box.width + 4 && y > box.y - 5 && y < box.y + box.height + 5);
  const direct = Array.from({ length: 25 }, (_, i) => pointOn(way, i / 24));
  if (!between.length || !direct.some(meets)) return way;
  const heights = [a[1], b[1], ...met.flatMap((box) => [box.y - 9, box.y + box.height + 9])];
  const free = heights.filter((y) => y > 30 && y < plan.height && met.every((box) => y < box.y - 6 || y > box.y + box.height + 6));
  const detour = (y) => Math.abs(y - a[1]) + Math.abs(y - b[1]);
  if (!free.length) return way;
  const y = free.reduce((best, one) => (detour(one) < detour(best) ? one : best));
  const sign = b[0] > a[0] ? 1 : -1;
  const edges = [between[0].x - 8, between.at(-1).x + between.at(-1).width + 8];
  const [enter, leave] = sign > 0 ? edges : edges.reverse();
  const bend = (from, to) => Math.max(16, Math.abs(to - from) * 0.5) * sign;
  const [first, last] = [bend(a[0], enter), bend(leave, b[0])];
  return [a, [a[0] + first, a[1]], [enter - first, y], [enter, y], [enter + 10 * sign, y], [leave - 10 * sign, y], [leave, y],
    [leave + last, y], [b[0] - last, b[1]], b];
}

function drawArrows(svg, arrows, boxes, plan) {
  const focused = arrows.some(isNow);
  const drawn = arrows.map((arrow) => ({ arrow, way: ends(arrow, boxes, plan) })).filter((one) => one.way);
  const labels = [];
  for (const { arrow, way } of drawn) {
    const paint = `var(--${arrow.type})`;
    const look = `${isNow(arrow) ? "now" : focused ? "faint" : ""}`;
    const [p, q] = headOf(way, arrow.behind ? 8 : 10);
    svg.append(s("g", { class: look },
      s("path", { class: `arrow ${look}`, d: pathOf(way), stroke: paint, "stroke-dasharray": RELATIONS[arrow.type].dash.join(" "),
        "stroke-width": arrow.behind ? 1.3 : null }, s("title", {}, `${arrow.from ?? "initial state"} → ${arrow.to ?? "initial state"}: ${arrow.label}`)),
      s("path", { d: `M${way.at(-1)}L${p}L${q}Z`, fill: paint })));
  }
  // The numbers of other steps first: they are small, and the label of this step goes around them.
  const inTurn = [...drawn].sort((a, b) => Number(isNow(a.arrow)) - Number(isNow(b.arrow)));
  for (const [i, { arrow, way }] of inTurn.entries()) labels.push(label(arrow, way, i, labels, focused, plan));
  return labels;
}

/** The label of an arrow, where it covers no other one. */
function label(arrow, way, i, others, focused, plan) {
  // Where there is little room, the kind of dependency has to do.
  let text = plan.narrow && arrow.type !== "expected" ? arrow.type : arrow.label;
  const beside = way[0][0] + 2 >= way.at(-1)[0] && way[1][0] > way[0][0] && way.at(-2)[0] > way.at(-1)[0];
  const badge = arrow.steps.length > 0 && !arrow.behind;
  // Beside the arrow of the step, the number of another step is enough.
  const bare = badge && focused && !isNow(arrow);
  let wide = text.length * 6.7 + 4;
  // What the label covers: the number of the step, and the text under it or beside it.
  const covers = ([x, y, under]) => [badge ? [x - 11, y - 11, 22, 22] : null,
    bare ? null : beside ? [x + (badge ? 14 : 6), y - 8, wide, 16] : [x - wide / 2, y + (badge ? under - 12 : -8), wide, 16]].filter(Boolean);
  const meet = ([x, y, w, height], [u, v, t, r]) => x < u + t && u < x + w && y < v + r && v < y + height;
  const boxes = plan.boxes.map((box) => [box.x, box.y, box.width, box.height]);
  const clear = (one) => others.every((o) => !o.covers.some((other) => meet(one, other)));
  const beyond = (one) => !boxes.some((other) => meet(one, other));
  const free = (spot) => covers(spot).every((one) => clear(one) && beyond(one));
  const apart = (spot) => covers(spot).every(clear);
  // A number stands near the beginning of its arrow: those of two opposite arrows are apart then.
  const along = badge ? [0.28, 0.2, 0.38, 0.5, 0.62, 0.75] : [0.5, 0.35, 0.65, 0.25, 0.75, 0.15, 0.85];
  const spots = along.flatMap((t) => [[...pointOn(way, t), 24], [...pointOn(way, t), -14]]);
  let found = spots.find(free);
  if (!found && arrow.type !== "expected") {
    text = arrow.type;
    wide = text.length * 6.7 + 4;
    found = spots.find(free);
  }
  const [x, y, under] = found || spots.find(apart) || spots[i % spots.length];
  const group = s("g", { class: focused && !isNow(arrow) ? "faint" : "" });
  if (badge) {
    group.append(s("circle", { class: "badge", cx: x, cy: y, r: 10, fill: `var(--${arrow.type})` }),
      s("text", { class: "badge-text", x, y: y + 4 }, arrow.steps.map((n) => n + 1).join(",")));
  }
  if (bare) return { group, covers: covers([x, y, under]) };
  const at = beside ? { x: x + (badge ? 14 : 6), y: y + 4 } : { x, y: y + (badge ? under : 4), "text-anchor": "middle" };
  group.append(s("text", { class: "label", ...at, fill: `var(--${arrow.type})` }, text));
  return { group, covers: covers([x, y, under]) };
}
