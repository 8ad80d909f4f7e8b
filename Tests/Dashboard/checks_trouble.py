"""Checks of what goes wrong around the page: addresses with mistakes, requests that hang, refusals, names that are hard to tell."""
import json
import time
from urllib.parse import quote

import gateways
from browser import Keys, check, expect
from checks_page import own_views

TURNED = "Win\u202eter"


def sent(faults, line):
    """The bodies of the requests of a line such as "POST /v1/notifications"."""
    return [json.loads(body) for asked, body in faults.bodies if asked == line]


def search(browser, words):
    browser.js("const box = document.querySelector('main [data-search]'); box.value = arguments[0]; box.form.requestSubmit()", words)


@check
def a_mistaken_address_asks_for_nothing(browser, scene):
    """An address with a key that there is not shows no wider list; a value that is refused leaves no row of the filter before it."""
    made, front, faults = scene.world()
    admin = made.gateway.keys["admin"]
    faults.requests.clear()
    browser.visit(front, "/messages?usr=reza&state=failed", admin)
    expect("There is no key usr" in browser.text("main .error"), browser.text("main")[:300])
    expect(not browser.count("main [data-row], main [data-action=resend]"), "a wider filter was asked for")
    expect(not [line for line in faults.requests if "/v1/notifications" in line], faults.requests)
    search(browser, "state:failed")
    browser.until(lambda: browser.count("main [data-row]") and not browser.text("main .error"))
    search(browser, "app:none state:failed")
    browser.until(lambda: "The apps are" in browser.text("main .error"))
    expect(not browser.count("main [data-row], main [data-action=resend]"), "the rows of the filter before are still there")
    browser.driver.back()
    browser.until(lambda: browser.count("main [data-row]") and not browser.text("main .error"))
    search(browser, "reza since:never")
    browser.until(lambda: "RFC 3339" in browser.text("main .error"))
    search(browser, "reza")
    browser.until(lambda: browser.js("return document.querySelector('[data-matches]')?.dataset.matches") == "user")
    browser.click("[data-match=user]")
    browser.until(lambda: browser.js("return location.hash") == "#/messages?user=reza")
    browser.leave()
    browser.complaints = [one for one in browser.complaints if " 422 " not in one]


@check
def requests_that_hang_give_way(browser, scene):
    """A view that is read again gives up the request before, so that requests without an answer do not take all places."""
    made, front, faults = scene.world()
    browser.visit(front, "/backends", made.gateway.keys["admin"])
    faults.rules = [("GET /v1/backends", "20s")]
    for _ in range(6):
        browser.js("reload()")
        time.sleep(0.1)
    faults.clear()
    browser.js("location.hash = '#/keys'")
    browser.until(lambda: browser.js("return document.querySelector('main').dataset.view === '/keys' && document.querySelector('main').dataset.load === 'done'"), 5)
    expect(browser.js("return running + queue.length") == 0, browser.js("return [running, queue.length]"))


@check
def an_answer_that_breaks_off_is_told(browser, scene):
    """An answer that ends in its middle is no empty answer: the view says that the gateway did not answer, and comes at the next try."""
    made, front, faults = scene.world()

    def broken(handler, _):
        handler.answer(200, b'{"backends": [{"name": "io')

    browser.visit(front, "/nothing", made.gateway.keys["admin"])
    faults.streams = [(r"GET /v1/backends$", broken)]
    browser.go("/backends")
    expect("does not answer" in browser.text("main [data-error]"), browser.text("main")[:300])
    faults.clear()
    browser.click("main [data-action=retry-load]")
    browser.until(lambda: browser.count("main [data-row=ios]"))


