// Requests to the server.

export class Refused extends Error {
  constructor(message, field, status) {
    super(message);
    this.field = field;
    this.status = status;
  }
}

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, { credentials: 'same-origin', ...options });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Refused('The application does not answer: is anomalist ui still running?', null, 0);
  }
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(body.error || `status ${response.status}`, body.field, response.status);
  return body;
}

export const get = (path, signal) => ask(`/api/${path}`, { signal });

export const post = (path, body = {}, signal) => ask(`/api/${path}`, {
  method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body), signal,
});

export const put = (path, bytes, signal) => ask(`/api/${path}`, {
  method: 'PUT', headers: { 'content-type': 'application/octet-stream' }, body: bytes, signal,
});

let about;
/** What the server is: version, folders, limits, forms. */
export const aboutServer = () => (about ||= get('about').catch(error => { about = undefined; throw error; }));

let levels;
/** The levels with their definitions. */
export const lattice = () => (levels ||= get('levels').catch(error => { levels = undefined; throw error; }));

/**
 * Follows a job until it ends or the page is left: `hear` gets the news, with all samples and messages so far.
 */
export async function follow(id, signal, hear) {
  let after = 0;
  let samples = [];
  let messages = [];
  for (;;) {
    const news = await get(`jobs/${id}?after=${after}`, signal);
    samples = samples.concat(news.samples);
    messages = messages.concat(news.messages).slice(-200);
    hear({ ...news, samples, messages });
    if (!['running', 'ending'].includes(news.status)) return;
    after = news.version;
    // News come in bursts: a page is drawn a few times a second.
    await new Promise(resolve => { setTimeout(resolve, 200); });
  }
}
