#!/usr/bin/env python3
"""Looks at the dashboard in a real browser, headless Chromium, in front of real gateways.

    Tests/Dashboard/dashboard.py [--page FOLDER] [--screenshots FOLDER] [WORD ...]

Without --page the page is the one that the program holds; with it, the files of a folder (Sources/ChaparServer/Dashboard). With
words, only the checks whose names contain one. With --screenshots nothing is checked: the pictures of the documents are made.
Needs Chromium and its driver (Debian: chromium, chromium-driver), openssl, and from PyPI selenium and axe-playwright-python (for the axe-core in it), for pictures pillow too.
Exit code 0: everything as expected; 1: something is not; 3: a program that is needed could not be found.
Environment: CHAPAR, the program, default .build/debug/chapar.
"""
import argparse
import contextlib
import importlib.util
import json
import os
import shutil
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent))
import gateways
import page

try:
    from selenium import webdriver
    from selenium.common.exceptions import WebDriverException
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError as error:
    print(f"could not be installed: {error.name}")
    sys.exit(3)
AXE_PACKAGE = importlib.util.find_spec("axe_playwright_python")  # Its code needs Playwright, its axe-core does not.
if AXE_PACKAGE is None:
    print("could not be installed: axe-playwright-python")
    sys.exit(3)

ROOT = gateways.ROOT
TEXTS = json.loads((ROOT / "Sources/ChaparServer/Dashboard/dashboard-texts.json").read_text())
AXE = Path(AXE_PACKAGE.submodule_search_locations[0], "axe.min.js").read_text()
CHECKS = []
PATIENCE = 60  # Seconds until something must have happened, on a machine that does other things as well.


def check(function):
    CHECKS.append(function)
    return function


class Wrong(AssertionError):
    """What is seen is not what is expected."""


def expect(is_so, *told):
    if not is_so:
        raise Wrong(" ".join(str(part) for part in told))