@check
def a_refused_stream_takes_no_actions_away(browser, scene):
    """Where only the stream is refused, the page says so and goes on: what it asks is answered, so actions stay."""
    made, front, faults = scene.world()
    faults.rules = [("GET /v1/events", (429, {"title": "Too many streams", "status": 429, "detail": "This key has all of its streams open."}))]
    browser.visit(front, f"/messages/{made.failed}", made.gateway.keys["admin"])
    browser.until(lambda: "all of its streams open" in browser.text("[data-banner=refused]"))
    expect(browser.count("main [data-action=resend]:not(:disabled)"), "no action is offered")
    expect(not browser.count("main.lost"), "the view is drawn as lost")
    browser.accessibility("a refused stream", False)
    faults.clear()
    browser.click("[data-action=try-now]")
    browser.until(lambda: browser.js("return live.connection") == "live" and not browser.count("[data-banner]"))
    browser.leave()
    browser.complaints = [one for one in browser.complaints if " 429 " not in one]


@check
def another_page_begins_at_its_top(browser, scene):
    """The next page of a search goes on where the first one ends, also a while later, and begins at its top; Back is where that was left."""
    made, front, _ = scene.world()
    batch = {"notifications": [{"to": {"tokens": [{"token": f"{n:064x}", "service": "ios-apns"}]}, "content": {"title": f"Page {n}", "body": "x"}} for n in range(100)]}
    made.ask("POST", "/v1/notifications/batch", batch, made.shop)
    browser.visit(front, "/messages?since=1h", made.gateway.keys["admin"])
    rows = lambda: browser.js("return [...document.querySelectorAll('main [data-row]')].map(row => row.dataset.row)")
    first = rows()
    time.sleep(1.5)  # What `1h` stands for is another time now.
    browser.click("[data-older]")
    browser.until(lambda: browser.js("return location.hash.includes('cursor') && !current.isLoading"))
    found = [one["id"] for one in made.ask("GET", "/v1/notifications?limit=200")["items"]]
    wanted = found[found.index(first[-1]) + 1:][:50]
    browser.until(lambda: rows() == wanted)
    browser.until(lambda: browser.js("return [scrollY, document.activeElement.tagName]") == [0, "H1"])
    browser.driver.back()
    browser.until(lambda: rows() == first and browser.js("return scrollY") > 500)


@check
def names_reach_the_right_ones(browser, scene):
    """A user whose name has commas is one user, and one of an app is written to in that app."""
    made, front, faults = scene.world()
    name = 'Petrov, "Ali"'
    made.device("comma-1", name, {"ios-apns": "ca" * 32})
    browser.visit(front, f"/users/{quote(name)}?app=default", made.gateway.keys["admin"])
    browser.click("[data-action=send-to]")
    browser.until(lambda: browser.js("return document.querySelector('main').dataset.view") == "/send")
    browser.drawn()
    browser.js("document.querySelector('[name=send-title]').focus()")
    browser.press("For one")
    faults.bodies.clear()
    browser.click("[data-action=check]")
    browser.until(lambda: browser.count("[data-outcome='1']"))
    asked = sent(faults, "POST /v1/notifications")[-1]
    expect(asked["to"] == {"users": [name]} and asked["app"] == "default", asked)
    found = browser.js("return ['a, b', '\"a, b\", c', ' a ,,b ', ''].map(one => namesIn(one))")
    expect(found == [["a", "b"], ["a, b", "c"], ["a", "b"], []], found)


@check
def small_keys_are_told_why(browser, scene):
    """A view that a key may not open has its own heading, and a key that reads only its own messages is told so."""
    made, front, _ = scene.world()
    browser.visit(front, "/users/reza", made.gateway.keys["only-read"])
    expect(browser.text("h1") == "reza" and browser.js("return document.title") == "reza · Chapar", browser.text("h1"))
    for path in (f"/messages/{made.failed}", "/messages?user=reza"):
        browser.go(path)
        browser.until(lambda: "read_all" in browser.text("[data-own-only]"))
    browser.visit(front, "/messages?user=nobody", made.gateway.keys["support"])
    expect(browser.count("[data-empty]") and not browser.count("[data-own-only]"), browser.text("main"))
    browser.leave()
    browser.complaints = [one for one in browser.complaints if " 404 " not in one]


