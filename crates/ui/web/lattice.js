// The lattice of levels as a picture: stronger above weaker, a line for each implication that follows from
// no others. Choosing a level explains it; choosing a second one shows what separates the two.

import { el, show, svg } from './dom.js';
import { lattice as levelsData } from './api.js';
import { words } from './levels.js';

const BOX = { width: 158, height: 38 };
const GAP = { x: 14, y: 26 };

/** How far each level is above the bottom: the longest chain of implications. */
function ranks(levels) {
  const rank = new Map();
  const of = level => {
    if (!rank.has(level.name)) {
      rank.set(level.name, 0);
      const below = levels.filter(other => level.implies.includes(other.name));
      rank.set(level.name, below.length ? 1 + Math.max(...below.map(of)) : 0);
    }
    return rank.get(level.name);
  };
  levels.forEach(of);
  return rank;
}

/** Implications that follow from no two others. */
function direct(levels) {
  const of = Object.fromEntries(levels.map(level => [level.name, level.implies]));
  return levels.flatMap(level => level.implies
    .filter(name => !level.implies.some(middle => middle !== name && of[middle].includes(name)))
    .map(name => [level.name, name]));
}

/** Where boxes are: rows by rank, in a row by the mean place of what they are connected to. */
function layout(levels) {
  const rank = ranks(levels);
  const edges = direct(levels);
  const rows = [];
  for (const level of levels) (rows[rank.get(level.name)] ||= []).push(level.name);
  const width = Math.max(...rows.map(row => row.length)) * (BOX.width + GAP.x) - GAP.x;
  const x = new Map();
  const spread = row => row.forEach((name, at) => x.set(name, (at + 0.5) * width / row.length));
  rows.forEach(spread);
  const mean = name => {
    const near = edges.filter(edge => edge.includes(name)).map(([a, b]) => x.get(a === name ? b : a));
    return near.reduce((sum, one) => sum + one, 0) / (near.length || 1);
  };
  for (let turn = 0; turn < 12; turn += 1) {
    for (const row of turn % 2 ? rows.slice().reverse() : rows) {
      row.sort((a, b) => mean(a) - mean(b));
      spread(row);
    }
  }
  const height = rows.length * (BOX.height + GAP.y) - GAP.y;
  const y = name => height - BOX.height / 2 - rank.get(name) * (BOX.height + GAP.y);
  return { edges, width, height, place: name => [x.get(name), y(name)] };
}

/** A name in at most two lines. */
function lines(name) {
  const all = words(name);
  if (all.length <= 20) return [all];
  const parts = all.split(' ');
  const split = parts.map((_, at) => [parts.slice(0, at).join(' '), parts.slice(at).join(' ')])
    .sort((a, b) => Math.max(a[0].length, a[1].length) - Math.max(b[0].length, b[1].length));
  return split[0].filter(Boolean);
}

/** A small history in the notation `w(x,1); r(x,1) || r(x,0)`, a column per session. */
export function historyView(text) {
  let n = 0;
  return el('div', { class: 'history', tabindex: 0, role: 'group', 'aria-label': `History ${text}` }, text.split('||').map((session, at) => el('div', {}, el('h4', {}, `session ${at + 1}`),
    session.split(';').map(txn => {
      n += 1;
      const [operations, time] = txn.split('@');
      return el('div', { class: 'txn' }, el('small', {}, `T${n}  `), operations.trim().replace('!abort', '(aborted)').replace('!info', '(outcome unknown)'),
        time ? el('small', {}, `  at time ${time.trim()}`) : null);
    }))));
}

function about(level, data) {
  const by = data.levels.filter(other => other.implies.includes(level.name)).map(other => other.name);
  const links = names => names.length ? names.map((name, at) => [at ? ', ' : '', el('a', { href: `#/levels/${name}` }, words(name))]) : 'none';
  const example = (title, text) => [el('h3', {}, title), text ? historyView(text) : el('p', { class: 'dim' }, 'No example is known.')];
  return el('section', { 'aria-live': 'polite' }, el('h1', {}, words(level.name)),
    el('p', { class: 'dim' }, `${level.aliases.length ? `also ${level.aliases.join(', ')} · ` : ''}${level.source}`),
    el('p', {}, level.definition),
    example('A history that satisfies it', level.accepts), example('A history that violates it', level.rejects),
    el('p', { class: 'dim' }, '0 is the initial value of a key.'),
    el('dl', { class: 'facts' }, el('dt', {}, 'Bound by'), el('dd', {}, { Data: 'reads and writes only', Session: 'the order of each session', RealTime: 'real time' }[level.bound]),
      el('dt', {}, 'Implies'), el('dd', {}, links(level.implies)), el('dt', {}, 'Implied by'), el('dd', {}, links(by)),
      el('dt', {}, 'Forbids'), el('dd', {}, level.forbids.map(kind => kind.code).filter((code, at, all) => all.indexOf(code) === at).join(', '))));
}