class Browser:
    """One Chromium, with what the checks ask of a page."""

    def __init__(self):
        binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
        if not binary or not driver or not shutil.which("openssl"):
            print("could not be installed: chromium, chromium-driver and openssl are needed")
            sys.exit(3)
        options = webdriver.ChromeOptions()
        options.binary_location = binary
        options.accept_insecure_certs = True
        # In a container there may be no user namespaces and a small /dev/shm; the pages are this project's own.
        for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars",
                         "--no-proxy-server", "--disable-background-networking", "--disable-component-update"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        os.environ["NO_PROXY"] = os.environ["no_proxy"] = "*"  # The driver is on this machine.
        self.driver = webdriver.Chrome(options=options, service=Service(executable_path=driver))
        self.driver.set_page_load_timeout(PATIENCE)
        self.driver.set_script_timeout(PATIENCE)  # axe-core goes through the whole page in one.
        self.hosts, self.own_hosts, self.complaints = set(), set(), []
        self.resize(1200, 1000)

    def cdp(self, name, **arguments):
        return self.driver.execute_cdp_cmd(name, arguments)

    def resize(self, width, height):
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def speak(self, languages):
        """Sets the languages that the browser prefers."""
        agent = self.driver.execute_script("return navigator.userAgent")
        self.cdp("Network.setUserAgentOverride", userAgent=agent, acceptLanguage=languages)

    def prefer(self, scheme):
        self.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def leave(self):
        """Leaves the page, which asks its gateway for ever, and reads its requests and complaints to the end."""
        self.driver.get("about:blank")
        self.read_logs()

    def settle(self):
        """Waits until what the page was told to do has been drawn: events of elements come with the next frame."""
        self.driver.execute_async_script("const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done)))")

    def open(self, address, is_new=True):
        """Opens the page; with `is_new` as somebody who never was there."""
        self.own_hosts.add(urlsplit(address).netloc)
        if is_new:
            self.driver.get(address + "/healthz")
            self.js("localStorage.clear(); sessionStorage.clear()")
            self.resize(1200, 1000)
        self.driver.get(address + "/")

    def js(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector):
        """What stands in an element, or in all together."""
        return self.js("return [...document.querySelectorAll(arguments[0])].map(e => e.innerText).join(' | ')", selector)

    def is_shown(self, selector):
        return self.js("return document.querySelector(arguments[0])?.checkVisibility() ?? false", selector)

    def press(self, *keys):
        ActionChains(self.driver).send_keys(*keys).perform()

    def until(self, what, seconds=PATIENCE):
        """Waits for something true and gives it."""
        deadline = time.monotonic() + seconds
        while True:
            found = what()
            if found:
                return found
            if time.monotonic() > deadline:
                raise Wrong(f"not within {seconds} s: {self.text('body')[:1500]}")
            time.sleep(0.05)

    def read_logs(self):
        """Collects the hosts that were asked, and what the console complained about."""
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] in ("Network.requestWillBeSent", "Network.webSocketCreated"):
                url = message["params"].get("request", message["params"])["url"]
                if urlsplit(url).scheme not in ("data", "about", "chrome", "blob"):
                    self.hosts.add(urlsplit(url).netloc)
        self.complaints += [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")
                            and "/favicon.ico" not in entry["message"]]  # Asked for by Chromium with /healthz, which is no page.

    def accessibility(self, what, is_all_in_sight=True):
        """Runs axe-core with all of its rules; what can be used or read as one thing has a name in the accessibility tree."""
        tree = [one for one in self.cdp("Accessibility.getFullAXTree")["nodes"] if not one["ignored"]]
        named = ("button", "link", "textbox", "image", "img", "meter", "table", "form", "region", "DisclosureTriangle", "heading")
        found = [one for one in tree if one["role"]["value"] in named]
        nameless = [one["role"]["value"] for one in found if not one.get("name", {}).get("value", "").strip()]
        expect(len(found) > 2 and not nameless, f"without a name in {what}:", nameless)
        self.js(AXE + ";")
        found = self.driver.execute_async_script("axe.run(document).then(arguments[0])")
        wrong = [f"{one['id']} ({one['impact']}): {one['help']}: {one['nodes'][0]['html'][:200]} {one['nodes'][0].get('any') and one['nodes'][0]['any'][0]['message']}"
                 for one in found["violations"]]
        expect(not wrong, f"axe finds in {what}:", *(f"\n    {line}" for line in wrong))
        expect(len(found["passes"]) > 15, f"axe found little to look at in {what}: {len(found['passes'])} rules")
        # Where axe cannot tell the colour behind a text it says so; nothing of this page is to be such.
        unclear = [node["html"][:120] for one in found["incomplete"] if one["id"] == "color-contrast" for node in one["nodes"]]
        expect(not unclear or not is_all_in_sight, f"axe cannot judge the contrast in {what}:", *unclear)


class Scene:
    """The gateways of the checks; each comes up when it is asked for."""

    def __init__(self, folder, source):
        self.folder, self.source, self.ends, self.made = folder, source, [], {}

    def shown(self, name, address):
        """Where the page is: at the gateway itself, or at a server of the files."""
        if not self.source:
            return address
        server, front = page.serve(self.source, address)
        self.ends.append(server.shutdown)
        return front

    def once(self, name, make):
        if name not in self.made:
            self.made[name] = make()
        return self.made[name]

    def demo(self):
        def make():
            process, address = gateways.demonstration(self.folder)
            self.ends.append(process.end)
            return process, address, self.shown("demo", address)
        return self.once("demo", make)

    def settled_demo(self):
        """The demonstration after its own messages."""
        process, address, shown = self.demo()
        process.wait_for(r"^Dashboard: +(\S+)")
        return address, shown

    def gateway(self, name, **options):
        def make():
            gateway = gateways.Gateway(self.folder, name, **options)
            self.ends.append(gateway.end)
            return gateway, self.shown(name, gateway.address)
        return self.once(name, make)

    def empty(self):
        return self.gateway("empty", is_encrypted=True)

    def keyed(self):
        return self.gateway("keyed", has_keys=True)

    def end(self):
        for end in reversed(self.ends):
            end()