BROKEN_WORDS = """
return [...document.querySelectorAll("nav a > span:first-child, nav button")].filter(one => one.checkVisibility()).filter(one => {
  const range = document.createRange(), letters = one.firstChild;
  return letters.data.split(" ").some((word, n, all) => {
    const start = all.slice(0, n).join(" ").length + (n > 0);
    range.setStart(letters, start);
    range.setEnd(letters, start + word.length);
    return range.getClientRects().length > 1;
  });
}).map(one => one.textContent);
"""


@check
def words_of_the_bar_stay_whole(browser, scene):
    """On a phone no word of the bar at the bottom is broken, in any language, and nothing scrolls sideways."""
    made, front, _ = scene.world()
    for language in ("en", "ru", "fa"):
        browser.visit(front, "/messages", made.gateway.keys["admin"], language)
        for width in (360, 320):
            browser.resize(width, 700)
            browser.settle()
            broken = browser.js(BROKEN_WORDS)
            expect(not broken, language, width, broken)
            expect(browser.js("return document.documentElement.scrollWidth") <= width, language, width, "is too wide")
    browser.resize(1200, 1000)


@check
def tiles_have_the_running_minute(browser, scene):
    """The tiles count what is not stored yet; a chart of which nothing is known says so."""
    made, front, faults = scene.world()
    names = ("accepted", "handed_over", "arrived", "failed", "expired", "unknown", "retried", "oldest")
    at = time.strftime("%Y-%m-%dT%H:%M:00Z", time.gmtime(time.time() - 3600))
    told = {"from": at, "until": at, "step": 60, "series": {name: [None] * 60 for name in names}, "gaps": [],
            "running": {name: 700 + n for n, name in enumerate(names[:-1])}}
    faults.answers = [("GET /v1/series", told)]
    browser.visit(front, "/", made.gateway.keys["admin"])
    shown = {name: int(browser.text(f"[data-tile={name}] b").replace(",", "")) for name in ("accepted", "handed_over", "arrived", "failed", "unknown")}
    expect(all(told["running"][name] <= count <= told["running"][name] + 50 for name, count in shown.items()), shown)
    expect("Nothing was counted yet." in browser.text("[data-chart=throughput]"), browser.text("[data-chart=throughput]"))


@check
def turned_names_turn_no_sentence(browser, scene):
    """A name with characters that turn the direction shows them as marks, in dialogs and notices too."""
    made, front, _ = scene.world()
    one = made.campaign(TURNED, 30)
    browser.visit(front, f"/messages/{one}", made.gateway.keys["admin"])
    browser.click("[data-action=cancel]")
    browser.until(lambda: browser.count("dialog [data-count]"))
    expect("Win⟨202E⟩ter" in browser.text("dialog h2"), browser.text("dialog h2"))
    browser.click("dialog [data-action=confirm]:not(:disabled)")
    browser.until(lambda: "Win⟨202E⟩ter" in browser.text("#toasts"))


# What shows, opens or goes elsewhere needs no gateway.
QUIET = ("copy", "copy-ids", "how", "how-to-renew", "settings", "show", "decide", "send-to", "new-segment", "try-now", "undo")


@check
def lost_views_offer_no_action(browser, scene):
    """While the gateway is away no view offers an action, not even a form that would send something."""
    made, front, faults = scene.world()
    for path in own_views(made):
        browser.visit(front, path, made.gateway.keys["admin"])
        browser.until(lambda: browser.js("return live.connection") == "live")
        faults.rules = [("/v1/", "cut")]
        browser.until(lambda: browser.is_shown("[data-banner=lost]"))
        browser.settle()
        left = browser.js("return [...document.querySelectorAll('main button[data-action], main input[type=checkbox]:not([data-select], [type=checkbox][aria-label])')]"
                          ".filter(one => one.checkVisibility() && !one.disabled).map(one => one.dataset.action ?? one.name)")
        expect(not set(left) - set(QUIET), path, "still offers", set(left) - set(QUIET))
        faults.clear()
    browser.leave()
    browser.complaints = [one for one in browser.complaints if "ERR_" not in one]


