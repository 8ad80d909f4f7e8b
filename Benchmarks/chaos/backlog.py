"""The part of the chaos in which something always waits: two backends near the limit of their platform, one of which must not repeat.

All that is for them is posted at the first gateway that answers, so the others have to take their share of it from the table. The platform is a
service of the rig: it answers after a while, and each gateway may have so many requests with it at a time, so its limit is known.
"""
import json
import re
import sys
import threading
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "Tests/Rig"))
import service  # noqa: E402

GATEWAYS = 3
CONNECTIONS, BATCH = 4, 5  # Requests that a gateway has with the platform at a time, and messages in each.
USE = 0.9  # Of what the platform can take.
TOKENS = 10  # In a POST.
SILENCE = 5  # Seconds before a burst, in which nothing is posted; all that was due comes at once then.
NAMES = {"often": False, "once": True}  # Whether a second copy does harm.
TOKEN = re.compile(r"(often|once)-\d+-\d+")
LIMITS = {"never_sent": 0.005, "share": 0.7}
LEAST_SPAN = 5  # Seconds without a fault from which on shares are judged.


class Backlog:
    """Posts so many messages a second to each of the two backends; with a rate of 0 it does nothing."""

    def __init__(self, rate, bursts, seconds):
        self.rate, self.faults, self.accepted, self.refused = rate, [], {name: {} for name in NAMES}, []
        self.platform = service.Service(USE * GATEWAYS * CONNECTIONS * BATCH / rate) if rate else None
        self.pauses = [seconds * (number + 1) / (bursts + 1) for number in range(bursts)]
        self.begun, self.ended, self.threads = None, None, []

    def sections(self, gateway):
        """The sections of both backends in the configuration of a gateway."""
        if not self.rate:
            return ""
        return "".join(self.platform.section(f"backlog-{name}", str(gateway), max_connections=CONNECTIONS, batch_size=BATCH, repeats_harm=harms)
                       for name, harms in NAMES.items())

    def start(self, nodes, stop):
        self.begun = time.monotonic()
        if self.rate:
            self.threads = [threading.Thread(target=self._post_all, args=(name, nodes, stop), daemon=True) for name in NAMES]
            for thread in self.threads:
                thread.start()

    def join(self):
        for thread in self.threads:
            thread.join(150)
        self.ended = time.monotonic()

    def note_fault(self, seconds):
        """Notes that from now on so long a share may be uneven for a good reason."""
        now = time.monotonic()
        self.faults.append((now, now + seconds))

    def _post_all(self, name, nodes, stop):
        pauses, serial = list(self.pauses), 0
        while not stop.is_set():
            if pauses and time.monotonic() > self.begun + pauses[0]:
                pauses.pop(0)
                stop.wait(SILENCE)
            due = self.begun + serial * TOKENS / self.rate
            stop.wait(max(0, due - time.monotonic()))
            tokens = [f"{name}-{serial}-{number}" for number in range(TOKENS)]
            request = {"to": {"tokens": [{"token": token, "service": "x-rig"} for token in tokens]}, "content": {"title": f"backlog {name}"},
                       "backend": f"backlog-{name}"}
            self._post(name, nodes, json.dumps(request), f"backlog-{name}-{serial}", tokens)
            serial += 1

    def _post(self, name, nodes, body, key, tokens):
        end = time.monotonic() + 120
        while time.monotonic() < end:
            for node in nodes:
                status, text = node.ask("POST", "/v1/notifications", body, {"content-type": "application/json", "idempotency-key": key}, timeout=2)
                if status == 202:
                    self.accepted[name].update(dict.fromkeys(tokens, json.loads(text)["id"]))
                    return
                if 400 <= status < 500 and status not in (409, 429):
                    self.refused.append((status, text[:200]))
                    return
            time.sleep(0.05)
        self.refused.append((0, f"{key} was never accepted".encode()))

    def figures(self, ends):
        """What became of it; `ends` has the states of all recipients, as they are stored."""
        if not self.rate:
            return {}
        states = {found.group(): state for recipient, state in ends if (found := TOKEN.search(recipient))}
        figures = {name: tally(self.accepted[name], states, [one for one in self.platform.arrivals if one.backend == f"backlog-{name}"]) for name in NAMES}
        spans = undisturbed(self.faults, self.begun + 3, self.ended)
        sent = {str(number): 0 for number in range(1, GATEWAYS + 1)}
        for one in self.platform.arrivals:
            if any(begin <= one.moment < end for begin, end in spans):
                sent[one.sender] += 1
        span = sum(end - begin for begin, end in spans)
        share = round(min(sent.values()) / max(1, max(sent.values())), 3) if span >= LEAST_SPAN else None
        return {**figures, "sent_by_gateway": sent, "without_a_fault_s": round(span, 1), "share": share, "answer_after_s": round(self.platform.answer_after, 3)}


