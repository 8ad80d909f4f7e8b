"""Gateways beside simulators, for tests in Python: programs, stores, API keys, and a client that sends bytes as they are."""
import contextlib
import hashlib
import http.client
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "Benchmarks/gateway"))
from postgres import postgres  # noqa: E402
CHAPAR = str(Path(os.environ.get("CHAPAR", ROOT / ".build/debug/chapar")).absolute())
LIMIT = 60  # Seconds until a program must have come up.


class Process:
    """A program whose output goes to a file."""

    def __init__(self, folder, name, *arguments, environment=None):
        self.log = folder / f"{name}.log"
        with open(self.log, "w") as output:
            self.child = subprocess.Popen([CHAPAR, *arguments], stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment)

    def wait_for(self, pattern):
        """The first group of a pattern, once the output has it."""
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            found = re.search(pattern, self.log.read_text(errors="replace"), re.M)
            if found:
                return found[1]
            if self.child.poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError(f"not in time: {pattern}\n{self.log.read_text(errors='replace')[-3000:]}")

    def tail(self, characters=2000):
        """The end of its output."""
        return self.log.read_text(errors="replace")[-characters:]

    def end(self, patience=20):
        """Asks it to end, and kills it when it does not in so many seconds; gives whether it ended by itself."""
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGINT)
            try:
                self.child.wait(patience)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()
                return False
        return True


@contextlib.contextmanager
def database():
    """A private PostgreSQL server; gives its URL."""
    with tempfile.TemporaryDirectory(prefix="chapar-database-") as folder:
        os.chmod(folder, 0o755)  # The server may run as another user.
        with postgres(Path(folder) / "postgres") as server:
            yield server.url


class Sandbox:
    """`chapar sandbox` in a folder: `box/chapar.yaml` there sends to its simulators."""

    def __init__(self, folder):
        self.folder = folder
        self.process = Process(folder, "sandbox", "sandbox", "--dir", str(folder / "box"), "--gateway-port", "0")
        try:
            self.process.wait_for(r"^(next):")
            self.control = self.process.wait_for(r"^control +(http://\S+)")
            self.configuration = (folder / "box/chapar.yaml").read_text()
        except BaseException:
            self.process.end()
            raise

    def steer(self, method, target, body=None):
        """Asks the control API; gives its JSON."""
        client = Client(self.control)
        answer = client.ask(method, target, json.dumps(body).encode() if body is not None else None)
        client.close()
        if answer.status != 200:
            raise RuntimeError(f"control: {method} {target}: {answer.status} {answer.text}")
        return json.loads(answer.body)

    def end(self):
        self.process.end()


class Bare:
    """In the place of a sandbox, for gateways that send to no simulator: a folder, and a configuration without backends."""
    configuration = "server:\n  host: 127.0.0.1\n  port: 0\nstore:\n  kind: sqlite\nauth:\n  keyless: true\nbackends:\n"

    def __init__(self, folder):
        self.folder = folder
        (folder / "box").mkdir()


class Key:
    """An API key as `chapar keys create` makes one: its secret, and its line for `auth.api_keys`."""

    def __init__(self, name, *scopes, **more):
        self.name, self.secret = name, "chp_" + secrets.token_urlsafe(32)
        digest = hashlib.sha256(self.secret.encode()).hexdigest()
        self.line = "- " + json.dumps({"name": name, "hash": f"sha256:{digest}", "scopes": scopes, **more})


class Gateway:
    """`chapar serve` with a configuration of its own beside a sandbox's simulators; the files that it names stand in `box`.

    `environment` is put over the variables of this program.
    """

    def __init__(self, sandbox, name, keys=(), more="", store=None, edit=lambda text: text, environment=None):
        self.name, self.folder, self.environment = name, sandbox.folder, {**os.environ, **(environment or {})}
        self.config = sandbox.folder / f"box/{name}.yaml"
        self.keys = {key.name: key.secret for key in keys}
        text = sandbox.configuration
        place = re.search(r"^store:\n(?:  .*\n)+", text, re.M)
        own = store or f"  kind: sqlite\n  path: {json.dumps(str(sandbox.folder / f'{name}.db'))}\n"
        text = edit(text[:place.start()] + "store:\n" + own + text[place.end():])
        if keys:
            text = re.sub(r"^auth:.*\n(?: .*\n)*", "", text, flags=re.M)  # The sandbox's own, for a gateway without keys.
            text += "auth:\n  api_keys:\n" + "".join(f"    {key.line}\n" for key in keys)
        self.config.write_text(text + more)
        self.starts = 0
        self.start()

    def start(self):
        """Starts it; once more at another port, with the store as it is."""
        self.starts += 1
        self.process = Process(self.folder, f"{self.name}-{self.starts}", "serve", "--config", str(self.config), environment=self.environment)
        try:
            self.url = self.process.wait_for(r" listening pid=.*url=(https?://\S+)")
        except BaseException:
            self.process.end()
            raise
        self.port = int(self.url.rsplit(":", 1)[1])

    def client(self, key=None, timeout=10):
        """A client with one of its keys."""
        return Client(self.url, self.keys.get(key), timeout)

    @property
    def is_alive(self):
        return self.process.child.poll() is None

    def end(self):
        return self.process.end()


