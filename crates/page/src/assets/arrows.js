// Arrows, the same on the drawing of an example and on the timeline: colour, dash pattern and label say
// what a dependency is, so that none of them is needed alone.

const RELATIONS = {
  so: { dash: [1.5, 4], meaning: "earlier in the session" },
  wr: { dash: [], meaning: "read from" },
  ww: { dash: [11, 4], meaning: "overwritten by" },
  rw: { dash: [6, 4], meaning: "missed the write of" },
  rwp: { dash: [6, 2, 2, 2], meaning: "missed the match of" },
  cm: { dash: [10, 3, 2, 3], meaning: "must commit before" },
  rt: { dash: [2, 6], meaning: "ended before the other began" },
  expected: { dash: [3, 3], meaning: "should have been read" },
};

/** The arrows of an example, with the steps that they belong to. */
function arrowsOf(shown) {
  const list = (shown.witness.arrows || []).map((arrow) => {
    const belongs = (one) => one.edges.includes(arrow.edge) && Boolean(one.behind) === Boolean(arrow.behind);
    const numbers = shown.steps.map((one, i) => (belongs(one) ? i : -1)).filter((i) => i >= 0);
    return { ...arrow, steps: numbers };
  });
  const { expected } = shown.witness;
  if (expected) {
    const label = "expected";
    list.push({ from: expected.write[0], to: expected.read[0], from_operation: expected.write, to_operation: expected.read,
      type: "expected", label, steps: [] });
  }
  return list;
}

/** Whether an arrow is part of the step that is shown. */
function isNow(arrow) {
  return arrow.steps.includes(state.step);
}

/** A curve from one point to another; `way` says in which direction each end leaves: [dx, dy]. */
function curve(a, b, away, toward) {
  return [a, [a[0] + away[0], a[1] + away[1]], [b[0] + toward[0], b[1] + toward[1]], b];
}

/** A point on a way of one curve or several: three points more for each. */
function pointOn(way, share) {
  const count = (way.length - 1) / 3;
  const nth = Math.min(Math.floor(share * count), count - 1);
  const [a, b, c, d] = way.slice(3 * nth, 3 * nth + 4);
  const t = share * count - nth;
  const u = 1 - t;
  const mix = (i) => u * u * u * a[i] + 3 * u * u * t * b[i] + 3 * u * t * t * c[i] + t * t * t * d[i];
  return [mix(0), mix(1)];
}

/** The two corners of an arrow's head behind its tip. */
function headOf(way, size) {
  const [c, d] = way.slice(-2);
  const angle = Math.atan2(d[1] - c[1], d[0] - c[0]);
  const corner = (turn) => [d[0] - size * Math.cos(angle + turn), d[1] - size * Math.sin(angle + turn)];
  return [corner(0.45), corner(-0.45)];
}

function pathOf(way) {
  const at = (p) => `${p[0].toFixed(1)},${p[1].toFixed(1)}`;
  return way.slice(1).reduce((path, p, i) => `${path}${i % 3 ? " " : " C"}${at(p)}`, `M${at(way[0])}`);
}

/** The kinds of arrows in a drawing, each with its line. */
function legend(types) {
  return h("p", { class: "legend" }, [...new Set(types)].map((type) => h("span", {},
    s("svg", { width: 34, height: 10, "aria-hidden": "true" },
      s("line", { x1: 1, y1: 5, x2: 33, y2: 5, stroke: `var(--${type})`, "stroke-width": 2.5, "stroke-dasharray": RELATIONS[type].dash.join(" ") })),
    type === "expected" ? ` ${RELATIONS[type].meaning}` : ` ${type}: ${RELATIONS[type].meaning}`)));
}
