"""Checks of the whole page: addresses, lists that stand still, roles, refusals, languages, the keyboard, memory."""
import json
import random
import re
import subprocess
import time
import urllib.request
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import gateways
import serve
from browser import AXE_PACKAGE, Keys, LANGUAGES, check, expect  # noqa: F401

VIEWS = ["/", "/messages", "/dead", "/audiences", "/backends", "/quarantine", "/webhooks", "/keys", "/send"]


def asked(faults, method, path):
    """The parameters of each request to a path."""
    lines = [line.split(" ", 1)[1] for line in list(faults.requests) if line.startswith(method + " ")]
    return [parse_qs(urlsplit(line).query) for line in lines if urlsplit(line).path == path]


def own_views(made):
    """Every address, with something behind it."""
    one = made.failed
    return [*VIEWS, f"/messages/{one}", "/messages?state=failed", "/users/ali", "/devices/phone-1", "/audiences/segments/winter", "/backends/ios", "/webhooks/crm"]


@check
def addresses_open_cold(browser, scene):
    """Each address opens by itself, after a reload, and by Back and Forward, with its filter, its place and its focus."""
    made, front, _ = scene.world()
    admin = made.gateway.keys["admin"]
    for path in own_views(made):
        browser.visit(front, path, admin)
        cold = browser.js("return [document.querySelector('main').dataset.view, document.querySelector('h1').textContent, document.title, location.hash]")
        expect(cold[0] not in ("none", "key") and cold[1] and cold[2].endswith("· Chapar"), path, cold)
        expect(browser.js("return document.activeElement.tagName") in ("H1", "INPUT"), path, "the heading has not the focus")
        expect(not browser.count("main [data-error], main [data-refused]"), path, browser.text("main")[:300])
        browser.driver.refresh()
        browser.drawn()
        again = browser.js("return [document.querySelector('main').dataset.view, document.querySelector('h1').textContent, document.title, location.hash]")
        expect(again == cold, path, "after a reload:", again)
    browser.visit(front, "/messages?state=failed", admin)
    browser.until(lambda: browser.count("main [data-row]") > 1)
    browser.js("[...document.querySelectorAll('main [data-row]')].at(-1).querySelector('[data-open]').focus()")
    row = browser.js("return document.activeElement.closest('[data-row]').dataset.row")
    browser.press(Keys.ENTER)
    browser.until(lambda: row in browser.js("return location.hash"))
    browser.drawn()
    browser.driver.back()
    browser.until(lambda: browser.js("return document.querySelector('main').dataset.view") == "/messages")
    browser.until(lambda: browser.js("return document.activeElement.closest('[data-row]')?.dataset.row") == row)
    expect(browser.js("return document.querySelector('[data-search]').value") == "state:failed", "the filter is lost")
    browser.driver.forward()
    browser.until(lambda: row in browser.js("return location.hash") and browser.js("return document.querySelector('main').dataset.view") == "/messages/:id")
    browser.go("/no/such/view")
    expect("no view" in browser.text("main"), browser.text("main"))


PATCHED = """
const place = document.body.appendChild(document.createElement("div")), rows = names => names.map(name => el("li", { key: name },
  el("details", null, el("summary", null, name), el("input", { name, value: "given" })), el("span", null, "of " + name)));
patch(place, el("ul", null, rows(["a", "b", "c"])));
const [first, second, third] = place.querySelectorAll("li"), field = second.querySelector("input"), told = [];
second.querySelector("details").open = true;
field.value = "typed";
field.focus();
field.setSelectionRange(1, 3);
patch(place, el("ul", null, rows(["c", "b", "d"]).concat(el("p", null, "<b>no markup</b>"))));
const found = [...place.querySelectorAll("li")];
if (found[0] !== third || found[1] !== second) told.push("rows were made anew");
if (first.isConnected || found.length !== 3) told.push("a row that is not wanted stays");
if (document.activeElement !== field || field.value !== "typed" || field.selectionStart !== 1) told.push("focus, text or selection is lost");
if (!second.querySelector("details").open) told.push("an open row is closed");
if (place.querySelector("b")) told.push("a text became markup");
patch(place, el("ul", null, el("p", { onclick: () => told.push("called") }, "x")));
place.querySelector("p").click();
patch(place, el("ul", null, el("p", null, "x")));
place.querySelector("p").click();
place.remove();
return told;
"""


@check
def drawing_keeps_what_stays(browser, scene):
    """What stays in a drawing keeps its node, focus, selection and what was typed or opened; what went is gone with its functions."""
    made, front, _ = scene.world()
    browser.visit(front, "/keys", made.gateway.keys["admin"])
    expect(browser.js(PATCHED) == ["called"], browser.js(PATCHED))


@check
def first_picture_asks_little(browser, scene):
    """The first picture of Now needs at most four requests beside the stream; what more is asked comes after it."""
    made, front, faults = scene.world()
    faults.rules = [("/v1/deliveries/counts|/v1/webhooks", "2s")]
    faults.requests.clear()
    browser.visit(front, "/", made.gateway.keys["admin"])
    paths = [urlsplit(line.split(" ")[1]).path for line in list(faults.requests)]
    before = [one for one in paths if one.startswith("/v1/") and one not in ("/v1/events", "/v1/deliveries/counts", "/v1/webhooks")]
    expect(sorted(before) == ["/v1/backends", "/v1/campaigns", "/v1/key", "/v1/series"], before)
    expect(browser.count("*") <= 3000, browser.count("*"))
    browser.leave()


