// The whole run in a strip: how many transactions began when, which of them did not commit, where the
// examples are, and which part the timeline shows. Drag to move that part.

const MINI = 54;

class Minimap {
  constructor(timeline) {
    this.timeline = timeline;
    this.canvas = h("canvas", { class: "mini", role: "img" });
    this.context = this.canvas.getContext("2d");
    const move = (e) => {
      const { timeline: shown } = this;
      const half = (shown.to - shown.from) / 2;
      const at = ((e.offsetX - NAMES) / (this.width - NAMES)) * shown.history.last;
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
    const bins = Math.max(1, Math.floor((this.width - NAMES) / 2));
    this.count(bins);
    for (let i = 0; i < bins; i++) {
      const height = (this.all[i] / this.most) * (MINI - 16);
      const failed = (this.failed[i] / this.most) * (MINI - 16);
      c.fillStyle = paint.box;
      c.fillRect(NAMES + i * 2, MINI - height, 2, height - failed);
      c.fillStyle = paint.aborted;
      c.fillRect(NAMES + i * 2, MINI - failed, 2, failed);
    }
    const x = (at) => NAMES + (at / timeline.history.last) * (this.width - NAMES);
    this.drawMarks(x, paint);
    c.strokeStyle = paint.focus;
    c.lineWidth = 2;
    const left = Math.max(x(timeline.from), NAMES + 1);
    c.strokeRect(left, 1, Math.max(x(timeline.to) - left - 1, 4), MINI - 2);
    c.fillStyle = paint.dim;
    c.font = "12px system-ui, sans-serif";
    c.textBaseline = "middle";
    c.fillText("whole run", 6, MINI / 2);
  }

  /** A triangle for each example, filled for the one that is shown. */
  drawMarks(x, paint) {
    const { context: c } = this;
    anomalies().forEach((a, i) => examples(a).forEach((shown, j) => {
      const places = shown.witness.transactions.filter((t) => !t.bystander).map(placeOf).filter((t) => t !== undefined);
      if (!places.length) return;
      const at = x(Math.min(...places.map((t) => this.timeline.history.begin[t])));
      const on = i === state.anomaly && j === state.example;
      c.fillStyle = c.strokeStyle = paint.bad;
      c.lineWidth = 1.5;
      c.beginPath();
      for (const [dx, dy] of [[-5, 1], [5, 1], [0, 10]]) c.lineTo(at + dx, dy);
      c.closePath();
      on ? c.fill() : c.stroke();
      c.fillRect(at - 0.5, 10, 1, on ? MINI - 10 : 4);
    }));
  }
}
