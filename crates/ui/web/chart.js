// Small line charts of what changes over time. Lines differ by dashes as well as by colour.

import { el, svg } from './dom.js';

const WIDTH = 320;
const HEIGHT = 100;
const LEFT = 2;

const short = n => n >= 1e9 ? `${(n / 1e9).toFixed(1)} G` : n >= 1e6 ? `${(n / 1e6).toFixed(1)} M`
  : n >= 1e4 ? `${(n / 1e3).toFixed(0)} k` : n >= 100 || Number.isInteger(n) ? Math.round(n).toLocaleString('en-US') : n.toFixed(1);

/** A round number that is not smaller. */
function ceiling(n) {
  if (n <= 0) return 1;
  const unit = 10 ** Math.floor(Math.log10(n));
  return [1, 2, 5, 10].map(factor => factor * unit).find(round => round >= n);
}

/**
 * A chart: `lines` are [name, [[x in ms, y] …]]. The text beside the name is the last value. A single line is
 * named if its name says more than the title.
 */
export function chart(title, lines, format = short, named = lines.length > 1) {
  const all = lines.flatMap(([, points]) => points);
  const lastX = Math.max(1000, ...all.map(([x]) => x));
  const top = ceiling(Math.max(0, ...all.map(([, y]) => y)));
  const x = ms => LEFT + ms / lastX * (WIDTH - LEFT - 4);
  const y = value => HEIGHT - 2 - value / top * (HEIGHT - 4);
  const path = points => points.map(([a, b], i) => `${i ? 'L' : 'M'}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join('');
  const latest = points => points.length ? format(points.at(-1)[1]) : '–';
  const said = lines.map(([name, points]) => `${name} ${latest(points)}`).join(', ');
  return el('figure', { class: 'chart' },
    el('figcaption', {}, el('b', {}, title), lines.map(([name, points], at) => el('span', { class: 'key' },
      named ? svg('svg', { viewBox: '0 0 22 8', 'aria-hidden': 'true' }, svg('line', { class: `s${at % 4}`, x1: 0, x2: 22, y1: 4, y2: 4 })) : null,
      `${named ? `${name} ` : ''}${latest(points)}`))),
    svg('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': `${title}: ${said}` },
      [0, top / 2, top].map(value => svg('line', { class: 'axis', x1: LEFT, x2: WIDTH, y1: y(value), y2: y(value) })),
      lines.map(([, points], at) => svg('path', { class: `s${at % 4}`, d: path(points) }))),
    el('span', { class: 'top', 'aria-hidden': 'true' }, format(top)),
    el('div', { class: 'ends' }, el('span', {}, '0'), el('span', {}, `${(lastX / 1000).toFixed(0)} s`)));
}

/** Points of a field of samples. */
export const series = (samples, field) => samples.filter(sample => typeof sample[field] === 'number')
  .map(sample => [sample.at_ms, sample[field]]);
