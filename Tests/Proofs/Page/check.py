"""Uses exported pages as a reader would. tools/prove page passes a directory of pages and a directory for pictures."""
import json
import os
import re
import sys

from browser import Browser

CONTRAST_MIN = 4.5
# Contrasts of visible text with its background, and of the graphs' ink with their fills.
CONTRASTS = r"""(() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const parse = (text) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = (rgb) => rgb.slice(0, 3).map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
  const contrast = (one, other) => { const [a, b] = [light(one), light(other)].sort((x, y) => y - x); return (a + 0.05) / (b + 0.05); };
  const found = {};
  const add = (name, one, other) => { const c = contrast(parse(one), parse(other)); if (!(name in found) || c < found[name]) found[name] = c; };
  const style = getComputedStyle(document.documentElement);
  const theme = (name) => style.getPropertyValue("--" + name).trim();
  for (const fill of ["culprit", "own", "entry", "dependency", "system", "nobody", "all"]) add("graph " + fill, theme("graph-ink"), theme("fill-" + fill));
  add("graph dimmed", theme("dimmed-ink"), theme("fill-dimmed"));
  add("axis", theme("faint"), theme("paper"));
  add("marks", theme("accent"), theme("paper"));
  for (const element of document.querySelectorAll("body *")) {
    if (!element.checkVisibility() || element.closest(".unseen, script, svg")) continue;
    if (![...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim())) continue;
    let behind = element;
    while (behind && parse(getComputedStyle(behind).backgroundColor)[3] < 255) behind = behind.parentElement;
    add(element.tagName + "." + element.className, getComputedStyle(element).color, behind ? getComputedStyle(behind).backgroundColor : "#fff");
  }
  return found;
})()"""

checks = 0


def expect(condition, what):
    global checks
    checks += 1
    if not condition:
        raise AssertionError(what)


def text(browser, selector):
    return browser.run(f"document.querySelector({json.dumps(selector)}).textContent")


def current(browser):
    """Returns the screen reader's text of the selected box in the flame graph."""
    return browser.run('document.getElementById(document.getElementById("flame").getAttribute("aria-activedescendant")).textContent')


def clean(browser, name):
    expect(not browser.complaints, f"{name}: the console has {browser.complaints}")
    elsewhere = [url for url in browser.requests if not url.startswith(("file:", "about:", "data:"))]
    expect(not elsewhere, f"{name}: the page requests {elsewhere}")


