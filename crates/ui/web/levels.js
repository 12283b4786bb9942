// Levels and verdicts: chips, and the matrix of families and bounds.

import { el } from './dom.js';

export const SIGNS = { holds: '✓', violated: '✗', unknown: '?' };
const COLUMNS = [['Data', 'plain'], ['Session', 'in sessions'], ['RealTime', 'real time']];

/** The family of a level: its name without what binds it. */
export const family = name => name.replace(/^(strong-session|strong|strict)-/, '');
export const words = name => name.replaceAll('-', ' ');

/** A verdict as a sign and a word, so that colour is not needed. */
export function chip(verdict, text) {
  return el('span', { class: `chip ${verdict || 'none'}` }, verdict ? `${SIGNS[verdict]} ${text}` : text);
}

/** The worst of all verdicts. */
export function overall(verdicts) {
  const all = Object.values(verdicts || {});
  if (!all.length) return null;
  return all.includes('violated') ? 'violated' : all.includes('unknown') ? 'unknown' : 'holds';
}

/** Levels with a verdict that imply no other one with it. */
export function weakest(verdicts, wanted, lattice) {
  const names = lattice.levels.map(level => level.name).filter(name => verdicts[name] === wanted);
  const implies = name => lattice.levels.find(level => level.name === name).implies;
  return names.filter(name => !implies(name).some(other => names.includes(other)));
}

export function strongest(verdicts, lattice) {
  const held = lattice.levels.filter(level => verdicts[level.name] === 'holds');
  return held.filter(level => !held.some(other => other.implies.includes(level.name))).map(level => level.name);
}

/** What matters most, in order: the weakest levels that are violated, the strongest that hold. */
export function sentence(verdicts, lattice) {
  const broken = weakest(verdicts, 'violated', lattice);
  const open = Object.values(verdicts).filter(v => v === 'unknown').length;
  const held = strongest(verdicts, lattice);
  const parts = [];
  if (broken.length) parts.push(['violated', `✗ Violated: ${broken.map(words).join(', ')}.`]);
  if (held.length) parts.push(['holds', `✓ Holds: ${held.map(words).join(', ')}.`]);
  if (open) parts.push(['unknown', `? Undecided: ${open === 1 ? 'one level' : `${open} levels`}.`]);
  return parts.length ? parts : [['unknown', 'No level was decided.']];
}

/** A row per family, a column per bound; `cell` makes what is in a level's place. */
export function grid(lattice, caption, cell, heads = COLUMNS.map(([, title]) => title)) {
  const rows = new Map();
  for (const level of lattice.levels) {
    const key = family(level.name);
    if (!rows.has(key)) rows.set(key, {});
    rows.get(key)[level.bound] = level;
  }
  return el('table', { class: 'matrix' },
    el('caption', { class: 'hidden' }, caption),
    el('thead', {}, el('tr', {}, el('th', { scope: 'col' }, el('span', { class: 'hidden' }, 'level')),
      heads.map(title => el('th', { scope: 'col' }, title)))),
    el('tbody', {}, [...rows].map(([name, levels]) => el('tr', {}, el('th', { scope: 'row' }, words(name)),
      COLUMNS.map(([bound]) => el('td', {}, levels[bound] ? cell(levels[bound]) : null))))));
}

/** The matrix of one result. */
export function matrix(verdicts, lattice, counts = {}) {
  return grid(lattice, 'Levels and verdicts', level => {
    const verdict = verdicts[level.name];
    if (!verdict) return el('span', { class: 'dim' }, '–');
    const count = counts[level.name];
    return el('a', { class: `cell ${verdict}`, href: `#/levels/${level.name}`, title: `${level.name}: ${verdict}` },
    `${SIGNS[verdict]}${verdict === 'violated' && count ? ` ${count}` : ''}`, el('span', { class: 'hidden' }, ` ${level.name}: ${verdict}`));
  });
}

export const legend = () => el('p', { class: 'legend' }, '✓ holds · ✗ violated, with the number of anomalies · ? undecided · – not asked');
