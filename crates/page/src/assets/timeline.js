// The run on its axis: a lane per session, a box per transaction, drawn on a canvas. Only what is visible is
// looked at: the visible part of a lane is found by bisection, and where transactions are narrower than a
// pixel, one step per pixel counts them by their places instead.

const BOX = 20;
const AXIS = 24;
const NAMES = 84;
const MOST_LANES = 16;

class Timeline {
  constructor(history) {
    this.history = history;
    this.filter = { session: "", key: "", kind: "" };
    this.canvas = h("canvas", { class: "lanes", tabindex: "0", role: "img" });
    this.context = this.canvas.getContext("2d");
    this.tip = h("div", { class: "tip", "aria-hidden": "true", hidden: true });
    this.from = 0;
    this.to = history.last;
    this.scroll = 0;
    this.applyFilter();
    listenTo(this);
  }

  /** Shows this part of the axis. */
  show(from, to) {
    const { last } = this.history;
    const margin = last * 0.02;
    const span = clamp(to - from, Math.min(this.narrowest(), last + 2 * margin), last + 2 * margin);
    const middle = (from + to) / 2;
    this.from = clamp(middle - span / 2, -margin, last + margin - span);
    this.to = this.from + span;
    this.redraw();
  }

  narrowest() {
    return this.history.axis === "place" ? 3 : 8;
  }