def everyday(browser, pages, pictures):
    address = f"file://{pages}/everyday.html"
    browser.open(address)
    expect(text(browser, "h2") == "Catalog.rebuildIndex(for:)", "the culprit is the headline")
    expect(text(browser, "#summary") == "12 samples, 5.01 s", text(browser, "#summary"))
    browser.picture(f"{pictures}/desktop.png", whole=True)

    # A click zooms, keys move the selection, and the URL reflects both.
    browser.click("#flame", across=0.1, down=22 * 4 + 11)
    expect("zoom=" in browser.run("location.hash"), "a click zooms")
    expect(current(browser).startswith("Catalog.rebuildIndex(for:), 70 %"), current(browser))
    expect(text(browser, "#path").endswith("Catalog.rebuildIndex(for:)"), "the path ends at the culprit")
    zoomed = browser.run("location.href")
    browser.run('document.getElementById("flame").focus()')
    browser.key("ArrowDown")
    expect(current(browser).startswith("Catalog.insert(_:), 48 %"), current(browser))
    browser.key("Enter")
    expect(text(browser, "#path").endswith("Catalog.insert(_:)"), "Enter zooms")
    browser.key("Backspace")
    expect(text(browser, "#path").endswith("Catalog.rebuildIndex(for:)"), "Backspace zooms out")
    browser.open(zoomed)
    expect(text(browser, "#path").endswith("Catalog.rebuildIndex(for:)"), "the URL restores the zoom")
    browser.click("#reset")
    expect(browser.run("location.hash") == "", "the URL is reset")

    browser.click("#search")
    browser.type("catalog.swift")
    expect(text(browser, "#summary").endswith("found: 90 %, 4.53 s"), text(browser, "#summary"))
    browser.key("Enter")
    expect(current(browser).startswith("Catalog.rebuildIndex(for:)"), "Enter selects the function found")
    expect("q=catalog.swift" in browser.run("location.hash"), "the URL has the search")

    # Upside down: the innermost function first.
    browser.click("#reset")
    browser.click('[data-invert="1"]')
    browser.run('document.getElementById("flame").focus()')
    browser.key("ArrowDown")
    expect(current(browser).startswith("Catalog.hash(_:), 48 %"), current(browser))
    browser.key("ArrowDown")
    expect(current(browser).startswith("Catalog.insert(_:), 48 %"), "its caller is below")
    browser.key("i")
    expect(browser.run('document.querySelector(\'[data-invert="1"]\').ariaPressed') == "false", "the key i restores the order")

    # In time order, the last calls come last.
    browser.click('[data-view="time"]')
    expect(text(browser, "#summary") == "12 samples, 5.01 s", text(browser, "#summary"))
    browser.run('document.getElementById("flame").focus()')
    browser.key("ArrowDown")
    for name in ("(not watched yet)", "_start, 70 %", "(no stack", "_start, 20 %"):
        expect(current(browser).startswith(name), f"{name}: {current(browser)}")
        browser.key("ArrowRight")
    browser.picture(f"{pictures}/time-order.png")
    browser.click('[data-view="flame"]')

    # By task: every label is a branch.
    browser.run('(() => { const g = document.getElementById("group"); g.value = "task"; g.dispatchEvent(new Event("change")); })()')
    browser.frame()
    browser.run('document.getElementById("flame").focus()')
    browser.key("ArrowDown")
    expect(current(browser).startswith("request 1, 63 %"), current(browser))
    browser.click("#reset")

    # A click on the timeline shows the stack at that time. Arrows move to other samples.
    browser.click("#timeline-box", across=0.9, down=40)
    expect(text(browser, "#sample-title") == "Sample 12 of 12", text(browser, "#sample-title"))
    expect(text(browser, "#sample-stack li code") == "__lll_lock_wait", "the innermost function comes first")
    browser.run('document.getElementById("timeline-box").focus()')
    browser.key("ArrowLeft")
    expect(text(browser, "#sample-title") == "Sample 11 of 12", "arrows go from sample to sample")
    expect("Sample 11 of 12" in browser.run('document.getElementById("timeline-box").ariaValueText'), "the screen reader's text changes")
    browser.picture(f"{pictures}/sample.png")
    # Dragging selects a time range.
    left, top, width, height = browser.box("#timeline-box")
    browser.press(left + width * 0.8, top + 40, to=(left + width - 1, top + 40))
    expect("from 4.0" in text(browser, "#summary"), text(browser, "#summary"))
    browser.run('document.getElementById("flame").focus()')
    browser.key("ArrowDown")
    browser.key("ArrowDown")
    browser.key("ArrowDown")
    browser.key("ArrowDown")
    expect(current(browser).startswith("Catalog.writeSnapshot(to:)"), "only stacks in the time range are shown")
    browser.run('document.getElementById("timeline-box").focus()')
    browser.key("Escape")
    expect("from" not in text(browser, "#summary"), "Escape clears the time range")

    # The other threads, the tree and the table.
    browser.run('(() => { const t = document.getElementById("threads"); t.value = "others"; t.dispatchEvent(new Event("change")); })()')
    browser.frame()
    expect(text(browser, "#summary") == "2 other threads, one sample each", text(browser, "#summary"))
    browser.click("#reset")
    browser.click('[data-view="tree"]')
    browser.run('document.querySelector("#tree [role=treeitem]").focus()')
    before = browser.run('document.querySelectorAll("#tree [role=treeitem]").length')
    browser.key("ArrowLeft")
    expect(browser.run('document.querySelectorAll("#tree [role=treeitem]").length') < before, "a branch closes")
    browser.key("ArrowRight")
    browser.key("ArrowRight")
    expect(browser.run("document.activeElement.ariaLabel").startswith("main, 90 %"), "arrows walk in the tree")
    browser.picture(f"{pictures}/tree.png")
    browser.click('[data-view="functions"]')
    expect(text(browser, "#functions tbody code") == "Catalog.hash(_:)", "the heaviest function is the first")
    browser.click('#functions [data-order="name"]')
    names = browser.run('[...document.querySelectorAll("#functions tbody code")].map((code) => code.textContent)')
    expect(len(names) > 5 and "main" in names, f"all functions are there: {names}")
    browser.click('[data-view="flame"]')

    # Every control is reachable by keyboard and has an accessible name.
    tree = browser.call("Accessibility.getFullAXTree")["nodes"]
    roles = {}
    for node in tree:
        if not node.get("ignored"):
            roles.setdefault(node.get("role", {}).get("value"), []).append(node.get("name", {}).get("value", ""))
    for role in ("button", "combobox", "searchbox", "slider", "tree"):
        expect(roles.get(role) and all(roles[role]), f"every {role} has a name: {roles.get(role)}")
    clean(browser, "everyday")


