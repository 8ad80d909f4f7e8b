"""What an operator does with the page: each view of people, backends, audiences, webhooks and keys, and each of its actions, once.

All of it happens in front of one gateway in which something of everything has happened (world.py), in the order of this file.
"""
import functools
import json
import time
from urllib.parse import quote

import world
from browser import AXE, CHECKS, ActionChains, By, Keys, Wrong, expect

PATIENCE = 30  # Seconds until something must be seen.
VIEWS = ["#/backends", "#/backends/android", "#/quarantine", "#/quarantine/huawei", "#/dead", "#/audiences", "#/audiences/new", "#/audiences/segments/winter",
         "#/audiences/segments/vip", "#/users/ali", "#/devices/phone-1", "#/webhooks", "#/webhooks/crm", "#/keys"]
# What only shows or opens something, whoever looks.
HARMLESS = {"copy", "how-to-renew", "show", "decide", "retry-load", "settings", "send-to", "new-segment", "undo", "leave"}


def operator(has_refusals=False):
    """A check that is given a `Page`; with `has_refusals` the gateway refuses something on purpose, of which Chromium's console tells."""
    def made(function):
        @functools.wraps(function)
        def checked(browser, scene):
            page = scene.once("operator", lambda: Page(browser, scene))
            page.faults.clear()
            function(page)
            browser.leave()
            if has_refusals:
                browser.complaints = [one for one in browser.complaints if "Failed to load resource" not in one]
        CHECKS.append(checked)
        return checked
    return made