@check
def old_messages_are_whole(browser, scene):
    """A message that is older than the last 1,000 events shows its title and all of its recipients."""
    made, front, _ = scene.world()
    tokens = [{"token": f"{n:064x}", "service": "ios-apns"} for n in range(500, 504)]
    old = made.send({"tokens": tokens}, "The oldest order")
    for n in range(3):
        made.send({"tokens": [{"token": f"{n * 1000 + m:064x}", "service": "ios-apns"} for m in range(400)]}, f"Crowd {n}")
    made.until(lambda: made.ask("GET", f"/v1/notifications/{old}")["counts"].get("accepted_by_platform") == 4)
    browser.visit(front, "/messages?since=1h", made.gateway.keys["admin"])
    browser.until(lambda: "The oldest order" in browser.text("main [data-list]"))
    browser.visit(front, f"/messages/{old}", made.gateway.keys["admin"])
    expect(browser.text("h1") == "The oldest order", browser.text("h1"))
    expect(browser.count("[data-part=recipients] [data-row]") == 4, browser.text("main"))


ROUND_TRIPS = """
const letters = ["a", "B", "7", " ", ":", '"', "\\\\", "ß", "س", "-", "_", "/"], random = n => Math.floor(Math.random() * n);
const value = list => Array.from({ length: 1 + random(8) }, () => letters[random(letters.length)]).join("").trim() || "x";
const wrong = [];
for (let round = 0; round < 1000; round++) {
  const params = {};
  for (const key of filterKeys) if (random(3) === 0) params[key] = value();
  if (random(4) === 0) params.q = value();
  const first = toText(params), read = toParams(first), second = toText(read.params);
  if (first !== second || read.errors.length || JSON.stringify(params) !== JSON.stringify(read.params)) wrong.push([first, second, params, read]);
}
return wrong.slice(0, 3);
"""


@check
def filters_are_the_parameters(browser, scene):
    """The text of a filter and its parameters turn into each other; a request has exactly those; a wrong key sends nothing."""
    made, front, faults = scene.world()
    browser.visit(front, "/messages", made.gateway.keys["admin"])
    expect(not (wrong := browser.js(ROUND_TRIPS)), *wrong)
    cases = [("user:ali state:failed,expired since:2026-01-02T03:04:05Z", {"user": ["ali"], "state": ["failed,expired"], "since": ["2026-01-02T03:04:05Z"]}),
             ('reference:"order 42"', {"reference": ["order 42"]}), ("device:phone-1 until:2030-01-01T00:00:00Z", {"device": ["phone-1"], "until": ["2030-01-01T00:00:00Z"]})]
    for words, wanted in cases:
        faults.requests.clear()
        browser.js("const box = document.querySelector('main [data-search]'); box.value = arguments[0]; box.form.requestSubmit()", words)
        # Pages of messages. The page also asks how many are newer (limit 51) and for rows by id, perhaps still for the
        # search before.
        pages = lambda: [params for params in asked(faults, "GET", "/v1/notifications") if params["limit"] == ["50"] and "id" not in params]
        browser.until(pages)
        browser.drawn()
        expect(pages() == [{**wanted, "limit": ["50"]}], words, pages())
        expect(browser.js("return toText(Object.fromEntries(new URLSearchParams(location.hash.split('?')[1])))") == words, browser.js("return location.hash"))
    for words, told in [("colour:red", "There is no key colour. The keys are: id user"), ("state:queued", "needs a time"), ("user:", "has no value"), ("one two", "only one bare word")]:
        faults.requests.clear()
        browser.js("const box = document.querySelector('main [data-search]'); box.value = arguments[0]; box.form.requestSubmit()", words)
        browser.until(lambda: told in browser.text("main .error"))
        expect(not pages(), words, "was sent")
    browser.js("const box = document.querySelector('main [data-search]'); box.value = 'order-42'; box.form.requestSubmit()")
    browser.until(lambda: browser.js("return document.querySelector('[data-matches]')?.dataset.matches") == "reference")
    expect("Order 42" in browser.text("main [data-list]"), browser.text("main"))