def themes(browser, pages, pictures):
    worst = {}
    for name in ("everyday", "hostile", "waits", "deadlock", "several"):
        for scheme in ("light", "dark"):
            browser.prefer(scheme)
            browser.open(f"file://{pages}/{name}.html#at=0.1&q=main")
            for view in ("tree", "functions", "flame"):
                browser.click(f'[data-view="{view}"]')
                for what, contrast in browser.run(CONTRASTS).items():
                    expect(contrast >= CONTRAST_MIN, f"{name}, {scheme}: the contrast of {what} is {contrast:.2f}")
                    worst[scheme] = min(worst.get(scheme, 99), contrast)
            if name == "everyday":
                browser.picture(f"{pictures}/{scheme}.png", whole=True)
    # The theme switch overrides the system's preference.
    paper = 'getComputedStyle(document.documentElement).getPropertyValue("--paper")'
    browser.prefer("dark")
    dark = browser.run(paper)
    browser.click("#theme")
    expect(text(browser, "#theme") == "Theme: light" and browser.run(paper) != dark, "the switch selects the light theme")
    browser.click("#theme")
    expect(text(browser, "#theme") == "Theme: dark" and browser.run(paper) == dark, "the switch selects the dark theme")
    browser.click("#theme")
    browser.prefer("light")
    print(f"page: the least contrast of texts is {worst['light']:.1f} (light), {worst['dark']:.1f} (dark)")
    clean(browser, "themes")


def sizes(browser, pages, pictures):
    for name in ("everyday", "hostile", "waits", "deadlock", "several"):
        for width in (320, 390, 768, 1280, 1920):
            browser.resize(width, 840, is_phone=width < 700)
            browser.open(f"file://{pages}/{name}.html#at=0.1")
            wide = browser.run("document.documentElement.scrollWidth")
            expect(wide <= width, f"{name} is {wide} wide on a screen of {width}")
            if width in (390, 1280):
                browser.picture(f"{pictures}/{name}-{width}.png", whole=True)
    browser.resize(1280, 900)
    clean(browser, "sizes")


def hostile(browser, pages):
    browser.open(f"file://{pages}/hostile.html")
    for name in ("flame", "tree", "functions"):
        browser.click(f'[data-view="{name}"]')
    names = browser.run('(document.querySelector("[data-view=functions]").click(), [...document.querySelectorAll("#functions tbody code")].map((code) => code.textContent))')
    expect("<script>alert('x')</script>&amp;" in names, f"names are shown as text: {names}")
    expect(browser.run('document.querySelectorAll("script:not([type])").length') == 1, "there is one script")
    expect(not any(ord(c) < 32 and c not in "\n\t" or c in "\u202e\u2028\u2029\x7f\x9b" for c in browser.run("document.body.innerText")), "no control characters are shown")
    clean(browser, "hostile")
    # The content security policy blocks injected scripts and requests.
    browser.run('(() => { try { const s = document.createElement("script"); s.append("window.harm = 1"); document.body.append(s) } catch { } })()')
    browser.run("""(() => { try { document.body.innerHTML += '<img src=x onerror="window.harm = 1">' } catch { } })()""")
    browser.run("""fetch("http://127.0.0.1:9/").catch(() => 0).then(() => 0)""")
    expect(browser.run("window.harm === undefined"), "no other script runs")
    expect(not any(url.startswith("http") for url in browser.requests), "no request is sent")
    browser.complaints.clear()