  zoom(factor, at = (this.from + this.to) / 2) {
    this.show(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }

  pan(share) {
    const by = (this.to - this.from) * share;
    this.show(this.from + by, this.to + by);
  }

  /** Shows these transactions, with room around them. */
  reveal(txns) {
    if (!txns.length) return;
    const { begin, end } = this.history;
    const first = Math.min(...txns.map((t) => begin[t]));
    const last = Math.max(...txns.map((t) => Math.min(end[t], begin[t] + this.history.last)));
    const room = Math.max((last - first) * 0.25, this.history.axis === "place" ? 2 : (end[txns[0]] - begin[txns[0]]) * 0.6, 4);
    const lane = this.rows.indexOf(this.history.lane[txns[0]]);
    if (lane >= this.pinned.length) this.scrollTo(lane);
    // Not beyond the run: a short one is shown whole.
    this.show(Math.max(first - room, 0), Math.min(last + room, this.history.last));
  }

  scrollTo(lane) {
    const visible = this.visibleLanes();
    if (lane < this.scroll || lane >= this.scroll + visible) this.scroll = lane - Math.floor(visible / 2);
    this.scroll = clamp(this.scroll, 0, Math.max(0, this.rows.length - visible));
  }

  /** Moves up or down by some lanes. */
  scrollBy(lanes) {
    this.scroll = clamp(this.scroll + lanes, 0, Math.max(0, this.rows.length - this.visibleLanes()));
    this.redraw();
  }

  visibleLanes() {
    return Math.min(this.rows.length, MOST_LANES);
  }

  /** The height of a lane: where there are few, arrows have room between them. */
  get pitch() {
    const count = this.rows.length;
    return count <= 4 ? 60 : count <= 8 ? 46 : 32;
  }

  /** Puts the sessions of these transactions on top, where not all sessions fit. */
  pin(txns) {
    this.wanted = [...new Set(txns.map((t) => this.history.lane[t]))].slice(0, MOST_LANES / 2);
    this.arrange();
  }

  /** The order of lanes: those that are pinned, then all by name. */
  arrange() {
    const { history: all, filter } = this;
    const natural = (a, b) => all.sessions[a].localeCompare(all.sessions[b], "en", { numeric: true });
    this.byName ||= all.sessions.map((_, i) => i).sort(natural);
    this.pinned = filter.session === "" && all.sessions.length > MOST_LANES ? this.wanted || [] : [];
    const others = this.byName.filter((lane) => !this.pinned.includes(lane));
    this.rows = filter.session === "" ? [...this.pinned, ...others] : [Number(filter.session)];
    this.scroll = clamp(this.scroll, 0, Math.max(0, this.rows.length - this.visibleLanes()));
  }

  /** The lanes in sight, from top to bottom: pinned ones stay. */
  shownLanes() {
    const fixed = this.pinned.length;
    return [...this.pinned, ...this.rows.slice(fixed + this.scroll, this.scroll + this.visibleLanes())];
  }

  /** Lanes to show, and which transactions a filter lets through (null: all). */
  applyFilter() {
    const { history: all, filter } = this;
    this.scroll = 0;
    this.arrange();
    this.passes = null;
    const key = filter.key === "" ? null : all.keyNumber(filter.key);
    if (filter.key === "" && filter.kind === "") return;
    const outcome = { aborted: 1, unknown: 2 }[filter.kind];
    const kind = KINDS.indexOf(filter.kind);
    this.passes = new Uint8Array(all.count);
    if (outcome) {
      for (let t = 0; t < all.count; t++) this.passes[t] = all.outcome[t] === outcome ? 1 : 0;
      if (filter.key === "") return;
    }
    all.readOperations();
    for (let t = 0; t < all.count; t++) {
      const start = all.starts[t];
      let found = false;
      for (let i = start; start >= 0 && i < start + all.size[t] && !found; i++) {
        found = (key === null || all.opKey[i] === key) && (kind < 0 || all.opKind[i] === kind);
      }
      this.passes[t] = found && (!outcome || this.passes[t]) ? 1 : 0;
    }
  }

  x(at) {
    return NAMES + ((at - this.from) / (this.to - this.from)) * (this.width - NAMES);
  }

  at(x) {
    return this.from + ((x - NAMES) / (this.width - NAMES)) * (this.to - this.from);
  }

  /** Where the boxes of a lane begin; above the axis if the lane is out of sight. */
  y(lane) {
    const row = this.shownLanes().indexOf(lane);
    return row < 0 ? -1 : AXIS + row * this.pitch + (this.pitch - BOX) / 2;
  }

  redraw() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = null;
      this.draw();
      this.onDraw?.();
    });
  }

  resize() {
    const scale = window.devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    this.height = AXIS + this.visibleLanes() * this.pitch + 6;
    this.canvas.style.height = `${this.height}px`;
    const [width, height] = [Math.round(this.width * scale), Math.round(this.height * scale)];
    if (this.canvas.width !== width || this.canvas.height !== height) {
      this.canvas.width = width;
      this.canvas.height = height;
    }
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
  }

  draw() {
    this.resize();
    if (this.width < 10) return;
    this.paint = paints();
    const { context: c, paint } = this;
    c.clearRect(0, 0, this.width, this.height);
    c.font = "12px system-ui, sans-serif";
    c.textBaseline = "middle";
    const { pitch } = this;
    this.drawAxis();
    drawFaults(this);
    this.shownLanes().forEach((lane, i) => {
      const y = AXIS + i * pitch;
      this.drawLane(this.history.lanes[lane], y + (pitch - BOX) / 2);
      c.fillStyle = paint.panel;
      c.fillRect(0, y, NAMES - 2, pitch);
      const isLast = i + 1 === this.pinned.length;
      c.fillStyle = isLast ? paint.dim : paint.line;
      c.fillRect(0, y + pitch - 1, this.width, isLast ? 1.5 : 1);
      c.fillStyle = i < this.pinned.length ? paint.ink : paint.dim;
      c.font = i < this.pinned.length ? "bold 12px system-ui, sans-serif" : "12px system-ui, sans-serif";
      c.fillText(cut(this.history.laneName(lane), 11), 6, y + pitch / 2);
    });
    drawWitness(this);
  }

  drawAxis() {
    const { context: c, paint } = this;
    const step = tidy((this.to - this.from) / Math.max(2, (this.width - NAMES) / 110));
    c.fillStyle = paint.dim;
    c.textAlign = "left";
    c.fillText(aboutAxis(this.history)[0], 6, AXIS / 2);
    const base = roundFrom(this.history);
    for (let at = Math.max(0, Math.ceil((this.from + base) / step) * step - base); at <= this.to; at += step) {
      const x = Math.round(this.x(at)) + 0.5;
      if (x < NAMES || (this.history.axis === "place" && at >= this.history.last)) continue;
      c.fillStyle = paint.line;
      c.fillRect(x, AXIS - 6, 1, this.height - AXIS);
      c.fillStyle = paint.dim;
      const text = moment(this.history, at, step);
      if (x + c.measureText(text).width + 3 < this.width) c.fillText(text, x + 3, AXIS / 2);
    }
  }

  drawLane({ txns, reach, aborted }, y) {
    const { begin } = this.history;
    // The first that has not ended before the left edge, and the first that begins after the right one.
    const first = bisect(reach, txns.length, (end) => end >= this.from);
    const last = bisectBy(txns, (t) => begin[t] > this.to);
    const pixels = this.width - NAMES;
    if (last - first <= pixels * 1.5) this.drawBoxes(txns, first, last, y);
    else this.drawDensity(txns, aborted, first, last, y);
  }

  drawBoxes(txns, first, last, y) {
    const { history: all, context: c, paint, passes } = this;
    for (let i = first; i < last; i++) {
      const t = txns[i];
      const x = this.x(all.begin[t]);
      const left = Math.max(x, NAMES);
      const width = Math.max(this.x(all.end[t]) - left, 1.2);
      if (left + width < NAMES) continue;
      const faint = passes && !passes[t];
      c.globalAlpha = faint ? 0.18 : 1;
      if (all.outcome[t] === 0) {
        c.fillStyle = paint.box;
        c.fillRect(left, y, width - (width > 3 ? 1 : 0), BOX);
      } else {
        // Not committed: hollow; with a dashed border if the outcome is not known.
        c.strokeStyle = c.fillStyle = paint.aborted;
        c.lineWidth = 1;
        c.setLineDash(all.outcome[t] === 1 ? [] : [3, 2]);
        if (width > 3) c.strokeRect(left + 0.5, y + 0.5, width - 2, BOX - 1);
        else c.fillRect(left, y + BOX / 2, width, BOX / 2);
        c.setLineDash([]);
      }
      if (width > 34) this.drawName(t, left, y, width);
    }
    c.globalAlpha = 1;
  }

  drawName(t, x, y, width) {
    const { history: all, context: c, paint } = this;
    const fault = all.faults.get(t);
    const deeds = () => all.operations(t)?.map((op) => `${op.type}(${all.keyNames[op.key]},${showValue(op.value, 3)})`).join(" ") || "";
    const text = fault ? [fault.name, fault.detail].filter(Boolean).join(" ") : `${aliasOf(t) || all.name(t)}  ${deeds()}`;
    const seen = Math.min(width, this.width - x);
    c.fillStyle = all.outcome[t] === 0 ? paint.boxink : paint.dim;
    const fits = this.fitting(text, seen - 8);
    if (fits.length > 1) c.fillText(fits, x + 4, y + BOX / 2 + 0.5);
  }

  /** As much of a text as so many pixels have room for. */
  fitting(text, room) {
    const { context: c } = this;
    // No letter is narrower than this.
    let short = cut(text, Math.max(2, Math.floor(room / 3)));
    for (let wide = c.measureText(short).width; wide > room && short.length > 2; wide = c.measureText(short).width) {
      short = cut(text, Math.min(short.length - 1, Math.floor((short.length * room) / wide)));
    }
    return c.measureText(short).width <= room ? short : "";
  }

  /** More transactions than pixels: how many begin in each pixel, darker the more. */
  drawDensity(txns, aborted, first, last, y) {
    const { context: c, paint, history: all } = this;
    const pixels = Math.ceil(this.width - NAMES);
    const usual = (last - first) / pixels;
    let i = first;
    for (let p = 0; p < pixels && i < last; p++) {
      const edge = this.at(NAMES + p + 1);
      const next = gallop(txns, i, last, (t) => all.begin[t] >= edge);
      if (next > i) {
        const share = (aborted[next] - aborted[i]) / (next - i);
        c.globalAlpha = clamp(0.35 + 0.65 * ((next - i) / (usual * 2)), 0.35, 1);
        const height = BOX * (1 - share);
        c.fillStyle = paint.box;
        c.fillRect(NAMES + p, y, 1, height);
        c.fillStyle = paint.aborted;
        c.fillRect(NAMES + p, y + height, 1, BOX - height);
      }
      i = next;
    }
    c.globalAlpha = 1;
  }

  /** The transaction at a point of the canvas; null if there is none. */
  hit(x, y) {
    const lane = this.shownLanes()[Math.floor((y - AXIS) / this.pitch)];
    if (y < AXIS || x < NAMES || lane === undefined) return null;
    const { txns, reach } = this.history.lanes[lane];
    const at = this.at(x);
    const slack = ((this.to - this.from) / this.width) * 3;
    for (let i = bisect(reach, txns.length, (end) => end >= at - slack); i < txns.length; i++) {
      const t = txns[i];
      if (this.history.begin[t] > at + slack) return null;
      if (this.history.end[t] >= at - slack) return t;
    }
    return null;
  }
}

