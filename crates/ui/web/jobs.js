// Commands that run or ran: live views, results, cancel.

import { el, scroll, show, duration, moment, number, plural, copyButton, announce } from './dom.js';
import { get, post, lattice, follow } from './api.js';
import { chart, series } from './chart.js';
import { resultsView } from './results.js';
import { SIGNS, chip, words } from './levels.js';
import { drawWatch } from './watch.js';

const RUNNING = ['running', 'ending'];
const EXITS = { 0: ['holds', 'done'], 1: ['violated', 'violated'], 2: ['unknown', 'unknown'] };

export function statusChip(job) {
  if (job.status === 'running') return chip(null, '● running');
  if (job.status === 'ending') return chip(null, '● ending');
  if (job.status === 'cancelled') return el('span', { class: 'chip unknown' }, '■ cancelled');
  if (job.status === 'failed') return chip('violated', `failed (${job.exit ?? 'killed'})`);
  const [verdict, text] = EXITS[job.exit] || ['unknown', `status ${job.exit}`];
  // What explore runs are tests of others: they fail, they violate no level.
  return chip(verdict, job.command === 'explore' && job.exit === 1 ? 'runs failed' : text);
}

/** How far it is, with a button to end it. */
export function progressView(job) {
  const last = job.samples?.at(-1) || job.last || {};
  const done = last.of_ms ? last.elapsed_ms / last.of_ms : last.of ? last.done / last.of : null;
  const what = last.what ? String(last.what) : job.command;
  const rest = done > 0.02 && done < 1 ? `, about ${duration((job.running_ms || 0) * (1 / done - 1))} left` : '';
  const cancel = el('button', { type: 'button', class: 'danger', onclick: async () => {
    announce('ending');
    await post(`jobs/${job.id}/cancel`).catch(() => {});
  } }, job.status === 'ending' ? 'End it now' : 'Cancel');
  const bar = el('progress', { 'aria-label': what, ...(done === null ? {} : { max: 1, value: Math.min(done, 1) }) });
  return el('div', { class: 'panel' }, el('div', { class: 'row' },
    el('span', { class: 'grow' }, job.status === 'ending' ? 'Ending …' : what,
      el('span', { class: 'dim' }, ` · ${duration(job.running_ms || 0)}${rest}`)), cancel), bar);
}

const tile = (value, name) => el('div', { class: 'tile' }, el('b', {}, value), el('span', {}, name));

/** What a command reports while it runs. */
function live(job) {
  const last = job.samples.at(-1);
  if (!last) return null;
  if (job.command === 'test') return liveTest(job, last);
  if (job.command === 'sql' && last.rounds !== undefined) {
    const found = Object.entries(last.found || {});
    return el('div', {}, el('p', {}, 'At ', el('b', {}, String(last.what))), el('div', { class: 'tiles' }, tile(number(last.rounds), 'rounds'),
      tile(number(last.statements), 'statements'), tile(number(last.failed), 'of them failed'),
      tile(number(found.reduce((sum, [, n]) => sum + n, 0)), 'anomalies so far')),
    found.length ? el('ul', {}, found.map(([name, n]) => el('li', {}, `${name} ×${number(n)}`))) : null,
    el('div', { class: 'charts' }, chart('Statements', [['statements', series(job.samples, 'statements')]]),
      chart('Anomalies so far', [['anomalies', job.samples.map(s => [s.at_ms, Object.values(s.found || {}).reduce((a, b) => a + b, 0)])]])));
  }
  if (job.command === 'explore' && last.done !== undefined) {
    return el('div', { class: 'tiles' }, tile(`${number(last.done)} of ${number(last.of)}`, 'runs'), tile(number(last.failed), 'failed'));
  }
  return null;
}

function liveTest(job, last) {
  const samples = job.samples.filter(sample => typeof sample.rate === 'number');
  const sample = samples.at(-1);
  if (!sample) return null;
  const { anomalies } = sample;
  return el('div', {},
    el('div', { class: 'tiles' }, tile(number(Math.round(sample.rate)), 'transactions per second'), tile(number(sample.done), 'transactions'),
      tile(number(sample.aborted), 'aborted'), tile(number(sample.unknown), 'of unknown outcome'),
      sample.faults ? tile(number(sample.faults), 'faults') : null,
      anomalies ? tile(plural(anomalies.length, 'kind'), 'of anomalies so far') : null),
    anomalies?.length ? el('p', {}, 'So far: ', anomalies.join(', ')) : null,
    el('div', { class: 'charts' }, chart('Transactions per second', [['rate', series(samples, 'rate')]]),
      chart('Transactions', [['ended', series(samples, 'done')], ['aborted', series(samples, 'aborted')], ['unknown', series(samples, 'unknown')]])),
    last.rate === undefined && RUNNING.includes(job.status) ? el('p', { class: 'dim' }, `Now: ${last.what}`) : null);
}