# What stands on the page outside elements of the class "data", and is in no table of texts.
FOREIGN = r"""
const texts = JSON.parse(document.getElementById("texts").textContent)[document.documentElement.lang];
const escaped = words => words.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
const framed = one => one.split(/(\{\w+\})/).map(part => /^\{(count|window|accepted|ended|peak|status)\}$/.test(part) ? "[\\p{N},٬]+"
  : /^\{\w+\}$/.test(part) ? "[^]+" : escaped(part)).join("");
const patterns = Object.entries(texts).filter(([key]) => key !== "notification.count").map(([, one]) => new RegExp("^" + framed(one) + "$", "u"));
const states = Object.entries(texts).filter(([key]) => key.startsWith("state.")).map(([, words]) => words);
const counted = new RegExp("^[\\p{N},٬]+ (" + states.map(escaped).join("|") + ")$", "u");  // notification.count
const known = words => patterns.some(one => one.test(words)) || counted.test(words) || /^[\s·\p{N}.,:٫٬–−-]*$/u.test(words);
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
for (let node = walker.nextNode(); node; node = walker.nextNode()) {
  const words = node.data.trim(), parent = node.parentElement;
  if (!words || !parent.checkVisibility() || parent.closest("script, style, noscript, .data, code") || known(words)) continue;
  if (/^(−|-)?[\p{N}.,٫]+[\s\u200e\u200f]*\p{L}+\.?$/u.test(words) || parent.closest(".times")) continue;  // Of Intl: a duration.
  found.push(words);
}
for (const node of document.querySelectorAll("[aria-label]")) {
  const words = node.getAttribute("aria-label");
  if (node.checkVisibility() && !known(words) && !known(words.split(":")[0])) found.push(words);
}
return found;
"""
FOCUSABLE = """
return [...document.querySelectorAll("a[href], button, input, summary, [tabindex='0']")].filter(e => e.checkVisibility()).length;
"""


# Notes when the page first asks for events. When the chart is drawn: in how many frames the page knew the gateway and showed no chart, and
# how old the first state of the gateway is, counted from there.
FIRST_DRAWN = """{
  const ask = window.fetch;
  window.fetch = (...all) => { window.asked ??= Date.now(); return ask(...all); };
  let frames = 0;
  const look = () => {
    try { if (gateway) frames += 1; } catch { /* The page's script has not begun. */ }
    if (document.getElementById("pulse-accepted")?.getAttribute("d")?.length > 50) window.drawn = [frames, openedAt - asked];
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}"""


@check
def pulse_is_drawn_at_once(browser, scene):
    """The axis, zero and the line are there with the first state of the gateway, which comes at once; messages raise the line."""
    added = browser.cdp("Page.addScriptToEvaluateOnNewDocument", source=FIRST_DRAWN)["identifier"]
    for name, (_, address) in {"empty": scene.empty(), "demo": scene.demo()[1:]}.items():
        browser.open(address)
        frames, wait = browser.until(lambda: browser.js("return window.drawn"))
        expect(frames <= 3, name, "has no chart for", frames, "frames")
        # Gateway and browser have one clock, so that a slow browser is no slow gateway.
        expect(wait < 2000, name, "has no state of the gateway before", wait, "ms")
        axis = browser.js("return document.querySelector('#pulse .axis').getBoundingClientRect().width")
        expect(axis > 300, name, "axis", axis)
        expect(browser.text("#pulse-zero") == "0" and browser.text("#pulse-top"), name, "no scale")
        box = browser.js("const b = document.getElementById('pulse-accepted').getBBox(); return [b.x, b.width]")
        expect(box[0] <= 1 and box[0] + box[1] >= 119, name, "the line does not span two minutes:", box)
    browser.cdp("Page.removeScriptToEvaluateOnNewDocument", identifier=added)
    height = lambda: browser.js("return document.getElementById('pulse-ended').getBBox().height")
    address, _ = scene.settled_demo()
    browser.until(lambda: height() > 5)
    # What happened before the opening is there from the first moment too.
    browser.open(scene.demo()[2])
    browser.until(lambda: height() > 5)


