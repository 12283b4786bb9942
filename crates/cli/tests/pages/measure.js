// What there is to see in each frame, as JSON in the place of the frames.
const round = (x) => Math.round(x * 10) / 10;

function words(svg) {
  const view = svg.getBoundingClientRect();
  const texts = [...svg.querySelectorAll("text")].map((t) => ({ says: t.textContent, box: t.getBoundingClientRect() }));
  const inside = ({ box }) =>
    box.width > 0 && box.left >= view.left - 1 && box.right <= view.right + 1 && box.top >= view.top - 1 && box.bottom <= view.bottom + 1;
  // Boxes are as high as lines; letters are lower.
  const meets = (a, b) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
    Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > Math.min(a.height, b.height) / 3;
  const overlapping = [];
  texts.forEach((a, i) => texts.slice(0, i).forEach((b) => meets(a.box, b.box) && overlapping.push(`${b.says} / ${a.says}`)));
  const { width, height } = svg.viewBox.baseVal;
  const stretched = Math.abs((view.width / view.height) * (height / width) - 1) > 0.05;
  const small = texts.filter((t) => t.box.height < 8).map((t) => t.says);
  return { words: texts.length, stretched, small, hidden: texts.filter((t) => !inside(t)).map((t) => t.says), overlapping };
}

// Arrows of a graph of circles: from whom to whom, by the circles their ends are nearest to.
function arrows(svg) {
  const circles = [...svg.querySelectorAll("circle")].map((c) => ({
    x: c.cx.baseVal.value,
    y: c.cy.baseVal.value,
    r: c.r.baseVal.value,
    name: c.nextElementSibling?.textContent,
  }));
  const nearest = (p) => {
    const gap = (c) => Math.abs(Math.hypot(c.x - p.x, c.y - p.y) - c.r);
    const [best] = [...circles].sort((a, b) => gap(a) - gap(b));
    return best && gap(best) < 6 ? best.name : `nobody at ${round(p.x)},${round(p.y)}`;
  };
  const labels = [...svg.querySelectorAll("text.label")];
  return [...svg.querySelectorAll("path[marker-end]")].map((path, i) => {
    const ends = [0, path.getTotalLength()].map((l) => nearest(path.getPointAtLength(l)));
    return `${ends[0]} ${labels[i]?.textContent} ${ends[1]}`;
  });
}

function measure(frame) {
  const page = frame.contentDocument;
  const root = page.documentElement;
  page.querySelectorAll("details").forEach((d) => (d.open = true));
  const pictures = [...page.querySelectorAll("svg")].filter((svg) => svg.querySelector("text"));
  return {
    requests: frame.contentWindow.performance.getEntriesByType("resource").map((r) => r.name),
    overflow: Math.max(0, root.scrollWidth - root.clientWidth),
    headings: page.querySelectorAll("h1,h2").length,
    pictures: pictures.map((svg) => ({ name: svg.getAttribute("aria-label") ?? svg.querySelector("title")?.textContent, arrows: arrows(svg), ...words(svg) })),
  };
}

addEventListener("load", () => {
  const found = [...document.querySelectorAll("iframe")].map(measure);
  const pre = document.createElement("pre");
  pre.textContent = JSON.stringify(found);
  document.body.replaceChildren(pre);
});
