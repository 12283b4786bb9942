// The frame of the application: pages by the hash of the address, keys, the theme.

import { el, show, announce } from './dom.js';
import { get } from './api.js';
import { installDrop } from './drop.js';
import { runsPage } from './runs.js';
import { runPage } from './run.js';
import { formPage } from './form.js';
import { jobPage, jobsPage } from './jobs.js';
import { watchPage } from './watch.js';
import { lattice as latticePage } from './lattice.js';
import { comparePage } from './compare.js';

const PAGES = [
  ['', 'Runs', 'r', runsPage],
  ['start', 'Start', 's', formPage],
  ['jobs', 'Commands', 'c', jobsPage],
  ['watch', 'Watch', 'w', watchPage],
  ['levels', 'Levels', 'l', latticePage],
];
const INNER = { run: runPage, job: jobPage, compare: comparePage };

const main = document.getElementById('main');
let leaving = new AbortController();
let first = true;

/** Shows the page that the address names. */
async function route() {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const [name, ...rest] = location.hash.replace(/^#\/?/, '').split('/').map(part => {
    try { return decodeURIComponent(part); } catch { return part; }
  });
  const page = PAGES.find(([path]) => path === name);
  const draw = page ? page[3] : INNER[name];
  const section = page ? page[0] : { run: '', compare: '', job: 'jobs' }[name];
  for (const link of document.querySelectorAll('#nav a')) {
    if (link.dataset.page === section) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  const root = el('div', { class: 'page' });
  if (!draw) {
    show(main, el('h1', {}, 'There is no such page'), el('p', {}, el('a', { href: '#/' }, 'Runs')));
    return;
  }
  show(main, root);
  try {
    const title = await draw(root, rest, signal);
    document.title = title ? `${title} · Anomalist` : 'Anomalist';
  } catch (error) {
    if (signal.aborted) return;
    root.append(el('p', { class: 'error', role: 'alert' }, error.message));
  }
  if (signal.aborted) return;
  if (!first) {
    main.focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }
  first = false;
}

function drawTheme() {
  const button = document.getElementById('theme');
  const chosen = document.documentElement.dataset.theme;
  const dark = chosen ? chosen === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  button.textContent = dark ? '☀ Light' : '☾ Dark';
  button.setAttribute('aria-label', dark ? 'Use the light theme' : 'Use the dark theme');
  return dark;
}

function turnTheme() {
  const theme = drawTheme() ? 'light' : 'dark';
  document.documentElement.dataset.theme = theme;
  try { localStorage.setItem('anomalist-theme', theme); } catch { /* It lasts until the page is left. */ }
  drawTheme();
  announce(`${theme} theme`);
}

const KEYS = [
  ...PAGES.map(([path, title, key]) => [key, title, () => { location.hash = `#/${path}`; }]),
  ['o', 'Choose a file to check', () => document.getElementById('choose')?.click()],
  ['/', 'Search', () => document.querySelector('input[type="search"]')?.focus()],
  ['j', 'Next row', () => step(1)],
  ['k', 'Row before', () => step(-1)],
  ['x', 'Mark the row for comparison', () => document.activeElement.closest('li')?.querySelector('input')?.click()],
  ['d', 'Dark or light', turnTheme],
  ['?', 'These keys', help],
];

/** Moves the focus along the rows of a list. */
function step(by) {
  const rows = [...document.querySelectorAll('.list a.name')];
  const at = rows.indexOf(document.activeElement.closest('li')?.querySelector('a.name'));
  rows[at < 0 ? 0 : Math.min(Math.max(at + by, 0), rows.length - 1)]?.focus();
}

function help() {
  const dialog = document.getElementById('keys');
  show(dialog, el('h1', { id: 'keys-title' }, 'Keys'),
    el('dl', { class: 'keys' }, KEYS.map(([key, what]) => [el('dt', {}, el('kbd', {}, key)), el('dd', {}, what)]),
      el('dt', {}, el('kbd', {}, 'Tab')), el('dd', {}, 'Everything else can be reached by Tab and Enter')),
    el('button', { type: 'button', onclick: () => dialog.close() }, 'Close'));
  dialog.showModal();
}

function pressed(event) {
  const typing = event.target.closest('input, select, textarea, dialog');
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const found = KEYS.find(([key]) => key === event.key);
  if (found) {
    event.preventDefault();
    found[2]();
  }
}

/** How many commands run, in the bar. */
async function countRunning() {
  const button = document.getElementById('running');
  const jobs = document.hidden ? null : await get('jobs').catch(() => null);
  if (jobs) {
    const n = jobs.filter(job => ['running', 'ending'].includes(job.status)).length;
    button.hidden = n === 0;
    button.textContent = `● ${n} running`;
  }
  setTimeout(countRunning, 3000);
}

show(document.getElementById('nav'), PAGES.map(([path, title]) =>
  el('a', { href: `#/${path}`, 'data-page': path }, title)));
document.getElementById('theme').addEventListener('click', turnTheme);
document.getElementById('help').addEventListener('click', help);
document.getElementById('running').addEventListener('click', () => { location.hash = '#/jobs'; });
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawTheme);
document.addEventListener('keydown', pressed);
window.addEventListener('hashchange', route);
drawTheme();
installDrop();
countRunning();
route();
