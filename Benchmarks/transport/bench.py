#!/usr/bin/env python3
"""The HTTP/2 client against h2load: one connection, 1,000 streams, POSTs of 200 bytes with APNs' fields.

usage: bench.py [--requests N] [--runs N] [--streams N] [--batch N] [--no-auth] [--json FILE]

Both send the same requests to the same responder, by turns; the responder is pinned to one core and the client to the
other. Trust the CPU per request: requests/s suffer from whatever else the machine does. Needs a C compiler, libnghttp2,
OpenSSL, h2load (Debian: nghttp2-client) and taskset. The goal is at least h2load's requests/s; when it is missed, or a request
failed, the exit code is 1.
"""
import argparse
import base64
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(1, str(HERE.parent / "gateway"))
from rig import judge  # noqa: E402

SERVER_CPU = os.environ.get("BENCH_SERVER_CPU", "0")
CLIENT_CPU = os.environ.get("BENCH_CLIENT_CPU", "1")
FIELDS = {"apns-topic": "com.example.app", "apns-push-type": "alert", "apns-priority": "10", "apns-expiration": "0"}
AUTHORIZATION = "bearer " + base64.urlsafe_b64encode(bytes(range(128))).decode()[:170]


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def make_certificates(folder):
    """A private CA and a certificate for 127.0.0.1."""
    new = ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    run(*new, "-x509", "-days", "2", "-subj", "/CN=bench-ca", "-addext", "basicConstraints=critical,CA:TRUE",
        "-keyout", f"{folder}/ca.key", "-out", f"{folder}/ca.pem")
    run(*new, "-subj", "/CN=localhost", "-keyout", f"{folder}/key.pem", "-out", f"{folder}/leaf.csr")
    Path(folder, "leaf.ext").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth\n")
    run("openssl", "x509", "-req", "-in", f"{folder}/leaf.csr", "-CA", f"{folder}/ca.pem", "-CAkey", f"{folder}/ca.key",
        "-CAcreateserial", "-days", "2", "-extfile", f"{folder}/leaf.ext", "-out", f"{folder}/cert.pem")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for_port(port):
    end = time.monotonic() + 10
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise SystemExit(f"nothing listens on port {port}")


def measure(command, requests):
    """Runs a client to its end; its CPU counts from the first instruction to the last."""
    child = subprocess.Popen(["taskset", "-c", CLIENT_CPU, *command], stdout=subprocess.PIPE, text=True)
    output = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise SystemExit(f"{command[0]} ended with {child.returncode}")
    cpu = (usage.ru_utime + usage.ru_stime) * 1e6 / requests
    return output, {"cpu": cpu, "rss": usage.ru_maxrss / 1024}


def h2load(folder, port, options, fields):
    command = ["h2load", "-t1", f"-n{options.requests}", "-c1", f"-m{options.streams}", "-w24", "-W26", "-d",
               f"{folder}/body.json", "-i", f"{folder}/uris.txt"]
    for name, value in fields.items():
        command += ["-H", f"{name}: {value}"]
    output, used = measure(command, options.requests)
    rate = float(re.search(r"finished in [\d.]+m?s, ([\d.]+) req/s", output).group(1))
    good = int(re.search(r"(\d+) 2xx", output).group(1))
    return used | {"rps": rate, "failed": options.requests - good}


def chapar(command, requests):
    output, used = measure(command, requests)
    result = json.loads(output)
    return used | {"rps": result["rps"], "failed": int(result["failed"])}


def build(product):
    """Builds a program of this package and gives its path."""
    command = ["swift", "build", "--package-path", str(HERE.parent), "-c", "release", "--product", product]
    subprocess.run(command, check=True)
    return run(*command, "--show-bin-path").strip() + f"/{product}"


def make_key(folder):
    """An APNs key, and its path."""
    run("openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-out", f"{folder}/key.p8")
    return f"{folder}/key.p8"


def backend_options(description):
    """The parser of a benchmark that sends through a backend."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=500_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--senders", type=int, default=6, help="calls of `send` at a time")
    parser.add_argument("--batch", type=int, default=256, help="notifications in one `send`")
    parser.add_argument("--json", help="write the result there, too")
    return parser


def shape(options):
    """The last arguments of a program that sends through a backend."""
    return [str(options.requests), str(options.senders), str(options.batch)]


# What FCM answers to a message.
FCM_ANSWER = '{\n  "name": "projects/courier-demo/messages/0:1767225600123456%31bd1c9631bd1c96"\n}\n'


def make_responder(folder):
    run("cc", "-O2", "-o", f"{folder}/responder", str(HERE.parent / "fixtures/responder.c"), "-lnghttp2", "-lssl",
        "-lcrypto")


def respond(folder, *more):
    """Starts a responder and gives its process and port."""
    port = free_port()
    server = subprocess.Popen(
        ["taskset", "-c", SERVER_CPU, f"{folder}/responder", "serve", str(port), f"{folder}/cert.pem",
         f"{folder}/key.pem", "-T", "900", *more], stdout=subprocess.DEVNULL)
    return server, port


def compare(folder, options, fields, ours):
    """Runs h2load with `fields` and the folder's body.json, and the command that `ours` gives for a port, by turns."""
    make_certificates(folder)
    make_responder(folder)
    server, port = respond(folder)
    Path(folder, "uris.txt").write_text(
        "".join(f"https://127.0.0.1:{port}/3/device/{n * 2654435761 % 2**32:064x}\n" for n in range(1000)))
    reference, own = [], []
    try:
        wait_for_port(port)
        for _ in range(options.runs):
            reference.append(h2load(folder, port, options, fields))
            own.append(chapar(ours(port), options.requests))
    finally:
        server.terminate()
        server.wait()

    def median(results, key):
        return statistics.median(result[key] for result in results)

    table = {name: {key: median(results, key) for key in ("rps", "cpu", "rss")} | {"failed": sum(r["failed"] for r in results)}
             for name, results in (("h2load", reference), ("chapar", own))}
    ratio = {key: table["chapar"][key] / table["h2load"][key] for key in ("rps", "cpu")}
    return {"requests": options.requests, "runs": options.runs, "streams": options.streams, "median": table,
            "ratio": ratio, "all": {"h2load": reference, "chapar": own}}


