"""A platform for tests: a service for `kind: http` (docs/platforms/Service.md) that takes its time and notes all that comes."""
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

SECRET = "whsec_c2FuZGJveC1zZWNyZXQtb2YtdGhlLXNlcnZpY2U="


class Arrival(NamedTuple):
    """A message that came, in the order of arrival."""
    moment: float  # Of the monotonic clock.
    backend: str
    key: str  # The title and where it goes, by which a test knows a message, whatever id it has.
    id: str  # The same with every attempt.
    is_marked: bool  # Whether it says that an earlier attempt may have been delivered.
    sender: str  # The gateway, by the path that its configuration has.


def key(title, to):
    return f"{title} to {to}"


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


class Service:
    """Takes every message; `answer_after` seconds go by until it says so. It checks no signatures: the conformance kit does."""

    def __init__(self, answer_after=0.0):
        self.answer_after = answer_after
        self.arrivals = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self):
                length = int(self.headers["content-length"])
                body = self.rfile.read(length)
                if len(body) < length:  # The gateway was killed.
                    self.close_connection = True
                    return
                answer = json.dumps({"outcomes": service.take(json.loads(body), self.path.strip("/"))}).encode()
                head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(answer)}\r\n\r\n"
                self.wfile.write(head.encode() + answer)

            def handle(self):
                try:
                    super().handle()
                except OSError:
                    pass  # The same.

            def log_message(self, *_):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, batch, sender):
        """Notes the messages of a batch; what is answered about them, after the time that it takes."""
        now = time.monotonic()
        came = [Arrival(now, batch["backend"], key(entry["message"]["content"].get("title", ""), next(iter(recipient["to"].values()))), recipient["id"],
                        bool(recipient.get("replay")), sender) for entry in batch["messages"] for recipient in entry["recipients"]]
        self.arrivals += came
        if came and self.answer_after:
            time.sleep(self.answer_after)
        return [{"id": one.id, "outcome": "accepted"} for one in came]

    def section(self, name, sender="", **more):
        """The section of a backend that sends here, for `backends` of a gateway's configuration."""
        keys = {"kind": "http", "url": f"http://127.0.0.1:{self.server.server_port}/{sender}", "secret": SECRET, "services": ["x-rig"], **more}
        return f"  {name}: {json.dumps(keys)}\n"

    def end(self):
        self.server.shutdown()
        self.server.server_close()


class Copies(NamedTuple):
    """What came more than once."""
    again: int  # Arrivals after the first of the same message.
    unmarked: list  # Those of them that do not say so, by their keys.
    renamed: list  # Messages that came under two ids, by their keys.


def copies(arrivals):
    """Which messages came again."""
    ids, again, unmarked = {}, 0, []
    for one in arrivals:
        if one.key in ids:
            again += 1
            if not one.is_marked:
                unmarked.append(one.key)
        ids.setdefault(one.key, set()).add(one.id)
    return Copies(again, unmarked, [key for key, all in ids.items() if len(all) > 1])


def prove():
    """Raises an error unless every kind of copy is found: a count that is always 0 would look well."""
    def one(key, id, is_marked=False):
        return Arrival(0, "rig", key, id, is_marked, "a")

    for arrivals, expected in (
            ([one("x", "1"), one("y", "2")], Copies(0, [], [])),
            ([one("x", "1"), one("x", "1", True)], Copies(1, [], [])),
            ([one("x", "1", True), one("x", "1")], Copies(1, ["x"], [])),
            ([one("x", "1"), one("x", "2", True)], Copies(1, [], ["x"]))):
        found = copies(arrivals)
        if found != expected:
            raise SystemExit(f"the count of copies is wrong: {arrivals} gave {found}")
