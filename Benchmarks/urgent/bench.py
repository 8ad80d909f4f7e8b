#!/usr/bin/env python3
"""Measures how long a message takes to the platform behind many normal ones of one API key.

usage: bench.py [--chapar BINARY] [--waiting N] [--rate N] [--messages N] [--json FILE]

60,000 normal messages of one key wait for a backend with a rate limit of 3,000 a second. Then, every half second, a message of high
priority of the same key and a normal one of another key are posted. The time counts from the POST to the platform; the goals are
0.2 s and 1 s at most. When one is missed the exit code is 1.
"""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gateway"))
from bench import wait_until  # noqa: E402
from rig import Rig, judge, notification  # noqa: E402

BATCH = 1000
GOALS = {"urgent": 0.2, "other_key": 1}  # Seconds, the longest of each kind.


def new_key(chapar, name):
    """A key and its line for the configuration."""
    out = subprocess.run([chapar, "keys", "create", "--name", name, "--scope", "send", "--scope", "read", "--json"],
                         check=True, capture_output=True, text=True).stdout
    created = json.loads(out)
    return {"authorization": f"Bearer {created['key']}"}, created["line"]


def noted(number, **options):
    """A message whose arrival the responder notes."""
    body = notification(number, **options)
    body["to"]["tokens"][0]["token"] = f"a110{number:02x}{'0' * 58}"
    return body


def measure(rig, chapar, waiting, rate, messages):
    """The times of both kinds, in seconds."""
    bulk, bulk_line = new_key(chapar, "bulk")
    other, other_line = new_key(chapar, "other")
    keys = f"auth:\n  api_keys:\n    {bulk_line}\n    {other_line}\n"
    times = {"urgent": [], "other_key": []}
    with rig.responder(by_token=True) as responder, \
            rig.gateway(responder.port, extra=keys, backend=f", rate_limit: {rate}", chapar=chapar) as gateway:
        for start in range(0, waiting, BATCH):
            batch = [notification(start + n, priority="normal") for n in range(BATCH)]
            gateway.post("/v1/notifications/batch", {"notifications": batch}, **bulk)
        sent = {}
        for number in range(messages):
            begun = time.monotonic()
            sent[2 * number] = ("urgent", begun)
            gateway.post("/v1/notifications", noted(2 * number, priority="high"), **bulk)
            sent[2 * number + 1] = ("other_key", time.monotonic())
            gateway.post("/v1/notifications", noted(2 * number + 1, priority="normal"), **other)
            time.sleep(max(0, begun + 0.5 - time.monotonic()))
        behind = waiting - responder.answered
        wait_until(lambda: all(responder.noted(number) for number in sent), 2 * waiting / rate + 30)
        for number, (kind, begun) in sent.items():
            times[kind].append(responder.noted(number) - begun)
    return times, behind


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chapar", default=str(Path(__file__).resolve().parents[2] / ".build/release/chapar"))
    parser.add_argument("--waiting", type=int, default=60_000)
    parser.add_argument("--rate", type=int, default=3000, help="messages a second that the backend's limit allows")
    parser.add_argument("--messages", type=int, default=20, help="of each kind, two a second; at most 128")
    parser.add_argument("--json", help="write every figure there as well")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chapar-bench-") as folder, Rig(folder, arguments.chapar) as rig:
        times, behind = measure(rig, arguments.chapar, arguments.waiting, arguments.rate, arguments.messages)
    result = {"benchmark": "urgent", "per_second": arguments.rate, "still_waiting_after_the_last": behind}
    for kind, seconds in times.items():
        result |= {f"{kind}_median_s": round(statistics.median(seconds), 3), f"{kind}_max_s": round(max(seconds), 3)}
    print(json.dumps(result), flush=True)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps({**result, "times": times}, indent=2))
    judge([f"{kind}_max_s {max(times[kind]):.3f}, at most {goal} is wanted" for kind, goal in GOALS.items() if max(times[kind]) > goal])


if __name__ == "__main__":
    main()
