"""The pages of `anomalist ui` in a browser: what a person does, by mouse and by keyboard.

Usage: ui.py ADDRESS FOLDER BROWSER AXE SCREENSHOTS. The address is the one that `anomalist ui` printed, the
folder the one that it shows, AXE the script of axe-core. Fails with an assertion; keeps a picture of every
page.
"""

import json
import os
import random
import re
import sys
import time

from playwright.sync_api import expect, sync_playwright

address, folder, chromium, axe, shots = sys.argv[1:6]
root = address.split("/?")[0]
os.makedirs(shots, exist_ok=True)
WRITE_SKEW = '{"session":1,"ops":[["r","x",null],["w","y",1]]}\n{"session":2,"ops":[["r","y",null],["w","x",1]]}\n'
HOSTILE = '<img src=x onerror="document.title=1">&lt;.jsonl'
problems = []


def watch(page):
    """Nothing may go wrong silently."""
    page.on("console", lambda m: problems.append(f"console: {m.text}") if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda e: problems.append(f"error: {e}"))
    page.on("request", lambda r: problems.append(f"request: {r.url}")
            if not r.url.startswith((root, "blob:", "data:")) else None)
    page.on("response", lambda r: problems.append(f"{r.status} {r.url}") if r.status >= 400 else None)
    page.on("dialog", lambda d: problems.append(f"dialog: {d.message}"))


def go(page, where):
    page.goto(f"{root}/#/{where}")
    page.locator("main h1").first.wait_for()


def shot(page, name):
    page.evaluate("() => { document.activeElement?.blur(); scrollTo(0, 0); }")
    page.screenshot(path=f"{shots}/{name}.png", full_page=True)


def accessible(page, name):
    """No serious issue by axe-core, which also measures contrast."""
    if not page.evaluate("() => Boolean(window.axe)"):
        page.evaluate(open(axe).read())
    found = page.evaluate("""async () => {
        const options = {resultTypes: ['violations'], iframes: false};
        const {violations} = await window.axe.run(document, options);
        return violations.filter(v => ['serious', 'critical'].includes(v.impact))
            .map(v => `${v.id}: ${v.nodes.map(n => n.target.join(' ')).slice(0, 5).join(', ')}`);
    }""")
    assert not found, f"{name}: {found}"


def fits(page, name):
    width = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert width[0] <= width[1], f"{name} is {width[0]} wide in a window of {width[1]}"


def drop(page, name, content):
    """Drops a file on the page."""
    page.evaluate("""([name, content]) => {
        const data = new DataTransfer();
        data.items.add(new File([content], name));
        for (const type of ['dragenter', 'dragover', 'drop'])
            document.body.dispatchEvent(new DragEvent(type, {dataTransfer: data, bubbles: true, cancelable: true}));
    }""", [name, content])


def test_drop(page):
    go(page, "")
    drop(page, HOSTILE, WRITE_SKEW)
    expect(page.locator("h1")).to_have_text("check")
    expect(page.get_by_text("✗ repeatable-read and update-serializable are the weakest levels violated")).to_be_visible(timeout=20000)
    expect(page.get_by_role("link", name=re.compile(r"^✗ \d* ?(.*, )?serializable: violated$"))).to_be_visible()
    expect(page.locator(".card").first).to_contain_text("write skew")
    frame = page.frame_locator("iframe.report")
    expect(frame.locator("body")).to_contain_text("serializable")
    # What a person would type, not what the application passes.
    expect(frame.locator("header code").first).to_contain_text("anomalist check")
    expect(frame.locator("header code").first).not_to_contain_text("--")
    go(page, "")
    expect(page.get_by_role("link", name=HOSTILE)).to_be_visible()
    assert "Runs" in page.title(), page.title()
    # What cannot be read is an error, not a verdict.
    drop(page, "nothing.txt", "this is no history")
    expect(page.get_by_role("alert").first).to_contain_text("unknown format", timeout=20000)


def test_hostile_run(page):
    """A run whose result was written by another program."""
    go(page, "")
    page.get_by_role("link", name=re.compile("onerror=alert")).click()
    expect(page.locator("h1")).to_contain_text("</script><img src=x onerror=alert(1)>")
    expect(page.locator("iframe.report")).to_be_visible(timeout=20000)


def test_upload_limit(page):
    go(page, "")
    page.evaluate("""() => {
        const file = new File(['x'], 'huge.edn');
        Object.defineProperty(file, 'size', {value: 3e9});
        const data = {types: ['Files'], files: [file]};
        const event = new Event('drop', {bubbles: true, cancelable: true});
        Object.defineProperty(event, 'dataTransfer', {value: data});
        document.body.dispatchEvent(event);
    }""")
    expect(page.get_by_role("alert")).to_contain_text("3.0 GB is more than the limit")


