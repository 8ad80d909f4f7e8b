#!/usr/bin/env python3
"""A platform of your own for Chapar's backend `http`, in Python and with nothing but its library.

usage: service.py PORT SECRET        (port 0: a free one, which the first line of the output tells)
"""
import base64, hashlib, hmac, json, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = base64.b64decode(sys.argv[2].removeprefix("whsec_"))
OUTCOMES = {}  # By message id: one that comes again, because an answer was lost, is not sent again.


def deliver(message, recipient):
    """Sends one message: the place for the platform's own protocol."""
    address = next(iter(recipient["to"].values()))
    if str(address).startswith("gone"):
        return {"outcome": "refused", "kind": "token", "reason": "unregistered"}
    if not message["options"].get("dry_run"):
        print("to", address, message["content"].get("body", ""), flush=True)
    return {"outcome": "accepted", "platform_id": "py-" + recipient["id"]}


class Service(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # Connections stay open.

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if not self.is_signed(body):
            return self.answer(401, {"detail": "the signature does not fit"})
        outcomes = []
        for entry in json.loads(body)["messages"]:
            for recipient in entry["recipients"]:
                if recipient["id"] not in OUTCOMES:
                    OUTCOMES[recipient["id"]] = deliver(entry["message"], recipient)
                outcomes.append({"id": recipient["id"], **OUTCOMES[recipient["id"]]})
        self.answer(200, {"outcomes": outcomes})

    def is_signed(self, body):
        stamp, given = self.headers.get("webhook-timestamp", "0"), self.headers.get("webhook-signature", "")
        text = f"{self.headers.get('webhook-id')}.{stamp}.".encode() + body
        mine = "v1," + base64.b64encode(hmac.new(SECRET, text, hashlib.sha256).digest()).decode()
        return abs(time.time() - int(stamp)) < 300 and any(hmac.compare_digest(mine, one) for one in given.split())

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        for field in {"content-type": "application/json", "content-length": str(len(body))}.items():
            self.send_header(*field)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_): pass


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Service)
print(f"listening on {server.server_port}", flush=True)
server.serve_forever()