@check
def outcomes_appear(browser, scene):
    """A message that is sent while the page is open appears with its outcome, and Enter shows the platform's words."""
    address, shown = scene.settled_demo()
    browser.open(shown)
    browser.until(lambda: browser.is_shown("#notifications"))
    before = browser.text("#totals")
    body = {"to": {"tokens": [{"token": "ab" * 32, "service": "ios-apns"}]}, "content": {"title": "Seen by the browser"}}
    made = gateways.call(address, "POST", "/v1/notifications", body)
    line = browser.until(lambda: next((t for t in browser.text("#notifications summary").split(" | ") if made["id"] in t and "accepted by platform" in t), None))
    expect("Seen by the browser" in line, line)
    browser.until(lambda: browser.text("#totals") != before)
    expect(made["id"] in browser.text("#notifications > li:first-child"), "the newest does not stand first")
    browser.js("document.querySelector('#notifications summary').focus()")
    browser.press(Keys.ENTER)
    detail = browser.until(lambda: browser.text("#notifications details[open] li"))
    expect("200" in detail and "ios" in detail, detail)
    browser.press(Keys.ESCAPE)
    expect(not browser.is_shown("#notifications details[open]"), "Escape does not close it")
    expect(browser.js("return document.activeElement.tagName") == "SUMMARY", "Escape loses the focus")


@check
def expiry_is_shown(browser, scene):
    """A certificate that ends in 10 days is a warning in its row and a step; one that ends in 400 days is none."""
    gateway, shown = scene.empty()
    browser.open(shown)
    row = browser.until(lambda: next((t for t in browser.text("#backends tr").split(" | ") if "old-ios" in t), None))
    expect("⚠ client certificate ends in 10 days" in row and "degraded" in row, row)
    expect("wait" in browser.js("return document.querySelector('#backends .expiry').className"), "it has not the colour of a warning")
    steps = browser.text("#steps-list li")
    expect("old-ios: client certificate ends in 10 days" in steps and "pkill -HUP" in steps, steps)
    expect("server certificate" not in steps, "400 days are no warning:", steps)
    browser.speak("fa")
    browser.open(shown)
    row = browser.until(lambda: next((t for t in browser.text("#backends tr").split(" | ") if "old-ios" in t), None))
    expect("گواهی کلاینت" in row and "۱۰ روز" in row, row)


@check
def empty_gateway_says_what_to_do(browser, scene):
    """Without a message and without a key the page says how to go on, with commands that this gateway understands."""
    gateway, shown = scene.empty()
    browser.open(shown)
    steps = browser.until(lambda: browser.text("#steps-list li"))
    expect(f"chapar send --url {shown} --to ios-apns:TOKEN" in steps, steps)
    expect("No API key is configured" in steps and "chapar keys create" in steps, steps)
    expect(browser.is_shown("#no-notification") and browser.is_shown("#no-note"), "what is empty does not say so")
    expect("0" in browser.text("#totals dd"), browser.text("#totals"))
    browser.open(scene.settled_demo()[1])
    browser.until(lambda: browser.is_shown("#notifications"))
    expect(not browser.is_shown("#steps"), "one that is in use needs no first steps:", browser.text("#steps"))


@check
def nodes_are_shown(browser, scene):
    """Gateways that share a database are named, in both languages; one alone says nothing, as when the other was killed."""
    with gateways.database() as url:
        pair = [gateways.Gateway(scene.folder, name, store=f"{{ kind: postgres, url: '{url}', node: {name}, node_lease: 3 }}") for name in ("first", "second")]
        try:
            shown = scene.shown("first", pair[0].address)
            browser.open(shown)
            browser.until(lambda: browser.is_shown("#nodes") and browser.text("#nodes") == "2 gateways share the store: first, second")
            browser.speak("fa")
            browser.open(shown)
            browser.until(lambda: "۲ دروازه" in browser.text("#nodes") and "second" in browser.text("#nodes"))
            browser.speak("en")
            pair[1].process.child.kill()
            browser.until(lambda: not browser.is_shown("#nodes"))
            browser.leave()
        finally:
            for gateway in pair:
                gateway.end()


