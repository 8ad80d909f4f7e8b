"""Takes webhooks of Chapar on http://127.0.0.1:9000/ and verifies them: python verify.py, with the key in WEBHOOK_SECRET."""

import json
import os
from http.server import BaseHTTPRequestHandler, HTTPServer

from standardwebhooks import Webhook, WebhookVerificationError

webhook = Webhook(os.environ["WEBHOOK_SECRET"])
seen = set()  # In a service: a table with a unique key, kept for some days.


def take(body: bytes, headers: dict) -> int:
    # The raw bytes: a body that was parsed and written again has another signature.
    webhook.verify(body, headers, json_parse=False)
    if headers["webhook-id"] in seen:
        return 204  # A repeat: the answer to the first one was lost.
    seen.add(headers["webhook-id"])
    message = json.loads(body)
    events = message["data"]["events"] if message["type"] == "events.batch" else [message]
    for event in events:
        if event["type"] == "token.invalidated":
            print("delete the token of", event["data"].get("device") or event["data"].get("recipient"))
        else:
            print(event["type"], event["data"].get("notification", ""))
    return 204


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        try:
            status = take(body, {name.lower(): value for name, value in self.headers.items()})
        except WebhookVerificationError:
            status = 401
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    HTTPServer(("127.0.0.1", 9000), Handler).serve_forever()
