"""The platforms that the chaos sends to: whom a message is for, what each simulator says it got, and what a device makes of it.

Every message has a title of its own that names its backend, and one recipient. So what a platform got twice is found by title in what the
sandbox's control API lists, by the same rule for all platforms.
"""
import http.client
import json
import re
from collections import Counter
from typing import Callable, NamedTuple, Optional

ANSWER_AFTER = 0.1  # Seconds.
PEOPLE = 8  # Each with a device in the gateway's registry, which is told to the platforms before the faults begin.
TITLE = re.compile(r"\b([a-z-]+) message \d+-\d+\b")
# By the numbers under which results are stored (`StoredForms.swift`).
STATES = {1: "accepted_by_platform", 2: "delivered", 3: "opened", 4: "failed", 5: "expired", 6: "cancelled", 7: "unknown"}


class Way(NamedTuple):
    """A backend of the sandbox's configuration, and how to read what its platform got."""
    backend: str
    means: str  # What keeps a second copy from being shown beside the first.
    recipients: Callable  # Of a person and a serial number: the request's `to`.
    listing: str  # Where the control API lists what the platform took.
    identity: Callable = lambda entry: None  # Of an entry of that list: the id that the gateway gave the message, where it shows.
    place: Callable = lambda entry: None  # Of an entry: where a device shows it, each in place of the one before; None beside all others.
    repeats: Optional[tuple] = None  # The counter of what came again under an id, where the platform drops that.
    turns: int = 2


class Person(NamedTuple):
    """Whom a client sends to where a platform wants somebody whom it knows."""
    number: int
    profile: str = ""  # The id at Altcraft, where the role token finds devices.

    @property
    def device(self):
        return f"chaos-{self.number}"

    @property
    def user(self):
        return f"person-{self.number}"

    @property
    def token(self):
        return f"ab{self.number:062x}"


def new_token(service):
    """A device that gets nothing else."""
    return lambda person, serial: {"tokens": [{"token": f"{person.number:08x}{serial:056x}", "service": service}]}


def android(entry):
    return entry["message"]["android"]["notification"].get("tag")


ONESIGNAL = dict(listing="/onesignal/messages", recipients=lambda person, serial: {"devices": [person.device]},
                 identity=lambda entry: entry["request"]["idempotency_key"], place=lambda entry: entry["request"].get("collapse_id"))
# Two starts of a campaign are two messages. The simulator keeps 10,000 starts, so half as many go there.
ALTCRAFT = dict(listing="/altcraft/launches", means="none: may be shown twice, so what may have been sent is not repeated", turns=1)

WAYS = (
    Way("ios", "the device replaces by apns-collapse-id", new_token("ios-apns"), "/apns/inbox", lambda entry: entry["apns_id"],
        lambda entry: entry["headers"].get("apns-collapse-id")),
    Way("android", "the device replaces by tag", new_token("android-firebase"), "/fcm/inbox", android, android),
    Way("huawei", "the device replaces by tag", new_token("android-huawei"), "/hms/inbox", lambda entry: entry["tag"],
        lambda entry: entry["tag"]),
    Way("campaigns", "the platform drops a repeated idempotency key", **ONESIGNAL, repeats=("/onesignal/counters", "replayed")),
    Way("idpush", "the same; what was dropped is counted above, for both: one app at OneSignal", **ONESIGNAL),
    Way("chabok", "none without a group: may be shown twice, so what may have been sent is not repeated",
        lambda person, serial: {"users": [person.user]}, "/chabok/messages", lambda entry: entry["body"]["clientId"],
        lambda entry: entry["body"]["notification"].get("groupId")),
    Way("service", "the service drops a repeated id", new_token("x-service"), "/http/taken", lambda entry: entry["recipient"]["id"],
        lambda entry: entry["message"]["options"].get("collapse_id"), ("/http/counters", "repeats")),
    Way("crm", recipients=lambda person, serial: {"users": [person.user]}, **ALTCRAFT),
    Way("crm-role", recipients=lambda person, serial: {"platform_ids": [person.profile]}, **ALTCRAFT),
)
TURNS = tuple(way for way in WAYS for _ in range(way.turns))


