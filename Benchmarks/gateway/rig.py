"""What every gateway benchmark needs: certificates, a responder, a reference run, a gateway, counters.

Everything listens on 127.0.0.1 and ends with the process that started it. The responder and the load are pinned to one
core, the gateway to the other, so that the gateway's figures are those of one core.
"""
import contextlib
import json
import mmap
import os
import re
import signal
import socket
import statistics
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
TICK = os.sysconf("SC_CLK_TCK")
LOAD_CPU = os.environ.get("BENCH_LOAD_CPU", "0")
GATEWAY_CPU = os.environ.get("BENCH_GATEWAY_CPU", "1")
TOKENS = 10_000
KEY_ID, TEAM_ID, TOPIC = "ABC123DEFG", "DEF123GHIJ", "com.example.app"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def token(number):
    return f"{number:064x}"


def run(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options)


class Rig:
    """A folder with everything in it; a context manager that ends what it started.

    A gateway gets `slowness` times as long for its start.
    """

    def __init__(self, folder, chapar, slowness=1):
        self.slowness = slowness
        self.folder = Path(folder)
        self.chapar = chapar
        self.folder.mkdir(parents=True, exist_ok=True)
        self.ends = contextlib.ExitStack()

    def __enter__(self):
        self._certificates()
        self.compile("responder", "-lnghttp2", "-lssl", "-lcrypto")
        self.compile("load")
        return self

    def __exit__(self, *_):
        self.ends.close()

    def path(self, name):
        return str(self.folder / name)

    # Fixtures

    def _certificates(self):
        if (self.folder / "cert.pem").exists():
            return
        new = ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        run(*new, "-x509", "-days", "30", "-subj", "/CN=bench-ca", "-addext", "basicConstraints=critical,CA:TRUE",
            "-keyout", self.path("ca.key"), "-out", self.path("ca.pem"))
        run(*new, "-subj", "/CN=localhost", "-keyout", self.path("key.pem"), "-out", self.path("leaf.csr"))
        (self.folder / "leaf.ext").write_text(
            "subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=critical,CA:FALSE\nextendedKeyUsage=serverAuth\n")
        run("openssl", "x509", "-req", "-in", self.path("leaf.csr"), "-CA", self.path("ca.pem"), "-CAkey",
            self.path("ca.key"), "-CAcreateserial", "-days", "30", "-extfile", self.path("leaf.ext"), "-out",
            self.path("cert.pem"))
        pem = run("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout").stdout
        run("openssl", "pkcs8", "-topk8", "-nocrypt", "-out", self.path("AuthKey.p8"), input=pem)

    def compile(self, name, *libraries):
        source = HERE.parent / "fixtures" / f"{name}.c"
        target = self.folder / name
        if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
            run("cc", "-O2", "-o", str(target), str(source), *libraries)

    # Processes

    @contextlib.contextmanager
    def process(self, *command, **options):
        child = subprocess.Popen(command, **options)
        try:
            yield child
        finally:
            if child.poll() is None:
                child.send_signal(signal.SIGTERM)
                try:
                    child.wait(30)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()

    @contextlib.contextmanager
    def responder(self, delay_ms=0, by_token=False, port=None):
        """A platform stand-in that answers at once, or after `delay_ms`; `by_token` as responder.c says of -p; counts its answers.

        It listens on `port`, or on any.
        """
        port = port or free_port()
        stat = self.path(f"responder-{delay_ms}-{port}.stat")
        command = ["taskset", "-c", LOAD_CPU, self.path("responder"), "serve", str(port), self.path("cert.pem"),
                   self.path("key.pem"), "-T", "900", "-s", stat]
        if delay_ms:
            command += ["-l", str(delay_ms)]
        if by_token:
            command += ["-p", "1"]
        with self.process(*command, stdout=subprocess.DEVNULL) as child:
            wait_for_port(port)
            yield Responder(port, stat, child.pid)

    @contextlib.contextmanager
    def gateway(self, platform_port, fresh=True, extra="", chapar=None, store="", backend="", server="", key=None, postgres=None):
        """A gateway whose backend `ios` is the responder, of the release build or of another binary.

        With `postgres`, a URL, the store is that database. `store`, `backend` and `server` are further keys of those sections, `extra` further backends and, after them, sections;
        `key` is an API key for what the rig itself asks.
        """
        database = self.path("bench.db")
        if fresh:
            for name in Path(self.folder).glob("bench.db*"):
                name.unlink()
        port = free_port()
        config = self.path("chapar.yaml")
        kind = f"kind: postgres, url: '{postgres}'" if postgres else f"kind: sqlite, path: {database}"
        Path(config).write_text(
            f"server: {{ host: 127.0.0.1, port: {port}{server} }}\nstore: {{ {kind}{store} }}\n"
            f"log: {{ level: warning }}\nbackends:\n  ios: {{ kind: apns, team_id: {TEAM_ID}, key_id: {KEY_ID}, key_file: "
            f"AuthKey.p8, topic: {TOPIC}, environment: production, base_url: 'https://127.0.0.1:{platform_port}', "
            f"ca_file: ca.pem{backend} }}\n{extra}")
        if "auth:" not in extra:
            self.without_keys(config, chapar or self.chapar)
        started = time.perf_counter()
        with self.process("taskset", "-c", GATEWAY_CPU, chapar or self.chapar, "serve", "--config", config,
                          stdout=subprocess.DEVNULL, stderr=open(self.path("gateway.log"), "a")) as child:
            wait_for_answer(f"http://127.0.0.1:{port}/readyz", child, self.folder / "gateway.log", self.slowness)
            yield Gateway(port, child.pid, time.perf_counter() - started, database, key)

    @staticmethod
    def without_keys(config, chapar):
        """Lets a gateway answer without keys; binaries before `auth.keyless` do so by themselves."""
        plain = Path(config).read_text()
        Path(config).write_text(plain + "auth: { keyless: true }\n")
        if subprocess.run([chapar, "check", "--config", config], capture_output=True).returncode != 0:
            Path(config).write_text(plain)

    def load(self, gateway, seconds, *options):
        """Starts load.c on the load's core; its lines are on stdout."""
        command = ["taskset", "-c", LOAD_CPU, self.path("load"), str(gateway.port), str(seconds), *map(str, options)]
        return self.process(*command, stdout=subprocess.PIPE, text=True)


