// Building pages: every text becomes a text node, so names in histories and files are never markup.

const SVG = 'http://www.w3.org/2000/svg';

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on') && typeof value === 'function') node.addEventListener(name.slice(2), value);
    else if (name === 'value' || name === 'checked') node[name] = value;
    else node.setAttribute(name, value === true ? '' : String(value));
  }
  node.append(...children.flat(3).filter(child => child !== null && child !== undefined && child !== false));
  return node;
}

/** An element with attributes and children; strings are text. */
export const el = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);

/** The same for pictures. */
export const svg = (name, attributes, ...children) => fill(document.createElementNS(SVG, name), attributes, children);

/** Replaces what a node holds. */
export function show(node, ...children) {
  node.replaceChildren(...children.flat(3).filter(child => child !== null && child !== undefined && child !== false));
  return node;
}

/** A part of the page that scrolls sideways where it is too wide; keys scroll it too. */
export const scroll = (label, ...children) => el('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': label }, ...children);

/** Says something to screen readers. */
export function announce(text) {
  document.getElementById('live').textContent = text;
}

const grouped = new Intl.NumberFormat('en');
export const number = n => n === null || n === undefined ? '–' : grouped.format(n);

export function bytes(n) {
  let unit = 'B';
  for (const larger of ['kB', 'MB', 'GB', 'TB']) {
    if (n < 1000) break;
    n /= 1000;
    unit = larger;
  }
  return `${unit === 'B' ? n : n.toFixed(1)} ${unit}`;
}

export function duration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 60) return `${s.toFixed(1)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  return `${Math.floor(s / 3600)} h ${Math.floor(s / 60 % 60)} min`;
}

/** A moment, in the reader's time zone. */
export function moment(ms) {
  const at = new Date(ms);
  const two = n => String(n).padStart(2, '0');
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}`;
}

export const plural = (n, one, many) => `${number(n)} ${n === 1 ? one : many || `${one}s`}`;

/** A button that copies a text. */
export function copyButton(text, label = 'Copy') {
  const button = el('button', { type: 'button', onclick: async () => {
    try {
      await navigator.clipboard.writeText(text());
      button.textContent = 'Copied ✓';
    } catch {
      button.textContent = 'Copying is not allowed';
    }
    announce(button.textContent);
    setTimeout(() => { button.textContent = label; }, 1500);
  } }, label);
  return button;
}
