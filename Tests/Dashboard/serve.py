#!/usr/bin/env python3
"""Serves the operator's page from its source files in front of a running gateway: what is edited is seen without a build.

    Tests/Dashboard/serve.py URL [PORT]

`/v1` goes on to the gateway. A test can also let answers fail: see `Faults`.
"""
import base64
import hashlib
import http.client
import json
import re
import ssl
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "Sources/ChaparServer/Dashboard"
LISTED = ROOT / "Sources/CChaparDocuments/documents.c"
LANGUAGES = ("en", "fa", "ru")


def scripts(folder=FOLDER):
    """The scripts in the order in which the gateway joins them."""
    found = {path.name: path for path in Path(folder).rglob("*.js")}
    return [found[name + ".js"] for name in re.findall(r'^#embed "\S+/(\w+)\.js"', LISTED.read_text(), re.MULTILINE)]


def texts(folder=FOLDER):
    return {language: json.loads((Path(folder) / f"texts/{language}.json").read_text()) for language in LANGUAGES}


def assembled(folder=FOLDER):
    """The document and its policy, as `DashboardPage.swift` makes them."""
    style, page = ((Path(folder) / name).read_text() for name in ("page.css", "page.html"))
    lines = (line.lstrip(" ") for path in scripts(folder) for line in path.read_text().split("\n"))
    script = '"use strict";\n' + "".join(line + "\n" for line in lines if line and not line.startswith(("//", "/**", "* ", "*/")))
    table = "{" + ",".join(f'"{one}":{(Path(folder) / f"texts/{one}.json").read_text()}' for one in LANGUAGES) + "}"
    data = '<script type="application/json" id="texts">'
    page = page.replace("<style></style>", f"<style>{style}</style>").replace(data + "</script>", f"{data}{table}</script>")
    page = page.replace("<script></script>", f"<script>{script}</script>")
    source = lambda content: f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
    policy = (f"default-src 'none'; script-src {source(script)}; style-src {source(style)}; connect-src 'self'; img-src data:; "
              "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'")
    return page, policy


class Faults:
    """What the server does to answers: `rules` are (words in "METHOD path", what), the first that is found holds.

    `what` is a status, a pair of status and body, or seconds to wait as a text such as "2s"; "cut" ends the connection.
    `answers` gives bodies to paths, a body or a function of the handler and the request's body. `requests` are those that came, as
    "METHOD path". `streams` are functions that write a whole answer.
    """

    def __init__(self):
        self.rules, self.answers, self.streams, self.requests, self.bodies = [], [], [], [], []

    def clear(self):
        self.rules, self.answers, self.streams = [], [], []

    def found(self, line, rules):
        return next((what for words, what in list(rules) if re.search(words, line)), None)


def serve(folder, gateway, port=0, faults=None):
    """Starts the server; gives it and its address."""
    target = urlsplit(gateway)
    faults = faults or Faults()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def answer(self, status, body, kind="application/json", headers=()):
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            for name, value in (("Content-Type", kind), ("Content-Length", str(len(body))), *headers):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def document(self):
            page, policy = assembled(folder)
            self.answer(200, page.encode(), "text/html; charset=utf-8", (("Content-Security-Policy", policy), ("Cache-Control", "no-store")))

        def handle_any(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.path == "/" and folder:
                return self.document()
            line = f"{self.command} {self.path}"
            faults.requests.append(line)
            faults.bodies.append((line, body.decode(errors="replace")))
            what = faults.found(line, faults.rules)
            if isinstance(what, str) and what.endswith("s"):
                time.sleep(float(what[:-1]))
                what = None
            if what == "cut":
                self.close_connection = True
                return self.connection.close()
            if what is not None:
                status, told = what if isinstance(what, tuple) else (what, {"title": f"Refused with {what}", "status": what})
                return self.answer(status, told, "application/problem+json" if status >= 400 else "application/json")
            stream = faults.found(line, faults.streams)
            if stream is not None:
                return stream(self, body)
            told = faults.found(line, faults.answers)
            if told is not None:
                return self.answer(200, told(self, body) if callable(told) else told)
            self.pass_on(body)

        def pass_on(self, body):
            if target.scheme == "https":
                context = ssl._create_unverified_context()  # The gateway of a test on this machine.
                connection = http.client.HTTPSConnection(target.netloc, context=context)
            else:
                connection = http.client.HTTPConnection(target.netloc)
            known = ("authorization", "content-type", "idempotency-key")
            headers = {name: value for name, value in self.headers.items() if name.lower() in known}
            try:
                connection.request(self.command, self.path, body=body or None, headers=headers)
                answer = connection.getresponse()
                self.send_response_only(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("connection", "content-length", "transfer-encoding"):
                        self.send_header(name, value)
                self.send_header("Connection", "close")
                self.close_connection = True
                self.end_headers()
                while part := answer.read1(65536):
                    if faults.found(f"{self.command} {self.path}", faults.rules) == "cut":
                        break
                    self.wfile.write(part)
            except OSError:
                self.close_connection = True  # The gateway or the browser went away: the connection ends.
            finally:
                connection.close()

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_address[1]}"


if __name__ == "__main__":
    running, address = serve(FOLDER, sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print(address, flush=True)
    threading.Event().wait()
