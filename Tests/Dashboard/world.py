"""A gateway beside simulators in which something of everything has happened: for the page's tests, its pictures and its developers.

    Tests/Dashboard/world.py [PORT]

serves the page from its source files in front of such a gateway, and prints the address and an administrator's key.
"""
import json
import signal
import sys
import tempfile
import threading
import time
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import gateways  # noqa: E402
from rig import Gateway, Key, Sandbox  # noqa: E402

SCOPES = ("send", "broadcast", "devices", "read", "read_all", "read_content", "metrics", "webhooks", "admin")
PLANS = ("plan:free", "plan:pro")
PATIENCE = 60  # Seconds until something must have happened.


class Receiver:
    """A server that webhooks are sent to; `status` is what it answers."""

    def __init__(self, status):
        own = self
        self.status, self.taken = status, []

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_POST(self):
                own.taken.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(own.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hook"

    def end(self):
        self.server.shutdown()


class World:
    """The simulators, the gateway, and what happened there."""

    def __init__(self, folder):
        self.folder = folder
        self.ends = []
        self.sandbox = Sandbox(folder)
        self.ends.append(self.sandbox.end)
        gateways.certificate(folder / "box", "client", 8, "/CN=Apple Push Services: com.example.app/UID=com.example.app")
        soon = (datetime.now(timezone.utc) + timedelta(days=12)).strftime("%Y-%m-%dT%H:%M:%SZ")
        keys = [Key("admin", *SCOPES), Key("support", "read", "read_all", "devices"), Key("shop", "send", "devices", "read", not_after=soon)]
        keys += [Key(f"only-{scope}", scope) for scope in SCOPES]
        more = "lists: { offers: in, news: out }\nwebhooks: { allow_networks: [127.0.0.0/8] }\ninvalidation_guard: { min_answers: 10 }\n"
        try:
            self.gateway = Gateway(self.sandbox, "world", keys, more, edit=self.with_old_backend)
            self.ends.append(self.gateway.end)
            self.admin, self.shop = self.gateway.client("admin"), self.gateway.client("shop")
            self.fill()
        except BaseException:
            self.end()
            raise

    @staticmethod
    def with_old_backend(text):
        """Adds a backend whose certificate ends soon; nothing is sent through it."""
        kept, skipping = [], False
        for line in text.splitlines():  # Five backends are enough to look at.
            if line.startswith("  ") and not line.startswith("   ") and line.rstrip().endswith(":"):
                skipping = line.strip() in ("rustore:", "rustore-universal:", "idpush:", "partner:", "chabok:", "service:", "browsers:", "campaigns:")
            elif line and not line.startswith(" "):
                skipping = False
            if not skipping:
                kept.append(line)
        text = "\n".join(kept) + "\n"
        own = "  ios-legacy: { kind: apns, topic: com.example.app, certificate_file: client.pem, certificate_key_file: client.key }\n"
        text = text.replace("  ios:\n", "  ios:\n    breaker: { failures: 50 }\n", 1)  # The failures that are made do not open it.
        return text.replace("backends:\n", "routes: [{ match: { service: ios-apns }, use: { fallback: [ios], on_unknown: stop, first_retry: 600 } }]\nbackends:\n" + own, 1)

    @property
    def url(self):
        return self.gateway.url

    def ask(self, method, path, body=None, client=None, want=range(200, 300)):
        """Asks the gateway; gives the JSON of its answer."""
        answer = (client or self.admin).ask(method, path, json.dumps(body).encode() if body is not None else None)
        if answer.status not in want:
            raise RuntimeError(f"{method} {path}: {answer.status} {answer.text}")
        return json.loads(answer.body) if answer.body else None

    def until(self, what):
        """Waits for something true and gives it."""
        deadline = time.monotonic() + PATIENCE
        while not (found := what()):
            if time.monotonic() > deadline:
                raise RuntimeError("not in time")
            time.sleep(0.05)
        return found

    def device(self, name, user, tokens, tags=(), **more):
        self.ask("PUT", f"/v1/devices/{name}", {"user": user, "tokens": tokens, "tags": list(tags), **more})

    def send(self, to, title, body="", client=None, **options):
        """Sends a message; gives its id."""
        message = {"to": to, "content": {"title": title, "body": body or "See the app for more."}, **options}
        return self.ask("POST", "/v1/notifications", message, client or self.shop)["id"]

    def backend(self, name):
        return next(one for one in self.ask("GET", "/v1/backends")["backends"] if one["name"] == name)

    def park(self, backend="android", simulator="fcm"):
        """The platform refuses the credentials, and the backend is parked."""
        self.sandbox.steer("POST", f"/{simulator}/rules", {"name": "refused", "steps": [{"do": "answer", "status": 403, "reason": "PERMISSION_DENIED"}]})
        self.send({"users": ["sara"]}, "Your parcel is at the door")
        self.until(lambda: self.backend(backend)["worker"]["parked"])

    def mend(self, simulator="fcm"):
        """The platform takes messages again."""
        self.sandbox.steer("DELETE", f"/{simulator}/rules")

    def fill(self):
        """Makes devices, segments, webhooks, messages that arrive and messages that fail."""
        self.device("phone-1", "ali", {"ios-apns": "a1" * 32, "android-huawei": "huawei-ali"}, ["plan:pro"], locale="fa-IR", app_version="5.2", platform="ios")
        self.device("tablet-1", "ali", {"android-firebase": "fcm-ali"}, ["plan:pro"], locale="fa-IR", app_version="5.1", platform="android")
        self.device("phone-2", "reza", {"ios-apns": "0400" + "b2" * 30})
        self.device("phone-3", "sara", {"android-firebase": "fcm-sara"}, ["plan:free"])
        self.device("phone-4", "mina", {"ios-apns": "0410" + "c3" * 30})
        many = [{"id": f"crowd-{n:03}", "user": f"user-{n:03}", "tokens": {"ios-apns": f"{n:064x}"}, "tags": [PLANS[n % 2]]} for n in range(100)]
        self.ask("POST", "/v1/devices/batch", {"devices": many})
        self.ask("PUT", "/v1/users/ali/lists", {"lists": {"news": True}})
        self.ask("PUT", "/v1/users/ali/tags", {"tags": ["gold"]})
        self.ask("PUT", "/v1/segments/winter", {"rule": {"all": [{"tag": "plan:pro"}, {"any": [{"platform": "ios"}, {"seen_within": "P30D"}]}]}})
        self.ask("PUT", "/v1/segments/vip", {"devices": ["phone-1", "tablet-1", "phone-3"]})
        self.crm, self.shop_hook = Receiver(503), Receiver(204)
        self.ends += [self.crm.end, self.shop_hook.end]
        self.ask("PUT", "/v1/webhooks/crm", {"url": self.crm.url})
        self.ask("PUT", "/v1/webhooks/shop", {"url": self.shop_hook.url, "types": ["delivery.*"]})
        self.arrived = self.send({"users": ["ali"]}, "Order 42 is on its way", reference="order-42", client=self.shop)
        self.failed = self.send({"users": ["reza"]}, "Gone 30")
        self.send({"users": ["mina"]}, "A phone that was sold")
        self.until(lambda: self.ask("GET", "/v1/deliveries?state=failed")["items"][1:])

    def dead_letters(self):
        """Messages that failed for causes that can be mended: seven of them."""
        refused = {"name": "busy", "steps": [{"do": "answer", "status": 503, "reason": "ServiceUnavailable"}]}
        self.sandbox.steer("POST", "/apns/rules", refused)
        for n in (0, 1, 2, 4):
            self.send({"users": [f"user-{n:03}"]}, f"Invoice {n}", options={"ttl": 2})
        self.until(lambda: self.dead_count() >= 4)
        self.mend("apns")
        lost = {"name": "lost", "at": "processed", "steps": [{"do": "reset_stream"}]}
        self.sandbox.steer("POST", "/apns/rules", lost)
        self.send({"users": ["user-003"]}, "Your table is booked")
        self.until(lambda: self.dead_count() >= 5)
        self.mend("apns")
        self.device("phone-6", "taraneh", {"android-firebase": "sim-apnsauth-6"})
        for n in range(2):
            self.send({"users": ["taraneh"]}, f"Reminder {n + 1}", options={"ttl": 2})
        self.until(lambda: self.dead_count() >= 7)

    def dead_count(self):
        """How many dead letters there are."""
        return self.ask("GET", "/v1/deliveries/counts?by=reason")["total"]

    def campaign(self, name="Winter offer", per_minute=20):
        """A campaign that goes on for a while; gives its id."""
        body = {"to": {"tags": {"any": ["plan:free", "plan:pro"]}}, "name": name, "content": {"title": name, "body": "Ten percent off until Friday"}, "pace": {"per_minute": per_minute}}
        return self.ask("POST", "/v1/notifications", body)["id"]

    def quarantine(self, name="old", count=16):
        """Huawei calls most tokens dead, and the guard stops the backend; gives how many tokens are quarantined."""
        dead = [{"id": f"{name}-{n:02}", "user": f"{name}-{n:02}", "tokens": {"android-huawei": f"sim-dead-{name}-{n}"}} for n in range(count)]
        self.ask("POST", "/v1/devices/batch", {"devices": dead})
        for one in dead:
            self.send({"users": [one["user"]]}, "Is anyone there?")
        self.until(lambda: self.backend("huawei")["worker"]["invalidations_quarantined"])
        return self.quarantined()

    def quarantined(self):
        """How many tokens of Huawei are quarantined, once no answer is under way any more."""
        self.until(lambda: self.backend("huawei")["worker"]["in_flight"] == 0)
        return next((one["quarantined"] for one in self.ask("GET", "/v1/invalidations")["backends"] if one["backend"] == "huawei"), 0)

    def end(self):
        for end in reversed(self.ends):
            end()


def main():
    import serve

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # Both end what was started.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        try:
            world.dead_letters()
            world.campaign()
            world.quarantine()
            world.park()
            _, address = serve.serve(serve.FOLDER, world.url, int(sys.argv[1]) if len(sys.argv) > 1 else 0)
            print(f"{address}\ngateway {world.url}\nkey {world.gateway.keys['admin']}", flush=True)
            threading.Event().wait()
        except KeyboardInterrupt:
            pass
        finally:
            world.end()


if __name__ == "__main__":
    main()
