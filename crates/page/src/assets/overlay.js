// What lies over the timeline: the transactions and arrows of the example, the selected transaction, and the
// snapshot of a read where timestamps say what it should have returned.

function drawWitness(timeline) {
  const { context: c, paint, history: all } = timeline;
  const shown = example();
  c.save();
  c.beginPath();
  c.rect(NAMES, 0, timeline.width - NAMES, timeline.height);
  c.clip();
  if (shown) {
    const txns = new Map(drawnTransactions(shown).map((txn) => [txn.alias, placeOf(txn)]).filter(([, t]) => t !== undefined));
    const mentioned = new Set(step()?.transactions || []);
    for (const [alias, t] of txns) outline(timeline, t, alias, mentioned.has(alias) ? paint.focus : paint.ink, mentioned.has(alias));
    drawSnapshot(timeline, shown);
    const labels = [];
    const arrows = arrowsOf(shown).sort((a, b) => Number(isNow(b)) - Number(isNow(a)));
    const focused = arrows.some(isNow);
    const boxes = [...txns.values()].map((t) => boxOf(timeline, t));
    for (const arrow of arrows) {
      const ends = [txns.get(arrow.from), txns.get(arrow.to)];
      if (ends.every((t) => t !== undefined && timeline.y(all.lane[t]) > 0)) drawArrow(timeline, arrow, ends, focused, labels);
    }
    labels.forEach((one) => drawLabel(timeline, one, labels, boxes));
  }
  if (state.txn !== null) outline(timeline, state.txn, null, paint.focus, true);
  c.restore();
}

/** Where a transaction's box is; a box narrower than this is drawn wider. */
function boxOf(timeline, t) {
  const { history: all } = timeline;
  const x = timeline.x(all.begin[t]);
  const width = Math.max(timeline.x(all.end[t]) - x, 5);
  return { x, width, y: timeline.y(all.lane[t]) };
}

function outline(timeline, t, alias, stroke, strong) {
  const { context: c, paint } = timeline;
  const { x, width, y } = boxOf(timeline, t);
  if (y < AXIS || y > timeline.height) return;
  c.strokeStyle = stroke;
  c.lineWidth = strong ? 2.5 : 1.5;
  c.strokeRect(x - 0.5, y - 0.5, width, BOX + 1);
  if (!alias || width > 34) return;
  c.font = "bold 11px system-ui, sans-serif";
  const wide = c.measureText(alias).width + 6;
  if (wide <= width + 4) {
    c.fillStyle = paint.boxink;
    c.fillText(alias, x + (width - wide + 6) / 2, y + BOX / 2 + 0.5);
    return;
  }
  c.fillStyle = paint.panel;
  c.globalAlpha = 0.9;
  c.fillRect(x + width + 1, y + 2, wide, BOX - 4);
  c.globalAlpha = 1;
  c.fillStyle = stroke;
  c.fillText(alias, x + width + 4, y + BOX / 2);
}

function drawArrow(timeline, arrow, [from, to], focused, labels) {
  const { context: c, paint, history: all } = timeline;
  const [a, b] = [boxOf(timeline, from), boxOf(timeline, to)];
  // An arrow leaves where the operation is, as far as its place in the transaction says.
  const spot = (box, t, operation) => {
    const share = operation ? (operation[1] + 0.5) / Math.max(all.size[t], operation[1] + 1) : 0.5;
    return box.x + box.width * share;
  };
  const down = b.y > a.y || (a.y === b.y && b.x > a.x);
  const start = [spot(a, from, arrow.from_operation), a.y + (down ? BOX : 0)];
  const same = a.y === b.y;
  const stop = [spot(b, to, arrow.to_operation), same ? start[1] : b.y + (down ? -1 : BOX + 1)];
  const bend = Math.max(18, Math.min(60, Math.abs(stop[1] - start[1]) * 0.5)) * (down ? 1 : -1);
  const way = curve(start, stop, [0, bend], [0, same ? bend : -bend]);
  c.globalAlpha = focused && !isNow(arrow) ? 0.35 : 1;
  c.strokeStyle = c.fillStyle = paint[arrow.type];
  c.lineWidth = isNow(arrow) ? 3 : arrow.behind ? 1.2 : 2;
  c.setLineDash(RELATIONS[arrow.type].dash);
  c.beginPath();
  c.moveTo(...way[0]);
  c.bezierCurveTo(...way[1], ...way[2], ...way[3]);
  c.stroke();
  c.setLineDash([]);
  c.beginPath();
  for (const point of [way[3], ...headOf(way, 9)]) c.lineTo(...point);
  c.fill();
  c.globalAlpha = 1;
  if (!arrow.behind) {
    const numbers = arrow.steps.map((n) => n + 1).join(",");
    // Beside the arrow of the step, the number of another step is enough.
    const text = focused && !isNow(arrow) && numbers ? numbers : `${numbers} ${arrow.label}`.trim();
    labels.push({ text, way, type: arrow.type });
  }
}