function pair(one, two, data) {
  const separate = (a, b) => {
    const title = el('h3', {}, `Allowed by ${words(a.name)}, forbidden by ${words(b.name)}`);
    if (a.implies.includes(b.name)) return [title, el('p', { class: 'dim' }, `None: ${words(a.name)} implies ${words(b.name)}.`)];
    const history = data.separations[`${a.name} ${b.name}`];
    return [title, history ? historyView(history) : el('p', { class: 'dim' }, 'No example is known here. The two may differ only on histories with predicates.')];
  };
  const timed = [`${one.name} ${two.name}`, `${two.name} ${one.name}`].some(key => data.separations[key]?.includes('@'));
  return el('section', { 'aria-live': 'polite' }, el('h1', {}, `${words(one.name)} and ${words(two.name)}`),
    el('p', {}, one.implies.includes(two.name) ? `${words(one.name)} implies ${words(two.name)}.`
      : two.implies.includes(one.name) ? `${words(two.name)} implies ${words(one.name)}.` : 'Neither implies the other.'),
    separate(one, two), separate(two, one),
    timed ? el('p', { class: 'dim' }, 'Times: a transaction at time 1 ended before one at time 2 began; those at the same time overlap.') : null,
    el('p', {}, el('a', { href: `#/levels/${one.name}` }, words(one.name)), ' · ', el('a', { href: `#/levels/${two.name}` }, words(two.name)), ' · ',
      el('a', { href: '#/levels' }, 'all levels')));
}

export async function lattice(root, [first, second]) {
  const data = await levelsData();
  const find = name => data.levels.find(level => level.name === name);
  const [one, two] = [find(first), find(second)];
  const { edges, width, height, place } = layout(data.levels);
  const near = name => !one || name === one.name || name === two?.name || one.implies.includes(name) || find(name).implies.includes(one.name);
  const choose = (name, withSecond) => {
    if (one && withSecond && name !== one.name) location.hash = `#/levels/${one.name}/${name}`;
    else location.hash = `#/levels/${name}`;
  };
  const pairing = el('input', { type: 'checkbox', id: 'pairing', checked: Boolean(one && two) });
  const picture = svg('svg', { class: 'lattice', viewBox: `-4 -4 ${width + 8} ${height + 8}`, role: 'group', 'aria-label': 'The lattice of levels, the strongest on top' },
    edges.map(([a, b]) => {
      const [[x1, y1], [x2, y2]] = [place(a), place(b)];
      const on = one && near(a) && near(b);
      return svg('path', { class: `edge${on ? ' on' : ''}`, d: `M${x1} ${y1 + BOX.height / 2}L${x2} ${y2 - BOX.height / 2}` });
    }),
    data.levels.map(level => {
      const [x, y] = place(level.name);
      const role = level === one ? ' one' : level === two ? ' two' : near(level.name) ? '' : ' far';
      const text = lines(level.name);
      return svg('g', { class: `node${role}`, tabindex: 0, role: 'link', 'data-level': level.name, transform: `translate(${x} ${y})`,
        onclick: event => choose(level.name, event.shiftKey || pairing.checked),
        onkeydown: event => { if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); choose(level.name, event.shiftKey || pairing.checked); } } },
      svg('rect', { x: -BOX.width / 2, y: -BOX.height / 2, width: BOX.width, height: BOX.height, rx: 7 }),
      svg('text', { 'text-anchor': 'middle' }, text.map((line, at) => svg('tspan', { x: 0, y: (at - (text.length - 1) / 2) * 14 + 4 }, at ? line : `${line} `))),
      role === ' one' || role === ' two' ? svg('text', { class: 'badge', 'aria-hidden': 'true', x: -BOX.width / 2 + 6, y: -BOX.height / 2 + 12 }, role === ' one' ? '1' : '2') : null);
    }));
  const side = one && two ? pair(one, two, data) : one ? about(one, data)
    : el('section', {}, el('h1', {}, 'Levels'), el('p', {}, 'A line leads from a level down to those that it implies. Choose a level to see its definition and examples; choose a second one, with Shift or the box below, to see a history that separates the two.'));
  show(root, el('div', { class: 'levels' }, el('div', {}, picture,
    el('p', { class: 'row dim' }, el('label', { class: 'row', for: 'pairing' }, pairing, 'Choosing a level compares it with the first one'))), side));
  return one ? words(one.name) : 'Levels';
}