@check
def key_is_asked_for(browser, scene):
    """A gateway with keys asks for one, says why one is refused and how one is made, and shows when the key ends."""
    gateway, shown = scene.keyed()
    browser.open(shown)
    browser.until(lambda: browser.is_shown("#key-form"))
    expect(browser.js("return document.activeElement.id") == "key", "the field has not the focus")
    expect("chapar keys create" in browser.text("#key-form"), browser.text("#key-form"))
    expect(not browser.is_shown("#watching"), "it shows something without a key")
    browser.accessibility("the form")
    for secret, sentence in [("wrong", "does not know this key"), (gateway.secret("sender"), "lacks the scope")]:
        browser.press(secret, Keys.ENTER)
        browser.until(lambda: sentence in browser.text("#key-reason"))
    browser.press(gateway.secret("watcher"), Keys.ENTER)
    steps = browser.until(lambda: browser.is_shown("#watching") and browser.text("#steps-list li"))
    expect("Gateway: API key watcher ends in 5 days" in steps, steps)
    expect("--key-file key" in steps and "No API key is configured" not in steps, steps)
    browser.driver.refresh()
    browser.until(lambda: browser.is_shown("#watching") and browser.text("#backends"))
    browser.find("#other-key").click()
    browser.until(lambda: browser.is_shown("#key-form") and not browser.is_shown("#watching"))
    expect(browser.js("return sessionStorage.length") == 0, "the key was not forgotten")
    browser.leave()
    browser.complaints = [one for one in browser.complaints if " 401 " not in one and " 403 " not in one]  # Chromium tells each refusal.


@check
def link_opens_the_page(browser, scene):
    """The link that serve shows at a terminal opens the page once, without the key; a tab that is open takes it as well."""
    gateway = gateways.Linked(scene.folder / "linked")
    scene.ends.append(gateway.end)
    shown = scene.shown("linked", gateway.address)
    expect(not gateway.is_key_shown, "the terminal shows the key")
    browser.open(shown)
    browser.until(lambda: browser.is_shown("#key-form"))
    browser.driver.get(f"{shown}/{gateway.fragment}")
    browser.until(lambda: browser.is_shown("#watching") and browser.text("#backends"))
    expect(browser.js("return location.hash") == "", "the code stays in the address")
    expect(gateway.key not in browser.js("return JSON.stringify(sessionStorage)"), "the page has the key")
    expect("--key-file" not in browser.text("#steps-list li"), browser.text("#steps-list li"))
    browser.driver.refresh()
    browser.until(lambda: browser.is_shown("#watching") and browser.text("#backends"))
    browser.open(shown)
    browser.until(lambda: browser.is_shown("#key-form"))
    browser.driver.get(f"{shown}/{gateway.fragment}")
    browser.until(lambda: "works once" in browser.text("#key-reason"))
    browser.leave()
    browser.complaints = [one for one in browser.complaints if " 401 " not in one]  # Chromium tells each refusal.