/** The label of an arrow, where it covers no other one and, if there is such a place, no box. */
function drawLabel({ context: c, paint }, label, others, boxes) {
  c.font = "11px system-ui, sans-serif";
  const wide = c.measureText(label.text).width + 8;
  // On the arrow; else a line above or below it.
  const along = [0.5, 0.35, 0.65, 0.25, 0.75, 0.15, 0.85].map((t) => pointOn(label.way, t));
  const spots = [0, -18, 18, -36, 36].flatMap((by) => along.map(([x, y]) => [x, y + by]));
  const clear = ([x, y]) => others.every((o) => !o.at || Math.abs(o.at[1] - y) > 17 || Math.abs(o.at[0] - x) > (o.wide + wide) / 2);
  const beyond = ([x, y]) => boxes.every((b) => y + 8 < b.y || y - 8 > b.y + BOX || x + wide / 2 < b.x || x - wide / 2 > b.x + b.width);
  const [x, y] = spots.find((spot) => clear(spot) && beyond(spot)) || spots.find(clear) || spots[0];
  Object.assign(label, { at: [x, y], wide });
  c.fillStyle = paint.panel;
  c.fillRect(x - wide / 2, y - 8, wide, 16);
  c.strokeStyle = c.fillStyle = paint[label.type];
  c.lineWidth = 1;
  c.strokeRect(x - wide / 2, y - 8, wide, 16);
  c.fillText(label.text, x - wide / 2 + 4, y);
}

/** The snapshot that a read should have had: a line at the reader's start. */
function drawSnapshot(timeline, shown) {
  const { expected, transactions } = shown.witness;
  const reader = expected && transactions.find((txn) => txn.alias === expected.read[0]);
  const t = reader && placeOf(reader);
  if (t === undefined || timeline.history.axis !== "timestamps") return;
  const { context: c, paint } = timeline;
  const byCommit = anomaly().kind.includes("commit");
  const x = timeline.x(byCommit ? timeline.history.end[t] : timeline.history.begin[t]);
  c.strokeStyle = c.fillStyle = paint.expected;
  c.lineWidth = 1.5;
  c.setLineDash([4, 4]);
  c.beginPath();
  c.moveTo(x, AXIS);
  c.lineTo(x, timeline.height);
  c.stroke();
  c.setLineDash([]);
  c.font = "11px system-ui, sans-serif";
  const text = `snapshot of ${reader.alias}`;
  const wide = c.measureText(text).width + 8;
  c.fillText(text, x + wide < timeline.width ? x + 4 : x - wide + 4, timeline.height - 10);
}

/** Faults are bands behind all lanes. */
function drawFaults(timeline) {
  const { context: c, paint, history: all } = timeline;
  const bands = [...[...all.faults.keys()].map((t) => [all.begin[t], all.end[t]]), ...all.outages];
  for (const [from, to, name, detail] of bands) {
    const x = Math.max(timeline.x(from), NAMES);
    const width = Math.max(timeline.x(to) - x, 2);
    if (x + width <= NAMES || x >= timeline.width) continue;
    c.fillStyle = paint.fault;
    c.fillRect(x, AXIS, width, timeline.height - AXIS);
    // Those without a lane of their own are named at the bottom.
    if (!name) continue;
    c.fillStyle = paint.dim;
    c.font = "10px system-ui, sans-serif";
    c.fillText(timeline.fitting([name, detail].filter(Boolean).join(" "), Math.max(width, 120)), x + 4, timeline.height - 7);
    c.font = "12px system-ui, sans-serif";
  }
}