class Page:
    """The page in front of the gateway: a person who looks, clicks and types. `clicks` counts since `begin`."""

    def __init__(self, browser, scene):
        folder = scene.folder / "operated"
        folder.mkdir()
        self.driver, self.browser, self.clicks = browser.driver, browser, 0
        self.world = world.World(folder)
        scene.ends.append(self.world.end)
        self.world.dead_letters()
        self.world.campaign(per_minute=20)
        self.world.quarantine()
        self.world.park()
        self.address, self.faults = scene.front(self.world.url)
        browser.own_hosts.add(self.address.split("//")[1])

    def js(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def resize(self, width, height=900):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def at(self, address, key="admin", language="en", theme="light", width=1280, is_waited=True):
        """Opens an address cold, with a key in the session storage."""
        self.resize(width)
        self.driver.get(self.address + "/healthz")
        self.js("localStorage.clear(); sessionStorage.clear(); localStorage.setItem('chapar-language', arguments[1]); localStorage.setItem('chapar-theme', arguments[2]);"
                "if (arguments[0]) sessionStorage.setItem('chapar-key', arguments[0])", self.world.gateway.keys.get(key), language, theme)
        self.driver.get(f"{self.address}/{address}")
        if is_waited:
            self.loaded()

    def loaded(self):
        self.until(lambda: self.js("return document.querySelector('main')?.dataset.load === 'done' && document.querySelector('main').dataset.view !== 'none' && !document.querySelector('main [data-loading]')"))

    def until(self, what, seconds=PATIENCE):
        """Waits for something true and gives it."""
        deadline = time.monotonic() + seconds
        while not (found := what()):
            if time.monotonic() > deadline:
                raise Wrong(f"not within {seconds} s: {self.text('body')[:1500]}")
            time.sleep(0.05)
        return found

    def has(self, selector):
        return self.js("return [...document.querySelectorAll(arguments[0])].some(one => one.checkVisibility())", selector)

    def text(self, selector):
        return self.js("return [...document.querySelectorAll(arguments[0])].map(one => one.innerText).join(' | ')", selector)

    def find(self, selector):
        self.until(lambda: self.has(selector))
        return next(one for one in self.driver.find_elements(By.CSS_SELECTOR, selector) if one.is_displayed())

    def click(self, selector):
        """Clicks with the pointer, where the element stands."""
        self.clicks += 1
        element = self.find(selector)
        self.js("arguments[0].scrollIntoView({ block: 'center' })", element)
        element.click()

    def type(self, selector, words):
        element = self.find(selector)
        self.js("arguments[0].scrollIntoView({ block: 'center' }); arguments[0].focus(); arguments[0].select?.()", element)
        element.send_keys(words)

    def press(self, *keys):
        ActionChains(self.driver).send_keys(*keys).perform()

    def begin(self, address="#/", **more):
        """Begins a journey whose clicks are counted."""
        self.at(address, **more)
        self.clicks = 0

    def ready(self):
        """Waits until the dialog has counted; gives the number that it shows."""
        self.until(lambda: self.has("dialog [data-count]"))
        return int(self.js("return document.querySelector('dialog [data-count]').dataset.count"))

    def confirm(self, typed=None):
        """Carries out what the dialog asks, and waits until it is over."""
        self.ready()
        if typed is not None:
            self.type("dialog [name=typed]", str(typed))
        self.until(lambda: not self.js("return document.querySelector('dialog [data-action=confirm]').disabled"))
        self.click("dialog [data-action=confirm]")
        self.until(lambda: not self.has("dialog[open]"))

    def actions(self):
        """The names of the actions that are drawn in the view."""
        return set(self.js("return [...document.querySelectorAll('main [data-action]')].filter(one => one.checkVisibility()).map(one => one.dataset.action)")) - HARMLESS

    def undo(self):
        self.click("#toasts [data-action=undo]")

    def ask(self, *arguments, **more):
        return self.world.ask(*arguments, **more)


# Views

@operator()
def views_open_cold(page):
    """Each address opens cold, after a reload, by Back and Forward, with its heading and the title of the document."""
    for address in VIEWS:
        page.at(address)
        heading = page.text("main h1")
        expect(heading and page.js("return document.title").endswith("· Chapar"), address, heading)
        expect(page.js("return document.querySelectorAll('h1').length") == 1, "not one heading in", address)
        page.driver.refresh()
        page.loaded()
        expect(page.text("main h1") == heading, "another heading after a reload of", address)
    page.at("#/backends")
    page.click("[data-row=ios] [data-open]")
    page.until(lambda: page.text("main h1").startswith("ios"))
    page.driver.back()
    page.until(lambda: page.text("main h1") == "Backends" and page.js("return document.activeElement.closest('[data-row]')?.dataset.row") == "ios")
    page.driver.forward()
    page.until(lambda: page.text("main h1").startswith("ios"))
    page.press(Keys.ESCAPE)
    page.until(lambda: page.text("main h1") == "Backends")


# The scope of each action beside the view's own. `ask` needs the list of backends, so `read`.
ROLES = {
    "#/backends": {"retry": "admin"}, "#/backends/android": {"retry": "admin", "diagnose": "admin"}, "#/quarantine/huawei": {"discard": "admin", "release": "admin"},
    "#/dead": {"resend": "send", "acknowledge": "send"}, "#/audiences": {"pause": "send", "pace": "send", "cancel": "send", "count": "devices"},
    "#/audiences/segments/winter": {"count": "devices", "delete": "devices", "save": "devices"}, "#/audiences/segments/vip": {"count": "devices", "delete": "devices", "add": "devices", "remove": "devices"},
    "#/users/ali": {"erase": "admin", "add-tag": "devices", "remove-tag": "devices"},
    "#/devices/phone-1": {"send-test": "send", "ask": "read", "subscribe": "devices", "suspend": "devices", "unsubscribe": "devices", "add-tag": "devices", "remove-tag": "devices"},
    "#/webhooks/crm": {"test": "webhooks", "recover": "webhooks", "rotate": "webhooks", "disable": "webhooks", "replay": "webhooks"},
}
NEEDS = {"#/users/ali": "devices", "#/devices/phone-1": "devices", "#/audiences/segments/winter": "devices", "#/audiences/segments/vip": "devices", "#/webhooks/crm": "webhooks"}


@operator(has_refusals=True)
def roles_decide_what_operators_are_offered(page):
    """For each scope beside the one that opens the view, the actions are exactly those of the table; the gateway refuses the others."""
    for address, table in ROLES.items():
        opener = NEEDS.get(address, "read")
        for scope in ("send", "broadcast", "devices", "read", "read_all", "read_content", "metrics", "webhooks", "admin"):
            page.faults.answers = [(r"GET /v1/key$", {"name": "tried", "scopes": [opener, scope]})]
            page.at(address)
            wanted = {name for name, needs in table.items() if needs in (scope, opener) or scope == "admin"}
            expect(page.actions() == wanted, address, scope, "offers", page.actions(), "and not", wanted)
    page.faults.clear()
    forced = page.js("return fetch('v1/backends/android/retry', { method: 'POST', headers: { 'Content-Type': 'application/json', Authorization: 'Bearer ' + arguments[0] }, body: '{}' })"
                     ".then(answer => answer.status)", page.world.gateway.keys["support"])
    expect(forced == 403, "a forced request is answered with", forced)
    page.at("#/keys", key="support", is_waited=False)
    page.until(lambda: page.has("main [data-refused]") and "admin" in page.text("main [data-refused]"))


@operator()
def a_refused_token_is_told(page):
    """A token that one backend refused says which one, and why."""
    page.at("#/devices/phone-2")
    expect(page.has("[data-token=ios-apns][data-state=refused]") and "DeviceTokenNotForTopic" in page.text("[data-token=ios-apns]"), page.text("main"))


@operator()
def trouble_stands_first(page):
    """The list of backends begins with what is in trouble, says why once, and shows the credential that ends with a way to renew it."""
    page.begin("#/backends")
    rows = page.js("return [...document.querySelectorAll('[data-list=backends] [data-row]')].map(one => [one.dataset.row, one.dataset.state])")
    states = dict(rows)
    expect(states["android"] == "parked" and states["huawei"] == "quarantined" and states["ios"] == "flowing", rows)
    expect({one for one, _ in rows[:2]} == {"android", "huawei"}, "trouble does not stand first:", rows)
    row = page.text("[data-row=android]")
    expect(row.count("PERMISSION_DENIED") == 1, "the reason is not told once:", row)
    expect("client certificate ends" in page.text("[data-row=ios-legacy]") and page.text("[data-row=ios-legacy]").count("certificate") == 1, page.text("[data-row=ios-legacy]"))
    page.click("[data-row=ios-legacy] [data-action=how-to-renew]")
    page.until(lambda: "chapar check" in page.text("[data-renewal=ios-legacy]"))
    expect(page.clicks == 1, page.clicks, "clicks")
    expect("pkill" not in page.text("main"), "a program is ended by its name")


@operator()
def a_parked_backend_is_tried_again(page):
    """Why a backend is parked stands in its row; after the mend two clicks let it send again."""
    page.begin()
    page.world.mend()
    page.click("nav [data-nav='/backends']")
    page.until(lambda: "PERMISSION_DENIED" in page.text("[data-row=android]"))
    page.click("[data-row=android] [data-action=retry]")
    expect(page.clicks == 2, page.clicks, "clicks")
    page.until(lambda: "due now" in page.text("#toasts"))
    page.world.until(lambda: not page.world.backend("android")["worker"]["parked"])
    page.until(lambda: page.js("return document.querySelector('[data-row=android]').dataset.state") == "flowing")
    page.at("#/backends/android")
    expect(page.js("return document.querySelector('main .state').dataset.state") == "flowing", page.text("main"))


@operator(has_refusals=True)
def one_backend_tells_everything(page):
    """A backend's view has its numbers, its last failures, its charts where the gateway keeps series, and a diagnosis on request."""
    page.at("#/backends/ios")
    facts = page.text("main .facts")
    expect(all(word in facts for word in ("ios-apns", "platform_id", "channels", "closed")), facts)
    found = page.ask("GET", "/v1/deliveries?backend=ios&state=failed,expired,unknown&limit=20")["items"]
    expect(len(page.driver.find_elements(By.CSS_SELECTOR, "[data-list=refusals] [data-row]")) == len(found), page.text("[data-list=refusals]"))
    page.click("[data-action=diagnose]")
    page.until(lambda: page.has("[data-diagnosis] [data-step]"))
    expect(page.has("[data-chart=throughput]") and page.has("[data-chart=age]"), "no charts")
    page.click("[data-choice='24h']")
    page.until(lambda: "range=24h" in page.js("return location.hash"))
    page.at("#/backends/nothing", is_waited=False)
    page.until(lambda: page.has("main [data-gone]"))


# Dead letters

@operator()
def dead_letters_are_counted(page):
    """The rows are those of the API; what would fail again cannot be sent again, and says why."""
    page.at("#/dead")
    told = {f"{one['reason']}/{one['backend']}": one for one in page.ask("GET", "/v1/deliveries/counts?by=reason,backend")["items"]}
    rows = page.js("return [...document.querySelectorAll('[data-list=dead] [data-row]')].map(one => [one.dataset.row, Number(one.querySelector('[data-count]').dataset.count), one.dataset.state])")
    expect({(key, one["count"], one["cause"]) for key, one in told.items()} == {tuple(row) for row in rows}, rows, told)
    for key, one in told.items():
        button = page.js("return document.querySelector(`[data-row=\"${arguments[0]}\"] [data-action=resend]`).disabled", key)
        expect(button == (one["cause"] == "there"), key, "is off:", button)
    page.click("[data-choice=backend]")
    page.until(lambda: "by=backend" in page.js("return location.hash") and page.has("[data-list=dead] [data-row=ios]"))
    page.click("[data-row=ios] [data-action=show]")
    page.until(lambda: "dead=true" in page.js("return location.hash") and "backend=ios" in page.js("return location.hash"))


@operator()
def a_days_message_is_found_and_sent_again(page):
    """With only the page: find yesterday's message of a user, see why it failed, and when the cause is mended send it again and see it arrive."""
    page.begin()
    page.press("/")
    page.press("user:user-004 state:expired", Keys.ENTER)
    page.until(lambda: "Invoice 4" in page.text("main [data-list]") and "ServiceUnavailable" in page.text("main [data-list]"))
    page.click("main [data-row] [data-open]")
    page.until(lambda: "Apple's service is not available." in page.text("main"))
    expect(page.clicks == 1, page.clicks, "clicks to the reason")
    page.click("main [data-action=resend]")
    expect(page.ready() == 1, "another number")
    page.confirm()
    expect(page.clicks == 3, page.clicks, "clicks to the resend")
    page.until(lambda: page.has("#toasts a"))
    page.click("#toasts a")
    page.until(lambda: page.has("main [data-state=accepted_by_platform]") and "Invoice 4" in page.text("main h1"))


@operator()
def a_mended_reason_is_sent_again(page):
    """Three clicks send everything of a reason again: the dialog's number is the dry run's, and its effect."""
    row = "[data-row='ServiceUnavailable/ios']"
    page.begin()
    before = page.world.dead_count()
    page.click("nav [data-nav='/dead']")
    page.click(f"{row} [data-action=resend]")
    count = page.ready()
    told = page.ask("POST", "/v1/deliveries/resend", {"filter": {"dead": True, "reason": ["ServiceUnavailable"], "backend": ["ios"]}, "options": {"ttl": 600}, "dry_run": True})
    expect(count == told["resent"] == 3, count, told)
    expect(page.js("return document.activeElement.closest('dialog') && document.activeElement.dataset.action !== 'confirm'"), "the dangerous button has the focus")
    page.press(Keys.ENTER)
    page.until(lambda: not page.has("dialog[open]"))
    expect(page.world.dead_count() == before, "Enter at the opening did something")
    expect(page.js("return document.activeElement.dataset.action") == "resend", "the focus did not return to the opener")
    sent = len(page.ask("GET", "/v1/deliveries?user=user-000")["items"])
    page.clicks = 1
    page.click(f"{row} [data-action=resend]")
    page.ready()
    page.clicks += 1
    ActionChains(page.driver).double_click(page.find("dialog [data-action=confirm]")).perform()
    expect(page.clicks == 3, page.clicks, "clicks")
    page.until(lambda: "3 were sent again" in page.text("#toasts"))
    page.until(lambda: not page.has(row))
    expect(page.world.dead_count() == before - 3, page.world.dead_count())
    again = page.ask("GET", "/v1/deliveries?user=user-000")["items"]
    expect(len(again) == sent + 1, "a double click acted twice:", len(again) - sent)
    page.world.until(lambda: page.ask("GET", "/v1/deliveries?user=user-000&limit=1")["items"][0]["state"] == "accepted_by_platform")


@operator()
def acknowledged_letters_come_back(page):
    """Acknowledged letters leave the view, and Undo brings exactly these back."""
    page.at("#/dead")
    before = page.world.dead_count()
    page.click("[data-row='stream_reset/ios'] [data-action=acknowledge]")
    expect(page.ready() == 1, "another number")
    page.confirm()
    page.until(lambda: not page.has("[data-row='stream_reset/ios']"))
    expect(page.world.dead_count() == before - 1, page.world.dead_count())
    page.undo()
    page.until(lambda: page.has("[data-row='stream_reset/ios']"))
    expect(page.world.dead_count() == before, page.world.dead_count())


# Audiences

def campaign(page):
    return next(one for one in page.ask("GET", "/v1/campaigns")["items"] if one["audience"]["phase"] == "running")


@operator()
def a_campaign_is_steered(page):
    """Pause and its Undo are one click each, the pace two; all of them are what the API says afterwards."""
    page.begin("#/audiences")
    row = f"[data-row='{campaign(page)['id']}']"
    page.click(f"{row} [data-action=pause]")
    expect(page.clicks == 1, page.clicks)
    page.until(lambda: "is paused" in page.text("#toasts"))
    expect(campaign(page)["audience"]["paused"], "it is not paused")
    page.until(lambda: page.has(f"{row} [data-action=resume]"))
    page.undo()
    expect(page.clicks == 2, page.clicks)
    page.world.until(lambda: not campaign(page)["audience"]["paused"])
    page.until(lambda: page.has(f"{row} [data-action=pause]"))
    page.begin("#/audiences")
    page.click(f"{row} [data-action=pace]")
    page.type("dialog [name=pace]", "30")
    page.click("dialog [data-action=confirm]")
    expect(page.clicks == 2, page.clicks)
    page.world.until(lambda: campaign(page)["audience"]["pace"].get("per_minute") == 30)
    page.until(lambda: "30 a minute" in page.text(row))
    page.undo()
    page.world.until(lambda: campaign(page)["audience"]["pace"].get("per_minute") == 20)
    audience = campaign(page)["audience"]
    expect(audience["matched"] == audience["reached"] + sum(audience["skipped"].values()), audience)


@operator()
def a_campaign_is_cancelled(page):
    """The dialog says how many wait; afterwards the campaign is over."""
    made = page.world.campaign("To be cancelled", per_minute=1)
    page.at("#/audiences")
    page.click(f"[data-row='{made}'] [data-action=cancel]")
    count = page.ready()
    expect(count == page.ask("DELETE", f"/v1/notifications/{made}?dry_run=true")["cancelled"], count)
    page.confirm()
    page.until(lambda: page.has(f"[data-list=campaigns] [data-row='{made}'][data-state=cancelled]"))
    expect(page.ask("GET", f"/v1/notifications/{made}")["audience"]["phase"] == "cancelled", "it goes on")


@operator(has_refusals=True)
def a_segment_is_written(page):
    """A rule is counted while it is written, a mistake is marked at its place, and the segment is stored, changed back and deleted."""
    page.at("#/audiences/new")
    page.until(lambda: page.has("[data-live-count]"))
    page.type("main [name=segment-name]", "readers")
    page.type("main textarea", json.dumps({"all": [{"tag": "plan:free"}, {"nonsense": 1}]}))
    page.until(lambda: page.has("main [data-pointer$='/all/1'].bad"))
    page.type("main textarea", json.dumps({"tag": "plan:free"}))
    count = page.ask("POST", "/v1/audiences/count", {"audience": {"tag": "plan:free"}})["count"]
    page.until(lambda: page.js("return document.querySelector('[data-live-count]')?.dataset.liveCount") == str(count))
    page.click("[data-action=save]")
    page.until(lambda: page.text("main h1") == "readers")
    expect(page.ask("GET", "/v1/segments/readers")["rule"] == {"tag": "plan:free"}, "another rule")
    page.type("main textarea", json.dumps({"tag": "plan:pro"}))
    page.click("[data-action=save]")
    page.world.until(lambda: page.ask("GET", "/v1/segments/readers")["rule"] == {"tag": "plan:pro"})
    page.undo()
    page.world.until(lambda: page.ask("GET", "/v1/segments/readers")["rule"] == {"tag": "plan:free"})
    page.click("[data-action=delete]")
    expect(page.ready() == count, "another number of devices")
    page.confirm()
    page.until(lambda: page.text("main h1") == "Audiences")
    page.ask("GET", "/v1/segments/readers", want=[404])


@operator(has_refusals=True)
def a_list_has_members(page):
    """Members are loaded from a file, added and removed, and each change can be undone."""
    file = page.world.folder / "list.csv"
    file.write_text("device,note\nphone-1,\"first\"\nphone-3,\n")
    page.at("#/audiences/new")
    page.type("main [name=segment-name]", "testers")
    page.find("main [name=file]").send_keys(str(file))
    page.until(lambda: page.text("main h1") == "testers")
    members = lambda: set(page.ask("GET", "/v1/segments/testers/members")["items"])
    expect(members() == {"phone-1", "phone-3"}, members())
    page.click("[data-row=phone-3] [data-action=remove]")
    page.world.until(lambda: members() == {"phone-1"})
    page.undo()
    page.world.until(lambda: members() == {"phone-1", "phone-3"})
    page.type("main [name=member]", "tablet-1")
    page.click("[data-action=add]")
    page.world.until(lambda: "tablet-1" in members())
    page.until(lambda: page.has("[data-row=tablet-1]"))
    page.type("main [name=member]", "no-such-device")
    page.click("[data-action=add]")
    page.until(lambda: "no device no-such-device" in page.text("#toasts"))


# Quarantine

@operator()
def quarantined_tokens_are_kept(page):
    """Discarding says how many stay alive, and the backend sends again."""
    held = page.world.quarantined()
    page.at("#/quarantine/huawei")
    expect(page.js("return Number(document.querySelector('main [data-count]').dataset.count)") == held, page.text("main"))
    page.click("[data-action=discard]")
    expect(page.ready() == held, "another number than", held)
    page.confirm()
    page.until(lambda: page.has("main [data-empty]"))
    page.world.until(lambda: not page.world.backend("huawei")["worker"]["invalidations_quarantined"])
    expect(page.ask("GET", "/v1/devices/old-00")["tokens"]["android-huawei"]["alive"], "a token died")


@operator()
def quarantined_tokens_are_released(page):
    """Three clicks and the typed number mark the tokens dead; a wrong number does not."""
    held = page.world.quarantine("gone")
    page.begin()
    page.click("nav [data-nav='/quarantine']")
    page.click("[data-row=huawei] [data-action=decide]")
    page.click("[data-action=release]")
    expect(page.ready() == held, "another number than", held)
    page.type("dialog [name=typed]", str(held + 1))
    expect(page.js("return document.querySelector('dialog [data-action=confirm]').disabled"), "a wrong number is taken")
    page.js("document.querySelector('dialog [name=typed]').select()")
    page.confirm(held)
    expect(page.clicks <= 4, page.clicks, "clicks")
    page.until(lambda: page.has("main [data-empty]"))
    expect(not page.ask("GET", "/v1/devices/gone-00")["tokens"].get("android-huawei", {"alive": False})["alive"], "a token lives")


# People

@operator(has_refusals=True)
def a_user_is_shown(page):
    """Devices with the health of their tokens, tags and lists with Undo, and the last messages."""
    page.at("#/users/ali")
    expect(page.has("[data-row=phone-1] [data-token=ios-apns][data-state=alive]") and page.has("[data-row=tablet-1]"), page.text("main"))
    expect("Order 42 is on its way" in page.text("[data-list=messages]"), page.text("main"))
    tags = lambda: page.ask("GET", "/v1/users/ali/tags")["tags"]
    page.type("[name=user-tags]", "vip" + Keys.ENTER)
    page.world.until(lambda: set(tags()) == {"gold", "vip"})
    page.until(lambda: page.has("#toasts [data-action=undo]"))
    page.undo()
    page.world.until(lambda: tags() == ["gold"])
    lists = lambda: page.ask("GET", "/v1/users/ali/lists")["lists"]
    before = lists()
    page.click("[data-list-switch=offers]")
    page.world.until(lambda: not lists()["offers"]["in"])
    page.until(lambda: "“offers”" in page.text("#toasts"))
    page.undo()
    page.world.until(lambda: lists() == before)
    page.at("#/users/mina")
    expect(page.has("[data-row=phone-4] [data-state=dead]") and "Unregistered" in page.text("[data-row=phone-4]"), page.text("main"))
    page.at("#/users/nobody", is_waited=False)
    page.until(lambda: page.has("main [data-gone]") and page.text("main h1") == "nobody")


@operator()
def a_user_is_erased(page):
    """The number of devices is typed; afterwards nothing is kept."""
    page.world.device("phone-9", "leaver", {"ios-apns": "99" * 32})
    page.at("#/users/leaver")
    page.click("[data-action=erase]")
    expect(page.ready() == 1, "another number of devices")
    page.confirm(1)
    page.ask("GET", "/v1/devices/phone-9", want=[404])


@operator()
def a_device_gets_a_test(page):
    """Three clicks send a test to one device, and the page says where it went; a platform that keeps subscriptions is asked."""
    page.begin("#/users/ali")
    page.click("[data-row=phone-1] [data-open]")
    page.until(lambda: page.text("main h1") == "phone-1")
    page.click("[data-action=send-test]")
    page.confirm()
    expect(page.clicks == 3, page.clicks, "clicks")
    page.until(lambda: "ios" in page.text("[data-test=sent]"))
    made = page.js("return document.querySelector('[data-test=sent] a').hash").rsplit("/", 1)[1]
    page.world.until(lambda: page.ask("GET", f"/v1/notifications/{made}")["counts"].get("accepted_by_platform"))
    page.click("[data-keeper=crm] [data-action=ask]")
    page.until(lambda: page.has("[data-keeper=crm] [data-status]") or page.has("#toasts .bad"))


@operator()
def a_device_is_changed(page):
    """Tags have an Undo, and a subscription asks first."""
    tags = lambda: page.ask("GET", "/v1/devices/phone-3")["tags"]
    page.at("#/devices/phone-3")
    page.click("[data-tags=tags] [data-action=remove-tag]")
    page.world.until(lambda: tags() == [])
    page.until(lambda: page.has("#toasts [data-action=undo]"))
    page.undo()
    page.world.until(lambda: tags() == ["plan:free"])
    count = lambda: page.ask("POST", "/v1/audiences/count", {"audience": {"segment": "vip"}})["count"]
    before = count()
    for verb, expected in (("suspend", before - 1), ("subscribe", before)):
        page.click(f"[data-action={verb}]")
        page.confirm()
        page.world.until(lambda: count() == expected)


# Webhooks and keys

@operator()
def a_failing_webhook_is_looked_at(page):
    """One click shows the last answer, the second tests, the third sends an event again."""
    page.begin("#/webhooks")
    page.click("[data-row=crm] [data-open]")
    page.until(lambda: "503" in page.text("[data-last]"))
    expect(page.clicks == 1, page.clicks)
    page.click("[data-action=test]")
    page.until(lambda: "503" in page.text("[data-test=refused]"))
    expect(page.clicks == 2, page.clicks)
    page.world.crm.status, taken = 204, len(page.world.crm.taken)
    page.click("[data-action=test]")
    page.until(lambda: page.has("[data-test=delivered]"))
    page.click("[data-row] [data-action=replay]")
    page.confirm()
    page.until(lambda: "sent again" in page.text("#toasts"))
    page.world.until(lambda: len(page.world.crm.taken) > taken + 1)
    page.click("[data-choice=failed]")
    page.until(lambda: page.has("[data-list=attempts] [data-state=refused]") and not page.has("[data-list=attempts] [data-state=delivered]"))


@operator()
def a_webhook_is_changed(page):
    """Switching off has an Undo, a new key is shown once, and what was given up is sent again."""
    status = lambda: page.ask("GET", "/v1/webhooks/shop")["status"]
    page.at("#/webhooks/shop")
    page.click("[data-action=disable]")
    page.world.until(lambda: status() == "disabled")
    page.undo()
    page.world.until(lambda: status() == "active")
    page.click("[data-action=rotate]")
    page.ready()
    page.click("dialog [data-action=confirm]")
    page.until(lambda: "whsec_" in page.text("dialog[data-dialog=secret]"))
    page.press(Keys.ESCAPE)
    page.until(lambda: not page.has("dialog[open]"))
    expect("whsec_" not in page.js("return document.body.innerText + location.href + JSON.stringify(sessionStorage)"), "the key is still shown")
    page.click("[data-action=recover]")
    page.confirm()
    page.until(lambda: "sent again" in page.text("#toasts"))


@operator()
def keys_are_listed(page):
    """Each key with its scopes, last use and end; never a value; the one with the largest share of the queue first."""
    page.begin()
    page.click("nav [data-nav='/keys']")
    page.until(lambda: page.has("[data-row=shop]"))
    expect(page.clicks == 1, page.clicks)
    told = page.ask("GET", "/v1/keys")["keys"]
    rows = page.js("return [...document.querySelectorAll('[data-list=keys] [data-row]')].map(one => one.dataset.row)")
    expect(set(rows) == {one["name"] for one in told}, rows)
    if any("share" in one for one in told):
        expect(rows[0] == max(told, key=lambda one: one.get("share", 0))["name"], rows[0])
    expect(page.js("return document.querySelector('[data-row=shop]').dataset.state") == "soon", page.text("[data-row=shop]"))
    whole = page.js("return document.documentElement.outerHTML")
    expect(not any(secret in whole for secret in page.world.gateway.keys.values()), "a key is shown")


# Every view

READS = {"#/backends": r"GET /v1/backends$", "#/backends/android": r"GET /v1/backends$", "#/quarantine": "GET /v1/invalidations", "#/quarantine/huawei": "GET /v1/invalidations", "#/dead": "GET /v1/deliveries/counts",
         "#/audiences": "GET /v1/campaigns", "#/audiences/segments/winter": "GET /v1/segments/winter$", "#/audiences/segments/vip": "GET /v1/segments/vip$", "#/users/ali": "GET /v1/users/ali", "#/devices/phone-1": "GET /v1/devices/phone-1$",
         "#/webhooks": "GET /v1/webhooks$", "#/webhooks/crm": "GET /v1/webhooks/crm$", "#/keys": "GET /v1/keys"}


@operator(has_refusals=True)
def states_of_operators_views_are_drawn(page):
    """Loading, an error, a refusal and a lost connection are drawn in every view, and the view comes when they are over."""
    problem = {"title": "Something broke", "status": 500, "code": "internal", "request_id": "0ABC", "detail": "On purpose."}
    for address, words in READS.items():
        for what, sign in (((500, problem), "[data-error]"), ((403, {"title": "Forbidden", "status": 403, "detail": "The key lacks the scope `admin`."}), "[data-refused]"), ((404, {"title": "Not found", "status": 404}), "[data-gone]")):
            page.faults.rules = [(words, what)]
            page.at(address, is_waited=False)
            page.until(lambda: page.has(f"main {sign}"))
            if sign == "[data-error]":
                expect("Something broke" in page.text("main") and "0ABC" in page.text("main"), address, page.text("main"))
                page.faults.clear()
                page.click("main [data-action=retry-load]")
                page.loaded()
                expect(not page.has("main [data-error]"), address, "does not recover")
        page.faults.rules = [(words, "1.5s")]
        page.at(address, is_waited=False)
        page.until(lambda: page.has("main [data-loading]"))
        page.loaded()
        page.faults.clear()
    for address, words, body in (("#/backends", READS["#/backends"], {"backends": [], "credential_expiries": {}, "credential_warning_days": 30}), ("#/quarantine", READS["#/quarantine"], {"backends": []}),
                                 ("#/dead", READS["#/dead"], {"items": [], "total": 0, "next": None, "looked_back_to": None}), ("#/webhooks", READS["#/webhooks"], {"webhooks": []}), ("#/keys", READS["#/keys"], {"keys": []})):
        page.faults.answers = [(words, body)]
        page.faults.rules = [("GET /v1/events", 503)]  # The stream would bring the true backends.
        page.at(address)
        expect(page.has("main [data-empty]"), address, "has no empty state:", page.text("main"))
        page.faults.clear()


HOSTILE = "<img src=x onerror=\"window.harmed=1\">\"><script>window.harmed=1</script>\u202egnp javascript:alert(1) " + "w" * 300
TOLD, LONG = HOSTILE + "\0\u2066", HOSTILE * 250  # LONG has some 100 KB.


@operator(has_refusals=True)
def hostile_texts_do_nothing(page):
    """Texts of others as users, tags, reasons, backends and keys are shown as texts: no script, no other host, the layout whole."""
    page.world.device("phone-7", HOSTILE[:200], {"ios-apns": "77" * 32}, tags=[HOSTILE[:100]])
    backend = {**page.world.backend("android"), "name": TOLD, "kind": HOSTILE}
    backend["health"] = {**backend["health"], "status": "down", "detail": LONG, "credential_expiries": {HOSTILE: "2027-01-01T00:00:00Z"}}
    cases = [
        ("#/users/" + quote(HOSTILE[:200], safe=""), None, None), ("#/devices/phone-7", None, None),
        ("#/backends", r"GET /v1/backends$", {"backends": [backend], "credential_expiries": {}, "credential_warning_days": 30}),
        ("#/dead", "GET /v1/deliveries/counts", {"items": [{"reason": HOSTILE * 10, "backend": HOSTILE, "count": 1, "unknown": 1, "cause": "gone",
                                                            "explanation": {"reason": HOSTILE, "meaning": LONG, "gateway": TOLD, "action": LONG}}], "total": 1, "next": None, "looked_back_to": None}),
        ("#/keys", "GET /v1/keys", {"keys": [{"name": TOLD, "scopes": ["read"], "backends": [HOSTILE], "rotating": False}]}),
        ("#/quarantine", "GET /v1/invalidations", {"backends": [{"backend": HOSTILE, "quarantined": 1, "held": 1, "reasons": {HOSTILE: 1}, "stopped": True, "explanation": LONG}]}),
        ("#/webhooks", r"GET /v1/webhooks$", {"webhooks": [{"name": HOSTILE, "url": "javascript:alert(1)", "types": [], "status": "failing", "open": 1, "failed": 1, "lag": 1, "ordered": False, "batch": False, "rate": 0, "cursor": 1}]}),
    ]
    for address, words, body in cases:
        page.faults.answers = [(words, body)] if words else []
        page.faults.rules = [("GET /v1/events", 503)]  # The stream would bring the true backends.
        for width in (360, 1280):
            page.at(address, width=width)
            expect(not page.js("return window.harmed"), address, "ran a script")
            expect("onerror" in page.text("main") and page.js("return document.querySelectorAll('main img, main script').length") == 0, address, page.text("main")[:300])
            expect(page.js("return [...document.querySelectorAll('main a')].every(one => one.protocol === location.protocol)"), "a link leads elsewhere in", address)
            expect(page.js("return document.documentElement.scrollWidth <= innerWidth"), address, width, "is too wide")
    page.faults.clear()


AXE_RULES = ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"]
TEXT_KEYS = r"""
return [...document.querySelectorAll("main *")].filter(one => !one.children.length && !one.closest("code") && /^[a-z]+\.[a-z_]+$/.test(one.textContent.trim()))
  .map(one => one.textContent);
"""


@operator()
def operators_views_are_accessible(page):
    """axe-core finds nothing, nothing scrolls sideways and no text is missing: each view in three pairs of language and width."""
    settings = [("en", "light"), ("fa", "dark"), ("ru", "light"), ("en", "dark"), ("fa", "light"), ("ru", "dark")]
    for number, address in enumerate(VIEWS):
        for turn in range(3):
            language, theme = settings[(turn + number % 2 * 3) % 6]
            width = (320, 768, 1280)[(turn + number) % 3]
            what = f"{address}, {language}, {theme}, {width} pixels"
            page.at(address, language=language, theme=theme, width=width)
            sizes = page.js("return [document.documentElement.scrollWidth, innerWidth]")
            expect(sizes[0] <= sizes[1], what, "is too wide:", sizes)
            expect(not page.js(TEXT_KEYS), what, "shows the keys of texts:", page.js(TEXT_KEYS))
            expect(page.js("return document.documentElement.dir") == ("rtl" if language == "fa" else "ltr"), what)
            page.js(AXE + ";")
            found = page.driver.execute_async_script("axe.run(document, { runOnly: arguments[0] }).then(arguments[1])", AXE_RULES)
            wrong = [f"{one['id']} ({one['impact']}): {one['help']}: {one['nodes'][0]['html'][:200]}" for one in found["violations"]]
            expect(not wrong, "axe finds in", what, *wrong)
    page.at("#/devices/phone-2", language="fa")
    expect("DeviceTokenNotForTopic" in page.text("main"), "a reason is not Latin:", page.text("main"))


@operator()
def keys_of_the_keyboard_suffice(page):
    """A parked backend is found, opened and tried again without a pointer, also with the letters of a Persian layout."""
    page.at("#/")
    page.press("g", "b")
    page.until(lambda: page.text("main h1") == "Backends")
    page.loaded()
    page.press("j")
    page.until(lambda: page.js("return document.activeElement.closest('[data-row]') === document.querySelector('[data-row]')"))
    page.press(Keys.ENTER)
    page.until(lambda: page.js("return location.hash.startsWith('#/backends/')"))
    page.loaded()
    page.press(Keys.ESCAPE)
    page.until(lambda: page.text("main h1") == "Backends")
    send = "for (const [code, key] of arguments[0]) document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { code, key, bubbles: true, cancelable: true }))"
    page.js(send, [["KeyG", "ل"], ["KeyQ", "ض"]])
    page.until(lambda: page.text("main h1") == "Quarantine")
    page.js(send, [["KeyG", "п"], ["KeyK", "л"]])
    page.until(lambda: page.text("main h1") == "Keys")
    page.until(lambda: page.js("return document.activeElement === document.querySelector('main h1')"))


@operator(has_refusals=True)
def lost_connection_takes_actions_away(page):
    """While the gateway is away what was known stays, with its time, and no action can be begun."""
    page.at("#/backends/android")
    page.faults.rules = [("/v1/", "cut")]
    page.until(lambda: page.has("[data-banner=lost]"))
    expect(page.js("return [...document.querySelectorAll('main button[data-action=retry], main button[data-action=diagnose]')].every(one => one.disabled)"), page.text("main"))
    expect("PERMISSION_DENIED" in page.text("main") or "flowing" in page.text("main"), "what was known is gone")
    page.faults.clear()
    page.until(lambda: not page.has("[data-banner=lost]"))