@check
def lost_gateway_is_told(browser, scene):
    """When the gateway goes, the page says so with the fix, keeps what it knew, and goes on when it is back."""
    gateway, shown = scene.keyed()
    browser.open(shown)
    browser.until(lambda: browser.is_shown("#key-form"))
    browser.press(gateway.secret("watcher"), Keys.ENTER)
    browser.until(lambda: browser.text("#connection") == "● Live" and browser.text("#backends"))
    gateway.end()
    browser.until(lambda: browser.is_shown("#trouble"))
    told = browser.text("#trouble")
    expect("chapar serve" in told and shown in told, told)
    expect("old-ios" in browser.text("#backends"), "what was known is gone")
    expect(browser.text("#connection") == "✕ No connection", browser.text("#connection"))
    browser.accessibility("a lost connection")
    gateway.start()
    browser.until(lambda: browser.text("#connection") == "● Live" and not browser.is_shown("#trouble"))
    # Beside this page one more stream is allowed (limits.streams_per_key); the next one is refused.
    request = urllib.request.Request(gateway.address + "/v1/events?workers=1", headers={"Authorization": "Bearer " + gateway.secret("watcher")})
    opener, streams, problem = urllib.request.build_opener(urllib.request.ProxyHandler({})), [], None
    while not problem:
        try:
            expect(len(streams) < 2, "more streams than are allowed")
            streams.append(opener.open(request, timeout=20))
        except urllib.error.HTTPError as error:
            problem = json.load(error)
    browser.js("window.open('/')")
    browser.until(lambda: len(browser.driver.window_handles) == 2)
    browser.driver.switch_to.window(browser.driver.window_handles[-1])
    browser.until(lambda: browser.is_shown("#trouble"))
    told = browser.text("#trouble")
    expect(problem["title"] in told and str(problem["status"]) in told and "chapar serve" not in told, told)
    for stream in streams:
        stream.close()
    browser.until(lambda: browser.text("#connection") == "● Live")
    browser.driver.close()
    browser.driver.switch_to.window(browser.driver.window_handles[0])
    browser.leave()
    browser.complaints = [one for one in browser.complaints if not any(part in one for part in ("ERR_", " 401 ", " 503 "))]


@check
def both_languages(browser, scene):
    """The browser's language is taken, the switch is remembered, everything mirrors, and no text is outside the table."""
    _, shown = scene.settled_demo()
    for languages, tag, direction, live in [("en-GB,en", "en", "ltr", "● Live"), ("fa-IR,fa", "fa", "rtl", "● زنده"), ("ru", "en", "ltr", "● Live")]:
        browser.speak(languages)
        browser.open(shown)
        browser.until(lambda: browser.text("#connection") == live)
        browser.until(lambda: browser.is_shown("#notifications"))
        shape = browser.js("const e = document.documentElement; return [e.lang, e.dir, getComputedStyle(document.body).direction]")
        expect(shape == [tag, direction, direction], languages, shape)
        expect(browser.js("return document.title") == TEXTS[tag]["title"], "title")
        expect(browser.text("#h-backends") == TEXTS[tag]["backends.heading"], browser.text("#h-backends"))
        for node in ("#notifications summary", "#backends tr"):
            expect(browser.is_shown(node), node)
        browser.js("document.querySelectorAll('#notifications details').forEach((one, i) => { one.open = i < 30 })")
        browser.settle()
        foreign = browser.js(FOREIGN)
        expect(not foreign, "texts outside the table of", tag + ":", foreign[:10])
    browser.speak("fa-IR,fa")
    browser.open(shown)
    browser.until(lambda: browser.is_shown("#notifications"))
    start = browser.js("""const heading = document.querySelector('#h-totals').getBoundingClientRect();
        const name = document.querySelector('#backends th').getBoundingClientRect(), takes = document.querySelector('#backends td:last-child').getBoundingClientRect();
        return [name.left > takes.left, document.querySelector('.times').firstElementChild.getBoundingClientRect().left
          < document.querySelector('.times').lastElementChild.getBoundingClientRect().left,
          document.querySelector('h1').getBoundingClientRect().left > document.querySelector('#connection').getBoundingClientRect().left]""")
    expect(start == [True, True, True], "mirrored: the table, not the chart's time, the header:", start)
    expect("۰" in browser.text("#pulse-zero") and "۱۴" in browser.text("#version"), "digits and calendar", browser.text("#version"))
    browser.find("#language").click()
    browser.until(lambda: browser.text("#connection") == "● Live")
    expect(browser.js("return document.documentElement.dir") == "ltr", "the switch leaves the direction")
    expect(not browser.js(FOREIGN), browser.js(FOREIGN))
    browser.open(shown, is_new=False)
    browser.until(lambda: browser.text("#connection") == "● Live")  # Remembered, although the browser prefers Persian.