/** Wheel, drag, pinch and click on the lanes. */
function listenTo(timeline) {
  const { canvas } = timeline;
  const fingers = new Map();
  let moved = 0;
  canvas.addEventListener("wheel", (e) => {
    const sideways = e.shiftKey ? e.deltaY : e.deltaX;
    if (e.ctrlKey || e.metaKey || (document.activeElement === canvas && Math.abs(e.deltaX) < Math.abs(e.deltaY) && !e.shiftKey)) {
      e.preventDefault();
      timeline.zoom(Math.exp(clamp(e.deltaY, -200, 200) * 0.004), timeline.at(e.offsetX));
    } else if (sideways) {
      e.preventDefault();
      timeline.pan(sideways / timeline.width);
    }
  }, { passive: false });
  canvas.addEventListener("pointerdown", (e) => {
    fingers.set(e.pointerId, pick(e));
    if (fingers.size === 1) moved = 0;
    canvas.setPointerCapture(e.pointerId);
  });
  canvas.addEventListener("pointermove", (e) => {
    const before = fingers.get(e.pointerId);
    if (!before) return e.pointerType === "mouse" && pointAt(timeline, timeline.hit(e.offsetX, e.offsetY), e);
    pointAt(timeline, null);
    if (fingers.size === 2) {
      const other = [...fingers.values()].find((f) => f.pointerId !== e.pointerId);
      const apart = (f) => Math.hypot(f.clientX - other.clientX, f.clientY - other.clientY);
      const [was, is] = [apart(before), apart(e)];
      if (is > 4) timeline.zoom(clamp(was / is, 0.5, 2), timeline.at((e.offsetX + other.offsetX) / 2));
      // What is between the fingers goes with them; what they did is no click.
      timeline.pan(-(e.clientX - before.clientX) / 2 / (timeline.width - NAMES));
      moved += 5;
    } else {
      moved += Math.abs(e.clientX - before.clientX) + Math.abs(e.clientY - before.clientY);
      timeline.pan(-(e.clientX - before.clientX) / (timeline.width - NAMES));
      const lanes = Math.trunc((before.clientY - e.clientY) / timeline.pitch);
      if (lanes) {
        timeline.scrollBy(lanes);
      } else {
        fingers.set(e.pointerId, { ...pick(e), clientY: before.clientY });
        return;
      }
    }
    fingers.set(e.pointerId, pick(e));
  });
  const done = (e) => {
    if (fingers.delete(e.pointerId) && e.type === "pointerup" && moved < 5) go({ txn: timeline.hit(e.offsetX, e.offsetY) });
  };
  canvas.addEventListener("pointerup", done);
  canvas.addEventListener("pointercancel", done);
  canvas.addEventListener("pointerleave", () => pointAt(timeline, null));
}

const MOST_POINTED = 8;

/** What the mouse points at, in words beside it. */
function pointAt({ canvas, tip, history: all, width }, t, e) {
  canvas.style.cursor = t === null ? "" : "pointer";
  tip.hidden = t === null;
  if (t === null) return;
  if (tip.shown !== t) {
    tip.shown = t;
    const fault = all.faults.get(t);
    const alias = aliasOf(t);
    const name = alias && alias !== all.name(t) ? `${alias}, ${all.name(t)}` : all.name(t);
    const deeds = all.operations(t)?.map((op) => `${op.type}(${cut(all.keyNames[op.key], 30)},${cut(showValue(op.value, 5), 40)})`);
    const times = all.axis === "place" ? null : `${moment(all, all.begin[t], (all.end[t] - all.begin[t]) / 100)} to ${moment(all, all.end[t], (all.end[t] - all.begin[t]) / 100)}`;
    set(tip, h("b", {}, cut(fault ? [fault.name, fault.detail].filter(Boolean).join(" ") : name, 60)),
      fault ? null : ` ${OUTCOMES[all.outcome[t]]}`, times ? h("div", { class: "dim" }, times) : null,
      fault ? null : deeds ? deeds.slice(0, MOST_POINTED).map((deed) => h("div", { class: "mono" }, deed)) : h("div", { class: "dim" }, counted(all.size[t], "operation")),
      deeds && deeds.length > MOST_POINTED ? h("div", { class: "dim" }, `and ${deeds.length - MOST_POINTED} more`) : null);
  }
  tip.style.left = `${clamp(e.offsetX + 14, 0, Math.max(0, width - tip.offsetWidth - 4))}px`;
  tip.style.top = `${e.offsetY + 16}px`;
}

function pick({ pointerId, clientX, clientY, offsetX, offsetY }) {
  return { pointerId, clientX, clientY, offsetX, offsetY };
}