def undisturbed(faults, begin, end):
    """The spans of a time in which nothing was wrong."""
    spans, place = [], begin
    for first, last in sorted(faults):
        if first > place:
            spans.append((place, min(first, end)))
        place = max(place, last)
    return [span for span in [*spans, (place, end)] if span[1] > span[0]]


def tally(accepted, states, arrivals):
    """The figures of one backend; each message has a token of its own. Unknown is state 7 (`StoredForms.swift`)."""
    found = service.copies(arrivals)
    arrived = {match.group() for one in arrivals if (match := TOKEN.search(one.key))}
    missing = accepted.keys() - arrived
    unknown = {token for token in accepted if states.get(token) == 7}
    return {"accepted": len(accepted), "came_again": found.again, "unmarked": len(found.unmarked), "another_id": len(found.renamed),
            "unknown": len(unknown), "never_sent": len(missing & unknown), "lost": len(missing - unknown)}


def complaints(figures):
    """What is not as promised."""
    if not figures:
        return []
    often, once = figures["often"], figures["once"]
    found = [f"{what} ({name})" for name in NAMES for what in ("lost", "unmarked", "another_id") if figures[name][what]]
    found += [f"nothing sent ({name})" for name in NAMES if not figures[name]["accepted"]]
    if often["never_sent"]:
        found.append("never sent (often)")
    if once["came_again"]:
        found.append("came again (once)")
    if once["never_sent"] > LIMITS["never_sent"] * once["accepted"]:
        found.append(f"never sent (once): {once['never_sent']} of {once['accepted']}")
    if figures["share"] is not None and figures["share"] < LIMITS["share"]:
        found.append(f"share: {figures['share']}")
    return found


def prove():
    """Raises an error unless every fault that the figures are there for leads to a complaint."""
    def one(token, id="1", is_marked=False):
        return service.Arrival(0, "", service.key("backlog", token), id, is_marked, "1")

    names = [f"once-{number}-0" for number in range(1_000)]
    accepted, all_sent = dict.fromkeys(names, "1"), [one(name, name) for name in names]
    for arrivals, states, often, once in (
            (all_sent, {}, [], []),
            (all_sent[5:], dict.fromkeys(names[:5], 7), ["never sent (often)"], []),
            (all_sent[6:], dict.fromkeys(names[:6], 7), ["never sent (often)"], ["never sent (once): 6 of 1000"]),
            (all_sent[1:], {}, ["lost (often)"], ["lost (once)"]),
            (all_sent + [one(names[0], names[0], True)], {}, [], ["came again (once)"]),
            (all_sent + [one(names[0], names[0])], {}, ["unmarked (often)"], ["unmarked (once)", "came again (once)"]),
            (all_sent + [one(names[0], "x", True)], {}, ["another_id (often)"], ["another_id (once)", "came again (once)"])):
        good, this = tally(accepted, {}, all_sent), tally(accepted, states, arrivals)
        for figures, expected in (({"often": this, "once": good}, often), ({"often": good, "once": this}, once)):
            found = complaints({**figures, "share": 0.9})
            if found != expected:
                raise SystemExit(f"the count is wrong: {figures} gave {found}, not {expected}")
    if complaints({"often": good, "once": good, "share": 0.6}) != ["share: 0.6"]:
        raise SystemExit("an uneven share is not found")
    if undisturbed([(3, 5), (1, 2), (4, 6), (9, 12)], 0, 10) != [(0, 1), (2, 3), (6, 9)]:
        raise SystemExit(f"the spans are wrong: {undisturbed([(3, 5), (1, 2), (4, 6), (9, 12)], 0, 10)}")