class Responder:
    def __init__(self, port, stat, pid):
        self.port, self.pid = port, pid
        self.counters = mmap.mmap(os.open(stat, os.O_RDONLY), 4096, prot=mmap.PROT_READ)

    @property
    def answered(self):
        return struct.unpack_from("<Q", self.counters, 0)[0]

    @property
    def by_status(self):
        """How many requests were answered with each status, of a responder that goes by the token."""
        return dict(zip(("200", "410", "503", "429"), struct.unpack_from("<4Q", self.counters, 24)))

    def noted(self, number):
        """When a token a110NN came last, in time.monotonic()'s seconds; 0 if it did not."""
        return struct.unpack_from("<Q", self.counters, 1024 + 8 * number)[0] / 1e9


class Gateway:
    def __init__(self, port, pid, started_in, database, key=None):
        self.port, self.pid, self.started_in, self.database = port, pid, started_in, database
        self.headers = {"authorization": f"Bearer {key}"} if key else {}
        self.url = f"http://127.0.0.1:{port}"

    @property
    def cpu(self):
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def memory(self, key="VmRSS"):
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(key + ":"):
                return int(line.split()[1]) / 1024
        raise KeyError(key)

    @property
    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    @property
    def stored_mib(self):
        """What the database takes: the file with its write-ahead log."""
        return self.size_mib("") + self.log_mib

    @property
    def log_mib(self):
        """What the write-ahead log takes."""
        return self.size_mib("-wal")

    def size_mib(self, suffix):
        path = self.database + suffix
        return os.stat(path).st_size / 1024 / 1024 if os.path.exists(path) else 0

    def post(self, path, body, **headers):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(),
                                         {"content-type": "application/json", **self.headers, **headers})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refusal:
            refusal.add_note(f"{path}: {refusal.read(2000).decode()}")
            raise

    def get(self, path):
        request = urllib.request.Request(self.url + path, headers=self.headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read().decode()

    def metric(self, name):
        """A metric's values by their labels, as they stand in the text."""
        found = re.findall(rf"^{name}(\{{[^}}]*\}})? (\S+)$", self.get("/metrics"), re.M)
        return {labels: float(value) for labels, value in found}

    def waiting(self):
        return sum(self.metric("chapar_queue_depth").values())

    def come_to_rest(self, seconds=180):
        """Waits until nothing waits any more; gives how everything ended."""
        end = time.monotonic() + seconds
        while self.waiting() > 0 and time.monotonic() < end:
            time.sleep(1)
        ended = {labels.split('"')[1]: int(count) for labels, count in self.metric("chapar_ledger_ended_total").items() if count}
        return {"ended": ended, "waiting": int(self.waiting()), "difference": self.metric("chapar_ledger_difference").get("")}


def lost(accepted, broken, rest):
    """How many of those that were accepted have no end, by the client's count."""
    missing = accepted - sum(rest["ended"].values()) - rest["waiting"]
    # An answer that was cut off with its connection may have been an acceptance, so more ends than answers are no fault then.
    return max(0, missing) if broken else missing


def judge(missed):
    """Ends a benchmark with exit code 1, and names what missed its goal, if anything did."""
    if missed:
        sys.exit(f"not as wanted: {', '.join(missed)}")


def wait_for_port(port, seconds=10):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.2):
            return
        time.sleep(0.01)
    raise TimeoutError(f"nothing listens on port {port}")


