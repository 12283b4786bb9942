// Levels and verdicts: chips, and the matrix of families and bounds.

import { el } from './dom.js';

export const SIGNS = { holds: '✓', violated: '✗', unknown: '?' };
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
  if (open) parts.push(['unknown', `? Unknown: ${open === 1 ? 'one level' : `${open} levels`}.`]);
  return parts.length ? parts : [['unknown', 'No level was decided.']];
}

/** The matrix of one result, with the rows and columns that reports have (`top` of crates/page). */
export function matrix({ columns, rows }) {
  const cell = found => {
    if (!found) return null;
    const count = found.anomalies.reduce((sum, [, n]) => sum + n, 0);
    const why = found.reason || found.anomalies.map(([name, n]) => `${name} ×${n}`).join(', ');
    const names = found.levels.join(', ');
    return el('a', { class: `cell ${found.verdict}`, href: `#/levels/${found.levels[0]}`, title: [names, why].filter(Boolean).join(': ') },
      `${SIGNS[found.verdict]}${found.verdict === 'violated' && count ? ` ${count}` : ''}${found.required ? ' req.' : ''}`,
      el('span', { class: 'hidden' }, ` ${names}: ${found.verdict}`));
  };
  return el('table', { class: 'matrix' },
    el('caption', { class: 'hidden' }, 'Levels and verdicts'),
    el('thead', {}, el('tr', {}, el('th', { scope: 'col' }, el('span', { class: 'hidden' }, 'level')),
      columns.map(title => el('th', { scope: 'col' }, title)))),
    el('tbody', {}, rows.map(row => el('tr', {}, el('th', { scope: 'row' }, row.name),
      row.cells.map(found => el('td', {}, cell(found)))))));
}

export const legend = () => el('p', { class: 'legend' }, '✓ holds · ✗ violated, with the number of anomalies · ? unknown');
