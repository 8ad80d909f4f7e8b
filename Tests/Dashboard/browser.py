"""What the page's checks share: the browser, and the gateways in front of which it looks at the page."""
import importlib.util
import json
import os
import shutil
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent))
import gateways
import serve
import world

try:
    from selenium import webdriver
    from selenium.common.exceptions import WebDriverException  # noqa: F401
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys  # noqa: F401
except ImportError as error:
    print(f"could not be installed: {error.name}")
    sys.exit(3)
AXE_PACKAGE = importlib.util.find_spec("axe_playwright_python")  # Its code needs Playwright, its axe-core does not.
if AXE_PACKAGE is None:
    print("could not be installed: axe-playwright-python")
    sys.exit(3)

AXE = Path(AXE_PACKAGE.submodule_search_locations[0], "axe.min.js").read_text()
CHECKS = []
PATIENCE = 60  # Seconds until something must have happened, on a machine that does other things as well.
LANGUAGES = {"en": "en-GB,en", "fa": "fa-IR,fa", "ru": "ru-RU,ru"}


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

    def visit(self, front, path="/", key=None, language="en"):
        """Opens a view cold, with a key that was kept for the tab; waits until it is drawn."""
        self.own_hosts.add(urlsplit(front).netloc)
        self.driver.get(front + "/healthz")
        self.js("localStorage.clear(); sessionStorage.clear(); if (arguments[0]) sessionStorage.setItem('chapar-key', arguments[0])", key)
        self.speak(LANGUAGES[language])
        self.driver.get(f"{front}/#{path}")
        return self.drawn()

    def go(self, path):
        """Goes to another view within the page."""
        self.js("location.hash = arguments[0]", path)
        time.sleep(0.05)
        return self.drawn()

    def drawn(self):
        """Waits until the view has its data or its refusal."""
        self.until(lambda: self.js("const m = document.getElementById('main'); return m && m.dataset.load && m.dataset.load !== 'loading' && Boolean(m.querySelector('h1'))"))
        return self

    def click(self, selector):
        """Clicks what can be seen and is not off."""
        node = self.until(lambda: self.js("return [...document.querySelectorAll(arguments[0])].find(e => e.checkVisibility() && !e.disabled)", selector))
        self.js("arguments[0].scrollIntoView({ block: 'center' })", node)
        node.click()
        return node

    def count(self, selector):
        return self.js("return document.querySelectorAll(arguments[0]).length", selector)

    def type_as(self, code, key, shift=False):
        """Presses a key as another layout has it: the place of the key stays, its letter differs."""
        for kind in ("keyDown", "keyUp"):
            self.cdp("Input.dispatchKeyEvent", type=kind, code=code, key=key, text=key if kind == "keyDown" else "", modifiers=8 if shift else 0)

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
    """The gateways of the checks; each comes up when it is asked for. The page is in front of each, with `Faults`."""

    def __init__(self, folder, source):
        self.folder, self.source, self.ends, self.made = folder, source, [], {}

    def front(self, address):
        """A server in front of a gateway: its address and its faults."""
        faults = serve.Faults()
        server, front = serve.serve(self.source, address, faults=faults)
        self.ends.append(server.shutdown)
        return front, faults

    def once(self, name, make):
        if name not in self.made:
            self.made[name] = make()
        return self.made[name]

    def world(self):
        """A gateway in which something of everything has happened, the page in front of it, and its faults (none)."""
        def make():
            folder = self.folder / "world"
            folder.mkdir()
            made = world.World(folder)
            self.ends.append(made.end)
            return (made, *self.front(made.url))
        made, front, faults = self.once("world", make)
        faults.clear()
        return made, front, faults

    def gateway(self, name, **options):
        def make():
            gateway = gateways.Gateway(self.folder, name, **options)
            self.ends.append(gateway.end)
            return (gateway, *self.front(gateway.address))
        gateway, front, faults = self.once(name, make)
        faults.clear()
        return gateway, front, faults

    def empty(self):
        return self.gateway("empty")

    def keyed(self):
        return self.gateway("keyed", has_keys=True)

    def end(self):
        for end in reversed(self.ends):
            end()