def test_cancel_upload(page):
    """The second part of a file is held back until the upload is cancelled."""
    go(page, "")
    held = []
    page.route("**/api/uploads/*?offset=8388608", lambda route: held.append(route))
    page.evaluate("""() => {
        const data = new DataTransfer();
        data.items.add(new File([new Uint8Array(20e6)], 'large.txt'));
        document.body.dispatchEvent(new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true}));
    }""")
    expect(page.get_by_text("Sending large.txt, 20.0 MB")).to_be_visible()
    expect(page.get_by_role("progressbar", name="Sending large.txt")).to_have_attribute("value", re.compile("0.4"), timeout=20000)
    page.locator("#cancel-upload").click()
    expect(page.get_by_text("Cancelled.")).to_be_visible()
    page.unroute_all(behavior="ignoreErrors")
    assert len(held) == 1
    expect(page.get_by_role("link", name="large.txt")).to_have_count(0)


def test_live(page):
    """A run that is started from the form, watched, and kept."""
    go(page, "start/test")
    page.get_by_label("Database", exact=True).fill("simulated:serializable")
    page.get_by_label("duration").fill("4s")
    page.get_by_label("Sessions", exact=True).fill("4")
    expect(page.locator(".command pre")).to_have_text(re.compile(
        r"^anomalist test simulated:serializable --sessions 4 --duration 4s( --runs .*)?$"))
    page.get_by_label("Sessions", exact=True).fill("many")
    expect(page.get_by_role("alert")).to_contain_text("Sessions")
    expect(page.get_by_label("Sessions", exact=True)).to_have_attribute("aria-invalid", "true")
    page.get_by_label("Sessions", exact=True).fill("4")
    expect(page.get_by_role("alert")).to_be_hidden()
    page.get_by_role("button", name="Start test").click()
    expect(page.locator(".tile b").first).not_to_have_text("0", timeout=10000)
    done = page.locator(".tile").nth(1).locator("b")
    before = done.inner_text()
    expect(done).not_to_have_text(before, timeout=5000)
    page.wait_for_timeout(1500)
    shot(page, "live")
    accessible(page, "live")
    expect(page.get_by_text("Kept as")).to_be_visible(timeout=30000)
    expect(page.locator(".verdict-sentence")).to_contain_text("serializable")
    page.get_by_role("link", name=re.compile("^Kept as")).click()
    expect(page.locator("iframe.report")).to_be_visible(timeout=30000)
    expect(page.locator(".facts")).to_contain_text("aborted")


def test_cancel(page):
    go(page, "start/test")
    page.get_by_label("Database", exact=True).fill("simulated:serializable")
    page.get_by_label("duration").fill("60s")
    page.get_by_role("button", name="Start test").click()
    expect(page.locator(".tile b").first).not_to_have_text("0", timeout=10000)
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".chip", has_text="cancelled")).to_be_visible(timeout=15000)
    page.get_by_label("Pages").get_by_role("link", name="Commands").click()
    expect(page.locator(".list li").first).to_contain_text("cancelled")


def test_cancel_check(page):
    """A check that takes long, ended by a person: what is known by then is shown."""
    chance = random.Random(1)
    with open(f"{folder}/slow.jsonl", "w") as file:
        # Few values that are written again and again: there is much to try.
        state = {}
        for i in range(8000):
            operations = []
            for _ in range(4):
                key = chance.choice("abcdefgh")
                versions = state.setdefault(key, [None])
                if chance.random() < 0.5:
                    operations.append(["r", key, versions[-1 - min(len(versions) - 1, chance.choice([0, 0, 0, 1, 2]))]])
                else:
                    versions.append(chance.randrange(4))
                    operations.append(["w", key, versions[-1]])
            file.write(json.dumps({"session": i % 12, "ops": operations}) + "\n")
    go(page, "")
    page.locator(".list > li", has_text="slow.jsonl").get_by_role("button", name="Check").click()
    expect(page.locator("h1")).to_have_text("check")
    expect(page.get_by_role("button", name="Cancel")).to_be_visible()
    page.wait_for_timeout(1500)
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".chip", has_text="cancelled")).to_be_visible(timeout=20000)
    expect(page.locator(".matrix")).to_be_visible()
    expect(page.locator(".matrix .unknown").first).to_be_visible()
    os.remove(f"{folder}/slow.jsonl")