def configuration(text):
    """The sandbox's configuration with Altcraft by role token besides, and with room for the load at Chabok."""
    crm = re.search(r"  crm:\n(    .*\n)+", text).group()
    role = re.sub(r"    auth: .*", "    auth: { kind: rtoken, rtoken: sandbox-role }", crm.replace("crm:", "crm-role:", 1))
    return text.replace(crm, crm + role).replace("    kind: chabok\n", "    kind: chabok\n    rate_per_second: 1000\n")


def message(person, serial):
    """A client's message with this serial number: its title and the request. Half of those through each backend have a collapse id."""
    way = TURNS[(serial + person.number) % len(TURNS)]
    title = f"{way.backend} message {person.number}-{serial}"
    request = {"to": way.recipients(person, serial), "content": {"title": title, "body": "chaos"}, "backend": way.backend}
    if serial // len(TURNS) % 2:
        request["options"] = {"collapse_id": f"c{person.number}-{serial}"}
    return title, request


def enrol(ask, control, wait_until):
    """Registers a device for each person and waits until the platforms know it; the people."""
    def put(path, body):
        status, text = ask("PUT", path, json.dumps(body), {"content-type": "application/json"})
        if not 200 <= status < 300:
            raise SystemExit(f"{path}: {status} {text}")

    people = [Person(number) for number in range(PEOPLE)]
    for person in people:
        path = f"/v1/devices/{person.device}"
        put(path, {"user": person.user, "platform": "ios", "tokens": {"ios-apns": person.token}})
        for backend in ("crm", "crm-role"):
            put(path + "/subscription", {"status": "subscribed", "backend": backend})
    for person in people:
        path = f"/v1/devices/{person.device}/operations"
        wait_until(lambda: not json.loads(ask("GET", path)[1])["items"], 30, f"the platforms know {person.device}")
    profiles = {profile["subscriptions"][0]["subscription_id"]: profile["id"]
                for profile in call(control, "GET", "/altcraft/profiles")["profiles"] if profile["db_id"] == 10}
    return [person._replace(profile=profiles[person.token]) for person in people]


def be_far(control):
    """Lets the platforms answer some time after they took a message, as over a network, so that many kills come in between."""
    rule = {"name": "far", "at": "processed", "steps": [{"do": "delay", "seconds": ANSWER_AFTER}]}
    for platform in {way.listing.split("/")[1] for way in WAYS}:
        call(control, "POST", f"/{platform}/rules", json.dumps(rule))


def call(control, method, path, body=None):
    """What the sandbox's control API answers."""
    connection = http.client.HTTPConnection(control, timeout=60)
    connection.request(method, path, body)
    answer = connection.getresponse()
    value = json.loads(answer.read())
    connection.close()
    if answer.status != 200:
        raise SystemExit(f"{path}: {answer.status} {value}")
    return value


def taken(control, path):
    """Everything that a simulator lists: a page at a time where it has pages."""
    answer = call(control, "GET", path + "?limit=1000")
    if isinstance(answer, list):
        return answer
    entries = next(value for value in answer.values() if isinstance(value, list))
    page = entries
    while page and "next" in answer:
        answer = call(control, "GET", f"{path}?limit=1000&from={answer['next']}")
        page = answer["items"]
        entries = entries + page
    return entries


def copies(control):
    """What each platform got, by backend: title, id and place of each message, in the order of arrival."""
    lists = {path: taken(control, path) for path in {way.listing for way in WAYS}}
    found = {}
    for way in WAYS:
        titled = [(TITLE.search(json.dumps(entry)), entry) for entry in lists[way.listing]]
        found[way.backend] = [(title.group(), way.identity(entry), way.place(entry)) for title, entry in titled
                              if title and title.group(1) == way.backend]
    return found


def again(values):
    """How many of these have been there before; what is None is not counted."""
    counts = Counter(value for value in values if value is not None)
    return sum(counts.values()) - len(counts)


def shown_again(got):
    """How many copies a device shows beside another one of the same message: those that do not take the other's place."""
    return again(title for title, _ in {(title, number if place is None else place) for number, (title, _, place) in enumerate(got)})


