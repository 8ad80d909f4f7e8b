"""A gateway with rows in every table, which is started again when a request has ended it."""
import json
import os
import re
import signal
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "Rig"))
from rig import Gateway, Key, NoAnswer  # noqa: E402

import calls  # noqa: E402

MEMORY = 2 << 30  # Bytes that no request may make a gateway use.
PLATFORMS = {"apns": "ios", "fcm": "android", "hms": "huawei", "rustore": "rustore", "onesignal": "campaigns", "altcraft": "crm", "idpush": "idpush", "chabok": "chabok", "http": "service", "oauth2": "partner"}
SETTINGS = "queue: { first_retry: 0.1, max_retry: 1, drain: 1 }\ninvalidation_guard: { min_answers: 4, window: 3600 }\n"


def token(text, service="ios-apns", **more):
    return {"to": {"tokens": [{"token": text, "service": service}]}, "content": {"title": "Parcel", "body": "On its way"}, **more}


class Target:
    """One gateway over one store, and what fuzzing it came to."""

    def __init__(self, sandbox, store):
        self.sandbox, self.generation = sandbox, 0
        keys = [Key("admin", "admin"), Key("reader", "read"), Key("registrar", "devices"), Key("sender", "send")]
        self.gateway = Gateway(sandbox, "fuzz", keys, SETTINGS, store, edit=self.with_old)
        self.plain = self.gateway.config.read_text()
        self.names, self.restarts = {}, 0
        self.populate()
        self.rename(restart=True)

    def with_old(self, text):
        """The configuration with a backend more, which is gone after the first start."""
        return re.sub(r"^  ios:\n((?:    .*\n)+)", r"  ios:\n\1  old:\n\1", text, flags=re.M)

    def rename(self, restart=False):
        """Gives the backends whose platforms answer oddly new names, so that no pause of the former ones holds."""
        self.generation += 1
        text = re.sub(r"^  old:\n(    .*\n)+", "", self.plain, flags=re.M)
        for word, name in PLATFORMS.items():
            section = re.search(rf"^  {name}:\n((?:    .*\n)+)", text, re.M)[1]
            text = text.replace("release_notes:\n", f"  {self.backend(word)}:\n{section}release_notes:\n", 1)
        self.gateway.config.write_text(text)
        if restart:
            self.restart()
        elif self.gateway.is_alive:
            os.kill(self.gateway.process.child.pid, signal.SIGHUP)
            client, deadline = self.gateway.client("admin"), time.monotonic() + 10
            while self.backend("http") not in client.ask("GET", "/v1/backends").text and time.monotonic() < deadline:
                time.sleep(0.05)
            client.close()

    def backend(self, word):
        return f"fuzz-{word}-{self.generation}"

    def restart(self):
        """Starts it on the store as it is; gives what is wrong with that."""
        self.restarts += 1
        if self.gateway.is_alive and not self.gateway.end():
            return "it did not end within 20 seconds of SIGINT"
        self.gateway.start()
        return None

    def populate(self):
        """Rows in every table: devices, users, what has ended, waits, is scheduled or cancelled; operations, events, held verdicts, keys, channels."""
        client = self.gateway.client("admin", timeout=45)

        def ask(method, target, body=None, **headers):
            data = json.dumps(body).encode() if body is not None else None
            return client.ask(method, target, data, [(name.replace("_", "-"), value) for name, value in headers.items()])

        tomorrow = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 86400))
        for number in range(40):
            ask("PUT", f"/v1/devices/phone-{number}", {
                "user": ("ali", "mina", "sara")[number % 3], "platform": "ios", "tags": ["plan:pro", f"n:{number}"], "app_version": "1.0",
                "tokens": {"ios-apns": f"ab{number:04d}", "ios-apns/live_activity_update/order-42": f"cd{number:04d}"}, "attributes": {"model": "x"}})
        ask("PUT", "/v1/devices/fuzz-1", {"user": "ali", "platform": "android", "tokens": {"android-firebase": "f1", "android-huawei": "h1"}})
        ids = [json.loads(ask("POST", "/v1/notifications", token(f"ab{number:04d}"), Idempotency_Key=f"key-{number}").body)["id"] for number in range(20)]
        ask("POST", "/v1/notifications", {"to": {"users": ["ali", "mina", "sara"]}, "content": {"body": "x"}})
        for number in range(8):
            ask("POST", "/v1/notifications", token(f"0410{number:04d}"))
            ask("POST", "/v1/notifications", token(f"0429{number:04d}"))
        for number in range(10):
            later = json.loads(ask("POST", "/v1/notifications", token(f"ab{number:04d}", options={"send_at": tomorrow, "collapse_id": f"c-{number % 7}"})).body)["id"]
            if "old:" in self.gateway.config.read_text():
                ask("POST", "/v1/notifications", token("ab0001", backend="old", options={"send_at": tomorrow}))
        ask("DELETE", f"/v1/notifications/{later}")
        for body in ({"status": "subscribed", "backend": "crm"}, {"status": "unsubscribed", "backend": "campaigns"}):
            ask("PUT", "/v1/devices/phone-1/subscription", body)
        ask("PATCH", "/v1/devices/phone-1/tags", {"tags": {"plan": "pro"}})
        ask("POST", "/v1/devices/phone-1/events", {"event": "opened", "notification": ids[0]})
        ask("POST", "/v1/backends/ios/channels", {"message_storage": "newest"})
        ask("POST", "/v1/apps/shop/versions", {"number": "1.5.0", "changes": ["x"]})
        uuids = re.findall(r"[0-9a-f]{8}-[0-9a-f-]{27}", json.dumps(self.sandbox.steer("GET", "/apns/inbox?limit=20")))
        webhook = re.search(r"webhook_secret: \"?([^\"\n]+)", self.sandbox.configuration)[1]
        channel = re.search(r'"channels":\["([^"]*)', ask("GET", "/v1/backends/ios/channels").text)
        events = re.findall(rb"^id: (\d+)", client.stream("/v1/events?last=1", 0.3).body, re.M)
        highest = int(events[-1]) if events else 1000
        self.names.clear()
        self.names |= {"notification": ids[0], "later": later, "webhook": webhook, "channel": channel[1] if channel else "none", "uuids": uuids,
                       "own": [ids[1], later, ids[1].lower(), ids[1][:-1] + "Z", "7" + ids[1][1:], str(highest), str(highest + 1), *uuids[:1]]}
        client.close()

    def memory(self):
        """Bytes in use."""
        try:
            return int(Path(f"/proc/{self.gateway.process.child.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except OSError:
            return 0


def judge(call, answer):
    """What is wrong with an answer; None when nothing is."""
    kind = (answer.header("content-type") or "").split(";")[0]
    if kind.endswith("json") and answer.body:
        try:
            document = json.loads(answer.body.decode())
        except ValueError as error:
            return f"the answer is no JSON: {error}"
    else:
        document = {}
    if answer.status < 500:
        return None
    has_reason = isinstance(document, dict) and document.get("code")
    if answer.status == 503 and has_reason:
        return None
    # 502 where the description says it: a platform answered something unreadable, and the answer says so.
    if answer.status == 502 and has_reason and call.operation is not None and "502" in call.operation.statuses:
        return None
    if call.raw is not None and answer.status in (501, 505):
        return None
    return f"status {answer.status}: {answer.text[:300]}"


__all__ = ["MEMORY", "NoAnswer", "PLATFORMS", "Target", "calls", "judge"]