def compare_backends(description, own, reference, rps, cpu=None, files=None):
    """Runs the programs of two backends by turns, each against a responder of its own, and reports `own` beside `reference`. Each of both
    is a name and its responder's options; `files` gives for a name and a folder the files that its program needs."""
    parser = backend_options(description)
    parser.add_argument("--binaries", help=f"the folder of {reference[0]}-bench and {own[0]}-bench, when they are built already")
    options = parser.parse_args()

    sides = dict((reference, own))
    programs = {name: f"{options.binaries}/{name}-bench" if options.binaries else build(f"{name}-bench") for name in sides}
    results = {name: [] for name in sides}
    with tempfile.TemporaryDirectory() as folder:
        make_certificates(folder)
        make_responder(folder)
        more = {name: files(name, folder) if files else [] for name in sides}
        servers = {name: respond(folder, *answer) for name, answer in sides.items()}
        try:
            for _, port in servers.values():
                wait_for_port(port)
            for _ in range(options.runs):
                for name, (_, port) in servers.items():
                    command = [programs[name], "127.0.0.1", str(port), f"{folder}/ca.pem", *more[name], *shape(options)]
                    results[name].append(chapar(command, options.requests))
        finally:
            for server, _ in servers.values():
                server.terminate()
                server.wait()

    table = {name: {key: statistics.median(run[key] for run in runs) for key in ("rps", "cpu", "rss")}
             | {"failed": sum(run["failed"] for run in runs)} for name, runs in results.items()}
    ratio = {key: table[own[0]][key] / table[reference[0]][key] for key in ("rps", "cpu")}
    report({"benchmark": own[0], "requests": options.requests, "runs": options.runs, "senders": options.senders,
            "batch": options.batch, "median": table, "ratio": ratio, "all": results}, options.json, rps=rps, cpu=cpu)


def report(result, file, rps, cpu=None):
    """Prints a table and one line of JSON, which also goes to `file` if there is one. Ends with 1 when the requests/s are below `rps` times
    the reference's, the CPU a request is above `cpu` times, or a request failed."""
    print(f"{'':8}{'requests/s':>12}{'CPU us each':>13}{'RSS MiB':>9}{'failed':>8}")
    for name, row in result["median"].items():
        print(f"{name:8}{row['rps']:12,.0f}{row['cpu']:13.2f}{row['rss']:9.1f}{row['failed']:8}")
    print(f"{'ratio':8}{result['ratio']['rps']:12.2f}{result['ratio']['cpu']:13.2f}")
    print(json.dumps(result))
    if file:
        Path(file).write_text(json.dumps(result, indent=2))
    missed = [f"{name}: {row['failed']} requests failed" for name, row in result["median"].items() if row["failed"]]
    if result["ratio"]["rps"] < rps:
        missed.append(f"requests/s {result['ratio']['rps']:.2f} of the reference, at least {rps} is wanted")
    if cpu is not None and result["ratio"]["cpu"] > cpu:
        missed.append(f"CPU a request {result['ratio']['cpu']:.2f} of the reference, at most {cpu} is wanted")
    judge(missed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=500_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=100, help="calls handed to the pool at a time")
    parser.add_argument("--no-auth", action="store_true", help="leave the bearer token out")
    parser.add_argument("--json", help="write the result there, too")
    parser.add_argument("--binary", help="transport-bench, when it is built already")
    options = parser.parse_args()

    binary = options.binary or build("transport-bench")
    authorization = "" if options.no_auth else AUTHORIZATION
    fields = FIELDS | ({} if options.no_auth else {"authorization": authorization})
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "body.json").write_text('{"aps":{"alert":{"title":"Order shipped","body":"' + "x" * 151)

        def ours(port):
            return [binary, "127.0.0.1", str(port), f"{folder}/ca.pem", str(options.requests), str(options.streams),
                    str(options.batch), authorization]

        result = compare(folder, options, fields, ours)
    result |= {"benchmark": "transport", "batch": options.batch, "authorization": bool(authorization)}
    report(result, options.json, rps=1.0)


if __name__ == "__main__":
    main()