@check
def rows_stand_still(browser, scene):
    """While messages come, no row moves, nothing shifts, what is selected or open stays; what is newer is counted and comes on demand."""
    made, front, _ = scene.world()
    browser.visit(front, "/messages?since=1h", made.gateway.keys["admin"])
    browser.until(lambda: browser.count("main [data-row]") > 2)
    time.sleep(1)
    browser.click("main [data-select]")
    before = browser.js("""window.shift = 0;
        new PerformanceObserver(list => { for (const one of list.getEntries()) if (!one.hadRecentInput) shift += one.value; }).observe({ type: "layout-shift" });
        window.places = () => JSON.stringify([...document.querySelectorAll("main [data-row]")].map(row => [row.dataset.row, row.getBoundingClientRect().top, row.getBoundingClientRect().height]));
        return places();""")
    sent, end = 0, time.monotonic() + 10
    while time.monotonic() < end:
        batch = {"notifications": [{"to": {"tokens": [{"token": f"{n:064x}", "service": "ios-apns"}]}, "content": {"title": f"Newer {n}", "body": "x"}} for n in range(sent, sent + 100)]}
        made.ask("POST", "/v1/notifications/batch", batch, made.shop)
        sent += 100
        expect((places := browser.js("return places()")) == before, "a row moved:", before[:300], places[:300])
        time.sleep(0.1)
    expect(sent >= 1000, "too few were sent:", sent)
    newer = browser.until(lambda: browser.js("return document.querySelector('[data-newer]')?.dataset.newer"))
    expect(int(newer) == 51, "more than fifty are newer, and it says", newer)
    expect(browser.js("return places()") == before, "a row moved")
    expect(browser.js("return shift") == 0, "the layout shifted by", browser.js("return shift"))
    expect(browser.count("main tr.selected") == 1, "the selection is lost")
    browser.click("[data-newer]")
    browser.until(lambda: "Newer" in browser.text("main [data-row]:first-child"))
    ids = browser.js("return [...document.querySelectorAll('main [data-row]')].map(row => row.dataset.row)")
    expect(len(ids) == len(set(ids)) == 50, "rows twice, or not fifty:", len(ids))
    # A few newer ones: the number is that of a GET.
    time.sleep(2)
    newest = browser.js("return document.querySelector('main [data-row]').dataset.row")
    for n in range(3):
        made.send({"users": ["ali"]}, f"Latest {n}")
    browser.until(lambda: browser.js("return document.querySelector('[data-newer]')?.dataset.newer") == "3")
    found = [one["id"] for one in made.ask("GET", "/v1/notifications?limit=20")["items"]]
    expect(found.index(newest) == 3, found, newest)


@check
def a_cut_stream_is_made_good(browser, scene):
    """After a cut of 3 s the page is lost for so long, offers no action, and shows the API's numbers within seconds of its return."""
    made, front, faults = scene.world()
    key = made.gateway.keys["admin"]
    browser.visit(front, f"/messages/{made.failed}", key)
    browser.until(lambda: browser.js("return document.querySelector('[data-connection]').dataset.connection") == "live")
    expect(browser.count("[data-action=resend]:not(:disabled)"), "resend is not offered")
    faults.rules = [("/v1/events", "cut"), ("/v1/", "cut")]
    browser.until(lambda: browser.is_shown("[data-banner=lost]"))
    expect("No connection since" in browser.text("#banner"), browser.text("#banner"))
    expect(not browser.count("[data-action=resend]:not(:disabled)"), "an action is offered while the gateway is away")
    expect("Gone 30" in browser.text("h1"), "what was known is gone")
    browser.accessibility("a lost connection", False)
    made.send({"users": ["ali"]}, "Sent while it was away")
    time.sleep(3)
    faults.clear()
    browser.click("[data-action=try-now]")
    browser.until(lambda: not browser.is_shown("[data-banner=lost]"), 20)
    browser.go("/messages?since=1h")
    browser.until(lambda: "Sent while it was away" in browser.text("main [data-row]:first-child"), 5)
    browser.read_logs()
    browser.complaints = [one for one in browser.complaints if "ERR_" not in one]


@check
def a_restarted_gateway_is_found_again(browser, scene):
    """When the gateway goes the page says so and keeps what it knew; when it is back the page goes on by itself."""
    gateway, front, _ = scene.keyed()
    browser.visit(front, "/", gateway.secret("watcher"))
    browser.until(lambda: "old-ios" in browser.text("[data-part=backends]"))
    gateway.end()
    browser.until(lambda: browser.is_shown("[data-banner=lost]"))
    expect("old-ios" in browser.text("[data-part=backends]"), "what was known is gone")
    gateway.start()
    browser.until(lambda: browser.js("return document.querySelector('[data-connection]').dataset.connection") == "live" and not browser.is_shown("[data-banner=lost]"))
    browser.leave()
    browser.complaints = [one for one in browser.complaints if not any(part in one for part in ("ERR_", " 503 ", " 502 "))]


# The actions that each scope allows, beside what `admin` may. Those that copy, load or try again need none.
FREE = {"copy", "copy-ids", "settings", "retry-load", "try-now", "how", "how-to-renew"}
ALLOWED = {"send": {"send", "check", "resend", "acknowledge", "cancel", "pace", "pause_campaign", "resume_campaign", "send_test"}, "broadcast": set(), "read": set(), "read_all": set(),
           "read_content": set(), "metrics": set()}


@check
def roles_decide_what_is_offered(browser, scene):
    """For each scope alone: no action that it lacks is drawn, views that it lacks say which scope; a forced request is refused."""
    made, front, _ = scene.world()
    for scope in ("read", "send", "broadcast", "devices", "read_all", "read_content", "metrics", "webhooks", "admin"):
        key = made.gateway.keys[f"only-{scope}"]
        browser.visit(front, "/", key)
        seen = set()
        for path in own_views(made):
            browser.go(path)
            browser.settle()
            seen |= set(browser.js("return [...document.querySelectorAll('[data-action]')].map(e => e.dataset.action)"))
            if scope not in ("admin",) and path == "/keys":
                expect(browser.is_shown("[data-refused]") and "admin" in browser.text("[data-refused]"), scope, path, browser.text("main")[:200])
        allowed = browser.js("return Object.keys(actionScopes).filter(action => can(action))")
        if scope in ALLOWED:
            more = seen - FREE - ALLOWED[scope]
            expect(not more, scope, "is offered", more)
        if scope == "admin":
            expect({"resend", "diagnose", "erase"} <= seen, "an administrator is offered only", seen)
        expect(("resend" in allowed) == (scope in ("send", "admin")) and ("retry" in allowed) == (scope == "admin"), scope, allowed)
    browser.visit(front, "/", made.gateway.keys["only-read"])
    browser.js("perform('forced ', () => api.post('/v1/backends/ios/retry', {}))")
    told = browser.until(lambda: browser.text("#toasts [role=alert]"))
    expect("scope" in told and "admin" in told, told)
    browser.leave()
    browser.complaints = [one for one in browser.complaints if " 403 " not in one and " 404 " not in one]


