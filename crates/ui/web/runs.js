// The list of runs and histories: verdicts, filters, search.

import { el, show, bytes, moment, number, plural } from './dom.js';
import { get, post, lattice, aboutServer } from './api.js';
import { chip, overall, weakest, strongest, words, SIGNS } from './levels.js';
import { plainName } from './results.js';
import { dropArea } from './drop.js';

/** What was chosen survives going to a run and back. */
const chosen = { search: '', database: '', level: '', verdict: '', since: '' };
const marked = new Set();

export const databaseOf = item => item.run_target?.split(/[,(]/)[0].trim() || (item.kind === 'run' ? 'unknown' : '');
const startedOf = item => {
  const parts = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(item.run_started || '');
  return parts ? Date.UTC(parts[1], parts[2] - 1, parts[3], parts[4], parts[5], parts[6]) : item.modified_ms;
};
export const titleOf = item => item.run_target
  ? `${item.run_target}${item.run_workload ? ` · ${item.run_workload}` : ''}` : item.name || '(no name)';

function verdictOf(item) {
  if (item.isolations) return chosen.level ? null : overall(Object.fromEntries(item.isolations.map(one => [one.isolation, one.verdict])));
  if (!item.verdicts) return null;
  return chosen.level ? item.verdicts[chosen.level] || null : overall(item.verdicts);
}

function matches(item) {
  const text = [item.name, item.path, item.format, item.run_target, item.run_workload,
    ...(item.anomalies || []).flatMap(anomaly => [anomaly.kind, anomaly.code])].join(' ').toLowerCase();
  const words = chosen.search.toLowerCase().split(/\s+/).filter(Boolean);
  return words.every(word => text.includes(word))
    && (!chosen.database || databaseOf(item) === chosen.database)
    && (!chosen.verdict || (verdictOf(item) || 'none') === chosen.verdict)
    && (!chosen.since || startedOf(item) >= new Date(`${chosen.since}T00:00`).getTime());
}

/** What is known about an item, in chips. */
export function verdictChips(item, data) {
  if (item.isolations) {
    const shown = item.isolations.slice(0, 4).map(one => chip(one.verdict in SIGNS ? one.verdict : 'unknown', `${one.isolation.toLowerCase()} ${one.verdict}`));
    return item.isolations.length > 4 ? [...shown, el('span', { class: 'sub' }, `and ${item.isolations.length - 4} more`)] : shown;
  }
  if (!item.verdicts) return chip(null, 'not checked');
  if (chosen.level) {
    const verdict = item.verdicts[chosen.level];
    return verdict ? chip(verdict, `${words(chosen.level)} ${verdict}`) : chip(null, `${words(chosen.level)} not decided`);
  }
  const found = [];
  if (item.claim) {
    const kept = item.claim.verdict === 'holds';
    found.push(chip(item.claim.verdict in SIGNS ? item.claim.verdict : 'unknown',
      kept ? `keeps ${words(item.claim.level)}, as documented` : `documented: ${words(item.claim.level)} ${item.claim.verdict}`));
  }
  const broken = weakest(item.verdicts, 'violated', data);
  const unknown = Object.values(item.verdicts).filter(v => v === 'unknown').length;
  if (broken.length) found.push(chip('violated', `${words(broken[0])}${broken.length > 1 ? ` and ${broken.length - 1} more` : ''} violated`));
  else if (unknown) found.push(chip('unknown', `${plural(unknown, 'level')} unknown`));
  else found.push(chip('holds', 'all levels hold'));
  const held = strongest(item.verdicts, data);
  if ((broken.length || unknown) && held.length) found.push(chip('holds', `${words(held[0])} holds`));
  return found;
}

function row(item, data, changed) {
  const box = el('input', { type: 'checkbox', checked: marked.has(item.id), disabled: !item.verdicts,
    'aria-label': `Compare ${titleOf(item)}`,
    title: item.verdicts ? 'Mark two to compare them' : item.kind === 'sql' ? 'Runs of sql cannot be compared' : 'Check it first, to compare it',
    onchange: () => { if (box.checked) marked.add(item.id); else marked.delete(item.id); changed(); } });
  const anomalies = (item.anomalies || []).slice(0, 3).map(a => `${plainName(data, a.kind)} ×${number(a.count)}`);
  const about = item.run_target
    ? `${plural((item.run_committed || 0) + (item.run_aborted || 0) + (item.run_indeterminate || 0), 'transaction')}, ${number(item.run_aborted)} aborted · ${item.name}`
    : `${item.kind === 'dropped' ? 'dropped here' : item.folder} · ${item.format || 'unknown format'} · ${bytes(item.size)}`;
  return el('li', { 'data-id': item.id }, box,
    el('div', {}, el('a', { class: 'name', href: `#/run/${item.id}` }, titleOf(item)), el('div', { class: 'sub' }, about)),
    el('div', { class: 'verdict' }, verdictChips(item, data),
      item.verdicts || item.kind === 'sql' ? null : el('button', { type: 'button', onclick: event => check(event.target, item) }, 'Check'),
      anomalies.length ? el('span', { class: 'sub' }, anomalies.join(', ')) : null),
    el('div', { class: 'when' }, moment(startedOf(item))));
}

async function check(button, item) {
  button.disabled = true;
  try {
    const job = await post(`items/${item.id}/check`);
    location.hash = `#/job/${job.id}`;
  } catch (error) {
    button.after(el('span', { class: 'error', role: 'alert' }, error.message));
    button.disabled = false;
  }
}

function select(label, name, options, changed) {
  return el('label', {}, label, el('select', { name, onchange: event => { chosen[name] = event.target.value; changed(); } },
    options.map(([value, text]) => el('option', { value, selected: value === chosen[name] }, text))));
}

export async function runsPage(root, _rest, signal) {
  const [data, about] = await Promise.all([lattice(), aboutServer()]);
  let items = [];
  const list = el('ul', { class: 'list', 'aria-label': 'Runs and histories' });
  const count = el('p', { class: 'dim', role: 'status' });
  const bar = el('div');
  const filters = el('form', { class: 'filters', onsubmit: event => event.preventDefault() });

  const draw = () => {
    const found = items.filter(matches);
    show(list, found.map(item => row(item, data, drawBar)));
    list.hidden = !found.length;
    count.textContent = items.length
      ? `${plural(found.length, 'entry', 'entries')}${found.length < items.length ? ` of ${number(items.length)}` : ''}` : '';
    drawBar();
  };
  const drawBar = () => {
    for (const id of marked) if (!items.some(item => item.id === id)) marked.delete(id);
    const [one, two] = marked;
    show(bar, marked.size === 0 ? null : el('div', { class: 'comparebar' },
      el('span', {}, marked.size === 2 ? 'Two are marked.' : marked.size === 1 ? 'Mark one more to compare.' : 'Mark two only.'),
      el('span', { class: 'grow' }),
      el('button', { type: 'button', onclick: () => { marked.clear(); draw(); } }, 'Unmark'),
      el('button', { type: 'button', class: 'primary', disabled: marked.size !== 2,
        onclick: () => { location.hash = `#/compare/${one}/${two}`; } }, 'Compare')));
  };
  const drawFilters = () => {
    const databases = [...new Set(items.map(databaseOf).filter(Boolean))].sort();
    show(filters,
      el('label', {}, 'Search', el('input', { type: 'search', value: chosen.search, placeholder: 'name, database, anomaly …',
        oninput: event => { chosen.search = event.target.value; draw(); } })),
      select('Database', 'database', [['', 'any'], ...databases.map(name => [name, name])], draw),
      select('Level', 'level', [['', 'any'], ...data.levels.map(level => [level.name, words(level.name)])], draw),
      select('Verdict', 'verdict', [['', 'any'], ['violated', '✗ violated'], ['holds', '✓ holds'], ['unknown', '? unknown'],
        ['none', 'not checked']], draw),
      el('label', {}, 'Since', el('input', { type: 'date', value: chosen.since,
        onchange: event => { chosen.since = event.target.value; draw(); } })));
  };

  show(root, el('div', { class: 'row' }, el('h1', { class: 'grow' }, 'Runs and histories'),
    el('a', { class: 'button', href: '#/start/test' }, 'Test a database')),
  el('p', { class: 'dim' }, `Found in: ${about.folders.join(', ')}`), dropArea(about), filters, count, list, bar);
  const answer = await get('items', signal);
  items = answer.items;
  drawFilters();
  draw();
  if (!items.length) {
    list.after(el('div', { class: 'panel empty' }, el('p', {}, 'No run and no history is here yet.'),
      el('p', {}, el('a', { href: '#/start/test' }, 'Test a simulated store'), ' takes two seconds; or drop a history above.')));
  }
  if (!answer.complete) count.append(' · the folders hold more than is shown');
  return 'Runs';
}
