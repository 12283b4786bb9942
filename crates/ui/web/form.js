// Forms that start commands. The server says what a form stands for, and what is wrong with it.

import { el, show, copyButton, announce } from './dom.js';
import { aboutServer, get, post } from './api.js';
import { titleOf } from './runs.js';

const LABELS = { url: 'Database', txns: 'Transactions', 'txns-per-session': 'Transactions per session',
  'ops-per-txn': 'Operations per transaction', 'min-ops-per-txn': 'Least operations per transaction', output: 'File name',
  listen: 'Port for lines', http: 'Port for HTTP', metrics: 'Port for metrics', throwaway: 'Throw-away server' };
const label = name => LABELS[name] || name[0].toUpperCase() + name.slice(1).replaceAll('-', ' ');

/** What was typed survives leaving the page. */
const typed = {};

function control(command, field, items, changed) {
  const id = `field-${field.name}`;
  const values = typed[command];
  const described = `${id}-help`;
  const set = value => { values[field.name] = value; changed(); };
  if (field.kind === 'flag') {
    return el('div', { class: 'field flag' }, el('label', { for: id }, el('input', { id, type: 'checkbox', name: field.name,
      checked: Boolean(values[field.name]), 'aria-describedby': described, onchange: event => set(event.target.checked) }), label(field.name)),
    el('span', { class: 'help', id: described }, field.help));
  }
  const common = { id, name: field.name, value: values[field.name] ?? '', 'aria-describedby': described };
  const usual = field.default ? `usual: ${field.default}` : '';
  let input;
  if (['choice', 'command', 'history'].includes(field.kind)) {
    const options = field.kind === 'history' ? items.filter(item => item.kind !== 'sql').map(item => [item.id, titleOf(item)]) : field.choices.map(name => [name, name]);
    const none = field.default || (field.kind === 'command' ? 'choose' : 'none');
    input = el('select', { ...common, value: undefined, onchange: event => set(event.target.value) },
      el('option', { value: '' }, field.default ? `${none} (usual)` : none),
      options.map(([value, text]) => el('option', { value, selected: value === values[field.name] }, text)));
  } else {
    const list = field.choices.length ? `${id}-list` : undefined;
    input = el('input', { ...common, type: 'text', list, autocomplete: 'off', spellcheck: 'false', placeholder: usual,
      inputmode: ['number', 'port'].includes(field.kind) ? 'numeric' : undefined, oninput: event => set(event.target.value) });
    if (list) {
      return el('div', { class: 'field' }, el('label', { for: id }, label(field.name)), input,
        el('datalist', { id: list }, field.choices.map(value => el('option', { value }))), el('span', { class: 'help', id: described }, field.help));
    }
  }
  return el('div', { class: 'field' }, el('label', { for: id }, label(field.name)), input, el('span', { class: 'help', id: described }, field.help));
}

/** The form of a command, with the command line that it stands for. */
export function commandForm(form, items, signal) {
  typed[form.command] ||= form.command === 'test' ? { url: 'simulated:snapshot-isolation' } : {};
  const shown = el('pre', { tabindex: 0, role: 'region', 'aria-label': 'Equivalent command' }, `anomalist ${form.command} …`);
  const wrong = el('p', { class: 'dim', role: 'alert', hidden: true });
  const start = el('button', { type: 'submit', class: 'primary' }, `Start ${form.command}`);
  const mark = (field, message) => {
    for (const input of root.querySelectorAll('[aria-invalid]')) input.removeAttribute('aria-invalid');
    const input = field && root.querySelector(`[name="${CSS.escape(field)}"]`);
    if (input && touched) input.setAttribute('aria-invalid', 'true');
    wrong.hidden = !message;
    wrong.className = touched ? 'error' : 'dim';
    wrong.textContent = message ? `${field ? `${label(field)}: ` : ''}${message}` : '';
    return input;
  };
  const request = () => ({ command: form.command, fields: typed[form.command] });
  let asked = 0;
  let touched = false;
  const ask = async () => {
    const mine = ++asked;
    try {
      const answer = await post('command', request(), signal);
      if (mine !== asked) return;
      if (answer.shown) shown.textContent = answer.shown;
      mark(answer.field, answer.error);
    } catch (error) {
      if (mine === asked && !signal.aborted) mark(error.field, error.message);
    }
  };
  let timer = 0;
  const changed = () => { touched = true; clearTimeout(timer); timer = setTimeout(ask, 150); };
  const fields = advanced => form.fields.filter(field => field.advanced === advanced)
    .map(field => control(form.command, field, items, changed));
  const more = fields(true);
  const root = el('form', { novalidate: true, onsubmit: async event => {
    event.preventDefault();
    touched = true;
    start.disabled = true;
    try {
      const job = await post('jobs', request(), signal);
      location.hash = `#/job/${job.id}`;
    } catch (error) {
      mark(error.field, error.message)?.focus();
      announce(error.message);
    }
    start.disabled = false;
  } }, el('p', { class: 'dim' }, form.about), el('div', { class: 'form' }, fields(false),
    more.length ? el('details', { class: 'more' }, el('summary', {}, 'More settings'), el('div', { class: 'form' }, more)) : null),
  el('h2', {}, 'Equivalent command'), el('div', { class: 'command' }, shown, copyButton(() => shown.textContent)), wrong,
  el('div', { class: 'row' }, start));
  ask();
  return root;
}

export async function formPage(root, [wanted], signal) {
  const about = await aboutServer();
  const forms = about.forms.filter(form => form.command !== 'watch');
  const form = forms.find(one => one.command === wanted) || forms[0];
  const holder = el('div');
  show(root, el('h1', {}, 'Start'), el('nav', { class: 'tabs', 'aria-label': 'Commands' }, forms.map(one =>
    el('a', { href: `#/start/${one.command}`, 'aria-current': one === form ? 'page' : undefined }, one.command))), holder);
  const items = form.fields.some(field => field.kind === 'history') ? (await get('items', signal)).items : [];
  show(holder, commandForm(form, items, signal));
  return `Start ${form.command}`;
}