def waits(browser, pages):
    for name, threads in (("waits", ["thread 4260", "thread 4261"]), ("deadlock", ["thread 4260"])):
        browser.open(f"file://{pages}/{name}.html")
        chain = browser.run('document.querySelector("ol.chain").innerText')
        places = [chain.find(thread) for thread in threads]
        expect(-1 not in places and places == sorted(places), f"{name}: {threads} are in the chain, in this order: {chain}")
        expect("<script>alert('x')</script>&amp;" in chain, f"{name}: names are shown as text: {chain}")
        expect(browser.run('document.querySelectorAll("script:not([type])").length') == 1, f"{name}: there is one script")
        expect(browser.run('document.querySelector("ol.chain").checkVisibility()'), f"{name}: the chain is drawn")
        clean(browser, name)


def several(browser, pages):
    browser.open(f"file://{pages}/several.html")
    times = browser.run('[...document.querySelectorAll("#stalls time")].map((time) => time.dateTime)')
    expect(len(times) > 2 and times == sorted(times, reverse=True), f"the newest comes first: {times}")
    first = text(browser, "article.chosen h2")
    browser.click("#stalls li:last-child a")
    browser.wait('document.querySelector("article.chosen").id !== "stall-0"')
    expect(browser.run('document.querySelectorAll("article.chosen").length') == 1, "one report is chosen")
    address = browser.run("location.href")
    browser.open(address)
    expect(browser.run('document.querySelector("article.chosen").id') == f"stall-{len(times) - 1}", f"the URL has the chosen report; the first is {first}")
    # Every report is readable without a script.
    browser.open_without_script(f"file://{pages}/several.html?plain")
    shown = browser.run('[...document.querySelectorAll("article")].filter((article) => article.checkVisibility()).length')
    expect(shown == len(times), f"{shown} reports of {len(times)} without a script")
    clean(browser, "several")


def large(browser, path):
    seconds = browser.open(f"file://{path}")
    expect("1,000,000 samples" in text(browser, "#summary"), text(browser, "#summary"))
    figures = [f"loaded and drawn in {seconds:.2f} s"]
    for what, script in (
        ("search", 'document.getElementById("search").value = "function1()", document.getElementById("search").dispatchEvent(new Event("input"))'),
        ("zoom", 'document.getElementById("flame").focus(), document.getElementById("flame").dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown" })), document.getElementById("flame").dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }))'),
        ("bottom-up", 'document.querySelector("[data-invert=\\"1\\"]").click()'),
        ("time order", 'document.querySelector("[data-view=time]").click()'),
        ("table", 'document.querySelector("[data-view=functions]").click()'),
        ("tree", 'document.querySelector("[data-view=tree]").click()'),
        ("a sample", 'document.getElementById("timeline-box").dispatchEvent(new KeyboardEvent("keydown", { key: "End" }))'),
    ):
        spent = browser.run(f"(async () => {{ const start = performance.now(); {script}; await new Promise((done) => requestAnimationFrame(() => setTimeout(done))); return performance.now() - start; }})()")
        figures.append(f"{what} {spent:.0f} ms")
    expect(text(browser, "#sample-title") == "Sample 1,000,000 of 1,000,000", text(browser, "#sample-title"))
    clean(browser, "large")
    print(f"page: 1,000,000 samples, {os.path.getsize(path) / 1e6:.1f} MB: {', '.join(figures)}")


def main():
    pages, pictures = sys.argv[1:3]
    for name in sorted(os.listdir(pages)):
        with open(f"{pages}/{name}", encoding="utf-8") as file:
            content = file.read()
        expect(not re.search(r"(src|href)\s*=\s*[\"'](?!#)|url\(|@import|https?://", content), f"{name} refers to another file")
    browser = Browser()
    try:
        everyday(browser, pages, pictures)
        themes(browser, pages, pictures)
        sizes(browser, pages, pictures)
        hostile(browser, pages)
        waits(browser, pages)
        several(browser, pages)
        large(browser, f"{pages}/large.html")
        version = browser.call("Browser.getVersion")["product"]
    finally:
        browser.close()
    print(f"page: {checks} checks in {version}: all is well")


main()
