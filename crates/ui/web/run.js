// A run or a history: how it went, its verdicts, its report.

import { el, show, bytes, duration, moment, number } from './dom.js';
import { get, post, lattice, follow } from './api.js';
import { resultsView } from './results.js';
import { titleOf } from './runs.js';
import { progressView, reportFrame, sqlTable } from './jobs.js';

const fact = (name, value) => value === null || value === undefined || value === '' ? null
  : [el('dt', {}, name), el('dd', {}, value)];

function facts(item) {
  const run = item.run || {};
  const settings = Object.entries(run.settings || {}).filter(([, value]) => value !== null && value !== false && !(Array.isArray(value) && !value.length))
    .map(([name, value]) => `${name.replaceAll('_', ' ')} ${[].concat(value).join(', ')}`).join(' · ');
  const finished = (run.committed || 0) + (run.aborted || 0) + (run.indeterminate || 0);
  return el('dl', { class: 'facts' },
    fact('File', item.path && el('code', {}, item.path)),
    fact('Size', `${bytes(item.size)}${item.format ? `, ${item.format}` : ''}`),
    fact('Written', moment(item.modified_ms)),
    fact('Transactions', run.target ? `${number(run.committed)} of ${number(finished)} committed in ${duration(run.elapsed_ms)}, ${number(run.aborted)} aborted, ${number(run.indeterminate)} of unknown outcome${run.faults ? `, ${number(run.faults)} faults` : ''}` : null),
    fact('Aborts', Object.entries(run.causes || {}).map(([cause, n]) => `${cause} ×${number(n)}`).join(', ')),
    fact('In force', run.in_force),
    fact('Documented', run.claim ? `${run.claim.level}: ${run.claim.verdict}` : null),
    fact('Settings', settings),
    fact('Seed', run.seed === undefined ? null : String(run.seed)),
    run.says_little ? fact('Note', 'Fewer than a tenth of the transactions committed, so levels that hold say little.') : null,
    run.interrupted ? fact('Note', 'The run was interrupted.') : null);
}

/** A run of `sql`: it has no history, but its table and the page that it wrote. */
function sqlRun(root, item) {
  show(root, el('p', {}, el('a', { href: '#/' }, '← Runs')), el('h1', {}, titleOf(item)),
    Array.isArray(item.run?.levels) ? sqlTable(item.run) : el('p', { class: 'error' }, 'The result of this run cannot be read.'),
    el('h2', {}, 'Report'), reportFrame(null, `/kept/${item.id}`),
    el('h2', {}, 'About'), el('dl', { class: 'facts' }, fact('Folder', item.path && el('code', {}, item.path.replace(/\/[^/]*$/, ''))),
      fact('Written', moment(item.modified_ms)), fact('Seed', item.run?.seed === undefined ? null : String(item.run.seed))));
  return titleOf(item);
}

export async function runPage(root, [id], signal) {
  const [data, item] = await Promise.all([lattice(), get(`items/${id}`, signal)]);
  if (item.kind === 'sql') return sqlRun(root, item);
  const results = el('div');
  const report = el('div');
  const draw = found => show(results, found ? resultsView(found, data)
    : el('p', { class: 'dim' }, 'The verdicts are not known yet.'));
  const begin = async () => {
    const last = item.job;
    const job = last && ['running', 'ending', 'done'].includes(last.status) ? last : await post(`items/${id}/check`);
    await follow(job.id, signal, news => {
      if (['running', 'ending'].includes(news.status)) {
        show(report, el('h2', {}, 'Report'), progressView(news));
        return;
      }
      const found = news.document && [].concat(news.document);
      if (!item.results && found?.[0]?.levels) draw(found);
      show(report, el('h2', {}, 'Report'), news.report ? reportFrame(news)
        : el('div', {}, el('p', { class: 'error' }, 'It could not be checked.'), el('pre', { tabindex: 0 }, news.messages.join('\n'))));
    });
  };
  show(root, el('p', {}, el('a', { href: '#/' }, '← Runs')), el('h1', {}, titleOf(item)),
    el('div', { class: 'row' }, el('a', { class: 'button', href: `#/compare/${id}` }, 'Compare with …'),
      item.path ? el('span', { class: 'dim' }, 'Again: ', el('code', {}, `anomalist check ${item.path}`)) : null),
    results, report, el('h2', {}, 'About'), facts(item),
    item.log ? el('details', {}, el('summary', {}, 'Log'), el('pre', { tabindex: 0 }, item.log)) : null);
  draw(item.results);
  begin().catch(error => {
    if (!signal.aborted) show(report, el('p', { class: 'error', role: 'alert' }, error.message));
  });
  return titleOf(item);
}
