"""Gateways for the dashboard's test: the demonstration, an empty one with credentials that end, and one with API keys."""
import json
import subprocess
import sys
import time
import urllib.request
from datetime import datetime, timedelta, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "Tests/Rig"))
from rig import CHAPAR, Process, database  # noqa: E402, F401
EXPECTED_DAYS = {"client": 10, "server": 400, "key": 5}  # Until each credential ends.


def demonstration(folder):
    """The demonstration with its process, which sends messages by itself; look at `Dashboard:` in its output for when it has."""
    process = Process(folder, "demo", "demo", "--port", "0")
    return process, process.wait_for(r"^A gateway at (http://[^,]+),")


def certificate(folder, name, days, subject, *extensions):
    """Writes a certificate of its own authority that ends in so many days (and an hour), with its key."""
    added = [part for extension in extensions for part in ("-addext", extension)]
    end = (datetime.now(timezone.utc) + timedelta(days=days, hours=1)).strftime("%Y%m%d%H%M%SZ")
    key, request, made = (str(folder / f"{name}.{kind}") for kind in ("key", "csr", "pem"))
    openssl = ["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subprocess.run([*openssl, "-subj", subject, *added, "-keyout", key, "-out", request], check=True, capture_output=True)
    authority = folder / f"{name}-authority"
    authority.mkdir()
    (authority / "index.txt").touch()
    (authority / "ca.cnf").write_text(
        f"[ca]\ndefault_ca=own\n[own]\ndir={authority}\ndatabase={authority}/index.txt\nnew_certs_dir={authority}\n"
        "rand_serial=yes\ndefault_md=sha256\npolicy=any\ncopy_extensions=copy\nunique_subject=no\n"
        "[any]\ncommonName=supplied\nuserId=optional\n"
    )
    sign = ["openssl", "ca", "-batch", "-notext", "-config", str(authority / "ca.cnf"), "-selfsign", "-keyfile", key]
    subprocess.run([*sign, "-enddate", end, "-in", request, "-out", made], check=True, capture_output=True)


class Gateway:
    """`chapar serve` with an APNs backend whose client certificate ends soon; nothing was ever sent through it."""

    def __init__(self, folder, name, has_keys=False, is_encrypted=False, store="{ path: chapar.db }"):
        self.folder, self.name, self.starts = folder / name, name, 0
        self.folder.mkdir(exist_ok=True)
        self.address = None
        certificate(self.folder, "client", EXPECTED_DAYS["client"], "/CN=Apple Push Services: com.example.app/UID=com.example.app")
        text = f"store: {store}\n"
        text += "backends:\n  old-ios: { kind: apns, topic: com.example.app, certificate_file: client.pem, certificate_key_file: client.key }\n"
        text += "  partner: { kind: http, url: 'http://127.0.0.1:9/', secret: a-secret-of-24-bytes-or-more, recipients: [user] }\n"
        server = "port: 0"
        if is_encrypted:
            names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
            certificate(self.folder, "server", EXPECTED_DAYS["server"], "/CN=localhost", names)
            server += ", tls: { certificate_file: server.pem, key_file: server.key }"
        self.server = server
        if has_keys:
            end = (datetime.now(timezone.utc) + timedelta(days=EXPECTED_DAYS["key"], hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
            lines = [self.key("sender", "send"), self.key("watcher", "read").replace(" }", f", not_after: {end} }}")]
            text += "limits: { streams_per_key: 2 }\nauth:\n  api_keys:\n" + "".join(f"    {line}\n" for line in lines)
        self.text = text
        self.start()

    def key(self, name, scope):
        """Makes an API key; gives the line of the configuration."""
        arguments = ["keys", "create", "--name", name, "--scope", scope, "--key-file", str(self.folder / name), "--json"]
        return json.loads(subprocess.run([CHAPAR, *arguments], check=True, capture_output=True, text=True).stdout)["line"]

    def secret(self, name):
        return (self.folder / name).read_text().strip()

    def start(self):
        """Starts it; once more at the same address, which another program's connection may hold for a moment."""
        port = self.address.rsplit(":", 1)[1] if self.address else 0
        config = self.folder / "chapar.yaml"
        config.write_text(f"server: {{ {self.server.replace('port: 0', f'port: {port}')} }}\n{self.text}")
        for attempts_left in reversed(range(10)):
            self.starts += 1
            self.process = Process(self.folder, f"serve-{self.starts}", "serve", "--config", str(config))
            try:
                self.address = self.process.wait_for(r" listening pid=.*url=(https?://\S+)")
                return
            except RuntimeError:
                self.process.end()
                if not port or not attempts_left:
                    raise
                time.sleep(1)

    def end(self):
        self.process.end()


def call(address, method, path, body=None):
    """Asks a gateway that needs no key; gives the JSON of its answer."""
    request = urllib.request.Request(address + path, method=method, headers={"Content-Type": "application/json"})
    request.data = json.dumps(body).encode() if body is not None else None
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=20) as answer:
        return json.load(answer)
