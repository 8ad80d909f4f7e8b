#!/usr/bin/env python3
"""Measures what clients that mean harm cost those that do not.

usage: bench.py [--chapar BINARY] [--seconds N] [--pairs N] [--rate N] [--parts direct proxied] [--json FILE]

Honest clients post a steady 1,000 notifications a second in an open loop, from eight addresses, first alone and then beside the
clients of fixtures/hostile.c: from 200 addresses connections that send nothing, heads and bodies that come by a byte a second, bodies
of 8 MB with 900,000 keys, forged receipts at 500/s, event streams that nobody reads. Then the same, the honest included, behind one
proxy that is trusted and names the addresses. Each run has a fresh gateway on one core; all clients share the other.

It prints a line for each run and ends with a verdict for each limit; the exit code is 0 only if all hold.
"""
import argparse
import hashlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gateway"))
from rig import LOAD_CPU, Rig, lost  # noqa: E402

KEYS = {"shop": ("chp_benchmark_shop", "send, read"), "stranger": ("chp_benchmark_stranger", "send, read")}
SETTLE = 3  # Seconds until all hostile clients are there, and before what is measured.
MEMORY = 300
LATENCY_MS = 10


def sections(platform):
    """A backend that takes callbacks, and the keys."""
    keys = "".join(f"    - {{ name: {name}, hash: 'sha256:{hashlib.sha256(key.encode()).hexdigest()}', scopes: [{scopes}] }}\n"
                   for name, (key, scopes) in KEYS.items())
    return ("  huawei: { kind: hms, app_id: '1001', client_secret: x, receipts: { user: u, secret: MDEyMzQ1Njc4OWFiY2RlZg== }, "
            f"base_url: 'https://127.0.0.1:{platform}', token_url: 'https://127.0.0.1:{platform}', ca_file: ca.pem }}\n"
            f"auth:\n  api_keys:\n{keys}")


def measure(rig, arguments, is_proxied, is_attacked):
    """One run with a fresh database: the honest clients' figures, and what became of everything."""
    honest = ["-s", arguments.rate, "-c", 16, "-i", arguments.seconds, "-k", KEYS["shop"][0]]
    honest += ["-x", "10.9.0."] if is_proxied else ["-f", "127.3.0."]
    with rig.responder() as platform, rig.gateway(
            platform.port, chapar=arguments.chapar, extra=sections(platform.port), key=KEYS["shop"][0],
            server=", trusted_proxies: ['127.0.0.1']" if is_proxied else "") as gateway:
        command = ["taskset", "-c", LOAD_CPU, rig.path("hostile"), str(gateway.port), str(arguments.seconds + 2 * SETTLE),
                   KEYS["stranger"][0], "-p", str(int(is_proxied))]
        attack = subprocess.Popen(command, stdout=subprocess.PIPE, text=True) if is_attacked else None
        try:
            if attack:
                time.sleep(SETTLE)
            before = gateway.cpu
            with rig.load(gateway, arguments.seconds, *honest) as load:
                lines = [json.loads(line) for line in load.stdout]
            cpu = (gateway.cpu - before) / lines[-1]["second"]
            hostile = json.loads(attack.communicate(timeout=60)[0]) if attack else None
        finally:
            if attack:
                attack.kill()
        rest = gateway.come_to_rest()
        statuses = {}
        for status, count in ((status, count) for line in lines for status, count in line["statuses"].items()):
            statuses[status] = statuses.get(status, 0) + count
        accepted, broken = sum(line["accepted"] for line in lines), sum(line["broken"] for line in lines)
        figures = {"clients": "proxied" if is_proxied else "direct", "attacked": is_attacked, "p50_ms": lines[0]["single_p50_ms"],
                   "p99_ms": lines[0]["single_p99_ms"], "peak_mib": round(gateway.memory("VmHWM"), 1), "cpu": round(cpu, 2),
                   "accepted": accepted, "refused": sum(n for status, n in statuses.items() if status != "202"), "broken": broken,
                   "lost": lost(accepted, broken, rest) + rest["waiting"] + abs(int(rest["difference"] or 0))}
        if is_attacked:
            figures["limits"] = {labels.split('"')[1]: int(count) for labels, count in
                                 gateway.metric("chapar_limit_refusals_total").items() if count}
            figures["hostile"] = hostile
        return figures


def verdicts(name, pairs):
    """Each limit for one kind of clients, whether it holds, and the figures."""
    shares = [attacked["p99_ms"] / max(2 * alone["p99_ms"], LATENCY_MS) for alone, attacked in pairs]
    attacked = [pair[1] for pair in pairs]
    texts = ", ".join(f"{b['p99_ms']} ({a['p99_ms']} alone)" for a, b in pairs)
    peak, gone = max(a["peak_mib"] for a in attacked), sum(run["lost"] for pair in pairs for run in pair)
    turned = sum(run["refused"] + run["broken"] for run in attacked)
    return [
        (f"{name}: acceptance", statistics.median(shares) <= 1,
         f"p99 in ms {texts}; median of pairs at most twice, or {LATENCY_MS}: {statistics.median(shares):.2f} of that"),
        (f"{name}: lost", gone == 0, f"{gone}; none"),
        (f"{name}: refused", turned == 0, f"{turned} honest requests refused or cut off; none"),
        (f"{name}: memory", peak < MEMORY, f"{peak} MiB at most; below {MEMORY}"),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chapar", default=str(Path(__file__).resolve().parents[2] / ".build/release/chapar"))
    parser.add_argument("--seconds", type=int, default=30, help="how long each run is measured")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--rate", type=int, default=1000, help="honest notifications a second")
    parser.add_argument("--parts", nargs="+", choices=["direct", "proxied"], default=["direct", "proxied"])
    parser.add_argument("--json", help="write every figure there as well")
    arguments = parser.parse_args()
    checks, runs = [], []
    with tempfile.TemporaryDirectory(prefix="chapar-bench-") as folder, Rig(folder, arguments.chapar) as rig:
        rig.compile("hostile")
        for part in arguments.parts:
            pairs = []
            for number in range(arguments.pairs):
                pair = {}
                for is_attacked in (False, True) if number % 2 == 0 else (True, False):
                    pair[is_attacked] = measure(rig, arguments, part == "proxied", is_attacked)
                    print(json.dumps({"benchmark": "hostile", "pair": number + 1, **pair[is_attacked]}), flush=True)
                pairs.append((pair[False], pair[True]))
            runs += pairs
            checks += verdicts(part, pairs)
    for name, holds, text in checks:
        print(f"{'holds' if holds else 'FAILS'}  {name}: {text}", flush=True)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps({"pairs": runs, "verdicts": checks}, indent=2))
    sys.exit(0 if all(holds for _, holds, _ in checks) else 1)


if __name__ == "__main__":
    main()