@check
def harm_asks_first(browser, scene):
    """A dialog's number is that of the dry run and of the effect; Enter at its opening does nothing; a double click acts once."""
    made, front, faults = scene.world()
    browser.visit(front, f"/messages/{made.failed}", made.gateway.keys["admin"])
    faults.requests.clear()
    browser.click(".heading [data-action=resend]")
    browser.until(lambda: browser.js("return document.querySelector('dialog [data-count]')?.dataset.count") is not None)
    count = int(browser.js("return document.querySelector('dialog [data-count]').dataset.count"))
    browser.press(Keys.ENTER)
    browser.until(lambda: not browser.count("dialog"))
    bodies = [json.loads(body) for line, body in faults.bodies if line == "POST /v1/deliveries/resend"]
    expect(bodies and all(one["dry_run"] for one in bodies), "Enter at the opening acts:", bodies)
    expect(browser.js("return document.activeElement.dataset.action") == "resend", "the focus does not return to the opener")
    if count:
        browser.click(".heading [data-action=resend]")
        browser.until(lambda: browser.count("dialog [data-action=confirm]:not(:disabled)"))
        told = browser.text("dialog [data-action=confirm]")
        expect(str(count) in told, told)
        browser.accessibility("a dialog", False)
        faults.bodies.clear()
        browser.js("const b = document.querySelector('dialog [data-action=confirm]'); b.click(); b.click()")
        browser.until(lambda: not browser.count("dialog"), 15)
        bodies = [json.loads(body) for line, body in faults.bodies if line == "POST /v1/deliveries/resend"]
        expect(len([one for one in bodies if not one.get("dry_run")]) == 1, bodies)
        browser.until(lambda: browser.text("#toasts"))


HOSTILE = ["<img src=x onerror=window.hacked=1>", "\"><script>window.hacked=1</script>", "\u202egnp.exe", "A" * 3000, "javascript:window.hacked=1", "=cmd|' /C calc'!A0"]


@check
def hostile_texts_are_texts(browser, scene):
    """Hostile titles, references, users and tags run nothing, ask no other host, and break no layout."""
    made, front, _ = scene.world()
    ids = []
    for n, words in enumerate(HOSTILE):
        made.device(f"hostile-{n}", words[:200], {"ios-apns": f"{0xabc000 + n:064x}"})
        content = {"title": words, "body": words, "click_url": "https://elsewhere.example/x", "image": "https://elsewhere.example/x.png"}
        ids.append(made.ask("POST", "/v1/notifications", {"to": {"devices": [f"hostile-{n}"]}, "content": content, "reference": words[:100], "metadata": {"a": words[:100]}}, made.shop, range(200, 500)).get("id"))
    browser.resize(360, 800)
    browser.visit(front, "/messages?since=1h", made.gateway.keys["admin"])
    for one in ids:
        if not one:
            continue
        browser.go(f"/messages/{one}")
        for tab in ("android", "json"):
            browser.click(f"[data-tab={tab}]")
            browser.settle()
        widths = browser.js("return [document.documentElement.scrollWidth, innerWidth]")
        expect(widths[0] <= widths[1], "wider than the screen:", widths)
    for n, words in enumerate(HOSTILE):
        browser.go("/users/" + urllib.request.quote(words[:200], safe=""))
        browser.go(f"/devices/hostile-{n}")
    expect(not browser.js("return window.hacked"), "a text ran")
    expect(not browser.js("return [...document.querySelectorAll('main a')].some(a => !a.getAttribute('href').startsWith('#'))"), "data became a link")
    browser.resize(1200, 1000)


@check
def key_is_kept_nowhere(browser, scene):
    """The key is asked for and refused with a reason; it is in no address, title, history or local storage, and gone after Leave."""
    gateway, front, _ = scene.keyed()
    browser.visit(front, "/backends")
    browser.until(lambda: browser.is_shown("[data-form=key]"))
    expect("chapar keys create --name page --scope read" in browser.text("main"), browser.text("main"))
    browser.until(lambda: browser.js("return document.activeElement.name") == "key")
    browser.accessibility("the form")
    browser.press("wrong", Keys.ENTER)
    browser.until(lambda: "does not know this key" in browser.text("[data-reason]"))
    secret = gateway.secret("watcher")
    browser.js("document.querySelector('[name=key]').focus()")
    browser.press(secret, Keys.ENTER)
    browser.until(lambda: browser.js("return document.querySelector('main').dataset.view") == "/backends")
    browser.drawn()
    kept = "return JSON.stringify([location.href, document.title, history.state, Object.entries(localStorage), Object.entries(sessionStorage)])"
    expect(secret not in browser.js(kept), "the key is kept:", browser.js(kept))
    expect(secret not in browser.js("return document.documentElement.outerHTML"), "the key stands in the document")
    browser.driver.refresh()
    browser.until(lambda: browser.is_shown("[data-form=key]"))
    browser.js("document.querySelector('[name=key]').value = arguments[0]; document.querySelector('[name=keep]').click(); document.querySelector('[data-form=key]').requestSubmit()", secret)
    browser.until(lambda: browser.is_shown("main [data-row], main [data-list]"))
    browser.driver.refresh()
    browser.until(lambda: browser.js("return document.querySelector('main').dataset.view") == "/backends")
    browser.click("[data-action=settings]")
    browser.click("[data-action=leave]")
    browser.until(lambda: browser.is_shown("[data-form=key]"))
    expect(browser.js("return sessionStorage.length") == 0, "the key was not forgotten")
    browser.leave()
    expect(not any(secret in one for one in browser.complaints), "the key is in the console")
    browser.complaints = [one for one in browser.complaints if not any(part in one for part in (" 401 ", " 403 ", " 503 "))]


