"""Uses the explorer as a reader does, in Chromium driven by Playwright, and prints what went wrong.

    explorer.py CHROMIUM AXE FOLDER SCREENSHOTS

FOLDER has the pages that `crates/cli/tests/pages.rs` made: skew.html (write skew with its history), kept.html
(the same result without its history), stamps.html, proof.html (a refutation), cause.html (an example that begins with the initial state), calm.html (no anomaly), hostile.html, runs.html
(several runs), faults.html (two lost updates and a fault), nemesis.html (a counter and a fault), large.html (100,000 transactions). Prints a JSON array of failures; empty if all is well.
"""

import json
import os
import sys
import time
import traceback

from playwright.sync_api import sync_playwright

CHROMIUM, AXE, FOLDER, SHOTS = (part.rstrip("/") for part in sys.argv[1:5])
failures = []


class Visit:
    """A page that was opened: nothing may be asked of the network, and the console stays empty."""

    def __init__(self, browser, name, dark=False, width=1280, hash="", script=True):
        self.name, self.width = name, width
        self.context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            java_script_enabled=script,
        )
        self.page = self.context.new_page()
        self.page.on("console", lambda m: self.fail(f"console: {m.text}"))
        self.page.on("pageerror", lambda e: self.fail(f"error: {e}"))
        self.page.on("dialog", lambda d: (self.fail(f"a dialog: {d.message}"), d.dismiss()))
        self.page.on("request", self.request)
        self.page.goto(f"file://{FOLDER}/{name}.html{hash}")
        if script:
            self.page.wait_for_selector("html[data-ready]", timeout=20000)

    def request(self, request):
        if not request.url.startswith((f"file://{FOLDER}/", "data:", "blob:")):
            self.fail(f"asked for {request.url}")

    def fail(self, what):
        failures.append(f"{self.name} ({self.width}): {what}")

    def check(self, fact, what):
        if not fact:
            self.fail(what)

    def text(self, selector):
        return self.page.inner_text(selector)

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)
        self.page.wait_for_timeout(60)

    def hash(self):
        return self.page.evaluate("location.hash")

    def shot(self, name):
        self.page.wait_for_timeout(150)
        self.page.screenshot(path=f"{SHOTS}/{name}.png", full_page=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()


def pixels(visit, selector="canvas.lanes"):
    """A number that changes when a canvas shows something else."""
    visit.page.wait_for_timeout(80)
    return hash(visit.page.evaluate("(s) => document.querySelector(s).toDataURL()", selector))


def steps(browser):
    with Visit(browser, "skew") as v:
        v.check("violated" in v.text("h1"), f"the verdict: {v.text('h1')}")
        v.check(v.page.locator(".steps .step").count() >= 2, "steps are listed")
        v.check(v.page.locator(".drawing g.main").count() >= 2, "the transactions are drawn")
        v.check(v.page.locator(".drawing .arrow").count() >= 2, "the dependencies are drawn")
        first = v.page.locator(".step.on").inner_text()
        v.check(v.page.locator(".drawing .arrow.now").count() == 1, "a step highlights its arrow")
        v.check(v.page.locator(".drawing .hot").count() >= 1, "a step highlights its operations")
        before = pixels(v)
        v.press("ArrowRight")
        v.check(v.page.locator(".step.on").inner_text() != first, "the next step is shown")
        v.check("step=2" in v.hash(), f"the address has the step: {v.hash()}")
        v.check(pixels(v) != before, "the timeline shows the step")
        v.press("ArrowLeft")
        v.check(v.page.locator(".step.on").inner_text() == first, "and the one before")
        v.press("e")
        v.check(v.page.locator(".because[open]").count() == 1, "the step is expanded")
        v.check("Refuted alternative" in v.text(".because"), "with the refuted alternative")
        v.check(v.page.locator(".drawing g.by").count() >= 1, "the evidence of the step is drawn, lighter")
        v.press("e", "v")
        v.check(v.page.get_attribute("#evidence", "aria-pressed") == "true", "all evidence is shown")
        count = v.page.locator(".card").count()
        kind = v.page.locator(".card.on").inner_text()
        v.press("n")
        v.check(count < 2 or v.page.locator(".card.on").inner_text() != kind, "n: the next anomaly")
        v.press("p")
        v.check(v.page.locator(".card.on").inner_text() == kind, "p: the one before")
        v.shot("skew-light")


def deep_links(browser):
    with Visit(browser, "skew") as v:
        v.press("n", "ArrowRight")
        v.page.locator(".drawing g[role=button]").first.click()
        address, card, step = v.hash(), v.text(".card.on"), v.text(".step.on")
        v.check("transaction=" in address, f"the address has the transaction: {address}")
        chosen = v.text("#transaction h3")
    with Visit(browser, "skew", hash=address) as v:
        v.check(v.text(".card.on") == card, "the address leads to the anomaly")
        v.check(v.text(".step.on") == step, "and to the step")
        v.check(v.text("#transaction h3") == chosen, "and to the transaction")
    with Visit(browser, "skew", hash="#anomaly=none&step=99&transaction=x&run=7&example=-3") as v:
        v.check(v.page.locator(".step.on").count() == 1, "an address that leads nowhere shows the beginning")


def timeline(browser):
    with Visit(browser, "skew") as v:
        seen = {pixels(v)}
        for key in ["w", "w", "s", "a", "d", "+", "-", "0"]:
            v.press(key)
            now = pixels(v)
            v.check(now not in seen or key in "sd-", f"{key} changes the timeline")
            seen.add(now)
        canvas = v.page.locator("canvas.lanes")
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        before = pixels(v)
        v.page.mouse.move(box["x"] + 500, box["y"] + 60)
        v.page.keyboard.down("Control")
        v.page.mouse.wheel(0, -600)
        v.page.keyboard.up("Control")
        v.check(pixels(v) != before, "Ctrl and wheel zoom")
        before = pixels(v)
        v.page.mouse.down()
        v.page.mouse.move(box["x"] + 300, box["y"] + 60, steps=5)
        v.page.mouse.up()
        v.check(pixels(v) != before, "dragging pans")
        v.press("x")
        v.page.mouse.click(box["x"] + 600, box["y"] + 24 + 13)
        mini = v.page.locator("canvas.mini").bounding_box()
        before = pixels(v)
        v.page.mouse.click(mini["x"] + 200, mini["y"] + 30)
        v.check(pixels(v) != before, "the minimap moves the timeline")
        before = pixels(v)
        v.page.select_option("select[aria-label=Kind]", "aborted")
        v.check(pixels(v) != before, "a filter by kind")
        v.page.select_option("select[aria-label=Sessions]", index=1)
        v.page.click("text=Clear")
        v.check(v.page.locator("text=Clear").count() == 0, "filters are cleared")


def instances(browser):
    """First and next anomaly: through every one that was found, in the order of time."""
    with Visit(browser, "skew") as v:
        count = int(v.text("#instance").split(" of ")[1].split()[0].replace(",", ""))
        found = sum(int(text.split("×")[1].replace(",", "")) for text in v.page.locator(".card .code").all_inner_texts())
        v.check(count > v.page.locator(".card").count(), f"more than one mark per kind: {count}")
        v.check(count >= found * 0.5, f"{count} marks for {found} instances")
        v.page.click("text=First anomaly")
        v.check(v.text("#instance").startswith("1 of"), f"the first: {v.text('#instance')}")
        seen, moments = set(), []
        for i in range(count):
            v.check(v.text("#instance").startswith(f"{i + 1} of"), f"instance {i + 1}: {v.text('#instance')}")
            chosen = v.text("#transaction h3")
            seen.add((chosen, v.text(".card.on b")))
            moments.append(float(v.text("#transaction .dim").split(" · ")[-1].split(" ")[0]))
            v.page.keyboard.press(".")
        v.check(len(seen) == count, f"{len(seen)} of {count} are different")
        v.check(v.text("#instance").startswith("1 of"), "after the last comes the first")
        v.press(",")
        v.check(v.text("#instance").startswith(f"{count} of"), "before the first comes the last")
        mini = pixels(v, "canvas.mini")
        v.press(".", ".")
        v.check(pixels(v, "canvas.mini") != mini, "the strip shows which one it is")


SHADED = """() => { const c = document.querySelector('canvas.mini'); const p = c.getContext('2d');
    const wanted = getComputedStyle(document.documentElement).getPropertyValue('--fault').trim();
    const { data } = p.getImageData(0, 20, c.width, 1);
    const hex = (i) => '#' + [...data.slice(4 * i, 4 * i + 3)].map((n) => n.toString(16).padStart(2, '0')).join('');
    return Array.from({ length: c.width }, (_, i) => hex(i)).filter((one) => one === wanted).length; }"""


def faults(browser):
    with Visit(browser, "nemesis") as v:
        v.check(" transactions and 1 fault;" in v.text(".run"), f"a fault of a counter's run: {v.text('.run')[:80]}")
        shaded = v.page.evaluate(SHADED)
        # It lasted for half of the run.
        v.check(350 < shaded < 750, f"is where it was: {shaded} pixels")
        v.shot("nemesis")
    with Visit(browser, "faults") as v:
        v.check("4 transactions and 1 fault" in v.text(".run"), f"faults are counted: {v.text('.run')[:80]}")
        v.check("Shaded: faults" in v.text(".run"), "and explained")
        v.check("since the first transaction" in v.text(".run"), "the clock has a unit")
        v.check("lost update" in v.text(".card.on").lower(), f"the anomaly: {v.text('.card.on')}")
        v.check(any("ms" in text for text in v.page.locator(".drawing text.d").all_text_contents()), "times in milliseconds")
        shaded = v.page.evaluate(SHADED)
        v.check(shaded > 100, f"the fault is marked on the strip: {shaded} pixels")
        v.shot("faults")


def touch(browser):
    """One finger moves the timeline, two zoom it."""
    with Visit(browser, "skew", width=400) as v:
        canvas = v.page.locator("canvas.lanes")
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        session = v.context.new_cdp_session(v.page)
        y = box["y"] + 100

        def drag(*ways):
            """Fingers along ways of (from, to), in steps."""
            point = lambda step: [{"x": box["x"] + a + (b - a) * step / 6, "y": y, "id": i} for i, (a, b) in enumerate(ways)]
            session.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": point(0)})
            for step in range(1, 7):
                session.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": point(step)})
            session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

        before, chosen = pixels(v), v.hash()
        drag((300, 180))
        moved = pixels(v)
        v.check(moved != before, "a finger moves the timeline")
        drag((220, 120), (240, 340))
        v.check(pixels(v) != moved, "two fingers zoom")
        v.check(v.hash() == chosen, "and choose nothing")


def search(browser):
    with Visit(browser, "skew") as v:
        name = v.page.evaluate("document.querySelector('.drawing g.main').dataset.txn")
        v.press("/")
        v.check(v.page.evaluate("document.activeElement.type") == "search", "/ goes to the search")
        v.page.keyboard.type(name)
        v.press("Enter")
        v.check(v.page.locator("#transaction").count() == 1, "search finds a transaction")
        v.check(v.page.locator("#transaction .ops li").count() > 0, "its operations are listed")
        v.check(v.page.locator("#transaction .link").count() > 1, "and its neighbours")
        v.page.locator("#transaction .ops .link").first.click()
        v.check("key=" in v.hash(), "a key leads to its versions")
        v.check(v.page.locator(".strip .version").count() >= 1, "the versions of the key")
        v.press("Escape")
        v.check(v.page.locator("#transaction").count() == 0, "Escape closes the transaction")
        v.press("/")
        v.page.keyboard.type("no such name")
        v.check("nothing" in v.text("#found"), "search says that it found nothing")
    for width in [1280, 400]:
        with Visit(browser, "skew", width=width) as v:
            v.press("/")
            v.page.keyboard.type("1")
            v.check(v.page.locator("#found li").count() > 1, "there are results")
            wide = v.page.evaluate("document.documentElement.scrollWidth")
            v.check(wide <= width, f"the results are within the page: {wide}")


def pointed(browser):
    """What the mouse points at is said beside it, and goes away with the mouse."""
    with Visit(browser, "skew") as v:
        canvas = v.page.locator("canvas.lanes")
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        tip = v.page.locator(".tip")
        v.check(not tip.is_visible(), "nothing is pointed at")
        texts = set()
        for x in range(120, int(box["width"]) - 20, 40):
            v.page.mouse.move(box["x"] + x, box["y"] + 24 + 16)
            if tip.is_visible():
                texts.add(tip.inner_text())
                edge = tip.bounding_box()
                v.check(edge["x"] + edge["width"] <= box["x"] + box["width"] + 1, "it is within the timeline")
        v.check(len(texts) > 1, f"different transactions: {texts}")
        v.check(all("(" in text and "ms" in text for text in texts), f"with times and operations: {texts}")
        v.page.mouse.move(box["x"] + 300, box["y"] - 60)
        v.check(not tip.is_visible(), "the mouse has left")


CROSSED = """() => { const boxes = [...document.querySelectorAll('.drawing rect.box')].map((box) => box.getBBox());
    return [...document.querySelectorAll('.drawing path.arrow')].filter((path) => {
        const length = path.getTotalLength();
        return boxes.some((box) => Array.from({ length: 60 }, (_, i) => path.getPointAtLength((length * (i + 0.5)) / 60))
            .some((p) => p.x > box.x + 3 && p.x < box.x + box.width - 3 && p.y > box.y + 3 && p.y < box.y + box.height - 3));
    }).map((path) => path.textContent); }"""

BEYOND = """() => [...document.querySelectorAll('.drawing g')].filter((group) => group.querySelector(':scope > rect.box')).flatMap((group) => {
    const box = group.querySelector(':scope > rect.box').getBBox();
    return [...group.querySelectorAll(':scope > text')].map((text) => [text.getBBox(), text.textContent])
        .filter(([at]) => at.x + at.width > box.x + box.width + 1).map(([, text]) => text); })"""


def drawing(browser):
    """Arrows go around boxes, and texts stay in theirs."""
    for name in ["skew", "cause", "stamps", "faults", "runs"]:
        for width in [1280, 1000, 400]:
            with Visit(browser, name, width=width) as v:
                for _ in range(v.page.locator(".card").count()):
                    if width > 400:
                        crossed = v.page.evaluate(CROSSED)
                        v.check(not crossed, f"{v.text('.card.on b')}: through boxes go {crossed}")
                    beyond = v.page.evaluate(BEYOND)
                    v.check(not beyond, f"{v.text('.card.on b')}: too long for their boxes: {beyond}")
                    v.press("n")
        if name == "cause":
            with Visit(browser, name) as v:
                v.shot("cause")


def calm(browser):
    """Without an anomaly there is still something to look at."""
    with Visit(browser, "calm") as v:
        v.check("No anomaly was found" in v.page.inner_text("#middle").replace("NO ANOMALY WAS FOUND", "No anomaly was found"), v.text("#middle"))
        v.check("unknown" in v.text(".why summary"), "why levels are unknown")
        v.page.locator("#middle .link").first.click()
        v.check(v.page.locator(".strip .version").count() > 0, "a key shows its versions")
        v.check(not v.page.locator("#right").is_visible(), "no empty column")
        v.shot("calm")
    with Visit(browser, "kept") as v:
        v.page.evaluate("navigator.clipboard.writeText = (t) => { window.copied = t; return Promise.resolve(); }")
        v.page.click(".menu summary")
        v.page.locator(".menu button", has_text="DOT").click()
        v.check(v.page.evaluate("window.copied").count("->") >= 2, "DOT without the history")


def keyboard(browser):
    """Everything that has a click is reached by Tab, and shows that it has the focus."""
    with Visit(browser, "skew") as v:
        seen = []
        for _ in range(80):
            v.page.keyboard.press("Tab")
            what = v.page.evaluate(
                """() => { const e = document.activeElement; if (e === document.body) return null; const o = getComputedStyle(e);
                return [e.tagName, (e.textContent || e.getAttribute('aria-label') || '').slice(0, 30), o.outlineStyle !== 'none' || e.tagName === 'g']; }"""
            )
            if what is None:
                break
            seen.append(what)
        tags = {tag for tag, _, _ in seen}
        v.check({"BUTTON", "SUMMARY", "CANVAS", "INPUT", "SELECT", "g"} <= tags, f"Tab reaches {tags}")
        hidden = [what for what in seen if not what[2]]
        v.check(not hidden, f"focus is not seen on {hidden}")
        v.press("?")
        v.check(v.page.locator("dialog[open]").count() == 1, "? opens the keys")
        v.press("Escape")
        v.check(v.page.locator("dialog[open]").count() == 0, "Escape closes them")


def exports(browser):
    with Visit(browser, "skew") as v:
        v.page.evaluate("navigator.clipboard.writeText = (t) => { window.copied = t; return Promise.resolve(); }")
        starts = {"Text": "g", "SVG": "<svg", "DOT": "digraph", "TikZ": "%", "Mermaid": "flowchart", "SQL": "-- g2-item", "History": '{"anomalist":1', "Link": "file:"}
        for name, start in starts.items():
            v.page.click(".menu summary")
            v.page.locator(".menu button", has_text=name).click()
            text = v.page.evaluate("window.copied")
            v.check(text.startswith(start), f"{name}: {text[:60]}")
            if name == "SQL":
                v.check(" | " in text and text.count("COMMIT;") == 2, f"two columns of SQL: {text}")
            if name == "History":
                with open(f"{FOLDER}/example.jsonl", "w") as file:
                    file.write(text)


def themes(browser):
    with Visit(browser, "skew") as light, Visit(browser, "skew", dark=True) as dark:
        background = "getComputedStyle(document.body).backgroundColor"
        was = light.page.evaluate(background)
        light.check(was != dark.page.evaluate(background), "dark follows the setting")
        before = pixels(light)
        light.press("t")
        light.check(light.page.evaluate(background) == dark.page.evaluate(background), "t switches to dark")
        light.check(pixels(light) != before, "the timeline is dark too")
        dark.shot("skew-dark")


def accessible(browser):
    with open(AXE) as file:
        axe = file.read()
    for name in ["skew", "kept", "stamps", "proof", "runs", "hostile", "faults"]:
        for dark in [False, True]:
            with Visit(browser, name, dark=dark) as v:
                if name == "skew":
                    v.press("e", "v")
                    v.page.locator(".drawing g[role=button]").first.click()
                # The policy of the page allows no other script in it; a tool of the browser may run one.
                found = v.page.evaluate(f"{axe}; axe.run({{resultTypes: ['violations']}})")
                bad = [x for x in found["violations"] if x["impact"] in ("serious", "critical")]
                for x in bad:
                    nodes = [n["html"][:110] + " " + n.get("failureSummary", "")[:160] for n in x["nodes"][:3]]
                    v.fail(f"axe {'dark' if dark else 'light'}: {x['id']}: {nodes}")


def widths(browser):
    for name in ["skew", "kept", "stamps", "proof", "runs", "hostile", "large"]:
        for width in [1280, 800, 400, 360]:
            with Visit(browser, name, width=width, dark=width == 400) as v:
                wide = v.page.evaluate("document.documentElement.scrollWidth")
                v.check(wide <= width, f"the page is {wide} wide")
                if width in (400, 1280):
                    v.shot(f"{name}-{width}")


def without_script(browser):
    with Visit(browser, "skew", script=False) as v:
        v.check("violated" in v.text("h1"), "the verdict without a script")
        v.check("a contradiction" in v.text("main"), "the explanation without a script")
        v.check(v.page.locator("table th").count() > 3, "the levels without a script")
    with Visit(browser, "skew") as v:
        v.page.emulate_media(media="print")
        v.check(v.page.locator(".plain").is_visible() and not v.page.locator("#app").is_visible(), "paper has the text")


def others(browser):
    with Visit(browser, "kept") as v:
        v.page.evaluate("navigator.clipboard.writeText = (t) => { window.copied = t; return Promise.resolve(); }")
        v.page.click(".menu summary")
        v.page.locator(".menu button", has_text="SVG").click()
        with open(f"{FOLDER}/copied.svg", "w") as file:
            file.write(v.page.evaluate("window.copied"))
        alone = v.context.new_page()
        alone.goto(f"file://{FOLDER}/copied.svg")
        v.check(alone.locator("text").count() > 4, "the drawing is an SVG of its own")
        alone.screenshot(path=f"{SHOTS}/copied.png")
        v.check("not in this page" in v.text("header"), "a page without the history says so")
        v.check(v.page.locator(".drawing g.main").count() >= 2, "and draws the example")
        v.check(v.page.locator("canvas").count() == 0, "and no timeline")
    with Visit(browser, "stamps") as v:
        v.check("should have been read" in v.text(".drawing"), "what a read should have returned")
        v.check("timestamps" in v.text(".run"), "the axis is that of timestamps")
    with Visit(browser, "proof") as v:
        v.check(v.page.locator(".proof .depth-2").count() > 0, "alternatives are indented")
        v.press("ArrowRight", "ArrowRight")
    with Visit(browser, "runs") as v:
        heads = v.page.locator(".runs thead button")
        v.check(heads.count() >= 2, "a column per run")
        first = v.text("h1")
        heads.last.click()
        v.check(v.text("h1") != first and "run=" in v.hash(), "a heading shows its run")
        tall = v.page.evaluate("document.documentElement.scrollHeight")
        v.check(tall < 5000, f"no page of many screens: {tall}")
    with Visit(browser, "hostile") as v:
        body = v.page.evaluate("document.body.innerHTML")
        v.check("<img" not in body and v.page.locator("b > b, h1 b").count() == 0, "names make no elements")
        v.check("\u202e" not in v.text("body"), "names do not turn the direction of writing")
        v.press("n", "ArrowRight", "e", "v")
        v.page.locator(".drawing g[role=button]").first.click()


FRAMES = """async (pan) => {
  const c = document.querySelector(pan ? 'canvas.lanes' : 'canvas'); const frame = () => new Promise(requestAnimationFrame); const times = [];
  let last = await frame();
  for (let i = 0; i < 60; i++) {
    if (pan) c.dispatchEvent(new WheelEvent('wheel', { deltaX: i % 40 < 20 ? 60 : -60, bubbles: true, cancelable: true }));
    else c.getContext('2d').clearRect(0, 0, c.width, c.height);
    const now = await frame(); times.push(now - last); last = now;
  }
  return times.sort((a, b) => a - b)[30];
}"""


def large(browser):
    size = os.path.getsize(f"{FOLDER}/large.html")
    if size > 3_000_000:
        failures.append(f"large: {size} bytes")
    empty = browser.new_page(viewport={"width": 1280, "height": 900})
    empty.set_content("<canvas width=1232 height=500></canvas>")
    usual = empty.evaluate(FRAMES, False)
    empty.close()
    began = time.time()
    with Visit(browser, "large") as v:
        ready = time.time() - began
        paint = v.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 1e9")
        v.check(paint <= 1000, f"first paint after {paint:.0f} ms")
        near = v.page.evaluate(FRAMES, True)
        v.press("0")
        far = v.page.evaluate(FRAMES, True)
        v.check(max(near, far) <= 2 * usual, f"frames of {near:.1f} and {far:.1f} ms, an empty page has {usual:.1f} ms")
        print(f"large: {size} bytes, first paint {paint:.0f} ms, ready {ready:.1f} s, frames {near:.1f} and {far:.1f} ms (empty {usual:.1f})", file=sys.stderr)


with sync_playwright() as playwright:
    browser = playwright.chromium.launch(
        executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]
    )
    chosen = sys.argv[5:]
    for test in [steps, deep_links, timeline, instances, faults, touch, search, pointed, drawing, calm, keyboard, exports, themes, accessible, widths, without_script, others, large]:
        if chosen and test.__name__ not in chosen:
            continue
        try:
            test(browser)
        except Exception:
            failures.append(f"{test.__name__}: {traceback.format_exc(limit=3)}")
    browser.close()
print(json.dumps(failures))
