// Puts the page together, and the keys.

let timeline;
let minimap;

function exampleSection() {
  const shown = example();
  if (!shown) return h("section", {}, h("h2", {}, "No contradiction"), h("p", {}, "Nothing to draw: no anomaly was found."));
  const all = examples();
  const folded = shown.witness.transactions.filter((t) => t.bystander).length;
  const drawing = h("div", { class: "drawing", id: "drawing" });
  const section = h("section", { class: "example" },
    h("div", { class: "bar" },
      h("h2", {}, anomaly().count > 1 ? "Smallest example" : "Example"),
      h("span", { class: "dim" }, `${titleOf(anomaly())}: ${counted(shown.witness.transactions.length - folded, "transaction")} of ${grouped(run().result.history.transactions)}`),
      h("span", { class: "space" }),
      all.length > 1 ? [h("button", { type: "button", "aria-label": "Previous example", onclick: () => go({ example: (state.example + all.length - 1) % all.length }) }, "‹"),
        h("span", {}, `${state.example + 1} of ${all.length}`),
        h("button", { type: "button", "aria-label": "Next example", onclick: () => go({ example: (state.example + 1) % all.length }) }, "›")] : null,
      folded ? h("button", { type: "button", id: "evidence", "aria-pressed": String(state.evidence), onclick: () => go({ evidence: !state.evidence }, true) },
        `Evidence (${folded})`) : null,
      copyMenu()),
    drawing);
  drawing.draw = () => {
    const { svg, types } = drawExample(Math.max(drawing.clientWidth, 300));
    set(drawing, svg, legend(types));
  };
  return section;
}

function runSection() {
  const { history: all } = run();
  if (!all) return null;
  timeline = new Timeline(all);
  minimap = new Minimap(timeline);
  timeline.onDraw = () => minimap.draw();
  filterRow = h("div", { class: "filters" });
  const left = all.count - all.carried;
  const axis = { clock: "time as the clients measured it", timestamps: "timestamps of the database: start and commit",
    place: "place in the session: the history has no times" }[all.axis];
  const about = `${counted(all.count, "transaction")} of ${counted(all.sessions.length, "session")}; ${axis}`;
  timeline.canvas.setAttribute("aria-label", `Timeline: ${about}. Search finds single transactions.`);
  minimap.canvas.setAttribute("aria-label", "The whole run: how many transactions began when, and where the examples are");
  const zoomBy = (label, text, act) => h("button", { type: "button", "aria-label": label, title: label, onclick: act }, text);
  return h("section", { class: "run", "aria-label": "The run" },
    h("div", { class: "bar" }, h("h2", {}, "The run"), h("span", { class: "dim" }, about), h("span", { class: "space" }), searchBox()),
    minimap.canvas,
    h("div", { class: "bar controls" }, filterRow, h("span", { class: "space" }),
      anomalies().length ? zoomBy("Show the example", "Example", revealExample) : null,
      zoomBy("Whole run", "Whole run", () => timeline.show(0, all.last)),
      all.sessions.length > MOST_LANES ? [zoomBy("Sessions above", "▲", () => timeline.scrollBy(-6)), zoomBy("Sessions below", "▼", () => timeline.scrollBy(6))] : null,
      zoomBy("Zoom in", "+", () => timeline.zoom(0.6)), zoomBy("Zoom out", "−", () => timeline.zoom(1.7))),
    timeline.canvas,
    h("p", { class: "legend" }, "Filled: committed. Hollow: aborted (low) or of unknown outcome. Drag to move; Ctrl and wheel, or a click and the wheel, to zoom.",
      left ? ` The operations of ${counted(left, "transaction")} are left out to keep this page small; those of the examples and their keys come first.` : ""),
    h("div", { id: "selected" }));
}

function revealExample() {
  const places = (example()?.witness.transactions || []).filter((t) => !t.bystander).map(placeOf).filter((t) => t !== undefined);
  timeline?.reveal(places);
}

/** Everything anew: another run. */
function build() {
  timeline = minimap = null;
  const focus = keepFocus();
  const app = document.getElementById("app");
  set(app, h("div", { id: "head" }), h("main", { id: "explorer" },
    h("div", { id: "runs" }), h("div", { class: "three" }, h("div", { class: "left", id: "left" }), h("div", { class: "middle", id: "middle" }), h("div", { class: "right", id: "right" })),
    h("div", { id: "run" })));
  set(document.getElementById("run"), runSection());
  if (timeline) showFilters();
  document.title = `${run().sentence} ${run().result.history.path}`;
  refresh(null);
  if (state.txn === null) revealExample();
  else timeline?.reveal([state.txn]);
  focus();
}