@check
def link_opens_the_page(browser, scene):
    """The link that serve shows at a terminal opens the page once, without the key; its code leaves the address at once."""
    gateway = gateways.Linked(scene.folder / "linked")
    scene.ends.append(gateway.end)
    front, _ = scene.front(gateway.address)
    expect(not gateway.is_key_shown, "the terminal shows the key")
    browser.open(front)
    browser.until(lambda: browser.is_shown("[data-form=key]"))
    browser.driver.get(f"{front}/{gateway.fragment}")
    browser.until(lambda: browser.is_shown("[data-part=backends]"))
    expect("code" not in browser.js("return location.href"), "the code stays in the address")
    expect(gateway.key not in browser.js("return JSON.stringify(sessionStorage)"), "the page has the key")
    browser.open(front)
    browser.until(lambda: browser.is_shown("[data-form=key]"))
    browser.driver.get(f"{front}/{gateway.fragment}")
    browser.until(lambda: "works once" in browser.text("[data-reason]"))
    browser.leave()
    browser.complaints = [one for one in browser.complaints if " 401 " not in one and " 403 " not in one]


# Pairs of theme, language and width, so that each pair of values stands once.
PAIRS = [("light", "en", 1280), ("dark", "fa", 1280), ("light", "ru", 768), ("dark", "en", 768), ("light", "fa", 360), ("dark", "ru", 360)]


@check
def every_view_is_accessible(browser, scene):
    """axe-core finds nothing in any view, in pairs of theme, language and width; nothing scrolls sideways, at 320 pixels either."""
    made, front, _ = scene.world()
    for scheme, language, width in PAIRS:
        browser.prefer(scheme)
        browser.resize(width, 900)
        browser.visit(front, "/", made.gateway.keys["admin"], language)
        for path in own_views(made):
            browser.go(path)
            browser.settle()
            what = f"{path}, {scheme}, {language}, {width} pixels"
            widths = browser.js("return [document.documentElement.scrollWidth, innerWidth]")
            expect(widths[0] <= widths[1], what, "is wider than the screen:", widths)
            browser.accessibility(what, False)
            shape = browser.js("const e = document.documentElement; return [e.lang, e.dir, document.querySelectorAll('h1').length]")
            expect(shape == [language, "rtl" if language == "fa" else "ltr", 1], what, shape)
            untranslated = browser.js(r"return /\b[a-z]+\.[a-z]+_[a-z_]+\b/.exec(document.body.innerText)?.[0]")
            expect(not untranslated or untranslated.startswith(("com.", "auth.")), what, "a text is missing:", untranslated)
    browser.resize(320, 800)
    browser.visit(front, "/", made.gateway.keys["admin"])
    for path in own_views(made):
        browser.go(path)
        browser.settle()
        widths = browser.js("return [document.documentElement.scrollWidth, innerWidth]")
        expect(widths[0] <= widths[1], path, "is wider than 320 pixels:", widths)
    browser.resize(1200, 1000)


def placeholders(one):
    """The names in a text; of a text that counts those of each form."""
    forms = one.values() if isinstance(one, dict) else [one]
    return [set(re.findall(r"\{(\w+)\}", form)) for form in forms]


@check
def texts_are_whole(browser, scene):
    """Every text is in each language, with every plural form and the same values; forms and digits are those of the language."""
    texts = serve.texts()
    forms = {"en": {"one", "other"}, "fa": {"one", "other"}, "ru": {"one", "few", "many", "other"}}
    for group, entries in texts["en"].items():
        for language in ("fa", "ru"):
            expect(set(texts[language].get(group, {})) == set(entries), language, group, set(texts[language].get(group, {})) ^ set(entries))
        for name, one in entries.items():
            names = placeholders(one)
            for language, wanted in forms.items():
                other = texts[language][group][name]
                where = f"{language} {group}.{name}"
                expect(isinstance(other, dict) == isinstance(one, dict), where, "counts in one language only")
                if isinstance(other, dict):
                    expect(set(other) == wanted, where, "has the forms", set(other))
                    expect(all("{count}" in form for form in other.values()) or group == "base", where, "does not say the count")
                expect(all(found == names[0] for found in placeholders(other)), where, placeholders(other), names[0])
    script = serve.assembled(scene.source or serve.FOLDER)[0]
    used = set(re.findall(r'(?:text|pieces)\("([a-z]+\.[a-z0-9_]*[a-z0-9])"', script))
    known = {f"{group}.{name}" for group, entries in texts["en"].items() for name in entries}
    expect(not used - known, "not in the table:", used - known)
    made, front, _ = scene.world()
    for language, cases in {"fa": [(0, "۰"), (1, "۱"), (2, "۲")], "ru": [(1, "1 получатель"), (2, "2 получателя"), (5, "5 получателей"), (21, "21 получатель"), (1.5, "1,5 получателя")]}.items():
        browser.visit(front, f"/messages/{made.failed}", made.gateway.keys["admin"], language)
        for count, wanted in cases:
            found = browser.js("return text('messages.recipients', { count: arguments[0] })", count)
            expect(found.startswith(wanted), language, count, found)
        if language == "fa":
            line = browser.text(".timeline")
            expect("400" in line or "410" in line, "a status is not Latin:", line)
            expect(made.failed in browser.text(".heading"), "an id is not Latin")
            expect(browser.js("return document.querySelector('h1 bdi').dir") == "auto", "a title has not its own direction")


