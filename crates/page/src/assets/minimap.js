// The whole run in a strip: how many transactions began when, which of them did not commit, where
// anomalies and faults are, and which part the timeline shows. Drag to move that part.

const MINI = 58;
/** Room at both ends, so that a mark at the edge is whole. */
const EDGE = 7;

class Minimap {
  constructor(timeline) {
    this.timeline = timeline;
    this.canvas = h("canvas", { class: "mini", role: "img" });
    this.context = this.canvas.getContext("2d");
    const move = (e) => {
      const { timeline: shown } = this;
      const half = (shown.to - shown.from) / 2;
      const at = ((e.offsetX - NAMES - EDGE) / (this.width - NAMES - 2 * EDGE)) * shown.history.last;
      shown.show(at - half, at + half);
    };
    this.canvas.addEventListener("pointerdown", (e) => {
      this.canvas.setPointerCapture(e.pointerId);
      move(e);
    });
    this.canvas.addEventListener("pointermove", (e) => e.buttons && move(e));
  }

  /** Transactions per bin of the axis: all, and those that did not commit. */
  count(bins) {
    if (this.all?.length === bins) return;
    const { begin, outcome, last, count } = this.timeline.history;
    this.all = new Uint32Array(bins);
    this.failed = new Uint32Array(bins);
    for (let t = 0; t < count; t++) {
      const bin = Math.min(bins - 1, Math.floor((begin[t] / last) * bins));
      this.all[bin]++;
      if (outcome[t] !== 0) this.failed[bin]++;
    }
    this.most = this.all.reduce((a, b) => Math.max(a, b), 1);
  }

  draw() {
    const scale = window.devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    if (this.width < 10) return;
    const { context: c, timeline } = this;
    this.canvas.style.height = `${MINI}px`;
    this.canvas.width = Math.round(this.width * scale);
    this.canvas.height = Math.round(MINI * scale);
    c.setTransform(scale, 0, 0, scale, 0, 0);
    const paint = paints();
    const room = this.width - NAMES - 2 * EDGE;
    const x = (at) => NAMES + EDGE + (at / timeline.history.last) * room;
    this.drawFaults(x, paint);
    // A bar of two pixels, or wider ones where there are few transactions.
    const bins = Math.max(1, Math.min(Math.floor(room / 2), Math.max(12, timeline.history.count)));
    const bar = room / bins;
    this.count(bins);
    for (let i = 0; i < bins; i++) {
      const height = (this.all[i] / this.most) * (MINI - 20);
      const failed = (this.failed[i] / this.most) * (MINI - 20);
      c.fillStyle = paint.box;
      c.fillRect(NAMES + EDGE + i * bar, MINI - height, bar, height - failed);
      c.fillStyle = paint.aborted;
      c.fillRect(NAMES + EDGE + i * bar, MINI - failed, bar, failed);
    }
    this.drawMarks(x, paint);
    c.strokeStyle = paint.focus;
    c.lineWidth = 2;
    const left = Math.max(x(timeline.from), NAMES + 1);
    c.strokeRect(left, 1, Math.max(Math.min(x(timeline.to), this.width - 1) - left, 4), MINI - 2);
    c.fillStyle = paint.dim;
    c.font = "12px system-ui, sans-serif";
    c.textBaseline = "middle";
    c.fillText("whole run", 6, MINI / 2);
  }

  drawFaults(x, paint) {
    const { context: c } = this;
    const { faults, outages, begin, end } = this.timeline.history;
    c.fillStyle = paint.fault;
    for (const t of faults.keys()) c.fillRect(x(begin[t]), 0, Math.max(x(end[t]) - x(begin[t]), 2), MINI);
    for (const [from, to] of outages) c.fillRect(x(from), 0, Math.max(x(to) - x(from), 2), MINI);
  }

  /** A line for each instance, a triangle for each with an example, filled for the one that is shown. */
  drawMarks(x, paint) {
    const { context: c } = this;
    const { begin } = this.timeline.history;
    const all = instances();
    const now = shownInstance();
    c.fillStyle = c.strokeStyle = paint.bad;
    c.lineWidth = 1.5;
    let last = -1;
    all.forEach((one, i) => {
      const at = Math.round(x(begin[one.t]));
      if (at !== last) c.fillRect(at - 0.5, 3, 1.2, 12);
      last = at;
      if (i !== now && one.example < 0) return;
      c.beginPath();
      for (const [dx, dy] of [[-5, 1], [5, 1], [0, 10]]) c.lineTo(at + dx, dy);
      c.closePath();
      i === now ? c.fill() : c.stroke();
      if (i === now) c.fillRect(at - 0.75, 8, 1.5, MINI - 8);
    });
  }
}