@check
def a_long_cut_is_made_good(browser, scene):
    """After 30 s without a connection the list is that of the API, no row stands twice, and "newer" counts as a GET does."""
    made, front, faults = scene.world()
    browser.visit(front, "/messages?since=1h", made.gateway.keys["admin"])
    browser.until(lambda: browser.js("return live.connection") == "live")
    faults.rules = [("/v1/", "cut")]
    browser.until(lambda: browser.is_shown("[data-banner=lost]"))
    for n in range(5):
        made.send({"users": ["ali"]}, f"While it was away {n}")
    time.sleep(30)
    faults.clear()
    browser.click("[data-action=try-now]")
    rows = lambda: browser.js("return [...document.querySelectorAll('main [data-row]')].map(row => row.dataset.row)")
    newest = lambda: [one["id"] for one in made.ask("GET", "/v1/notifications?limit=50")["items"]]
    browser.until(lambda: browser.js("return live.connection") == "live")
    browser.until(lambda: rows() == newest(), 5)
    counts = made.ask("GET", "/v1/notifications/counts?since=" + quote(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 3600))))
    shown = browser.until(lambda: browser.js("return document.querySelector('[data-filter=all]').dataset.count"))
    expect(int(shown) == counts["notifications"], shown, counts)
    first = rows()
    for n in range(4):
        made.send({"users": ["ali"]}, f"After it {n}")
    browser.until(lambda: browser.js("return document.querySelector('[data-newer]')?.dataset.newer") == "4")
    browser.click("[data-newer]")
    browser.until(lambda: rows() == newest() and rows()[4] == first[0])
    expect(len(set(rows())) == len(rows()), "a row stands twice")
    browser.leave()
    browser.complaints = [one for one in browser.complaints if "ERR_" not in one]


@check
def the_page_is_in_no_frame(browser, scene):
    """Another site cannot show the page in a frame, where a click could be led astray."""
    made, front, _ = scene.world()
    other, _ = scene.front(made.url)
    browser.own_hosts.add(other.split("//")[1])
    browser.driver.get(other + "/healthz")
    browser.js("const frame = document.body.appendChild(document.createElement('iframe')); frame.id = 'frame'; frame.onload = () => { window.isOver = true; }; frame.src = arguments[0] + '/'", front)
    browser.until(lambda: browser.js("return window.isOver"))
    browser.driver.switch_to.frame("frame")
    expect(not browser.count("#main"), "the page is shown in a frame")
    browser.driver.switch_to.default_content()
    browser.leave()
    expect(any("frame-ancestors" in one for one in browser.complaints), browser.complaints)
    browser.complaints = []


@check
def large_letters_fit(browser, scene):
    """At a zoom of 200 % a screen of 1280 pixels has 640 wide ones: nothing scrolls sideways, in any language."""
    made, front, _ = scene.world()
    browser.cdp("Emulation.setDeviceMetricsOverride", width=640, height=450, deviceScaleFactor=2, mobile=False)
    for language in ("en", "fa", "ru"):
        browser.visit(front, "/", made.gateway.keys["admin"], language)
        for path in own_views(made):
            browser.go(path)
            browser.settle()
            widths = browser.js("return [document.documentElement.scrollWidth, innerWidth]")
            expect(widths[0] <= widths[1], path, language, "is too wide:", widths)
    browser.resize(1200, 1000)


# Dialogs by address and action; what each asks for is asked in its preview, as a GET or a dry run.
DIALOGS = [("/messages/{failed}", "resend"), ("/dead", "acknowledge"), ("/audiences", "cancel"), ("/audiences/segments/winter", "delete"), ("/users/ali", "erase"),
           ("/devices/phone-1", "send-test"), ("/devices/phone-1", "suspend"), ("/webhooks/crm", "recover"), ("/webhooks/crm", "rotate"), ("/webhooks/crm", "replay"),
           ("/quarantine/huawei", "discard"), ("/quarantine/huawei", "release")]


