#!/usr/bin/env python3
"""Runs a gateway on one core for minutes under everything that a month brings, and holds what it keeps to limits.

usage: bench.py [--chapar BINARY] [--minutes N] [--rate N] [--json FILE]

So many deliveries a second (default 5,000), half as single POSTs, half in batches of 1,000: 1 % to dead tokens, 1 % refused with 503
or 429 at first, some cancelled at once, some scheduled and cancelled before their time, some for a second backend that never
answers, with a TTL of 60 s. A reader of the event stream never reads. All retentions are 60 s.

It prints a line for each minute and ends with a verdict for each limit; the exit code is 0 only if all hold.
"""
import argparse
import json
import socket
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gateway"))
from rig import KEY_ID, TEAM_ID, TOPIC, Rig, lost  # noqa: E402

NEVER_MS = 3_600_000
BATCH = 1000
TTL = 60
RETENTIONS = ", retention: 60, event_retention: 60"


def hanging(port):
    return (f"  hangs: {{ kind: apns, team_id: {TEAM_ID}, key_id: {KEY_ID}, key_file: AuthKey.p8, topic: {TOPIC}, "
            f"environment: production, base_url: 'https://127.0.0.1:{port}', ca_file: ca.pem }}\n"
            "queue: { default_ttl: 120, first_retry: 1, max_retry: 5, idempotency_window: 60 }\n")


class DeafReader:
    """A reader of the event stream that never reads, with as small a buffer as the system gives."""

    def __init__(self, gateway):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.connect(("127.0.0.1", gateway.port))
        self.socket.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")


class Watch(threading.Thread):
    """Looks at the gateway once a second; `minute` gives the largest figures since the last call."""

    def __init__(self, gateway):
        super().__init__(daemon=True)
        self.gateway, self.ends, self.lock, self.seen = gateway, threading.Event(), threading.Lock(), []

    def run(self):
        while not self.ends.wait(1):
            figures = (self.gateway.stored_mib, self.gateway.log_mib, self.gateway.memory(), self.gateway.descriptors)
            with self.lock:
                self.seen.append(figures)

    def minute(self):
        with self.lock:
            seen, self.seen = self.seen, []
        file, log, memory, descriptors = zip(*seen)
        return {"file_mib": round(max(file), 1), "log_mib": round(max(log), 1), "rss_mib": round(max(memory), 1), "descriptors": max(descriptors)}


def verdicts(minutes, accepted, missing, rest):
    """Each limit, whether it holds, and the figures."""
    third, last = minutes[min(2, len(minutes) - 1)], minutes[-1]
    p99 = [statistics.median(m["single_p99_ms"] for m in part) for part in (minutes[:3], minutes[-3:])]
    memory = max(m["rss_mib"] for m in minutes)
    return [
        ("file", last["file_mib"] <= 1.1 * third["file_mib"],
         f"{last['file_mib']} MiB in the last minute, {third['file_mib']} in the third; at most 10 % more"),
        ("memory", memory < 200, f"{memory} MiB at most; below 200"),
        ("acceptance", p99[1] <= 1.5 * p99[0],
         f"p99 {p99[1]} ms in the last three minutes, {p99[0]} in the first three; at most 1.5 times"),
        ("descriptors", last["descriptors"] <= third["descriptors"] + 8,
         f"{last['descriptors']} in the last minute, {third['descriptors']} in the third; at most 8 more"),
        ("refused", not any(m["refused"] for m in minutes), f"{sum(m['refused'] for m in minutes)} requests; none"),
        ("lost", missing == 0 and rest["waiting"] == 0 and not rest["difference"],
         f"{missing} of {accepted} accepted; ended {rest['ended']}, waiting {rest['waiting']}, ledger's difference {rest['difference']}"),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chapar", default=str(Path(__file__).resolve().parents[2] / ".build/release/chapar"))
    parser.add_argument("--minutes", type=int, default=10)
    parser.add_argument("--rate", type=int, default=5000, help="deliveries a second")
    parser.add_argument("--json", help="write every figure there as well")
    arguments = parser.parse_args()
    minutes = []
    with tempfile.TemporaryDirectory(prefix="chapar-bench-") as folder, Rig(folder, arguments.chapar) as rig:
        with rig.responder(by_token=True) as platform, rig.responder(NEVER_MS) as never, \
                rig.gateway(platform.port, extra=hanging(never.port), store=RETENTIONS) as gateway:
            reader = DeafReader(gateway)
            watch = Watch(gateway)
            watch.start()
            half = arguments.rate / 2
            with rig.load(gateway, 60 * arguments.minutes, "-s", half, "-b", half / BATCH, "-n", BATCH, "-m", 1) as load:
                for line in load.stdout:
                    figures = json.loads(line)
                    refused = sum(n for status, n in figures["statuses"].items() if status != "202")
                    if figures["second"] <= 60 * arguments.minutes + 1:
                        minutes.append({"minute": len(minutes) + 1, **watch.minute(), **figures, "refused": refused,
                                        "delivered": platform.by_status["200"] - sum(m["delivered"] for m in minutes)})
                    else:  # What was still to be cancelled after the last minute.
                        minutes[-1] = {**minutes[-1], **{key: minutes[-1][key] + figures[key] for key in ("accepted", "cancelled", "broken")}}
                    print(json.dumps(minutes[-1]), flush=True)
                if load.wait() != 0 or len(minutes) < arguments.minutes:
                    sys.exit("the load ended early")
            rest = gateway.come_to_rest()
            reader.socket.close()
            watch.ends.set()
            watch.join()
    accepted = sum(m["accepted"] for m in minutes)
    result = {"benchmark": "soak", "per_second": round(accepted / 60 / arguments.minutes), "platform": platform.by_status, **rest}
    print(json.dumps(result), flush=True)
    checks = verdicts(minutes, accepted, lost(accepted, any(m["broken"] for m in minutes), rest), rest)
    for name, holds, text in checks:
        print(f"{'holds' if holds else 'FAILS'}  {name}: {text}", flush=True)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps({**result, "minutes": minutes, "verdicts": checks}, indent=2))
    sys.exit(0 if all(holds for _, holds, _ in checks) else 1)


if __name__ == "__main__":
    main()