@check
def journeys_by_keyboard(browser, scene):
    """Search, open, go back, and every view by keys alone, also where the layout's letters are Persian or Russian."""
    made, front, _ = scene.world()
    browser.visit(front, "/", made.gateway.keys["admin"])
    for code, letters in {"KeyM": "mئь", "KeyB": "bذи", "KeyQ": "qضй", "KeyW": "wصц", "KeyK": "kنл", "KeyA": "aشф", "KeyD": "dیв", "KeyC": "cزс", "KeyN": "nدт"}.items():
        for g, letter in zip("gلп", letters):
            browser.go("/" if code != "KeyN" else "/messages")
            browser.js("document.querySelector('h1').focus()")
            browser.type_as("KeyG", g)
            browser.type_as(code, letter)
            wanted = browser.js("return navKeys[arguments[0]]", code)
            browser.until(lambda: browser.js("return location.hash || '#/'") == "#" + wanted)
            browser.drawn()
    browser.go("/")
    browser.js("document.activeElement.blur()")
    browser.type_as("Slash", "/")
    expect(browser.js("return document.activeElement.name") == "filter", "/ does not go to the search")
    browser.press("user:reza", Keys.ENTER)
    browser.until(lambda: browser.js("return location.hash") == "#/messages?user=reza")
    browser.drawn()
    browser.until(lambda: "Gone 30" in browser.text("main [data-list]"))
    browser.js("document.querySelector('h1').focus()")
    browser.type_as("KeyJ", "ت")
    expect(browser.js("return document.activeElement.dataset.open") is not None, "j goes to no row")
    browser.type_as("KeyX", "ط")
    browser.settle()
    expect(browser.count("main tr.selected") == 1, "x does not select")
    browser.type_as("KeyX", "x")
    browser.press(Keys.ENTER)
    browser.until(lambda: browser.js("return document.querySelector('main').dataset.view") == "/messages/:id")
    browser.drawn()
    expect(browser.js("return document.activeElement !== document.body"), "the focus is lost")
    browser.press(Keys.ESCAPE)
    browser.until(lambda: browser.js("return document.querySelector('main').dataset.view") == "/messages")
    browser.until(lambda: browser.js("return document.activeElement.dataset.open !== undefined"))
    before = browser.text("main time")
    browser.type_as("KeyT", "ف")
    expect(browser.text("main time") != before, "t does not change the times")
    browser.type_as("KeyT", "t")
    browser.type_as("Slash", "?", shift=True)
    browser.until(lambda: browser.count("dialog[data-dialog=help]"))
    browser.accessibility("the help", False)
    browser.press(Keys.ESCAPE)
    browser.until(lambda: not browser.count("dialog"))
    browser.js("choose('letters', 'off')")
    browser.type_as("KeyG", "g")
    browser.type_as("KeyB", "b")
    time.sleep(0.3)
    expect(browser.js("return document.querySelector('main').dataset.view") == "/messages", "letters that are switched off still act")


