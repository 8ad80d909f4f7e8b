#!/usr/bin/env python3
"""Measures what a backend that hangs costs the others: nothing, if workers share nothing.

usage: bench.py [--chapar BINARY] [--rate N] [--seconds N] [--rounds N] [--json FILE]

A steady stream goes to one backend while the same number of messages goes to a neighbour: by turns one that answers and
one that never does, so that each of its messages hangs until its deadline. What counts is the ratio of the stream's p99,
from the POST to the platform's answer, in the same run. The goal is at most 1.1; when it is
missed the exit code is 1.
"""
import argparse
import http.client
import json
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gateway"))
from bench import percentile, wait_until  # noqa: E402
from rig import KEY_ID, TEAM_ID, TOPIC, Rig, judge, notification  # noqa: E402

GOAL = 1.1
NEVER_MS = 3_600_000


def backend(name, port):
    return (f"  {name}: {{ kind: apns, team_id: {TEAM_ID}, key_id: {KEY_ID}, key_file: AuthKey.p8, topic: {TOPIC}, "
            f"environment: production, base_url: 'https://127.0.0.1:{port}', ca_file: ca.pem, timeout: 2 }}\n")


def post(gateway, name, rate, seconds, begin, workers, sent):
    """Posts at a steady rate to one backend; notes when each request began."""
    def work(offset):
        connection = http.client.HTTPConnection("127.0.0.1", gateway.port)
        for number in range(offset, rate * seconds, workers):
            due = begin + number / rate
            while (now := time.perf_counter()) < due:
                time.sleep(due - now)
            body = json.dumps({**notification(number), "backend": name})
            started = time.perf_counter()
            connection.request("POST", "/v1/notifications", body, {"content-type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 202, answer.status
            sent.append(started)
        connection.close()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(workers)]
    for thread in threads:
        thread.start()
    return threads


def stream(gateway, responder, neighbour, rate, seconds):
    """The times from POST to the platform's answer of a steady stream beside one to a neighbour."""
    arrivals, ends = [], threading.Event()
    before = responder.answered

    def watch():
        seen = before
        while not ends.is_set():
            now, answered = time.perf_counter(), responder.answered
            arrivals.extend([now] * (answered - seen))
            seen = answered
            time.sleep(0.0005)

    watcher = threading.Thread(target=watch)
    watcher.start()
    begin, sent = time.perf_counter() + 0.2, []
    threads = post(gateway, "ios", rate, seconds, begin, 4, sent)
    threads += post(gateway, neighbour, rate, seconds, begin + 0.5 / rate, 4, [])
    for thread in threads:
        thread.join()
    wait_until(lambda: responder.answered - before >= rate * seconds, 10)
    ends.set()
    watcher.join()
    return [b - a for a, b in zip(sorted(sent), arrivals)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chapar", default=str(Path(__file__).resolve().parents[2] / ".build/release/chapar"))
    parser.add_argument("--rate", type=int, default=200, help="messages a second, to each of the two")
    parser.add_argument("--seconds", type=int, default=8, help="how long each part of a round lasts")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--json", help="write every figure there as well")
    arguments = parser.parse_args()
    figures = {"answers": [], "hangs": []}
    with tempfile.TemporaryDirectory(prefix="chapar-bench-") as folder, Rig(folder, arguments.chapar) as rig:
        with rig.responder() as healthy, rig.responder(1) as other, rig.responder(NEVER_MS) as dead, \
                rig.gateway(healthy.port, extra=backend("answers", other.port) + backend("hangs", dead.port)) as gateway:
            gateway.post("/v1/notifications", {**notification(0), "backend": "ios"})
            wait_until(lambda: healthy.answered >= 1)
            for number in range(arguments.rounds):
                # By turns in either order, so that neither profits from being first.
                for name in ("answers", "hangs") if number % 2 == 0 else ("hangs", "answers"):
                    times = stream(gateway, healthy, name, arguments.rate, arguments.seconds)
                    figures[name].append({"p50_ms": percentile(times, 50), "p99_ms": percentile(times, 99)})
                    print(json.dumps({"neighbour": name, "round": number, **figures[name][-1]}), flush=True)
    result = {"benchmark": "isolation", "per_second": arguments.rate}
    for key in ("p50_ms", "p99_ms"):
        ratios = [b[key] / a[key] for a, b in zip(figures["answers"], figures["hangs"])]
        result[key.replace("_ms", "_ratio")] = round(statistics.median(ratios), 3)
    print(json.dumps(result), flush=True)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps({**result, "rounds": figures}, indent=2))
    if result["p99_ratio"] > GOAL:
        judge([f"p99_ratio {result['p99_ratio']}, at most {GOAL} is wanted"])


if __name__ == "__main__":
    main()