/** A page that a command wrote, where it can do no harm: without access to this one. */
export function reportFrame(job, address = `/report/${job.id}`) {
  return el('div', {}, el('p', { class: 'row' }, el('span', { class: 'grow dim' }, 'The page that --report writes.'),
    el('a', { class: 'button', href: address, target: '_blank', rel: 'noopener' }, 'Open it alone')),
  el('iframe', { class: 'report', src: address, sandbox: 'allow-scripts allow-downloads', allow: 'clipboard-write *', title: 'Report' }));
}

/** What a command answered. */
async function outcome(job, data) {
  const parts = [];
  const { document: answer } = job;
  if (job.status === 'failed' || answer?.error) {
    parts.push(el('p', { class: 'error', role: 'alert' }, answer?.error?.message || 'The command failed.'));
  }
  const items = ['test', 'sql', 'generate'].includes(job.command) ? (await get('items')).items : [];
  if (job.command === 'check' && answer && (Array.isArray(answer) ? answer[0] : answer)?.levels) {
    parts.push(...resultsView([].concat(answer), data).flat(2));
  }
  for (const run of job.command === 'test' ? answer?.runs || [] : []) {
    const item = items.find(one => one.path?.startsWith(`${run.folder}/`));
    parts.push(el('h2', {}, run.name), item ? el('p', {}, el('a', { href: `#/run/${item.id}` }, `Kept as ${item.name}`)) : null,
      ...resultsView([].concat(run.result), data).flat(2));
  }
  if (job.command === 'generate' && job.makes) {
    const item = items.find(one => one.path === job.makes);
    parts.push(item ? el('p', {}, 'Written: ', el('a', { href: `#/run/${item.id}` }, item.name))
      : el('p', { class: 'dim' }, 'No history was written.'));
  }
  if (job.command === 'sql' && answer?.levels) {
    const item = items.find(one => one.path?.startsWith(`${answer.folder}/`));
    parts.push(item ? el('p', {}, el('a', { href: `#/run/${item.id}` }, `Kept as ${item.name}`)) : null, sqlTable(answer));
  }
  if (job.command === 'explore' && answer?.failures) parts.push(exploreView(answer));
  if (job.report) parts.push(el('h2', {}, 'Report'), reportFrame(job));
  return parts;
}

export function sqlTable(answer) {
  return scroll('Isolation levels', el('table', {}, el('thead', {}, el('tr', {}, ['Isolation level', 'Means', 'Verdict', 'Transactions', 'Anomalies']
    .map(head => el('th', { scope: 'col' }, head)))),
  el('tbody', {}, answer.levels.map(level => el('tr', {}, el('th', { scope: 'row' }, level.isolation), el('td', {}, words(level.level || '–')),
    el('td', {}, chip(level.verdict in SIGNS ? level.verdict : 'unknown', level.verdict in SIGNS ? level.verdict : 'unknown')), el('td', {}, number(level.transactions)),
    el('td', {}, (level.anomalies || []).map(a => `${a.kind || a.name} ×${number(a.count)}`).join(', ') || 'none'))))));
}

function exploreView(answer) {
  const why = answer.explanation;
  return el('section', {}, el('p', {}, el('b', {}, answer.failures.length
    ? `${plural(answer.failures.length, 'run')} of ${number(answer.runs)} failed at ${words(answer.level)}.`
    : `None of ${plural(answer.runs, 'run')} failed at ${words(answer.level)}.`)),
  answer.failures.map(failure => el('div', { class: 'card' }, el('b', {}, `Run ${failure.run}`), el('span', { class: 'dim' }, ` seed ${failure.seed}`),
    el('pre', { tabindex: 0 }, failure.message))),
  why ? whyView(why) : null);
}