@check
def every_state_is_drawn(browser, scene):
    """Loading, slow, refused, failed, gone, partial, no match and nothing yet: each is drawn, in every view that can have it."""
    made, front, faults = scene.world()
    admin = made.gateway.keys["admin"]
    quiet = "/v1/key$|/v1/events"
    for path in own_views(made):
        browser.visit(front, "/nothing", admin)
        faults.rules = [(quiet, None), ("GET /v1/", (500, {"title": "Broken on purpose", "status": 500, "request_id": "REQ1"}))]
        faults.rules = [("GET /v1/(?!key$|events)", (500, {"title": "Broken on purpose", "status": 500, "request_id": "REQ1"}))]
        browser.go(path)
        if path not in ("/send", "/messages") or browser.count("main [data-error]"):
            expect("Broken on purpose" in browser.text("main [data-error]") or path == "/send", path, browser.text("main")[:200])
        faults.rules = [("GET /v1/(?!key$|events)", (403, {"title": "Forbidden", "status": 403, "detail": "The scope read_all is missing."}))]
        browser.go("/nothing")
        browser.go(path)
        expect(browser.is_shown("[data-refused]") or path == "/send" or browser.count("main h1"), path, browser.text("main")[:200])
        faults.rules = []
    for path in ("/messages/05B6AJDT40000", "/backends/none", "/audiences/segments/none", "/webhooks/none", "/devices/none"):
        browser.go(path)
        expect(browser.count("main [data-gone]"), path, browser.text("main")[:200])
    faults.rules = [("GET /v1/notifications\\?", "7s")]
    browser.js("location.hash = '/messages?user=ali'")
    browser.until(lambda: browser.is_shown("[data-loading]"), 3)
    browser.until(lambda: "Still searching" in browser.text("main"), 8)
    browser.click("main button")
    browser.until(lambda: "Stopped" in browser.text("main"))
    faults.rules, faults.answers = [], [("GET /v1/notifications\\?", {"items": [], "next": "05B6AJDT40000-x", "looked_back_to": "2026-11-26T00:00:00Z"})]
    browser.go("/messages?user=nobody-1")
    expect(browser.count("[data-partial]") and browser.count("[data-empty]") and browser.count("[data-older]"), browser.text("main"))
    faults.clear()
    browser.go("/messages?user=nobody-2")
    expect(browser.count("[data-remove-filter]"), "no match does not offer to remove the filter:", browser.text("main"))
    browser.leave()
    browser.complaints = [one for one in browser.complaints if not re.search(r" (403|404|500) |ERR_", one)]
    gateway, front, _ = scene.empty()
    browser.visit(front, "/messages")
    expect("chapar send" in browser.text("[data-empty]"), browser.text("main"))
    browser.go("/")
    expect("old-ios" in browser.text("[data-part=needs]") and "ends in 10 days" in browser.text("[data-part=needs]"), browser.text("[data-part=needs]"))


def series(count, step, gap=None):
    """An answer of `GET /v1/series` with a gap."""
    values = [None if gap and gap[0] <= n < gap[1] else n % 7 for n in range(count)]
    at = lambda n: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() // step * step + (n - count) * step))
    names = ("accepted", "handed_over", "arrived", "failed", "expired", "unknown", "retried", "oldest")
    gaps = [{"from": at(gap[0]), "until": at(gap[1])}] if gap else []
    return {"from": at(0), "until": at(count), "step": step, "series": {name: values for name in names}, "gaps": gaps}


@check
def charts_say_what_they_show(browser, scene):
    """A chart's sums stand in the tiles, a stop is a gap in its line, its table has the same values, and keys move the crosshair."""
    made, front, faults = scene.world()
    told = series(60, 60, (20, 30))
    faults.answers = [("GET /v1/series", told)]
    browser.visit(front, "/", made.gateway.keys["admin"])
    expect(browser.count("[data-chart]") == 3, browser.text("main"))
    values = told["series"]["accepted"]
    shown = browser.text("[data-tile=accepted] b")
    expect(abs(int(shown.replace(",", "")) - sum(one or 0 for one in values)) <= 50, shown)
    path = browser.js("return document.querySelector('[data-chart=throughput] [data-series=accepted]').getAttribute('d')")
    expect(path.count("M") == 2 and path.count("L") == 48, "the line has no gap:", path[:200])
    expect(browser.count("[data-chart=throughput] .gap") == 1, "the gap is not marked")
    browser.js("document.querySelector('[data-chart=throughput] button').click()")
    browser.until(lambda: browser.count("[data-chart=throughput] [data-point]"))
    cells = browser.js("return [...document.querySelectorAll('[data-chart=throughput] [data-point]')].map(row => [Number(row.dataset.point), Number(row.cells[1].innerText)])")
    expect(all(values[index] == value for index, value in cells) and len(cells) == len([one for one in values if one]), cells[:5])
    browser.js("document.querySelector('[data-chart=throughput] svg[role=img]').focus()")
    before = browser.text("[data-chart=throughput] figcaption")
    browser.press(Keys.ARROW_LEFT)
    browser.until(lambda: browser.text("[data-chart=throughput] figcaption") != before)
    expect(browser.count("[data-chart=throughput] .cross") == 1, "no crosshair")
    browser.accessibility("the charts", False)


@check
def page_is_small_and_kept(browser, scene):
    """The document is at most 150 KB compressed, comes once, and then is a 304; it cannot be framed."""
    import gzip

    document, policy = serve.assembled(scene.source or serve.FOLDER)
    size = len(gzip.compress(document.encode(), 6))
    expect(size <= 150_000, "compressed it has", size, "bytes")
    expect("frame-ancestors 'none'" in policy and "require-trusted-types-for 'script'" in policy, policy)
    script = document[document.rindex("<script>"):]
    found = re.findall(r"innerHTML|insertAdjacentHTML|outerHTML|document\.write|\beval\b|Function\(|setAttribute\(\"(?:on|style)", script)
    expect(not found, "markup may be made of data:", found)
    gateway, front, _ = scene.empty()
    browser.visit(front)
    if scene.source:
        return
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(gateway.address + "/", headers={"Accept-Encoding": "gzip"})
    with opener.open(request) as answer:
        headers, body = answer.headers, answer.read()
    expect(headers["Content-Encoding"] == "gzip" and gzip.decompress(body).decode() == document, "it is not the page of the sources")
    expect(headers["X-Frame-Options"] == "DENY" and headers["Cross-Origin-Opener-Policy"] == "same-origin", headers)
    request.add_header("If-None-Match", headers["ETag"])
    try:
        opener.open(request)
        expect(False, "it comes a second time")
    except urllib.error.HTTPError as error:
        expect(error.code == 304, error.code)