def wait_for_answer(url, child, log, slowness=1):
    end = time.monotonic() + 20 * slowness
    while time.monotonic() < end:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=slowness):
            return
        if child.poll() is not None:
            raise RuntimeError(f"the gateway ended with code {child.returncode}: {log.read_text()[-2000:]}")
        time.sleep(0.002)
    raise TimeoutError(url)


def notification(number, **options):
    body = {"to": {"tokens": [{"token": token(number % TOKENS), "service": "ios-apns"}]},
            "content": {"title": f"Order {number}", "body": "Your parcel left the depot and arrives tomorrow.",
                        "sound": "default", "badge": 1, "data": {"order": f"A-{number}"}}}
    if options:
        body["options"] = options
    return body


def h2load_reference(rig, responder, count=400_000, runs=3):
    """h2load against the same responder: the limit that everything here is compared to."""
    uris, body = rig.path("uris.txt"), rig.path("body.json")
    Path(uris).write_text("".join(f"https://127.0.0.1:{responder.port}/3/device/{token(n)}\n" for n in range(1000)))
    Path(body).write_text('{"aps":{"alert":{"title":"Order shipped","body":"%s"},"badge":1,"sound":"default"},"order":"A-1"}'
                          % ("Your parcel left the depot and arrives tomorrow between nine and noon." + " " * 24))
    command = ["taskset", "-c", GATEWAY_CPU, "h2load", "-t1", f"-n{count}", "-c1", "-m1000", "-w24", "-W26", "-d", body,
               "-i", uris, "-H", f"apns-topic: {TOPIC}", "-H", "apns-push-type: alert", "-H", "apns-priority: 10",
               "-H", "authorization: bearer " + "x" * 160]
    figures = []
    for _ in range(runs):
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        out = child.stdout.read()
        usage = os.wait4(child.pid, 0)[2]
        rate = float(re.search(r"finished in [\d.]+m?s, ([\d.]+) req/s", out).group(1))
        figures.append((rate, (usage.ru_utime + usage.ru_stime) * 1e6 / count))
    return {"per_second": round(statistics.median(f[0] for f in figures)),
            "cpu_us": round(statistics.median(f[1] for f in figures), 2)}
