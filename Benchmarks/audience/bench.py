#!/usr/bin/env python3
"""Measures a campaign to every device with a tag, of a million by default: import, acceptance, sending, disk, reads, kills.

usage: bench.py [--chapar BINARY] [--devices N] [--killed N] [--kills N] [--only NAME ...] [--postgres] [--json FILE]

The platform answers after 50 ms. Parts, each with its goals; the exit code is 1 when one is missed:

import     devices per second (30,000), memory of the command and of the gateway (100 MiB more than before)
rows       rows that a count reads for one tag, two tags, any of five, a tag without another: at most 3 a match, and one a window
estimate   the estimate of rules that match 10 % and 5 %: within 10 %; of 0.1 %: within its own plus_minus
accept     median of the 202 to a campaign of all, to that of a campaign of a thousandth: at most 1.5
send       CPU of a delivery to that of a hundred a POST in the same run: at most 1.25; memory below 150 MiB; p99 from the POST of an urgent
           message to the platform: at most 3 times that without a campaign; bytes on disk a recipient: at most 40
kills      a campaign of --killed devices whose gateway is killed with SIGKILL --kills times: nobody is left out, and nothing comes twice but what
           was with the platform at a kill: at most 1,000 requests, the responder's limit
"""
import argparse
import contextlib
import functools
import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gateway"))
from bench import throughput, wait_until  # noqa: E402
from postgres import postgres  # noqa: E402
from rig import LOAD_CPU, Rig, h2load_reference, judge, notification  # noqa: E402

PARTS = ("import", "rows", "estimate", "accept", "send", "kills")
DELAY_MS = 50
STREAMS = 1_000  # Requests at a time that the responder lets a connection have, and a gateway has one to it.
WINDOW = 1_000  # Device numbers; the most that one commit takes.
CONTENT = {"title": "Spring sale", "body": "Everything is cheaper until Friday."}
RULES = {
    "one tag": {"tag": "tenth"},
    "two tags": {"all": [{"tag": "tenth"}, {"tag": "half"}]},
    "any of five": {"any": [{"tag": f"five-{n}"} for n in range(5)]},
    "not": {"all": [{"tag": "tenth"}, {"not": {"tag": "half"}}]},
}


def tags(number, thousandth):
    """Of a device: `tenth` and `half` are independent of each other."""
    found = ["all"]
    found += ["tenth"] if number % 10 == 0 else []
    found += ["half"] if number % 4 < 2 else []
    found += [f"five-{number % 20}"] if number % 20 < 5 else []
    return found + (["thousandth"] if number % thousandth == 0 else [])


def write_devices(path, count):
    thousandth = 1_000
    with open(path, "w") as file:
        for number in range(count):
            file.write(json.dumps({"id": f"d{number}", "user": f"u{number // 2}", "tags": tags(number, thousandth),
                                   "tokens": {"ios-apns": f"{number:064x}"}}, separators=(",", ":")) + "\n")


def import_devices(rig, gateway, path, count):
    before = gateway.memory()
    started = time.perf_counter()
    child = subprocess.Popen(["taskset", "-c", LOAD_CPU, rig.chapar, "devices", "import", path, "--url", gateway.url],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    out = child.stdout.read()
    usage = os.wait4(child.pid, 0)[2]
    seconds = time.perf_counter() - started
    if f"{count} created" not in out:
        raise SystemExit(f"the import says: {out[-500:]}")
    return {"part": "import", "devices": count, "per_second": round(count / seconds), "command_mib": round(usage.ru_maxrss / 1024, 1),
            "gateway_mib_more": round(gateway.memory("VmHWM") - before, 1)}


def count(gateway, rule, **more):
    return gateway.post("/v1/audiences/count", {"audience": rule, **more})


def rows(gateway, devices):
    result = {"part": "rows"}
    for name, rule in RULES.items():
        answer = count(gateway, rule, timeout=30)
        allowed = 3 * answer["matched"] + math.ceil(devices / WINDOW)
        result[name] = {"matched": answer["matched"], "read": answer["cost"]["rows"], "allowed": allowed, "kind": answer["kind"]}
    return result


def estimate(gateway):
    result = {"part": "estimate"}
    for name, rule in {"10 %": {"tag": "tenth"}, "5 %": RULES["two tags"], "0.1 %": {"tag": "thousandth"}}.items():
        exact, guess = count(gateway, rule, timeout=30), count(gateway, rule, mode="estimate")
        result[name] = {"exact": exact["count"], "estimate": guess["count"], "plus_minus": guess.get("plus_minus", 0), "kind": guess["kind"]}
    return result


def campaign(gateway, tag, **more):
    return gateway.post("/v1/notifications", {"to": {"tags": {"any": [tag]}}, "content": CONTENT, **more})["id"]


def status(gateway, id):
    return json.loads(gateway.get(f"/v1/notifications/{id}"))


def accept(gateway):
    times = {"all": [], "thousandth": []}
    tomorrow = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 86_400))
    for _ in range(15):
        for tag, found in times.items():
            started = time.perf_counter()
            id = campaign(gateway, tag, options={"send_at": tomorrow, "ttl": 172_800})
            found.append(time.perf_counter() - started)
            urllib.request.urlopen(urllib.request.Request(f"{gateway.url}/v1/notifications/{id}", method="DELETE"), timeout=60).close()
    medians = {tag: statistics.median(found) for tag, found in times.items()}
    return {"part": "accept", "all_ms": round(medians["all"] * 1e3, 2), "thousandth_ms": round(medians["thousandth"] * 1e3, 2),
            "ratio": round(medians["all"] / medians["thousandth"], 2)}