def acting(faults):
    """The requests that came and would change something."""
    return [(line, body) for line, body in faults.bodies if not line.startswith("GET ") and "dry_run" not in line and '"dry_run":true' not in body and "/count" not in line]


def with_trouble(made):
    """Makes dead letters, a campaign and quarantined tokens, once."""
    if not hasattr(made, "trouble"):
        made.trouble = (made.dead_letters(), made.campaign("To be left", 1), made.quarantine("held"))


@check
def no_dialog_acts_at_its_opening(browser, scene):
    """Enter right after any dialog opened does nothing and gives the focus back; a double click on its button asks the gateway once."""
    made, front, faults = scene.world()
    with_trouble(made)
    for path, action in DIALOGS:
        browser.visit(front, path.format(failed=made.failed), made.gateway.keys["admin"])
        faults.bodies.clear()
        browser.click(f"main [data-action={action}]")
        browser.until(lambda: browser.js("return document.querySelector('dialog [data-count]')?.dataset.count") is not None)
        browser.press(Keys.ENTER)
        browser.until(lambda: not browser.count("dialog"))
        expect(not acting(faults), path, action, "acts at its opening:", acting(faults))
        expect(browser.js("return document.activeElement.dataset.action") == action, path, action, "the focus does not return")
        browser.click(f"main [data-action={action}]")
        browser.until(lambda: browser.js("return document.querySelector('dialog [data-count]')?.dataset.count") is not None)
        count = browser.js("return document.querySelector('dialog [data-count]').dataset.count")
        if browser.count("dialog [name=typed]"):
            browser.js("document.querySelector('dialog [name=typed]').focus()")
            browser.press(count)
            browser.settle()
        if browser.js("return document.querySelector('dialog [data-action=confirm]').disabled"):
            expect(count == "0", path, action, "cannot be confirmed")
            continue
        # What would act is held back until both clicks came, and then refused: the gateway stays as it is.
        held = {"count": 0}

        def refused(handler, _, held=held):
            held["count"] += 1
            time.sleep(0.5)
            handler.answer(409, {"title": "Held back by the test", "status": 409}, "application/problem+json")

        faults.streams = [("^(POST|PUT|PATCH|DELETE) ", refused)]
        browser.js("const b = document.querySelector('dialog [data-action=confirm]'); b.click(); b.click()")
        browser.until(lambda: "Held back by the test" in browser.text("dialog"))
        expect(held["count"] == 1, path, action, "asks", held["count"], "times")
        faults.clear()
    browser.leave()
    browser.complaints = [one for one in browser.complaints if " 409 " not in one]


@check
def another_tab_was_first(browser, scene):
    """What another tab did already is no action of this one: the dialog says 0, and the list is read again."""
    made, front, _ = scene.world()
    with_trouble(made)
    browser.visit(front, "/dead", made.gateway.keys["admin"])
    row = "[data-list=dead] [data-row='ServiceUnavailable/ios']"
    browser.until(lambda: browser.count(row))
    made.ask("POST", "/v1/deliveries/resend", {"filter": {"dead": True, "reason": ["ServiceUnavailable"]}, "options": {"ttl": 600}})
    browser.click(f"{row} [data-action=resend]")
    browser.until(lambda: browser.js("return document.querySelector('dialog [data-count]')?.dataset.count") == "0")
    expect(browser.js("return document.querySelector('dialog [data-action=confirm]').disabled"), "nothing can be sent again")
    browser.press(Keys.ESCAPE)
    browser.until(lambda: not browser.count(f"dialog, {row}"))