@check
def memory_is_flat(browser, scene):
    """Events as fast as they go: the heap and the document stay as they were. CHAPAR_PAGE_EVENTS sets how many (3,600,000)."""
    import os

    made, front, faults = scene.world()
    total = int(os.environ.get("CHAPAR_PAGE_EVENTS", "300000"))
    request = urllib.request.Request(front + "/v1/events?lanes=1&types=none", headers={"Authorization": "Bearer " + made.gateway.keys["admin"]})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as stream:
        lanes = next(line for line in stream if line.startswith(b"data: "))
    sent = {"count": 0, "limit": 0}

    def feed(handler, _):
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.close_connection = True
        part = b"".join(b'id: %d\nevent: backend.notice\ndata: {"type":"backend.notice","backend":"ios","at":"2026-11-29T00:00:%02dZ","reason":"r%d"}\n\n' % (n, n % 60, n) for n in range(1000))
        try:
            while True:
                if sent["count"] < sent["limit"]:
                    handler.wfile.write(part)
                    sent["count"] += 1000
                else:
                    time.sleep(0.2)
                if sent["count"] % 20000 == 0:
                    handler.wfile.write(b"event: gateway.lanes\n" + lanes + b"\n")
        except OSError:
            pass

    faults.streams = [("GET /v1/events", feed)]

    def heap():
        browser.cdp("HeapProfiler.collectGarbage")
        time.sleep(0.5)
        browser.cdp("HeapProfiler.collectGarbage")
        return browser.cdp("Runtime.getHeapUsage")["usedSize"], browser.count("*")

    browser.visit(front, "/", made.gateway.keys["admin"])
    seen = lambda: browser.js("return Number(lastEvent !== null && live.notes[0]?.event.reason.slice(1)) + 1") == 1000
    sent["limit"] = min(60000, total // 5)
    browser.until(lambda: sent["count"] >= sent["limit"] and seen(), 120)
    first, nodes = heap()
    sent["limit"] = total
    browser.until(lambda: sent["count"] >= total and seen(), 900)
    last, more = heap()
    faults.streams = []
    expect(last - first <= 20_000_000, f"the heap grew by {(last - first) / 1e6:.1f} MB")
    expect(abs(more - nodes) <= 40 and more <= 3000, "the document grew from", nodes, "to", more)
    print(f"       {total} events: heap {(last - first) / 1e6:+.1f} MB, {more} nodes", flush=True)


@check
def journeys_need_few_clicks(browser, scene):
    """Yesterday's message of a user and why it failed: 2; what to do about a credential that ends: 1; sending to a segment: 4."""
    made, front, _ = scene.world()
    browser.visit(front, "/", made.gateway.keys["admin"])
    browser.js("window.clicks = 0; addEventListener('click', event => { if (event.isTrusted) clicks++; }, true)")
    browser.js("document.activeElement.blur()")
    browser.type_as("Slash", "/")
    browser.press("user:reza", Keys.ENTER)
    browser.until(lambda: "Gone 30" in browser.text("main [data-list]"))
    browser.until(lambda: "DeviceTokenNotForTopic" in browser.text("main [data-list]"))
    browser.click("main [data-row] [data-open]")
    browser.until(lambda: browser.is_shown(".timeline"))
    expect(browser.js("return clicks") <= 2, "to the reason:", browser.js("return clicks"))
    browser.go("/")
    browser.js("clicks = 0")
    browser.until(lambda: "ios-legacy" in browser.text("[data-part=needs]"))
    browser.click("[data-need^='credential ios-legacy'] summary")
    browser.until(lambda: "chapar doctor" in browser.text("[data-part=needs]"))
    expect(browser.js("return clicks") <= 1, "to the credential:", browser.js("return clicks"))
    browser.go("/send?to=segment:vip")
    browser.js("clicks = 0")
    browser.js("document.querySelector('[name=send-title]').focus()")
    browser.press("To the best")
    browser.click("[data-action=check]")
    browser.until(lambda: browser.count("[data-outcome]"))
    expect(browser.js("return document.querySelector('[data-outcome]').dataset.outcome") == "3", browser.text("[data-outcome]"))
    browser.click("main [data-action=send]")
    browser.click("dialog [data-action=confirm]:not(:disabled)")
    browser.until(lambda: browser.js("return document.querySelector('main').dataset.view") == "/messages/:id")
    expect(browser.js("return clicks") <= 4, "to send:", browser.js("return clicks"))
    browser.until(lambda: "To the best" in browser.text("h1"))


@check
def pause_of_a_campaign_is_undone(browser, scene):
    """A campaign is paused with one click, and Undo lets it go on: the API says so each time."""
    made, front, _ = scene.world()
    one = made.campaign("Spring offer", 30)
    browser.visit(front, f"/messages/{one}", made.gateway.keys["admin"])
    state = lambda: made.ask("GET", f"/v1/notifications/{one}")["audience"]["paused"]
    browser.click("[data-action=pause_campaign]")
    browser.until(lambda: browser.count("[data-action=undo]"))
    expect(state() is True, "it is not paused")
    browser.click("[data-action=undo]")
    browser.until(lambda: state() is False)
    browser.until(lambda: browser.count("[data-action=pause_campaign]"))
    made.ask("DELETE", f"/v1/notifications/{one}")
