// The lattice of levels as a picture: stronger above weaker, a line for each implication that follows from
// no others. Choosing a level explains it; choosing a second one shows what separates the two.

import { el, scroll, show, svg } from './dom.js';
import { lattice as levelsData } from './api.js';
import { words } from './levels.js';

const BOX = { width: 146, height: 42 };
const GAP = { x: 14, y: 34 };

/** Rows from the top: a level is just below the lowest of those that imply it. */
function ranks(levels) {
  const rank = new Map();
  const of = level => {
    if (!rank.has(level.name)) {
      const above = levels.filter(other => other.implies.includes(level.name));
      rank.set(level.name, above.length ? 1 + Math.max(...above.map(of)) : 0);
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

/**
 * Rows of boxes, with a bend in every row that a long line crosses (Sugiyama's method): in a row, boxes and
 * bends are ordered by the mean place of what they are connected to, so lines go around boxes.
 */
function layout(levels) {
  const rank = ranks(levels);
  const rows = [];
  // What sessions bind starts on the left, the rest on the right.
  const sorted = levels.slice().sort((a, b) => (a.bound === 'Data') - (b.bound === 'Data'));
  for (const level of sorted) (rows[rank.get(level.name)] ||= []).push(level.name);
  const links = [];
  const edges = direct(levels).map(([from, to]) => {
    const path = [from];
    for (let row = rank.get(from) + 1; row < rank.get(to); row += 1) {
      path.push(`${from}>${to}>${row}`);
      rows[row].push(path.at(-1));
    }
    path.push(to);
    for (let at = 1; at < path.length; at += 1) links.push([path[at - 1], path[at]]);
    return { from, to, path };
  });
  const size = name => name.includes('>') ? 18 : BOX.width + GAP.x;
  const x = new Map();
  const spread = row => {
    let at = -row.reduce((sum, name) => sum + size(name), 0) / 2;
    for (const name of row) {
      x.set(name, at + size(name) / 2);
      at += size(name);
    }
  };
  const mean = (name, side) => {
    const near = links.filter(link => link[side] === name).map(link => x.get(link[1 - side]));
    return near.length ? near.reduce((sum, one) => sum + one, 0) / near.length : x.get(name);
  };
  rows.forEach(spread);
  for (let turn = 0; turn < 16; turn += 1) {
    for (const row of turn % 2 ? rows.slice().reverse() : rows) {
      const place = new Map(row.map(name => [name, mean(name, turn % 2 ? 0 : 1)]));
      row.sort((a, b) => place.get(a) - place.get(b));
      spread(row);
    }
  }
  const half = Math.max(...rows.map(row => row.reduce((sum, name) => sum + size(name), 0))) / 2;
  const y = new Map(rows.flatMap((row, at) => row.map(name => [name, BOX.height / 2 + at * (BOX.height + GAP.y)])));
  const place = name => [x.get(name) + half, y.get(name)];
  return { edges, width: 2 * half, height: rows.length * (BOX.height + GAP.y) - GAP.y, place };
}

/** A line through its bends. */
function curve(path, place) {
  const [x, y] = place(path[0]);
  let d = `M${x} ${y + BOX.height / 2}`;
  let [beforeX, beforeY] = [x, y + BOX.height / 2];
  path.slice(1).forEach((name, at) => {
    const [nextX, centre] = place(name);
    const top = centre - BOX.height / 2;
    const middle = (beforeY + top) / 2;
    d += `C${beforeX} ${middle} ${nextX} ${middle} ${nextX} ${top}`;
    [beforeX, beforeY] = [nextX, top];
    if (at < path.length - 2) {
      d += `V${centre + BOX.height / 2}`;
      beforeY = centre + BOX.height / 2;
    }
  });
  return d;
}

/** A name in at most two lines. */
function lines(name) {
  const all = words(name);
  if (all.length <= 18) return [all];
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
    edges.map(({ from, to, path }) => svg('path', { class: `edge${one && near(from) && near(to) ? ' on' : ''}`, d: curve(path, place) })),
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
  const region = scroll('Lattice', picture);
  // Where the picture has no room, its rows are lists: the strongest on top, as in the picture.
  const rank = ranks(data.levels);
  const rows = [...new Set(rank.values())].sort((a, b) => a - b).map(row => data.levels.filter(level => rank.get(level.name) === row));
  const list = el('ol', { class: 'ranks', 'aria-label': 'Levels, the strongest first' }, rows.map(row => el('li', {}, row.map(level => el('button', {
    type: 'button', class: level === one ? 'one' : level === two ? 'two' : near(level.name) ? '' : 'far',
    'aria-pressed': String(level === one || level === two), onclick: event => choose(level.name, event.shiftKey || pairing.checked),
  }, `${level === one ? '1 ' : level === two ? '2 ' : ''}${words(level.name)}`)))));
  const side = one && two ? pair(one, two, data) : one ? about(one, data)
    : el('section', {}, el('h1', {}, 'Levels'), el('p', {}, 'A line leads from a level down to those that it implies. Choose a level to see its definition and examples; choose a second one, with Shift or with the box at the picture, to see a history that separates the two.'));
  show(root, el('div', { class: 'levels' }, el('div', {}, region, list,
    el('p', { class: 'row dim' }, el('label', { class: 'row', for: 'pairing' }, pairing, 'Choosing a level compares it with the first one'))), side));
  // On a narrow screen the picture is wider than its place: what was chosen is in sight.
  region.scrollLeft = (place(one?.name || 'causal')[0] / width) * region.scrollWidth - region.clientWidth / 2;
  return one ? words(one.name) : 'Levels';
}