def tally(accepted, states, found, repeats):
    """The figures of each backend.

    `accepted` has the titles by the notification's number, `states` the final states by the same, `found` what `copies` gives, and `repeats`
    how many each platform dropped that has a counter for it.
    """
    figures = {}
    for way in WAYS:
        own = {number: title for number, title in accepted.items() if TITLE.match(title).group(1) == way.backend}
        got = found[way.backend]
        arrived = {title for title, _, _ in got}
        ended = Counter(STATES.get(states.get(number), "lost") for number in own)
        uncertain = [title for number, title in own.items() if STATES.get(states.get(number)) == "unknown"]
        figures[way.backend] = {
            "accepted": len(own), "states": dict(ended), "platform_got": len(got),
            "again_with_the_same_id": again(identity for _, identity, _ in got) + repeats.get(way.backend, 0),
            "again_with_the_same_content": again(title for title, _, _ in got),
            "again_with_another_id": again(title for title, _ in {(title, identity) for title, identity, _ in got}),
            "doubled_on_device": shown_again(got),
            "lost": ended["lost"],
            "failed": sum(ended[state] for state in ("failed", "expired", "cancelled")),
            "missing": sum(1 for number, title in own.items() if states.get(number) in (1, 2, 3) and title not in arrived),
            "unknown_and_arrived": sum(1 for title in uncertain if title in arrived),
            "harmless_by": way.means,
        }
    return figures


def complaints(figures):
    """What is not as promised: the name of a figure with its backend. Through each backend messages must have gone."""
    never = ("lost", "failed", "missing", "again_with_another_id", "doubled_on_device")
    return [f"{name} ({backend})" for backend, one in figures.items() for name in never if one[name]] \
        + [f"nothing sent ({backend})" for backend, one in figures.items() if not one["platform_got"]]


def prove():
    """Raises an error unless every fault that the figures are there for leads to a complaint: a count that is always 0 would look well."""
    accepted = {number: f"{way.backend} message 0-{number}" for number, way in enumerate(WAYS)}
    for number, title in accepted.items():
        backend, others = WAYS[number].backend, {way.backend: [(accepted[place], f"id-{place}", "here")] for place, way in enumerate(WAYS)}
        taken_by_all = dict.fromkeys(accepted, 1)
        for copy, states, expected in (
                ([(title, "id", "here")], taken_by_all, []),
                ([(title, "id", "here")] * 2, taken_by_all, []),
                ([(title, "id", "here"), (title, "id", "there")], taken_by_all, [f"doubled_on_device ({backend})"]),
                ([(title, "id", "here"), (title, "another", "here")], taken_by_all, [f"again_with_another_id ({backend})"]),
                ([(title, "id", None)] * 2, taken_by_all, [f"doubled_on_device ({backend})"]),
                ([(title, "id", None)], taken_by_all | {number: 4}, [f"failed ({backend})"]),
                ([(title, "id", None)], {other: 1 for other in accepted if other != number}, [f"lost ({backend})"]),
                ([], taken_by_all, [f"missing ({backend})", f"nothing sent ({backend})"])):
            found = complaints(tally(accepted, states, others | {backend: copy}, {}))
            if found != expected:
                raise SystemExit(f"the count is wrong: {copy} and {states[number] if number in states else None} gave {found}")


def table(figures):
    """The figures for people, a line for each backend."""
    columns = ("accepted", "platform_got", "again_with_the_same_id", "again_with_another_id", "again_with_the_same_content", "doubled_on_device")
    heads = ("accepted", "got", "same id", "another id", "same content", "shown twice", "unknown", "of them came")
    lines = ["backend    " + " ".join(f"{head:>12}" for head in heads) + "  what makes a second copy harmless"]
    for name, one in figures.items():
        values = [one[column] for column in columns] + [one["states"].get("unknown", 0), one["unknown_and_arrived"]]
        lines.append(f"{name:<11}" + " ".join(f"{value:>12}" for value in values) + "  " + one["harmless_by"])
    return "\n".join(lines)
