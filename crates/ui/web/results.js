// Results of a check: the sentence, the matrix, the anomalies.

import { el, number, plural } from './dom.js';
import { matrix, legend, sentence, words, SIGNS } from './levels.js';

/** Verdicts by level. */
export const verdictsOf = result => Object.fromEntries((result.levels || []).map(level => [level.level, level.verdict]));

/** The plain name of an anomaly, which is behind its code in parentheses. */
export function plainName(lattice, kind) {
  const title = lattice.anomalies[kind] || words(kind);
  return /\((.*)\)$/.exec(title)?.[1] || title;
}

const sameName = (a, b) => words(a).toLowerCase() === words(b).toLowerCase();

export function anomalyCard(anomaly, lattice, extra) {
  return el('div', { class: 'card' },
    el('b', {}, plainName(lattice, anomaly.kind)), ' ',
    // The code, where it is not the name again.
    el('span', { class: 'dim' }, `${sameName(plainName(lattice, anomaly.kind), anomaly.code || anomaly.kind) ? '' : `${anomaly.code || anomaly.kind} `}×${number(anomaly.count)}`),
    extra,
    anomaly.rules_out?.length ? el('div', { class: 'dim' }, `rules out ${anomaly.rules_out.map(words).join(', ')}`) : null,
    anomaly.explanation ? el('details', {}, el('summary', {}, 'Smallest example'),
      el('pre', { tabindex: 0 }, [].concat(anomaly.explanation).join('\n'))) : null);
}

/** Reasons of levels that could not be decided. */
function reasons(result) {
  const open = (result.levels || []).filter(level => level.verdict === 'unknown' && level.reason);
  if (!open.length) return null;
  return el('details', {}, el('summary', {}, `Why ${plural(open.length, 'level')} could not be decided`),
    el('ul', {}, open.map(level => el('li', {}, el('b', {}, words(level.level)), `: ${reasonText(level.reason)}`))));
}

const reasonText = reason => typeof reason === 'string' ? reason : reason.message || reason.text || JSON.stringify(reason);

/** One result in two columns. */
export function resultView(result, lattice, title) {
  const verdicts = verdictsOf(result);
  const { history } = result;
  return el('section', {},
    title ? el('h2', {}, title) : null,
    el('p', { class: 'verdict-sentence' }, result.top ? el('span', { class: `as-${result.top.outcome}` }, `${SIGNS[result.top.outcome]} ${result.top.sentence}`)
      : sentence(verdicts, lattice).map(([verdict, text]) => el('span', { class: `as-${verdict}` }, text, ' '))),
    history ? el('p', { class: 'dim' }, [
      history.format, plural(history.sessions, 'session'),
      `${plural(history.transactions, 'transaction')}${history.aborted ? ` (${number(history.aborted)} aborted)` : ''}`,
      plural(history.operations, 'operation'), plural(history.keys, 'key'),
    ].join(' · ')) : null,
    el('div', { class: 'columns' },
      el('div', {}, el('h2', {}, 'Levels'), result.top ? [matrix(result.top), legend()] : el('p', { class: 'dim' }, 'The levels of this result are not known here.'), reasons(result)),
      el('div', {}, el('h2', {}, 'Anomalies'),
        (result.anomalies || []).length
          ? result.anomalies.map(anomaly => anomalyCard(anomaly, lattice))
          : el('p', { class: 'dim' }, 'None was found.'))));
}

/** All results of an item: one, or one per key of an independent history. */
export function resultsView(results, lattice) {
  const most = 20;
  const many = results.length > 1;
  return [
    results.slice(0, most).map((result, at) => resultView(result, lattice,
      many ? result.history?.path || `History ${at + 1}` : null)),
    results.length > most ? el('p', { class: 'dim' }, `${results.length - most} more histories in this file.`) : null,
  ];
}
