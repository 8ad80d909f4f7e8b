"""What the services of this folder share: Chapar's contract for the backend `http`, with nothing but Python's library.

Outcomes are kept in a file, by the message's id: one that comes again, because an answer was lost or the service was
restarted, is not sent a second time. The id is noted before the message goes out, so a crash in between makes it unknown.
"""
import base64, hashlib, hmac, json, sqlite3, threading, time, urllib.error, urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

UNKNOWN = {"outcome": "unknown", "reason": "no_answer"}


class Refused(Exception):
    """An answer that is no acceptance: the outcome for the gateway."""

    def __init__(self, kind, reason, **more):
        super().__init__(reason)
        self.outcome = {"outcome": "refused", "kind": kind, "reason": reason, **more}


class Outcomes:
    """The outcomes of the last days, in a file."""

    def __init__(self, path):
        self.lock = threading.Lock()
        self.db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self.db.execute("PRAGMA journal_mode = wal")
        self.db.execute("CREATE TABLE IF NOT EXISTS outcomes (id TEXT PRIMARY KEY, at REAL, outcome TEXT)")
        self.db.execute("DELETE FROM outcomes WHERE at < ?", (time.time() - 7 * 86400,))

    def begin(self, id):
        """Notes that a message goes out now; returns its outcome if it went out before."""
        with self.lock:
            known = self.db.execute("SELECT outcome FROM outcomes WHERE id = ?", (id,)).fetchone()
            if known:
                return json.loads(known[0])
            self.db.execute("INSERT INTO outcomes VALUES (?, ?, ?)", (id, time.time(), json.dumps(UNKNOWN)))
            return None

    def end(self, id, outcome):
        """Keeps an outcome, unless the message may go out again."""
        with self.lock:
            if outcome["outcome"] == "refused" and outcome.get("retry", "never") != "never":
                self.db.execute("DELETE FROM outcomes WHERE id = ?", (id,))
            else:
                self.db.execute("UPDATE outcomes SET outcome = ? WHERE id = ?", (json.dumps(outcome), id))


def call(url, value, headers={}, timeout=10):
    """Posts JSON; returns the status, the JSON that was answered, and the seconds to wait. Raises OSError for silence."""
    request = urllib.request.Request(
        url, json.dumps(value).encode(), {"content-type": "application/json", **headers}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            status, body, wait = answer.status, answer.read(1 << 20), None
    except urllib.error.HTTPError as error:
        status, body, wait = error.code, error.read(1 << 20), error.headers.get("retry-after")
    try:
        found = json.loads(body)
    except ValueError:
        found = {}
    return status, found if isinstance(found, dict) else {}, int(wait) if wait and wait.isdigit() else None


def text_of(message):
    """The text of a message: title and body, and the address that a tap opens."""
    content = message["content"]
    parts = (content.get("title"), content.get("body"), content.get("click_url"))
    return "\n".join(part for part in parts if part)


def serve(send, port, secret, path=":memory:"):
    """Returns a server that sends with `send(address, text, message_id)`, which returns the platform's id or raises."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    outcomes = Outcomes(path)

    def deliver(message, recipient):
        expires = message["options"].get("expires_at")
        if expires and expires < time.time():
            return {"outcome": "refused", "kind": "message", "reason": "expired"}
        text, address = text_of(message), recipient["to"].get("token", "")
        if not text:
            return {"outcome": "refused", "kind": "message", "reason": "no_text"}
        if message["options"].get("dry_run"):
            return {"outcome": "accepted"}
        known = outcomes.begin(recipient["id"])
        if known:
            return known
        try:
            outcome = {"outcome": "accepted", "platform_id": str(send(address, text, recipient["id"]))}
        except Refused as refused:
            outcome = refused.outcome
        except OSError as error:
            outcome = {**UNKNOWN, "detail": type(error).__name__}
        outcomes.end(recipient["id"], outcome)
        return outcome

    class Service(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # Connections stay open.

        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            if not self.is_signed(body):
                return self.answer(401, {"detail": "the signature does not fit"})
            found = []
            for entry in json.loads(body)["messages"]:
                for recipient in entry["recipients"]:
                    found.append({"id": recipient["id"], **deliver(entry["message"], recipient)})
            self.answer(200, {"outcomes": found})

        def is_signed(self, body):
            stamp, given = self.headers.get("webhook-timestamp", "0"), self.headers.get("webhook-signature", "")
            text = f"{self.headers.get('webhook-id')}.{stamp}.".encode() + body
            mine = "v1," + base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()
            in_time = stamp.isdigit() and abs(time.time() - int(stamp)) < 300
            return in_time and any(hmac.compare_digest(mine, one) for one in given.split())

        def answer(self, status, value):
            body = json.dumps(value).encode()
            self.send_response(status)
            for field in {"content-type": "application/json", "content-length": str(len(body))}.items():
                self.send_header(*field)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_): pass

    return ThreadingHTTPServer(("127.0.0.1", port), Service)


def run(send, port, secret, path):
    """Serves until the program ends; the first line of the output tells the port."""
    server = serve(send, port, secret, path)
    print(f"listening on {server.server_port}", flush=True)
    server.serve_forever()