class Urgent:
    """Posts an urgent message of a token that the responder notes, four a second, until its end."""

    def __init__(self, gateway, responder, first, most):
        self.gateway, self.responder, self.first, self.most = gateway, responder, first, most
        self.sent, self.ends = {}, threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def _run(self):
        for number in range(self.first, self.first + self.most):
            if self.ends.is_set():
                return
            body = notification(number, priority="high")
            body["to"]["tokens"][0]["token"] = f"a110{number:02x}{'0' * 58}"
            self.sent[number] = time.monotonic()
            self.gateway.post("/v1/notifications", body)
            self.ends.wait(0.25)

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()

    def p99(self):
        wait_until(lambda: all(self.responder.noted(number) for number in self.sent), 30)
        times = sorted(self.responder.noted(number) - begun for number, begun in self.sent.items())
        return times[math.ceil(0.99 * len(times)) - 1], len(times)


def send(rig, gateway, responder, devices, reference):
    with Urgent(gateway, responder, 0, 40) as quiet:
        time.sleep(8)
    alone, _ = quiet.p99()
    time.sleep(1)
    bytes_before, cpu, started = gateway.stored_mib, gateway.cpu, time.perf_counter()
    with Urgent(gateway, responder, 64, 160) as busy:
        id, peak = campaign(gateway, "all"), 0
        while True:
            time.sleep(1)
            peak = max(peak, gateway.memory())
            now = status(gateway, id)
            if now["audience"]["phase"] != "running" or time.perf_counter() - started > 900:
                break
    seconds, cost = time.perf_counter() - started, (gateway.cpu - cpu) * 1e6 / devices
    beside, messages = busy.p99()
    audience, counts = now["audience"], now["counts"]
    gateway.come_to_rest(60)
    time.sleep(3)
    result = {"part": "send", "devices": devices, "phase": audience["phase"], "seconds": round(seconds, 1), "cpu_us": round(cost, 1),
              "peak_mib": round(peak, 1), "urgent_alone_ms": round(alone * 1e3, 1), "urgent_beside_ms": round(beside * 1e3, 1),
              "urgent_ratio": round(beside / alone, 2), "urgent_messages": messages, "bytes_a_recipient": round((gateway.stored_mib - bytes_before) * 2**20 / devices, 1),
              "adds_up": audience["matched"] == audience["reached"] + sum(audience["skipped"].values()) == devices
              and sum(counts.values()) == audience["enqueued"], "counts": counts}
    return result


def hundred(rig, reference, settings):
    return throughput(rig, reference, "hundred", 100, 2_000, 16, None, DELAY_MS, **settings())["cpu_us"]


def kills(rig, responder, devices, number, settings):
    """The last part, with a store of its own."""
    path, id, chance = rig.path("killed.ndjson"), None, random.Random(45)
    write_devices(path, devices)
    before = responder.answered
    with contextlib.ExitStack() as ends:
        store = settings()
        for turn in range(number + 1):
            with rig.gateway(responder.port, fresh=turn == 0, **store) as gateway:
                if turn == 0:
                    import_devices(rig, gateway, path, devices)
                    before = responder.answered
                    id = campaign(gateway, "all", keep="all")
                if turn < number:
                    goal = before + devices * (turn + 0.2 + 0.6 * chance.random()) / (number + 1)
                    wait_until(lambda: responder.answered >= goal, 300)
                    os.kill(gateway.pid, signal.SIGKILL)
                    continue
                wait_until(lambda: status(gateway, id)["audience"]["phase"] == "finished", 600)
                now, cursor, unfinished = status(gateway, id), "", 0
                while cursor is not None:
                    page = json.loads(gateway.get(f"/v1/notifications/{id}/deliveries?limit=1000" + (f"&cursor={cursor}" if cursor else "")))
                    unfinished += sum(one["state"] != "accepted_by_platform" for one in page["items"])
                    cursor = page["next"]
    answered = responder.answered - before
    return {"part": "kills", "devices": devices, "kills": number, "left_out": devices - now["audience"]["enqueued"] + unfinished,
            "twice": answered - devices, "in_flight": STREAMS * number}


