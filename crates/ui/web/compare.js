// Two runs side by side: verdicts that differ, anomalies that only one has.

import { el, scroll, show, number } from './dom.js';
import { get, lattice } from './api.js';
import { SIGNS, words } from './levels.js';
import { anomalyCard, plainName, verdictsOf } from './results.js';
import { titleOf } from './runs.js';

function chooser(items, id, other, which) {
  return el('label', {}, `${which} `, el('select', { onchange: event => {
    location.hash = which === 'First' ? `#/compare/${event.target.value}/${other || ''}` : `#/compare/${other || ''}/${event.target.value}`;
  } }, el('option', { value: '' }, 'choose'), items.map(item => el('option', { value: item.id, selected: item.id === id },
    `${titleOf(item)} (${item.name})`))));
}

/** The verdict of several histories of one file is the worst. */
function worst(results) {
  const rank = ['holds', 'unknown', 'violated'];
  const all = {};
  for (const result of results) {
    for (const [level, verdict] of Object.entries(verdictsOf(result))) {
      if (rank.indexOf(verdict) >= rank.indexOf(all[level])) all[level] = verdict;
    }
  }
  return all;
}

const cell = verdict => el('td', {}, verdict ? el('span', { class: `cell ${verdict}` }, `${SIGNS[verdict]} ${verdict}`)
  : el('span', { class: 'dim' }, '– not decided'));

function table(data, verdicts, items) {
  return scroll('Verdicts', el('table', { class: 'matrix' }, el('caption', { class: 'hidden' }, 'Verdicts of two runs'),
    el('thead', {}, el('tr', {}, el('th', { scope: 'col' }, 'Level'), items.map((item, at) => el('th', { scope: 'col' }, `${at + 1}. ${titleOf(item)}`)),
      el('th', { scope: 'col' }, 'Difference'))),
    el('tbody', {}, data.levels.map(({ name }) => {
      const [one, two] = verdicts.map(all => all[name]);
      return el('tr', {}, el('th', { scope: 'row' }, words(name)), cell(one), cell(two),
        el('td', {}, one !== two ? el('b', { class: 'mark' }, '≠ differs') : el('span', { class: 'dim' }, 'same')));
    }))));
}

function anomalies(details) {
  const lists = details.map(item => item.results.flatMap(result => result.anomalies || []));
  const only = at => lists[at].filter(one => !lists[1 - at].some(other => other.kind === one.kind));
  const both = lists[0].filter(one => lists[1].some(other => other.kind === one.kind));
  return { only, both, count: (at, kind) => lists[at].filter(one => one.kind === kind).reduce((sum, one) => sum + one.count, 0) };
}

export async function comparePage(root, [first, second], signal) {
  const [data, { items }] = await Promise.all([lattice(), get('items', signal)]);
  const known = items.filter(item => item.verdicts);
  show(root, el('p', {}, el('a', { href: '#/' }, '← Runs')), el('h1', {}, 'Compare'),
    el('div', { class: 'filters' }, chooser(known, first, second, 'First'), chooser(known, second, first, 'Second')));
  if (!first || !second) {
    root.append(el('p', { class: 'dim' }, 'Choose two runs, or histories that were checked.'));
    return 'Compare';
  }
  const details = await Promise.all([first, second].map(id => get(`items/${id}`, signal)));
  if (details.some(item => !item.results)) {
    root.append(el('p', { class: 'error' }, 'One of them was not checked yet.'));
    return 'Compare';
  }
  const verdicts = details.map(item => worst(item.results));
  const differing = data.levels.filter(({ name }) => verdicts[0][name] !== verdicts[1][name]).length;
  const { only, both, count } = anomalies(details);
  const group = (title, list) => el('div', {}, el('h2', {}, title), list.length ? list : el('p', { class: 'dim' }, 'None.'));
  root.append(el('p', {}, el('b', {}, differing ? `The verdicts differ on ${differing} of ${data.levels.length} levels.` : 'The verdicts are the same on every level.')),
    table(data, verdicts, details),
    el('div', { class: 'charts' },
      group('Only in the first', only(0).map(anomaly => anomalyCard(anomaly, data))),
      group('Only in the second', only(1).map(anomaly => anomalyCard(anomaly, data)))),
    group('In both', [...new Set(both.map(anomaly => anomaly.kind))].map(kind => el('div', { class: 'card same' },
      el('b', {}, plainName(data, kind)), el('span', { class: 'dim' }, ` ×${number(count(0, kind))} and ×${number(count(1, kind))}`)))));
  return 'Compare';
}