@check
def actions_of_a_row_have_a_key(browser, scene):
    """`a` goes to the actions of the row, or to those of the selected rows."""
    made, front, _ = scene.world()
    browser.visit(front, "/backends", made.gateway.keys["admin"])
    browser.js("document.querySelector('[data-row=ios-legacy] [data-open]').focus()")
    browser.type_as("KeyA", "ش")
    expect(browser.js("return document.activeElement.dataset.action") == "how-to-renew", browser.js("return document.activeElement.outerHTML"))
    browser.go("/messages")
    browser.until(lambda: browser.count("main [data-row]"))
    browser.type_as("KeyJ", "j")
    browser.type_as("KeyX", "x")
    browser.settle()
    browser.type_as("KeyA", "a")
    expect(browser.js("return document.activeElement.closest('.bar-bottom') !== null"), browser.js("return document.activeElement.outerHTML"))


@check
def a_campaign_is_paused_by_keys(browser, scene):
    """By keys of a Persian layout alone: to the campaign, pause, undo; the focus is never lost."""
    made, front, _ = scene.world()
    one = made.campaign("Paused by keys", 30)
    state = lambda: made.ask("GET", f"/v1/notifications/{one}")["audience"]["paused"]
    browser.visit(front, "/", made.gateway.keys["admin"])
    browser.type_as("KeyG", "ل")
    browser.type_as("KeyA", "ش")
    browser.until(lambda: browser.count(f"main [data-row='{one}']"))
    browser.until(lambda: browser.js("return document.activeElement.tagName") == "H1")
    for _ in range(20):
        browser.type_as("KeyJ", "ت")
        if browser.js("return document.activeElement.closest('[data-row]')?.dataset.row") == one:
            break
    browser.type_as("KeyA", "ش")
    expect(browser.js("return document.activeElement.dataset.action") == "pause", browser.js("return document.activeElement.outerHTML"))
    browser.press(Keys.ENTER)
    browser.until(lambda: state() is True and browser.count(f"[data-row='{one}'] [data-action=resume]"))
    browser.settle()
    expect(browser.js("return document.activeElement.closest('[data-row]')?.dataset.row") == one, browser.js("return document.activeElement.outerHTML.slice(0, 200)"))
    browser.type_as("KeyZ", "ظ")
    browser.until(lambda: state() is False and browser.count(f"[data-row='{one}'] [data-action=pause]"))
    browser.settle()
    expect(browser.js("return document.activeElement !== document.body"), "the focus is lost")
    made.ask("DELETE", f"/v1/notifications/{one}")


@check
def counts_outlive_a_restart(browser, scene):
    """What was counted before a restart stands in the tile, the chart and its table after it; the time before the start is a gap."""
    gateway, front, _ = scene.gateway("counted")
    for n in range(7):
        gateways.call(gateway.address, "POST", "/v1/notifications", {"to": {"users": [f"u{n}"]}, "backend": "partner", "content": {"title": f"Counted {n}"}})
    told = lambda: gateways.call(gateway.address, "GET", "/v1/series?range=1h")
    accepted = lambda: sum(one or 0 for one in told()["series"]["accepted"])
    browser.until(lambda: accepted() == 7, 90)  # A minute is stored when it is over.
    gateway.end()
    gateway.start()
    browser.until(lambda: accepted() == 7, 90)
    browser.visit(front)
    browser.until(lambda: browser.text("[data-tile=accepted] b") == "7")
    browser.click("[data-chart=throughput] button")
    browser.until(lambda: browser.count("[data-chart=throughput] [data-point]"))
    cells = browser.js("return [...document.querySelectorAll('[data-chart=throughput] [data-point]')].map(row => [Number(row.dataset.point), Number(row.cells[1].innerText)])")
    values = told()["series"]["accepted"]
    expect([(index, values[index]) for index, _ in cells] == [tuple(one) for one in cells] and sum(count for _, count in cells) == 7, cells, values)
    drawn = browser.js("return document.querySelector('[data-chart=throughput] [data-series=accepted]').getAttribute('d')")
    expect(browser.count("[data-chart=throughput] .gap") and not drawn.startswith("M0.0 "), "the time before the start is no gap:", drawn[:100])