@check
def keyboard_reaches_everything(browser, scene):
    """Tab goes through every control in the order of the page, the focus is visible, and the keys do what they say."""
    _, shown = scene.settled_demo()
    browser.open(shown)
    browser.until(lambda: browser.is_shown("#notifications") and browser.text("#backends"))
    count, seen = browser.js(FOCUSABLE), []
    for _ in range(count):
        browser.press(Keys.TAB)
        seen.append(browser.js("""const e = document.activeElement, all = [...document.querySelectorAll('*')], style = getComputedStyle(e);
            return [all.indexOf(e), e.id || e.className || e.tagName, style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2,
              e.getBoundingClientRect().height > 0]"""))
    expect(len({one[0] for one in seen}) == count, f"Tab reaches {len({one[0] for one in seen})} of {count}:", [one[1] for one in seen])
    expect([one[0] for one in seen] == sorted(one[0] for one in seen), "not in the order of the page:", [one[1] for one in seen])
    expect(seen[0][1] == "skip" and "language" in [one[1] for one in seen], [one[1] for one in seen][:5])
    dim = [one[1] for one in seen if not one[2] or not one[3]]
    expect(not dim, "the focus is not visible on", dim)
    browser.js("document.activeElement.blur(); document.querySelector('.skip').focus()")
    browser.press(Keys.ENTER)
    expect(browser.js("return document.activeElement.id") == "main", "the first link does not skip to the content")
    browser.js("document.getElementById('language').focus()")
    browser.press(Keys.SPACE)
    expect(browser.js("return document.documentElement.lang") == "fa", "Space does not switch the language")
    browser.press(Keys.ENTER)
    expect(browser.js("return document.documentElement.lang") == "en", "Enter does not switch it back")


@check
def accessible(browser, scene):
    """axe-core finds nothing, in light and dark, in both languages, wide and narrow; a narrow page does not scroll sideways."""
    _, shown = scene.settled_demo()
    for scheme, languages, width in [("light", "en", 1200), ("dark", "fa", 1200), ("light", "fa", 360)]:
        browser.prefer(scheme)
        browser.speak(languages)
        browser.open(shown)
        browser.resize(width, 1000)
        browser.until(lambda: browser.is_shown("#notifications") and browser.text("#backends"))
        browser.js("document.querySelectorAll('#notifications details').forEach((one, i) => { one.open = i < 5 })")
        browser.settle()
        what = f"{scheme}, {languages}, {width} pixels"
        browser.accessibility(what, width > 1000)  # What a narrow table scrolls away is judged by the wide one.
        widths = browser.js("return [document.documentElement.scrollWidth, innerWidth]")
        expect(widths[0] <= widths[1], what, "is wider than the screen:", widths)
    _, shown = scene.empty()
    for scheme in ("dark", "light"):
        browser.prefer(scheme)
        browser.open(shown)
        browser.until(lambda: browser.is_shown("#steps") and browser.is_shown("#backends .expiry"))
        browser.accessibility("an empty gateway, " + scheme)


@check
def live_regions_are_quiet(browser, scene):
    """While messages flow and tokens die, what a screen reader reads out by itself changes at most once in five seconds."""
    address, shown = scene.settled_demo()
    browser.open(shown)
    browser.until(lambda: browser.is_shown("#notifications"))
    regions = browser.js("""window.spoken = 0, window.begun = performance.now();
        const found = document.querySelectorAll('[aria-live], [role=status], [role=alert], [role=log]');
        for (const one of found) new MutationObserver(() => spoken++).observe(one, { childList: true, subtree: true, characterData: true });
        window.rows = 0;
        new MutationObserver(all => rows += all.length).observe(document.getElementById('notifications'), { childList: true, subtree: true });
        return [...found].map(one => one.getAttribute('role') + one.id)""")
    expect("statusconnection" in regions and "statusannouncement" in regions, regions)
    end, sent = time.monotonic() + 7, 0
    while time.monotonic() < end:
        # Of each three tokens the simulator takes one, beginning with 0410, for that of an app that was removed: a note for operators.
        token = f"0410{sent:060x}" if sent % 3 == 0 else f"{sent:064x}"
        body = {"to": {"tokens": [{"token": token, "service": "ios-apns"}]}, "content": {"title": f"Order {sent}"}}
        gateways.call(address, "POST", "/v1/notifications", body)
        sent += 1
        time.sleep(0.1)
    browser.until(lambda: browser.js("return rows") > sent / 2)
    browser.until(lambda: browser.js("return spoken"))
    spoken, seconds = browser.js("return [spoken, (performance.now() - begun) / 1000]")
    expect(spoken <= 1 + seconds / 5, "the live regions changed", spoken, "times in", seconds, "s")
    expect("a token was declared dead" in browser.js("return document.getElementById('announcement').textContent"), "a note is not read out")


