// The dashboard of `watch`: what arrives, what it costs, what is violated, over time.

import { el, scroll, show, bytes, duration, number, plural } from './dom.js';
import { aboutServer, get } from './api.js';
import { chart, series } from './chart.js';
import { commandForm } from './form.js';
import { chip } from './levels.js';
import { statusChip } from './jobs.js';

const tile = (value, name) => el('div', { class: 'tile' }, el('b', {}, value), el('span', {}, name));
const sum = counts => Object.values(counts || {}).reduce((a, b) => a + b, 0);

/** Charts, groups and events of a watch. */
export function drawWatch(job) {
  const samples = job.samples.filter(sample => typeof sample.rate === 'number');
  const last = samples.at(-1) || {};
  const { groups = [], beyond = 0, recent = [], summary } = job.tally || {};
  const codes = Object.keys(last.standing || {}).filter(code => samples.some(sample => sample.standing[code] > 0));
  const verdict = summary?.verdict;
  return el('div', {},
    verdict ? el('p', {}, chip(verdict, `${summary.level.replaceAll('-', ' ')} ${verdict}`),
      summary.reason ? el('span', { class: 'dim' }, ` ${summary.reason}`) : null) : null,
    el('div', { class: 'tiles' }, tile(number(last.transactions), 'transactions'), tile(number(Math.round(last.rate || 0)), 'per second'),
      tile(duration(last.lag_ms || 0), 'until settled'), tile(bytes(last.memory || 0), 'memory'), tile(bytes(last.disk || 0), 'on disk'),
      tile(number(last.flip_flops || 0), 'verdicts that changed'), tile(number(sum(last.standing)), 'violations'), tile(number(last.errors || 0), 'errors of the stream')),
    el('div', { class: 'charts' }, chart('Throughput, transactions per second', [['rate', series(samples, 'rate')]]),
      chart('Time until verdicts are settled', [['lag', series(samples, 'lag_ms')]], duration),
      chart('Memory and disk', [['memory', series(samples, 'memory')], ['disk', series(samples, 'disk')]], bytes),
      chart('Verdicts that changed (flip-flops)', [['flip-flops', series(samples, 'flip_flops')]]),
      chart('Violations by class', codes.length ? codes.map(code => [code, samples.map(s => [s.at_ms, s.standing[code] || 0])])
        : [['violations', samples.map(s => [s.at_ms, 0])]], undefined, codes.length > 0)),
    el('h2', {}, 'Violations by class and key'),
    groups.length ? scroll('Violations', el('table', {}, el('thead', {}, el('tr', {}, el('th', { scope: 'col' }, 'Class'), el('th', { scope: 'col' }, 'Key'),
      el('th', { scope: 'col', class: 'num' }, 'Count'), el('th', { scope: 'col', class: 'num' }, 'First'), el('th', { scope: 'col', class: 'num' }, 'Last'))),
    el('tbody', {}, groups.slice(0, 50).map(group => el('tr', {}, el('th', { scope: 'row' }, group.code), el('td', { class: 'mono' }, group.key || '–'),
      el('td', { class: 'num' }, number(group.count)), el('td', { class: 'num' }, duration(group.first_ms)), el('td', { class: 'num' }, duration(group.last_ms)))))))
      : el('p', { class: 'dim' }, 'None so far.'),
    groups.length > 50 || beyond ? el('p', { class: 'dim' }, `${plural(groups.length - Math.min(groups.length, 50), 'more group')}${beyond ? `, and ${number(beyond)} violations under further keys` : ''}.`) : null,
    recent.length ? el('details', {}, el('summary', {}, `Last ${plural(recent.length, 'event')}`),
      el('pre', { tabindex: 0 }, recent.slice().reverse().map(({ at_ms: at, event }) => `${duration(at).padStart(9)}  ${said(event)}`).join('\n'))) : null);
}

function said(event) {
  if (event.event === 'error') return `error ${event.kind} ${event.source}:${event.line} ${event.message}`;
  const parts = [event.event, event.code, `transaction ${event.transaction}`];
  if (event.key !== undefined) parts.push(`key ${event.key}`);
  if (event.read !== undefined) parts.push(`read ${event.read}`);
  if (event.expected !== undefined) parts.push(`expected ${event.expected}`);
  return parts.join(', ');
}

export async function watchPage(root, _rest, signal) {
  const [about, { items }, jobs] = await Promise.all([aboutServer(), get('items', signal), get('jobs', signal)]);
  const form = about.forms.find(one => one.command === 'watch');
  const watches = jobs.filter(job => job.command === 'watch');
  const timed = items.filter(item => item.kind !== 'run' && ['timekiller', 'anomalist'].includes(item.format));
  show(root, el('h1', {}, 'Watch'),
    watches.length ? el('section', {}, el('h2', {}, 'Dashboards'), el('ul', { class: 'list' }, watches.map(job => el('li', {},
      el('span', { class: 'dim' }, String(job.id)), el('div', {}, el('a', { class: 'name', href: `#/job/${job.id}` }, job.shown)),
      el('div', { class: 'verdict' }, statusChip(job)),
      el('div', { class: 'when' }, job.last?.transactions === undefined ? '' : plural(job.last.transactions, 'transaction')))))) : null,
    el('h2', {}, 'New'), commandForm(form, timed, signal));
  return 'Watch';
}