def test_search_and_filters(page):
    go(page, "")
    rows = page.locator(".list > li")
    expect(rows.first).to_be_visible()
    every = rows.count()
    page.keyboard.press("/")
    page.keyboard.type("snapshot-isolation")
    expect(rows).not_to_have_count(every)
    assert 0 < rows.count() < every
    for row in rows.all():
        expect(row).to_contain_text("snapshot")
    page.get_by_role("searchbox").fill("")
    page.get_by_label("Verdict").select_option("none")
    for row in rows.all():
        expect(row).to_contain_text("not checked")
    page.get_by_label("Verdict").select_option("")
    page.get_by_label("Level").select_option("serializable")
    page.get_by_label("Verdict").select_option("violated")
    assert rows.count() > 0
    for row in rows.all():
        expect(row).to_contain_text("✗ serializable violated")
    page.get_by_label("Level").select_option("")
    page.get_by_label("Verdict").select_option("")
    page.get_by_label("Since").fill("2999-01-01")
    expect(rows).to_have_count(0)
    page.get_by_label("Since").fill("")
    page.get_by_label("Database").select_option("simulated store")
    assert 0 < rows.count() < every
    page.get_by_label("Database").select_option("")


def test_compare(page):
    go(page, "")
    for name in ("snapshot-isolation", "serializable"):
        page.get_by_role("checkbox", name=f"Compare simulated store, {name}").first.check()
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page.get_by_text(re.compile("The verdicts differ on [1-9]"))).to_be_visible()
    expect(page.locator("tr", has_text="≠ differs").first).to_contain_text("✗ violated")
    expect(page.locator(".card").first).to_contain_text("write skew")


def test_lattice(page):
    go(page, "levels")
    tight = page.evaluate("""() => [...document.querySelectorAll('.lattice .node')].filter(node => {
        const [box, text] = [node.querySelector('rect'), node.querySelector('text')].map(part => part.getBoundingClientRect());
        return text.left < box.left + 4 || text.right > box.right - 4 || text.top < box.top || text.bottom > box.bottom;
    }).map(node => node.dataset.level)""")
    assert not tight, f"names fill their boxes: {tight}"
    page.locator("[data-level=causal]").click()
    expect(page.get_by_role("heading", name="causal", exact=True)).to_be_visible()
    expect(page.get_by_text("A transaction that sees an effect sees its causes")).to_be_visible()
    page.locator("[data-level=read-atomic]").click(modifiers=["Shift"])
    expect(page.get_by_role("heading", name="causal and read atomic")).to_be_visible()
    expect(page.locator("section .history").first).to_be_visible()
    expect(page.get_by_text("None: causal implies read atomic.")).to_be_visible()
    assert page.url.endswith("#/levels/causal/read-atomic")
    page.reload()
    expect(page.get_by_role("heading", name="causal and read atomic")).to_be_visible()
    go(page, "levels/repeatable-read/serializable")
    expect(page.get_by_text("No example is known here.")).to_be_visible()
    # Where the picture has no room there are lists.
    page.set_viewport_size({"width": 400, "height": 860})
    go(page, "levels/causal")
    expect(page.locator(".lattice")).to_be_hidden()
    assert page.locator(".ranks button").count() == page.locator(".lattice .node").count()
    page.locator("#pairing").check()
    page.get_by_role("button", name="snapshot isolation", exact=True).click()
    expect(page.get_by_role("heading", name="causal and snapshot isolation")).to_be_visible()
    page.set_viewport_size({"width": 1280, "height": 860})


def test_watch(page):
    go(page, "watch")
    name = page.get_by_label("History", exact=True).locator("option", has_text="stream.jsonl").get_attribute("value")
    page.get_by_label("History", exact=True).select_option(name)
    page.get_by_label("follow").check()
    page.get_by_label("settle").fill("100ms")
    page.get_by_role("button", name="Start watch").click()
    expect(page.locator("tbody tr").first).to_contain_text("EXT", timeout=15000)
    expect(page.locator("figure", has_text="Violations by class").locator(".key")).to_contain_text("EXT")
    expect(page.locator(".tile").first).to_contain_text("203")
    with open(f"{folder}/stream.jsonl") as file:
        lines = file.read().splitlines()
    with open(f"{folder}/stream.jsonl", "a") as file:
        file.write(lines[1].replace('"session"', '"nosession"') + "\n")
    expect(page.locator(".tile", has_text="errors of the stream")).to_contain_text("1", timeout=10000)
    shot(page, "watch-live")
    accessible(page, "watch-live")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".chip", has_text="cancelled")).to_be_visible(timeout=15000)


def test_generate(page):
    go(page, "start/generate")
    page.get_by_label("file name").fill("made.txt")
    page.get_by_label("inject").fill("lost-update")
    page.get_by_role("button", name="Start generate").click()
    page.get_by_role("link", name="made.txt").click(timeout=20000)
    expect(page.locator(".verdict-sentence")).to_contain_text("violated", timeout=20000)