def verdicts(result, reference_cpu):
    """The goals that a part missed."""
    part, missed = result["part"], []

    def want(holds, text):
        if not holds:
            missed.append(f"{part}: {text}")

    if part == "import":
        want(result["per_second"] >= 30_000, f"{result['per_second']} devices a second, at least 30,000 are wanted")
        want(result["command_mib"] < 100 and result["gateway_mib_more"] < 100, "more than 100 MiB")
    elif part == "rows":
        for name in RULES:
            want(result[name]["read"] <= result[name]["allowed"], f"{name} reads {result[name]['read']}, at most {result[name]['allowed']}")
    elif part == "estimate":
        for name, found in result.items():
            if name != "part":
                limit = found["plus_minus"] if name == "0.1 %" else 0.1 * found["exact"]
                want(abs(found["estimate"] - found["exact"]) <= max(limit, 1), f"{name}: {found}")
    elif part == "accept":
        want(result["ratio"] <= 1.5, f"ratio {result['ratio']}, at most 1.5")
    elif part == "send":
        want(result["phase"] == "finished" and result["adds_up"], "it does not add up")
        want(result["cpu_us"] <= 1.25 * reference_cpu, f"cpu ratio {result['cpu_us'] / reference_cpu:.2f}, at most 1.25")
        want(result["peak_mib"] < 150, f"{result['peak_mib']} MiB, below 150")
        want(result["urgent_ratio"] <= 3, f"urgent ratio {result['urgent_ratio']}, at most 3")
        want(result["bytes_a_recipient"] <= 40, f"{result['bytes_a_recipient']} bytes a recipient, at most 40")
    else:
        want(result["left_out"] == 0 and 0 <= result["twice"] <= result["in_flight"], "left out, or twice")
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chapar", default=str(Path(__file__).resolve().parents[2] / ".build/release/chapar"))
    parser.add_argument("--devices", type=int, default=1_000_000)
    parser.add_argument("--killed", type=int, default=100_000, help="devices of the part `kills`")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--postgres", action="store_true", help="with a private PostgreSQL server as the store")
    parser.add_argument("--json", help="write every figure there as well")
    arguments = parser.parse_args()
    results, missed, reference_cpu = [], [], None
    with contextlib.ExitStack() as ends, tempfile.TemporaryDirectory(prefix="chapar-bench-") as folder, Rig(folder, arguments.chapar) as rig:

        def settings():
            """A store without anything in it."""
            if not arguments.postgres:
                return {}
            place = Path(tempfile.gettempdir()) / f"chapar-bench-pg-{time.monotonic_ns()}-{os.getpid()}"
            return {"postgres": ends.enter_context(postgres(place, "max_wal_size=4GB")).url}

        def tell(result):
            results.append(result)
            missed.extend(verdicts(result, reference_cpu))
            print(json.dumps(result), flush=True)

        with rig.responder(delay_ms=DELAY_MS, by_token=True) as responder:
            reference = None
            if "send" in arguments.only:
                with rig.responder() as quick:
                    reference = h2load_reference(rig, quick, 100_000, 1)
                reference_cpu = hundred(rig, reference, settings)
                print(json.dumps({"benchmark": "audience", "hundred_cpu_us": reference_cpu}), flush=True)
            if set(arguments.only) - {"kills"}:
                path = rig.path("devices.ndjson")
                write_devices(path, arguments.devices)
                with rig.gateway(responder.port, **settings()) as gateway:
                    imported = import_devices(rig, gateway, path, arguments.devices)
                    for name, part in {"import": lambda: imported, "rows": functools.partial(rows, gateway, arguments.devices),
                                       "estimate": functools.partial(estimate, gateway), "accept": functools.partial(accept, gateway),
                                       "send": functools.partial(send, rig, gateway, responder, arguments.devices, reference)}.items():
                        if name in arguments.only:
                            tell(part())
            if "kills" in arguments.only:
                tell(kills(rig, responder, arguments.killed, arguments.kills, settings))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results, indent=2))
    judge(missed)


if __name__ == "__main__":
    main()