class Answer:
    """A gateway's answer."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def text(self):
        return self.body.decode(errors="replace")

    def header(self, name):
        return next((value for key, value in self.headers if key.lower() == name), None)


class NoAnswer(Exception):
    """The connection ended, or nothing came in time; the text says which."""


class Client:
    """Speaks HTTP/1.1 to one address over a connection that it keeps, and sends what it is given byte by byte."""

    def __init__(self, url, secret=None, timeout=10):
        self.host, port = url.split("://", 1)[1].rstrip("/").rsplit(":", 1)
        self.port, self.secret, self.timeout, self.socket = int(port), secret, timeout, None

    def ask(self, method, target, body=None, headers=()):
        """Asks, with the headers that every client sends; a body is JSON unless a header says otherwise."""
        lines = list(headers)
        names = {name.lower() for name, _ in lines}
        own = [("Host", f"{self.host}:{self.port}")]
        if self.secret:
            own.append(("Authorization", f"Bearer {self.secret}"))
        if body is not None:
            own += [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        lines = [(name, value) for name, value in own if name.lower() not in names] + [item for item in lines if item[1] is not None]
        head = f"{method} {target} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines) + "\r\n"
        return self.exchange(head.encode("utf-8", "surrogatepass") + (body or b""), method)

    def exchange(self, data, method="GET"):
        """Sends bytes and reads an answer; a connection that was kept and has ended is made anew, once."""
        kept = self.socket is not None
        try:
            return self._exchange(data, method)
        except NoAnswer as ended:
            if not kept or "in time" in str(ended):
                raise
            return self._exchange(data, method)

    def _exchange(self, data, method):
        try:
            if self.socket is None:
                self.socket = socket.create_connection((self.host, self.port), self.timeout)
                self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.socket.settimeout(self.timeout)  # A connection that was kept was made with another request's.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self.socket.sendall(data)  # A body may be refused before it is over.
            response = http.client.HTTPResponse(self.socket, method=method)
            response.begin()
            answer = Answer(response.status, response.getheaders(), response.read())
            if response.will_close:
                self.close()
            return answer
        except TimeoutError:
            self.close()
            raise NoAnswer(f"no answer in time ({self.timeout} s)") from None
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise NoAnswer(f"the connection ended: {error!r}") from None

    def stream(self, target, quiet=1, most=20, headers=()):
        """What an event stream gives until nothing came for so many seconds, or for `most` seconds in all."""
        deadline = time.monotonic() + most
        with socket.create_connection((self.host, self.port), self.timeout) as connection:
            own = [("Host", f"{self.host}:{self.port}")] + [("Authorization", f"Bearer {self.secret}")] * bool(self.secret)
            fields = "".join(f"{name}: {value}\r\n" for name, value in [*own, *headers])
            connection.sendall(f"GET {target} HTTP/1.1\r\n{fields}\r\n".encode("utf-8", "surrogatepass"))
            try:
                response = http.client.HTTPResponse(connection)
                response.begin()
            except (OSError, http.client.HTTPException) as error:
                raise NoAnswer(f"the connection ended before the stream began: {error!r}") from None
            connection.settimeout(quiet)
            body = b""
            with contextlib.suppress(TimeoutError, http.client.IncompleteRead):
                while time.monotonic() < deadline and (part := response.read1(65536)):
                    body += part
            return Answer(response.status, response.getheaders(), body)

    def close(self):
        if self.socket is not None:
            self.socket.close()
            self.socket = None
