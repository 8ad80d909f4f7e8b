"""Serves the dashboard from its source files in front of a running gateway: what is edited is seen without a build.

    Tests/Dashboard/page.py FOLDER URL [PORT]
"""
import base64
import hashlib
import http.client
import ssl
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit


def assembled(folder):
    """The document and its policy, as `StaticDocuments.swift` makes them."""
    style, script, texts, page = ((Path(folder) / name).read_text() for name in
                                  ("dashboard.css", "dashboard.js", "dashboard-texts.json", "dashboard.html"))
    data = '<script type="application/json" id="texts">'
    page = page.replace("<style></style>", f"<style>{style}</style>").replace(data + "</script>", f"{data}{texts}</script>")
    page = page.replace("<script></script>", f"<script>{script}</script>")
    source = lambda content: f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
    policy = (f"default-src 'none'; script-src {source(script)}; style-src {source(style)}; connect-src 'self'; img-src data:; "
              "base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
    return page, policy


def serve(folder, gateway, port=0):
    """Starts the server; gives it and its address."""
    target = urlsplit(gateway)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_GET(self):
            if self.path == "/":
                page, policy = assembled(folder)
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Security-Policy", policy)
                self.end_headers()
                self.wfile.write(page.encode())
                return
            if target.scheme == "https":
                context = ssl._create_unverified_context()  # The gateway of a test on this machine.
                connection = http.client.HTTPSConnection(target.netloc, context=context)
            else:
                connection = http.client.HTTPConnection(target.netloc)
            try:
                headers = {name: value for name, value in self.headers.items() if name.lower() == "authorization"}
                connection.request("GET", self.path, headers=headers)
                answer = connection.getresponse()
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.getheader("Content-Type", "text/plain"))
                self.end_headers()
                while part := answer.read1(65536):
                    self.wfile.write(part)
            except OSError:
                pass  # The gateway or the browser went away: the connection ends.

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_address[1]}"


if __name__ == "__main__":
    running, address = serve(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    print(address, flush=True)
    threading.Event().wait()