/** Why a run failed: the stale reads that it needs, and the level at which it does not fail. */
function whyView(why) {
  const stale = why.stale_reads || [];
  const by = txn => txn ? `by transaction ${txn.transaction} of ${txn.session ?? '?'}` : 'the initial value';
  const needed = !why.reproduced ? 'The same reads did not make it fail again: it also depends on something else, such as timing.'
    : stale.length ? `${plural(stale.length, 'stale read')} of ${number(why.stale_reads_of_the_run)} suffice${stale.length === 1 ? 's' : ''}:`
      : 'It also fails when every read returns the newest value: no stale read is needed, the transactions only have to overlap.';
  return el('section', {}, el('h2', {}, 'Why'), el('p', {}, needed),
    stale.map((read, at) => el('div', { class: 'card' },
      el('p', {}, `${at + 1}. Transaction ${read.reader?.transaction} of ${read.reader?.session ?? '?'} read ${read.key} = ${read.value ?? 'nothing'} (${by(read.source)}); the newest it could have read was ${read.newest_value ?? 'nothing'} (${by(read.newest)}).`),
      el('pre', { tabindex: 0 }, [['before', read.before], ['here', read.statement], ['after', read.after]]
        .filter(([, statement]) => statement).map(([where, statement]) => `${where.padEnd(7)}${statement}`).join('\n')))),
    why.anomalies?.length && stale.length ? el('p', {}, `What they form: ${why.anomalies.map(words).join(', ')}.`) : null,
    why.gone_at ? el('p', {}, `At ${words(why.gone_at.level)} none of ${plural(why.gone_at.runs, 'run')} failed.`) : null);
}

export async function jobPage(root, [id], signal) {
  const data = await lattice();
  const head = el('div');
  const body = el('div');
  const log = el('pre', { tabindex: 0 });
  const messages = el('details', { hidden: true }, el('summary', {}, 'Messages'), log);
  show(root, el('p', {}, el('a', { href: '#/jobs' }, '← Commands')), head, body, messages);
  let title = 'Command';
  const draw = async job => {
    title = job.command;
    messages.hidden = !job.messages.length;
    log.textContent = job.messages.join('\n');
    show(head, el('div', { class: 'row' }, el('h1', {}, job.command), statusChip(job),
      el('span', { class: 'dim' }, RUNNING.includes(job.status) ? '' : `after ${duration(job.after_ms)}`)),
    el('div', { class: 'command' }, el('pre', { tabindex: 0 }, job.shown), copyButton(() => job.shown)),
    job.item && !RUNNING.includes(job.status) ? el('p', {}, el('a', { href: `#/run/${job.item}` }, 'The page of this history →')) : null);
    if (job.command === 'watch') {
      show(body, RUNNING.includes(job.status) ? progressView(job) : null, drawWatch(job));
      return;
    }
    if (RUNNING.includes(job.status)) {
      show(body, progressView(job), live(job));
      return;
    }
    announce(`${job.command} ${job.status}`);
    const parts = await outcome(job, data);
    const samples = live(job);
    show(body, parts, samples ? el('section', {}, el('h2', {}, 'How it went'), samples) : null);
    if (job.status === 'failed') messages.open = true;
  };
  let last = Promise.resolve();
  await new Promise((resolve, reject) => {
    follow(id, signal, job => {
      last = draw(job).catch(error => body.append(el('p', { class: 'error', role: 'alert' }, error.message)));
      resolve();
    }).catch(error => { if (!signal.aborted) reject(error); });
  });
  await last;
  return title;
}

export async function jobsPage(root, _rest, signal) {
  const list = el('ul', { class: 'list', 'aria-label': 'Commands' });
  const none = el('div', { class: 'panel empty' }, 'No command was started yet. ', el('a', { href: '#/start/test' }, 'Start one'));
  show(root, el('div', { class: 'row' }, el('h1', { class: 'grow' }, 'Commands'), el('a', { class: 'button', href: '#/start/test' }, 'Start')), list, none);
  const draw = async () => {
    const jobs = await get('jobs', signal);
    const focused = document.activeElement?.closest?.('li')?.dataset.id;
    show(list, jobs.map(job => el('li', { 'data-id': job.id }, el('span', { class: 'dim' }, String(job.id)),
      el('div', {}, el('a', { class: 'name', href: `#/job/${job.id}` }, job.command), el('div', { class: 'sub mono' }, job.shown)),
      el('div', { class: 'verdict' }, statusChip(job), el('span', { class: 'sub' }, duration(job.after_ms ?? job.running_ms))),
      el('div', { class: 'when' }, moment(job.started_ms)))));
    if (focused) list.querySelector(`[data-id="${CSS.escape(focused)}"] a`)?.focus();
    list.hidden = !jobs.length;
    none.hidden = jobs.length > 0;
    if (jobs.some(job => RUNNING.includes(job.status))) {
      setTimeout(() => { if (!signal.aborted) draw().catch(() => {}); }, 1000);
    }
  };
  await draw();
  return 'Commands';
}
