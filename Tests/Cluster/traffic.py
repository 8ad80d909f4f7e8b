"""Callers of two gateways, of which the first may stand still: what each was answered, and when the other one said yes."""
import json
import sys
import threading
import time
from collections import Counter
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "Rig"))
from rig import NoAnswer  # noqa: E402
from service import key  # noqa: E402

RATE = 200  # Messages a second that the other gateway gets.
RATE_OF_FIRST = 60  # And the first one.
DEVICES = 10  # Changes of devices a second at each.
SLOTS = 16  # Recipients, each with one collapse id: both gateways work on them all the time.
PATIENCE = 0.5  # Seconds after which a caller of the first gateway repeats its request at the other.


class Traffic:
    """Half of the messages have a collapse id, all have an idempotency key; what the first gateway does not answer comes again to the other."""

    def __init__(self, first, other):
        self.first, self.other = first, other
        self.ids = {}  # Of each message that was accepted, by its key.
        self.moments = {"message": [], "device": []}  # At which the other gateway took one.
        self.at_first = []  # And the first.
        self.odd = Counter()  # Other answers, of which those that say "try again" are expected.
        self.refused = []
        self.ended = threading.Event()
        works = [(self._messages, "other", number, 16) for number in range(16)] + [(self._messages, "first", number, 12) for number in range(12)] \
            + [(self._devices, name, number, 2) for name in ("first", "other") for number in range(2)]
        self.threads = [threading.Thread(target=work, args=more, daemon=True) for work, *more in works]
        for thread in self.threads:
            thread.start()

    def end(self):
        """Stops when each caller has its answer."""
        self.ended.set()
        for thread in self.threads:
            thread.join(60)
            if thread.is_alive():
                raise SystemExit("a caller has no answer after 60 s")

    def _every(self, seconds):
        """Moments that far apart; what was missed is left out."""
        due = time.monotonic()
        serial = 0
        while not self.ended.is_set():
            yield serial
            serial += 1
            due = max(due + seconds, time.monotonic())
            time.sleep(max(0, due - time.monotonic()))

    def _messages(self, name, number, callers):
        clients = {place: gateway.client(timeout=PATIENCE if place == "first" else 15) for place, gateway in (("first", self.first), ("other", self.other))}
        for serial in self._every(callers / (RATE if name == "other" else RATE_OF_FIRST)):
            slot = (serial * 7 + number) % SLOTS
            title = f"{'one of many' if serial % 2 else 'single'} {name}-{number}-{serial}"
            request = {"to": {"tokens": [{"token": f"slot-{slot}", "service": "x-rig"}]}, "content": {"title": title}, "backend": "rig"}
            if serial % 2:
                request["options"] = {"collapse_id": f"c-{slot}"}
            self._post(clients, name, key(title, f"slot-{slot}"), json.dumps(request).encode())

    def _post(self, clients, place, name, body):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                answer = clients[place].ask("POST", "/v1/notifications", body, [("Idempotency-Key", name.replace(" ", "-"))])
            except NoAnswer:
                place = "other"
                continue
            if answer.status == 202:
                self.ids.setdefault(name, set()).add(json.loads(answer.body)["id"])
                (self.moments["message"] if place == "other" else self.at_first).append(time.monotonic())
                return
            self._note(place, answer)
            if answer.status not in (409, 503):
                return
            time.sleep(0.05)
        self.refused.append(f"{name} was never accepted")

    def _note(self, place, answer):
        code = json.loads(answer.body).get("code") if answer.body else None
        self.odd[f"{place}: {answer.status} {code}"] += 1
        if answer.status not in (409, 503):
            self.refused.append(f"{place}: {answer.status} {answer.text[:200]}")

    def _devices(self, name, number, callers):
        client = (self.first if name == "first" else self.other).client(timeout=PATIENCE if name == "first" else 15)
        for serial in self._every(callers / DEVICES):
            slot = (serial + number) % SLOTS
            device = {"user": f"user-{slot}", "platform": "ios", "tags": [f"plan:{name}-{number}-{serial}"], "tokens": {"ios-apns": f"ab{slot:062x}"}}
            try:
                answer = client.ask("PUT", f"/v1/devices/phone-{slot}", json.dumps(device).encode())
            except NoAnswer:
                continue
            if answer.status < 300 and name == "other":
                self.moments["device"].append(time.monotonic())
            elif answer.status >= 300:
                self._note(name, answer)

    def longest_gap(self, kind, begin, end):
        """The longest span between two moments at which the other gateway took something, of a time that has two ends."""
        moments = [begin] + [moment for moment in sorted(self.moments[kind]) if begin < moment < end] + [end]
        return max(after - before for before, after in zip(moments, moments[1:]))
