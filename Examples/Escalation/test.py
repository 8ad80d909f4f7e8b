#!/usr/bin/env python3
"""Tests of the two services against an aggregator and a bot's API that are made up: `python3 test.py`."""
import base64, hashlib, hmac, json, os, tempfile, threading, time, unittest, urllib.error, urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import bot, channel, sms

SECRET = "whsec_c2FuZGJveC1zZWNyZXQtb2YtdGhlLXNlcnZpY2U="


class Platform:
    """A server that answers what a test says, and keeps what it got."""

    def __init__(self):
        self.answers, self.got, platform = [], [], self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                platform.got.append((self.path, dict(self.headers), json.loads(body)))
                status, value, headers = platform.answers.pop(0)
                text = json.dumps(value).encode()
                self.send_response(status)
                for field in {"content-length": str(len(text)), **headers}.items():
                    self.send_header(*field)
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_): pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"


class Case(unittest.TestCase):
    def setUp(self):
        self.platform = Platform()
        self.folder = tempfile.TemporaryDirectory()
        self.start()

    def start(self):
        self.service = channel.serve(self.sender(), 0, SECRET, os.path.join(self.folder.name, "sent.db"))
        threading.Thread(target=self.service.serve_forever, daemon=True).start()

    def tearDown(self):
        for server in (self.service, self.platform.server):
            server.shutdown()
            server.server_close()
        self.folder.cleanup()

    def post(self, address, id="1", content={"title": "Order 42", "body": "Your code is 1234"}, options={}, secret=SECRET):
        """Sends one message as the gateway does; returns its outcome, or the status of a refused request."""
        recipient = {"id": id, "to": {"token": address, "service": "x-test"}}
        value = {"version": 1, "backend": "sms", "messages": [
            {"message": {"content": content, "options": options}, "recipients": [recipient]}]}
        body, stamp = json.dumps(value).encode(), str(int(time.time()))
        key = base64.b64decode(secret.removeprefix("whsec_"))
        digest = hmac.new(key, f"m.{stamp}.".encode() + body, hashlib.sha256).digest()
        headers = {"webhook-id": "m", "webhook-timestamp": stamp,
                   "webhook-signature": "v1," + base64.b64encode(digest).decode()}
        request = urllib.request.Request(f"http://127.0.0.1:{self.service.server_port}/", body, headers)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return json.loads(answer.read())["outcomes"][0]
        except urllib.error.HTTPError as error:
            return error.code

    def check(self, answers, expected, address):
        """Gives each answer of the platform in turn, and compares the outcomes."""
        for number, (answer, outcome) in enumerate(zip(answers, expected)):
            self.platform.answers.append(answer)
            found = self.post(address, id=f"check-{number}")
            self.assertEqual({key: found.get(key) for key in outcome}, outcome, answer)


class Common:
    """What both services do."""

    def test_twice(self):
        self.platform.answers.append(self.good)
        first = self.post(self.address)
        self.assertEqual(first["outcome"], "accepted")
        self.assertEqual(self.post(self.address), first)
        self.service.shutdown()
        self.service.server_close()
        self.start()  # Also after a restart.
        self.assertEqual(self.post(self.address), first)
        self.assertEqual(len(self.platform.got), 1)

    def test_again(self):
        self.platform.answers += [(429, {"ok": False, "error_code": 429}, {"retry-after": "7"}), self.good]
        first = self.post(self.address)
        self.assertEqual([first["retry"], first["retry_after"]], ["backend", 7])
        self.assertEqual(self.post(self.address)["outcome"], "accepted")
        self.assertEqual(len(self.platform.got), 2)

    def test_silence(self):
        self.platform.answers += [(500, {}, {}), self.good]
        self.assertEqual(self.post(self.address)["outcome"], "unknown")
        self.assertEqual(self.post(self.address)["outcome"], "unknown", "it may have gone out")
        self.assertEqual(len(self.platform.got), 1)

    def test_not_sent(self):
        self.assertEqual(self.post(self.address, secret="whsec_" + "YQ" * 16), 401)
        self.assertEqual(self.post(self.address, options={"dry_run": True})["outcome"], "accepted")
        self.assertEqual(self.post(self.address, options={"expires_at": 1})["reason"], "expired")
        self.assertEqual(self.post(self.address, content={"data": {"a": 1}})["reason"], "no_text")
        self.assertEqual(self.platform.got, [])


class SMS(Common, Case):
    address, good = "+15550001", (202, {"id": "A-1"}, {})

    def sender(self): return sms.sender(self.platform.url + "/v1/messages", "key-1")

    def test_request(self):
        self.platform.answers.append(self.good)
        outcome = self.post(self.address, content={"title": "Order", "body": "x" * 600})
        self.assertEqual(outcome, {"id": "1", "outcome": "accepted", "platform_id": "A-1"})
        path, headers, value = self.platform.got[0]
        self.assertEqual([path, headers["Authorization"]], ["/v1/messages", "Bearer key-1"])
        self.assertEqual([value["to"], value["client_id"], len(value["text"])], ["+15550001", "1", sms.LONGEST])

    def test_answers(self):
        self.check(
            [(401, {}, {}), (402, {"error": "no money"}, {}), (404, {}, {}), (400, {"error": "unknown_number"}, {}),
             (400, {"error": "bad text"}, {})],
            [{"kind": "account", "retry": "operator"}, {"kind": "account", "detail": "no money"}, {"kind": "token"},
             {"kind": "token"}, {"kind": "message", "detail": "bad text"}],
            self.address,
        )

    def test_number(self):
        for number in ("0555", "+0555000111", "mailto:a@b", ""):
            self.assertEqual(self.post(number, id=number)["reason"], "not_a_number")
        self.assertEqual(self.platform.got, [])


class Bot(Common, Case):
    address, good = "4711", (200, {"ok": True, "result": {"message_id": 9}}, {})

    def sender(self): return bot.sender(self.platform.url, "42:secret")

    def test_request(self):
        self.platform.answers.append(self.good)
        outcome = self.post(self.address, content={"body": "Hello", "click_url": "https://shop.example/42"})
        self.assertEqual(outcome, {"id": "1", "outcome": "accepted", "platform_id": "9"})
        path, _, value = self.platform.got[0]
        self.assertEqual(path, "/bot42:secret/sendMessage")
        self.assertEqual(value, {"chat_id": "4711", "text": "Hello\nhttps://shop.example/42"})

    def test_answers(self):
        def bad(code, text, **more): return code, {"ok": False, "error_code": code, "description": text, **more}, {}
        self.check(
            [bad(403, "Forbidden: bot was blocked by the user"), bad(400, "Bad Request: chat not found"),
             bad(400, "Bad Request: message is too long"), bad(401, "Unauthorized"),
             bad(429, "Too Many Requests", parameters={"retry_after": 3})],
            [{"kind": "token", "reason": "blocked"}, {"kind": "token", "reason": "no_chat"}, {"kind": "message"},
             {"kind": "account", "retry": "operator"}, {"retry": "backend", "retry_after": 3}],
            self.address,
        )


if __name__ == "__main__":
    unittest.main()