/** The colours of the theme, read once per frame. */
function paints() {
  const style = getComputedStyle(document.documentElement);
  const names = ["bg", "line", "dim", "box", "boxink", "aborted", "focus", "bad", "ink", "panel", "fault", ...Object.keys(RELATIONS)];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

/** A round number of about this size: 1, 2 or 5 times a power of ten. */
function tidy(size) {
  const power = 10 ** Math.floor(Math.log10(Math.max(size, 1)));
  const times10 = size / power;
  return Math.max(1, power * (times10 > 5 ? 10 : times10 > 2 ? 5 : times10 > 1 ? 2 : 1));
}

/** The first place at which a test that stays true becomes true. */
function bisect(values, count, test) {
  let [low, high] = [0, count];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (test(values[middle])) high = middle;
    else low = middle + 1;
  }
  return low;
}

function bisectBy(txns, test) {
  return bisect(txns, txns.length, test);
}

/** As `bisect`, from a place that is probably near: the steps double. */
function gallop(txns, from, to, test) {
  let size = 1;
  let low = from;
  while (low + size < to && !test(txns[low + size])) {
    low += size;
    size *= 2;
  }
  let high = Math.min(to, low + size);
  while (low < high) {
    const middle = (low + high) >> 1;
    if (test(txns[middle])) high = middle;
    else low = middle + 1;
  }
  return low;
}