/** Shows the state; `before` is what was shown, null if nothing was. */
function refresh(before) {
  if (before && before.run !== state.run) return build();
  const changed = (...names) => !before || names.some((name) => before[name] !== state[name]);
  const at = (id) => document.getElementById(id);
  const focus = keepFocus();
  if (changed("run")) set(at("head"), header());
  if (changed("run")) set(at("runs"), runTable());
  if (changed("anomaly")) set(at("left"), ladder(), cards(), unseen());
  set(at("right"), steps());
  set(at("middle"), exampleSection(), keyPanel());
  at("drawing")?.draw();
  if (changed("txn") && timeline) set(at("selected"), transactionPanel());
  if (before && changed("anomaly", "example")) revealExample();
  timeline?.redraw();
  focus();
}

/** Remembers which control has the focus, and gives it back to the one that took its place. */
function keepFocus() {
  const now = document.activeElement;
  const parent = now?.closest?.("#left, #right, #middle, #selected, #head, #runs");
  if (!parent) return () => {};
  const all = () => [...(document.getElementById(parent.id)?.querySelectorAll("button, summary, [tabindex]") || [])];
  const place = all().indexOf(now);
  return () => (document.contains(now) ? null : all()[place]?.focus({ preventScroll: true }));
}

const KEYS = [
  ["← →", "previous and next sentence of the explanation"], ["n p", "next and previous anomaly"], ["e", "expand: what forces the step, and the refuted alternative"],
  ["v", "show the transactions that only give evidence"], ["w s", "zoom in and out"], ["a d", "move left and right"], ["+ −", "zoom in and out"], ["[ ]", "sessions above and below"],
  ["0", "the whole run"], ["x", "the example on the timeline"], ["/", "search"], ["t", "light or dark"], ["Esc", "close"], ["?", "this list"],
];

let help;

function openHelp() {
  help ||= document.body.appendChild(h("dialog", { "aria-label": "Keys" }, h("h2", {}, "Keys"),
    h("table", {}, h("tbody", {}, KEYS.map(([keys, what]) => h("tr", {}, h("td", {}, keys.split(" ").map((k) => [h("kbd", {}, k), " "])), h("td", {}, what))))),
    h("p", {}, h("button", { type: "button", onclick: () => help.close() }, "Close"))));
  help.showModal();
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function themeName() {
  return isDark() ? "Light" : "Dark";
}

function switchTheme() {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  document.getElementById("theme").textContent = themeName();
  timeline?.redraw();
}

function stepBy(by) {
  const count = example()?.steps?.length || 0;
  if (count) go({ step: clamp(state.step + by, 0, count - 1) }, true);
}

function anomalyBy(by) {
  const count = anomalies().length;
  if (count) go({ anomaly: (state.anomaly + by + count) % count, example: 0, step: 0 });
}

function expand() {
  state.expanded = !state.expanded;
  refresh({ ...state });
  document.querySelector(".because summary")?.focus({ preventScroll: true });
}

const ACTIONS = {
  ArrowLeft: () => stepBy(-1), ArrowRight: () => stepBy(1), n: () => anomalyBy(1), p: () => anomalyBy(-1), e: expand,
  v: () => go({ evidence: !state.evidence }, true), w: () => timeline?.zoom(0.7), s: () => timeline?.zoom(1.43), a: () => timeline?.pan(-0.2), d: () => timeline?.pan(0.2),
  "+": () => timeline?.zoom(0.6), "=": () => timeline?.zoom(0.6), "-": () => timeline?.zoom(1.7), 0: () => timeline?.show(0, timeline.history.last),
  "[": () => timeline?.scrollBy(-6), "]": () => timeline?.scrollBy(6), x: revealExample, "/": () => searchInput?.focus(), t: switchTheme, "?": openHelp,
  Escape: () => (state.txn !== null || state.key !== null) && go({ txn: null, key: null }),
};

function onKey(e) {
  if (e.ctrlKey || e.metaKey || e.altKey || help?.open || e.target.closest?.("input, select, textarea")) return;
  const action = ACTIONS[e.key];
  if (!action) return;
  e.preventDefault();
  action();
}

async function start() {
  page = await loadData();
  if (!page.runs.length) return;
  document.documentElement.classList.add("js");
  fromHash();
  build();
  listeners.push(refresh);
  document.addEventListener("keydown", onKey);
  window.addEventListener("popstate", fromHash);
  window.addEventListener("hashchange", fromHash);
  new ResizeObserver(() => {
    document.getElementById("drawing")?.draw();
    timeline?.redraw();
  }).observe(document.getElementById("app"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => timeline?.redraw());
  document.documentElement.dataset.ready = "true";
}

start();