def screenshots(browser, scene, folder):
    """The pictures of the documents: the demonstration after two minutes of traffic, in both languages, light."""
    from PIL import Image  # Of Pillow, from PyPI.

    address, shown = scene.settled_demo()
    is_over = threading.Event()

    def send():
        sent = 0
        while not is_over.wait(0.35 + 0.8 * (sent % 13 == 0)):
            for _ in range(1 + (sent * 7 % 11) // 3):
                # The simulator takes what begins with 0410 for the token of an app that was removed.
                token = f"0410{sent:060x}" if sent % 11 == 5 else f"{sent:064x}"
                body = {"to": {"tokens": [{"token": token, "service": "ios-apns"}]}, "content": {"title": f"Order {sent + 1}"}}
                gateways.call(address, "POST", "/v1/notifications", body)
                sent += 1

    traffic = threading.Thread(target=send)
    traffic.start()
    try:
        browser.prefer("light")
        browser.speak("en-GB,en,fa-IR,fa")
        browser.open(shown)
        time.sleep(125)
        for name in ("dashboard.png", "dashboard.fa.png"):
            path = Path(folder) / name
            browser.driver.save_screenshot(str(path))
            Image.open(path).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(path, optimize=True)
            print(f"{path}: {path.stat().st_size} bytes")
            browser.find("#language").click()
            time.sleep(2)
    finally:
        is_over.set()
        traffic.join()


def carried_out(function, browser, scene):
    """Carries out a check, and gives what is wrong; whatever happens in the browser fails the check that was running."""
    try:
        browser.prefer("light")
        browser.speak("en-GB,en")
        function(browser, scene)
        # A page that stays open would complain in the next check about a gateway that ends with this one.
        browser.leave()
        foreign = browser.hosts - browser.own_hosts
        expect(not foreign, "the page asked other hosts:", foreign)
        expect(not browser.complaints, "the console says", *browser.complaints)
        expect(browser.hosts, "no request was seen at all")
    except Exception as error:
        with contextlib.suppress(WebDriverException):  # The browser itself may be gone.
            browser.leave()
        browser.complaints = []
        return f"{type(error).__name__}: {error}"
    return None


def main():
    arguments = argparse.ArgumentParser(description="Looks at the dashboard in a real browser.")
    arguments.add_argument("--page", help="take the page from the files of this folder")
    arguments.add_argument("--screenshots", help="write the documents' pictures into this folder")
    arguments.add_argument("words", nargs="*")
    options = arguments.parse_args()
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        browser, scene = Browser(), Scene(Path(folder), options.page)
        try:
            if options.screenshots:
                return screenshots(browser, scene, options.screenshots)
            for function in CHECKS:
                if options.words and not any(word in function.__name__ for word in options.words):
                    continue
                started = time.monotonic()
                complaint = carried_out(function, browser, scene)
                print(f"{'FAILED' if complaint else 'ok':6} {time.monotonic() - started:5.1f} s  {function.__name__}", flush=True)
                if complaint:
                    failed.append(function.__name__)
                    print(f"       {complaint}", flush=True)
        finally:
            browser.driver.quit()
            scene.end()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