def test_sql(page):
    go(page, "start/sql")
    page.get_by_label("duration").fill("1s")
    page.get_by_role("button", name="Start sql").click()
    expect(page.locator("tbody tr").first).to_contain_text("serializable", timeout=40000)
    expect(page.locator("iframe.report")).to_be_visible()
    # The run is kept, listed and shown again.
    go(page, "")
    row = page.locator(".list > li", has_text="SQLite").filter(has_text="sql").first
    expect(row).to_contain_text("immediate")
    row.get_by_role("link").first.click()
    expect(page.locator("tbody tr").first).to_contain_text("serializable")
    expect(page.frame_locator("iframe.report").locator("h1")).to_contain_text("SQLite")
    shot(page, "sql-kept")


def test_explore(page):
    go(page, "start/explore")
    page.get_by_label("Command", exact=True).select_option("true")
    page.get_by_label("Runs", exact=True).fill("3")
    expect(page.locator(".command pre")).to_have_text(re.compile("--runs 3 -- true$"))
    page.get_by_role("button", name="Start explore").click()
    expect(page.get_by_text("None of 3 runs failed")).to_be_visible(timeout=30000)


def test_keyboard(page):
    """From the list to a run, the lattice and back without a mouse."""
    go(page, "")
    expect(page.locator(".list > li").first).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="← Runs")).to_be_visible()
    page.keyboard.press("l")
    expect(page.get_by_role("heading", name="Levels")).to_be_visible()
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.dataset.level") == "serializable":
            break
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="serializable", exact=True)).to_be_visible()
    page.keyboard.press("s")
    expect(page.get_by_role("heading", name="Start")).to_be_visible()
    page.keyboard.press("r")
    expect(page.get_by_role("heading", name="Runs and histories")).to_be_visible()
    # Tab reaches the skip link first.
    page.reload()
    expect(page.locator(".list > li").first).to_be_visible()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"


def test_theme(page):
    go(page, "")
    colour = lambda: page.evaluate("getComputedStyle(document.body).backgroundColor")
    light = colour()
    page.keyboard.press("d")
    assert colour() != light
    page.reload()
    expect(page.locator("h1")).to_be_visible()
    assert colour() != light, "the choice lasts"
    page.get_by_role("button", name="Use the light theme").click()
    assert colour() == light


def pictures(browser, cookies):
    """Every page, light and dark, wide and at 400 pixels: looked at by axe-core, and kept to be looked at."""
    for theme in ("light", "dark"):
        for width in (1280, 400):
            context = browser.new_context(color_scheme=theme, viewport={"width": width, "height": 860})
            context.add_cookies(cookies)
            page = context.new_page()
            watch(page)
            items = json.loads(page.request.get(f"{root}/api/items").text())["items"]
            find = lambda text: next(i["id"] for i in items if text in (i.get("run_target") or ""))
            skewed, serial = find("snapshot-isolation"), find("serializable")
            jobs = json.loads(page.request.get(f"{root}/api/jobs").text())
            pages = {"runs": "", "run": f"run/{skewed}", "compare": f"compare/{skewed}/{serial}", "jobs": "jobs",
                     "levels": "levels", "level": "levels/causal", "pair": "levels/causal/snapshot-isolation",
                     "watch": "watch"}
            pages |= {f"start-{name}": f"start/{name}" for name in ("test", "sql", "explore", "generate")}
            latest = {}
            for job in jobs:
                latest.setdefault(job["command"], job["id"])
            pages |= {f"job-{name}": f"job/{id}" for name, id in latest.items()}
            for name, where in pages.items():
                go(page, where)
                page.wait_for_load_state("networkidle")
                if name in ("run", "job-check"):
                    page.locator("iframe.report").scroll_into_view_if_needed(timeout=20000)
                    page.frame_locator("iframe.report").locator("body *").first.wait_for()
                    page.wait_for_timeout(300)
                fits(page, f"{name} {width}")
                if width > 400 or theme == "light":
                    accessible(page, f"{name} {theme} {width}")
                shot(page, f"{name}-{theme}-{width}")
            context.close()


def main():
    tests = [test for name, test in globals().items() if name.startswith("test_")]
    only = os.environ.get("ONLY", "")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium,
            args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        context = browser.new_context(viewport={"width": 1280, "height": 860}, color_scheme="light", bypass_csp=False)
        page = context.new_page()
        watch(page)
        page.goto(address)
        expect(page.locator("h1")).to_have_text("Runs and histories")
        assert "token" not in page.url
        for test in tests:
            if only in test.__name__:
                since = time.time()
                test(page)
                assert not problems, f"{test.__name__}: {problems}"
                print(f"{test.__name__} {time.time() - since:.1f} s", flush=True)
        if only in "pictures":
            since = time.time()
            pictures(browser, context.cookies())
            assert not problems, problems
            print(f"pictures {time.time() - since:.1f} s")
        browser.close()


main()
