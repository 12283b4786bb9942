// Making elements. Text from histories only ever becomes text nodes and attributes.

function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

const SVG = "http://www.w3.org/2000/svg";

function s(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "fill" || name === "stroke") element.style[name] = value;
    else element.setAttribute(name, value === true ? "" : visible(String(value)));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : visible(String(child)));
  }
}

/** Characters without a look of their own (controls, turns of direction, separators), by their numbers. */
function visible(text) {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g,
    (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

/** Replaces what an element contains. */
function set(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

function grouped(n) {
  return Number(n).toLocaleString("en-US");
}

function counted(n, noun) {
  return `${grouped(n)} ${noun}${n === 1 ? "" : "s"}`;
}

function times(n) {
  return n === 1 ? "once" : `${grouped(n)} times`;
}

function clamp(x, low, high) {
  return Math.min(Math.max(x, low), high);
}

function cut(raw, most) {
  const text = visible(raw);
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}

const UNITS = { ns: 1, us: 1e3, ms: 1e6, s: 1e9 };

/** How many nanoseconds a step of the clients' clock has; undefined where another axis is drawn, or it is not known. */
function scaleOf(history) {
  return history.axis === "clock" ? UNITS[history.unit] : undefined;
}

/** Whether the numbers of an axis are so large that they are counted from its beginning. */
function countsFromStart(history) {
  return history.axis !== "place" && !scaleOf(history) && history.origin.replace("-", "").length > 9;
}

/** What the clock showed at the beginning of the axis, unless that says nothing to people: a date in 1970 or later. */
function baseOf(history) {
  const scale = scaleOf(history);
  const base = Number(history.origin);
  return scale && base * scale < 3.6e12 ? base : 0;
}

/** What is added to a place on an axis, so that its ticks are round numbers as they are shown. */
function roundFrom(history) {
  if (history.axis === "place") return 1;
  return scaleOf(history) ? baseOf(history) : countsFromStart(history) ? 0 : Number(history.origin);
}

/** A moment of an axis for people, as exact as a step of the axis needs. */
function moment(history, at, step) {
  if (history.axis === "place") return `#${grouped(Math.floor(at) + 1)}`;
  const scale = scaleOf(history);
  if (!scale) {
    if (countsFromStart(history)) return `+${grouped(Math.round(at))}`;
    return (BigInt(history.origin) + BigInt(Math.round(at))).toLocaleString("en-US");
  }
  const [now, exact] = [(at + baseOf(history)) * scale, step * scale];
  const [unit, size] = now >= 1e9 || exact >= 1e8 ? ["s", 1e9] : now >= 1e6 || exact >= 1e5 ? ["ms", 1e6] : ["µs", 1e3];
  const digits = clamp(Math.ceil(-Math.log10(Math.max(exact, 1) / size)), 0, 6);
  return `${(now / size).toFixed(digits)} ${unit}`;
}

/** What the numbers of an axis are, in a word for its corner and in a phrase. */
function aboutAxis(history) {
  const from = countsFromStart(history) ? `, counted from ${history.origin}` : "";
  if (history.axis === "place") return ["place", "place in the session: the history has no times"];
  if (history.axis === "timestamps") return ["timestamp", `timestamps of the database, start to commit${from}`];
  if (history.unit === "events") return ["event", "order of events in the recording"];
  if (scaleOf(history)) return ["time", baseOf(history) ? "time on the clients' clock" : "time since the first transaction began"];
  return ["clock", `the clients' clock, whose unit the history does not state${from}`];
}

let announcer;

/** Says something to those who cannot see the page, and shows it for a moment to the others. */
function announce(text) {
  announcer ||= document.body.appendChild(h("div", { class: "toast", role: "status", "aria-live": "polite" }));
  announcer.textContent = text;
  announcer.classList.add("on");
  clearTimeout(announcer.timer);
  announcer.timer = setTimeout(() => announcer.classList.remove("on"), 1800);
}

async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Pages from files may lack the clipboard; the old way still works there.
    const area = document.body.appendChild(h("textarea", { class: "offscreen", "aria-hidden": "true" }));
    area.value = text;
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  announce(`Copied ${what}.`);
}

function copyButton(text, what) {
  return h("button", { type: "button", class: "small", onclick: () => copy(text(), what) }, "Copy");
}

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
