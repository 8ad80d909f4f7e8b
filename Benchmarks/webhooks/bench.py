#!/usr/bin/env python3
"""Measures a webhook that gets an event for each message, in batches, beside the sending itself.

usage: bench.py [--chapar BINARY] [--rate N] [--seconds N] [--pairs N] [--only NAME ...] [--quick] [--json FILE]

Parts, each with its goals; the exit code is 1 when one is missed:

steady     --rate deliveries a second (6,000) for --seconds (30), one webhook that gets each in batches: events that the receiver got a second
           (5,000 at least), none lost, all there at most 5 s after the last message; memory below 200 MiB
cost       CPU of a message, a hundred a POST as fast as they are taken: without a webhook, with one that wants none of the events, and with
           one that gets each in batches, by turns. It has no goal but that nothing is lost; the figures are medians of the turns' ratios

The receiver is `gateway/receiver.py`, in cleartext on loopback, on the load's core.
"""
import argparse
import contextlib
import json
import re
import statistics
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gateway"))
from bench import load, wait_until  # noqa: E402
from receiver import EVENTS, receiver  # noqa: E402
from rig import Rig, judge, notification  # noqa: E402

PARTS = ("steady", "cost")
GOAL = 5_000
BATCH = 100
SECTION = "webhooks: { allow_networks: [127.0.0.0/8] }\n"
# The types that a webhook of the part `cost` gets; None is no webhook.
KINDS = {"none": None, "unwanted": ["token.quarantined"], "batches": ["delivery.accepted_by_platform"]}


def add(gateway, url, types):
    body = json.dumps({"url": url, "types": types, "batch": True}).encode()
    request = urllib.request.Request(gateway.url + "/v1/webhooks/bench", body, {"content-type": "application/json"}, method="PUT")
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 201, answer.status


@contextlib.contextmanager
def world(rig, types):
    """A gateway whose connection to the platform is open, with a webhook or without one."""
    with rig.responder() as responder, receiver(rig, EVENTS) as target, rig.gateway(responder.port, extra=SECTION) as gateway:
        gateway.post("/v1/notifications", notification(0))
        wait_until(lambda: responder.answered >= 1 and gateway.waiting() == 0)
        if types:
            add(gateway, target.url, types)
        yield gateway, responder, target


def arrived(target, wanted, seconds=60):
    """Waits until so many different events came; returns the figures."""
    with contextlib.suppress(TimeoutError):
        wait_until(lambda: target.figures()["different"] >= wanted, seconds)
    return target.figures()


def steady(rig, rate, seconds):
    with world(rig, KINDS["batches"]) as (gateway, responder, target):
        cpu, start = gateway.cpu, time.perf_counter()
        with rig.load(gateway, seconds, "-b", rate / BATCH, "-n", BATCH, "-i", seconds) as child:
            lines = [json.loads(line) for line in child.stdout]
        end = time.monotonic_ns()
        accepted = sum(line["accepted"] for line in lines)
        found = arrived(target, accepted)
        rest = gateway.come_to_rest(30)
        spent = gateway.cpu - cpu
        span = max(found["last"] - found["first"], 1) / 1e9
        return {"part": "steady", "rate": rate, "accepted": accepted, "events": found["different"], "repeated": found["items"] - found["different"],
                "lost": accepted - found["different"], "requests": found["requests"], "events_per_s": round(found["different"] / span),
                "events_a_request": round(found["items"] / max(1, found["requests"]), 1), "behind_s": round(max(0, found["last"] - end) / 1e9, 2),
                "cpu_us": round(spent * 1e6 / max(1, accepted), 1), "load_percent": round(spent / (time.perf_counter() - start) * 100),
                "peak_mib": round(gateway.memory("VmHWM"), 1), "waiting": rest["waiting"]}


def cost(rig, kind, posts):
    """One run with a kind of webhook: CPU from the first POST to the last answer and the last event."""
    with world(rig, KINDS[kind]) as (gateway, responder, target):
        before, cpu = responder.answered, gateway.cpu
        body = {"notifications": [notification(n) for n in range(BATCH)]}
        out = load(rig, gateway, "/v1/notifications/batch", body, posts, 16).communicate()[0]
        taken = int(re.search(r"(\d+) 2xx", out).group(1)) * BATCH
        with contextlib.suppress(TimeoutError):
            wait_until(lambda: responder.answered - before >= taken, 60)
        events = arrived(target, taken, 120)["different"] if kind == "batches" else 0
        with contextlib.suppress(TimeoutError):
            wait_until(lambda: gateway.waiting() == 0, 30)
        delivered = responder.answered - before
        return {"cpu_us": round((gateway.cpu - cpu) * 1e6 / max(1, delivered), 2), "lost": taken - delivered,
                "events_lost": taken - events if kind == "batches" else 0}


def costs(rig, pairs, posts):
    turns = []
    for number in range(pairs):
        kinds = list(KINDS) if number % 2 == 0 else list(reversed(KINDS))
        turn = {kind: cost(rig, kind, posts) for kind in kinds}
        turns.append(turn)
        print(json.dumps({"turn": number + 1, **{kind: turn[kind] for kind in KINDS}}), flush=True)
    result = {"part": "cost", "turns": pairs, "lost": sum(one["lost"] + one["events_lost"] for turn in turns for one in turn.values())}
    for kind in KINDS:
        result[kind] = {"cpu_us": statistics.median(turn[kind]["cpu_us"] for turn in turns),
                        "ratio": round(statistics.median(turn[kind]["cpu_us"] / turn["none"]["cpu_us"] for turn in turns), 3)}
    return result


def verdicts(result):
    """The goals that a part missed."""
    missed = [f"{result['part']}: {result['lost']} are lost"] if result["lost"] else []
    if result["part"] == "steady":
        for holds, text in [
            (result["events_per_s"] >= GOAL, f"{result['events_per_s']} events a second, at least {GOAL} are wanted"),
            (result["behind_s"] <= 5, f"the last event came {result['behind_s']} s after the last message, at most 5 s are wanted"),
            (result["peak_mib"] < 200, f"{result['peak_mib']} MiB, below 200 are wanted"),
        ]:
            if not holds:
                missed.append(f"steady: {text}")
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chapar", default=str(Path(__file__).resolve().parents[2] / ".build/release/chapar"))
    parser.add_argument("--rate", type=int, default=6_000, help="deliveries a second")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    parser.add_argument("--json", help="write every figure there as well")
    arguments = parser.parse_args()
    scale, results, missed = 10 if arguments.quick else 1, [], []
    with tempfile.TemporaryDirectory(prefix="chapar-bench-") as folder, Rig(folder, arguments.chapar) as rig:
        for name, part in {"steady": lambda: steady(rig, arguments.rate, max(3, arguments.seconds // scale)),
                           "cost": lambda: costs(rig, arguments.pairs, 3_000 // scale)}.items():
            if name not in arguments.only:
                continue
            results.append(part())
            missed += verdicts(results[-1])
            print(json.dumps(results[-1]), flush=True)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results, indent=2))
    judge(missed)


if __name__ == "__main__":
    main()
