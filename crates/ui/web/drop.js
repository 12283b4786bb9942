// Files that are dropped or chosen: sent in parts, with progress and cancel, then checked.

import { el, show, bytes, announce } from './dom.js';
import { aboutServer, post, put } from './api.js';

let area = null;

/** Sends a file and starts its check; answers with where to go. */
async function send(file, about, signal, progress) {
  if (file.size > about.upload) {
    throw new Error(`${bytes(file.size)} is more than the limit of ${bytes(about.upload)}. Put the file into ${about.folders[0]} instead: it is then read from disk.`);
  }
  const { id } = await post('uploads', { name: file.name, size: file.size }, signal);
  try {
    for (let at = 0; at < file.size; at += about.part) {
      await put(`uploads/${id}?offset=${at}`, file.slice(at, at + about.part), signal);
      progress(Math.min(at + about.part, file.size) / file.size);
    }
    return await post(`uploads/${id}/check`, {}, signal);
  } catch (error) {
    post(`uploads/${id}/cancel`).catch(() => {});
    throw error;
  }
}

/** Sends files, one after the other, and shows the last one's check. */
async function take(files) {
  if (!files.length) return;
  if (!document.body.contains(area)) location.hash = '#/';
  const about = await aboutServer();
  const status = document.getElementById('drop-status') || el('div');
  const stop = new AbortController();
  let job = null;
  try {
    for (const file of files) {
      const bar = el('progress', { max: 1, value: 0, 'aria-label': `Sending ${file.name}` });
      show(status, el('p', {}, `Sending ${file.name}, ${bytes(file.size)}`), bar,
        el('button', { type: 'button', id: 'cancel-upload', onclick: () => stop.abort() }, 'Cancel'));
      announce(`sending ${file.name}`);
      ({ job } = await send(file, about, stop.signal, part => { bar.value = part; }));
    }
    show(status);
    if (job) location.hash = `#/job/${job.id}`;
  } catch (error) {
    const why = error.name === 'AbortError' ? 'Cancelled.' : error.message;
    show(status, el('p', { class: error.name === 'AbortError' ? 'dim' : 'error', role: 'alert' }, why));
  }
}

/** The place on the page for dropping and choosing. */
export function dropArea(about) {
  const input = el('input', { type: 'file', multiple: true, class: 'hidden', tabindex: -1, 'aria-hidden': 'true',
    onchange: () => { take([...input.files]); input.value = ''; } });
  area = el('section', { class: 'droparea', 'aria-label': 'Check a file' },
    el('p', { class: 'grow' }, el('b', {}, 'Drop a history anywhere'), ' to get its verdict. ',
      el('span', { class: 'dim' }, `Ten formats, gzip and zstd, up to ${bytes(about.upload)}; it does not leave this machine.`)),
    el('button', { type: 'button', id: 'choose', onclick: () => input.click() }, 'Choose a file'), input,
    el('div', { id: 'drop-status' }));
  return area;
}

/** Lets files be dropped on any page. */
export function installDrop() {
  const veil = document.getElementById('veil');
  const hasFiles = event => [...event.dataTransfer?.types || []].includes('Files');
  let depth = 0;
  document.addEventListener('dragenter', event => {
    if (!hasFiles(event)) return;
    depth += 1;
    veil.hidden = false;
  });
  document.addEventListener('dragleave', event => {
    if (!hasFiles(event)) return;
    depth -= 1;
    if (depth <= 0) { depth = 0; veil.hidden = true; }
  });
  document.addEventListener('dragover', event => { if (hasFiles(event)) event.preventDefault(); });
  document.addEventListener('drop', event => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    depth = 0;
    veil.hidden = true;
    take([...event.dataTransfer.files]);
  });
}
