#!/usr/bin/env python3
"""Benchmarks of the durable gateway, from the POST to the platform's answer on record.

usage: bench.py [--chapar BINARY] [--only NAME ...] [--quick] [--json FILE]

Names: single, hundred, distance, latency, memory, idle. Every run begins with h2load against the same responder;
the ratios to it are what counts, since absolute figures move with the machine.
"""
import argparse
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from rig import LOAD_CPU, Rig, h2load_reference, notification  # noqa: E402


def load(rig, gateway, path, body, posts, connections):
    """Posts one body again and again with h2load; returns the running process."""
    file = rig.path("post.json")
    Path(file).write_text(json.dumps(body))
    return subprocess.Popen(
        ["taskset", "-c", LOAD_CPU, "h2load", "--h1", "-t1", f"-n{posts}", f"-c{connections}", "-m1", "-d", file, "-H",
         "content-type: application/json", gateway.url + path], stdout=subprocess.PIPE, text=True)


def throughput(rig, reference, name, per_post, posts, connections, chapar=None, delay_ms=0, **settings):
    """Posts as fast as the gateway takes them; follows the responder's counter until everything is answered, each after a delay."""
    body = notification(1) if per_post == 1 else {"notifications": [notification(n) for n in range(per_post)]}
    path = "/v1/notifications" if per_post == 1 else "/v1/notifications/batch"
    with rig.responder(delay_ms=delay_ms) as responder, rig.gateway(responder.port, chapar=chapar, **settings) as gateway:
        gateway.post("/v1/notifications", notification(0))  # Opens the connection.
        wait_until(lambda: responder.answered >= 1, 10 * rig.slowness)
        before, cpu, started = responder.answered, gateway.cpu, time.perf_counter()
        child = load(rig, gateway, path, body, posts, connections)
        wanted, accepted, last, seen = posts * per_post, None, started, before
        while True:
            time.sleep(0.002)
            now, answered = time.perf_counter(), responder.answered
            if answered != seen:
                seen, last = answered, now
            if accepted is None and child.poll() is not None:
                accepted = now
            if accepted and (seen - before >= wanted or now - max(last, accepted) > 10):
                break
        out = child.stdout.read()
        taken = int(re.search(r"(\d+) 2xx", out).group(1)) * per_post
        delivered = seen - before
        wait_until(lambda: gateway.waiting() == 0, 30)
        cost = (gateway.cpu - cpu) * 1e6 / max(1, delivered)
        return {"benchmark": name, "per_post": per_post, "accepted": taken, "delivered": delivered,
                "lost": taken - delivered, "delivered_per_s": round(delivered / (last - started)),
                "cpu_us": round(cost, 1), "cpu_ratio": round(cost / reference["cpu_us"], 1),
                "peak_mib": round(gateway.memory("VmHWM"), 1)}


def distance(rig, reference, count):
    """The platform answers after 50 ms: delivered per second from a backlog, every setting at its default."""
    batch = 1000
    with rig.responder(delay_ms=50) as responder, rig.gateway(responder.port) as gateway:
        body = {"notifications": [notification(n) for n in range(batch)]}
        child = load(rig, gateway, "/v1/notifications/batch", body, count // batch, 4)
        child.wait()
        wait_until(lambda: responder.answered > 0)
        first, started = responder.answered, time.perf_counter()
        wait_until(lambda: responder.answered >= count, 120)
        seconds = time.perf_counter() - started
        return {"benchmark": "distance", "delay_ms": 50, "backlog": count - first,
                "delivered_per_s": round((count - first) / seconds)}


def latency(rig, reference, rate, seconds):
    """A steady stream: how long until the 202, and until the platform has answered."""
    import http.client
    with rig.responder() as responder, rig.gateway(responder.port) as gateway:
        gateway.post("/v1/notifications", notification(0))
        wait_until(lambda: responder.answered >= 1)
        arrivals, ends = [], threading.Event()

        def watch():
            seen = responder.answered
            while not ends.is_set():
                now, answered = time.perf_counter(), responder.answered
                arrivals.extend([now] * (answered - seen))
                seen = answered
                time.sleep(0.0002)

        watcher = threading.Thread(target=watch)
        watcher.start()
        workers, sent, accepted, lock = 8, [], [], threading.Lock()
        begin = time.perf_counter() + 0.2

        def work(offset):
            connection = http.client.HTTPConnection("127.0.0.1", gateway.port)
            for number in range(offset, rate * seconds, workers):
                due = begin + number / rate
                while (now := time.perf_counter()) < due:
                    time.sleep(due - now)
                started = time.perf_counter()
                connection.request("POST", "/v1/notifications", json.dumps(notification(number)),
                                   {"content-type": "application/json"})
                answer = connection.getresponse()
                answer.read()
                ended = time.perf_counter()
                with lock:
                    sent.append(started)
                    if answer.status == 202:
                        accepted.append(ended - started)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        time.sleep(1)
        ends.set()
        watcher.join()
        # The k-th message sent against the k-th answer: exact for a first-in-first-out lane.
        platform = [b - a for a, b in zip(sorted(sent), arrivals)]
        return {"benchmark": "latency", "per_second": rate, "accepted": len(accepted), "answered": len(arrivals),
                "acceptance_p50_ms": percentile(accepted, 50), "acceptance_p99_ms": percentile(accepted, 99),
                "platform_p50_ms": percentile(platform, 50), "platform_p99_ms": percentile(platform, 99)}


def memory(rig, reference, many):
    """Resident memory with many notifications waiting, against that with a thousand."""
    figures = {}
    batch = 1000
    with rig.responder() as responder, rig.gateway(responder.port) as gateway:
        later = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 6 * 3600))
        body = {"notifications": [notification(n, send_at=later) for n in range(batch)]}
        for count in (1000, many):
            posts = count // batch - (1 if count > 1000 else 0)
            child = load(rig, gateway, "/v1/notifications/batch", body, posts, min(posts, 2))
            out = child.communicate()[0]
            assert f"{posts} 2xx" in out, out
            time.sleep(2)
            figures[count] = gateway.memory()
        waiting = gateway.waiting()
    return {"benchmark": "memory", "waiting": int(waiting), "rss_mib_at_1000": round(figures[1000], 1),
            f"rss_mib_at_{many}": round(figures[many], 1), "growth_mib": round(figures[many] - figures[1000], 1)}


def idle(rig, reference):
    """A gateway that has nothing to do."""
    with rig.responder() as responder:
        starts = []
        for _ in range(5):
            with rig.gateway(responder.port) as gateway:
                starts.append(gateway.started_in)
                time.sleep(1)
                cpu = gateway.cpu
                time.sleep(5)
                spent, resident = gateway.cpu - cpu, gateway.memory()
    return {"benchmark": "idle", "rss_mib": round(resident, 1), "start_ms": round(sorted(starts)[2] * 1000, 1),
            "cpu_percent": round(spent / 5 * 100, 2)}


def percentile(values, percent):
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] * 1000, 2) if ordered else None


def wait_until(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("it did not happen in time")
        time.sleep(0.005)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chapar", default=str(Path(__file__).resolve().parents[2] / ".build/release/chapar"))
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    parser.add_argument("--json", help="write every figure there as well")
    arguments = parser.parse_args()
    scale = 10 if arguments.quick else 1
    with tempfile.TemporaryDirectory(prefix="chapar-bench-") as folder, Rig(folder, arguments.chapar) as rig:
        with rig.responder() as responder:
            reference = h2load_reference(rig, responder, 400_000 // scale)
        results = [{"benchmark": "h2load", **reference}]
        print(json.dumps(results[0]), flush=True)
        benches = {
            "single": lambda: throughput(rig, reference, "single", 1, 100_000 // scale, 64),
            "hundred": lambda: throughput(rig, reference, "hundred", 100, 6_000 // scale, 16),
            "distance": lambda: distance(rig, reference, 200_000 // scale),
            "latency": lambda: latency(rig, reference, 1000, 20 // scale or 2),
            "memory": lambda: memory(rig, reference, 1_000_000 // scale),
            "idle": lambda: idle(rig, reference),
        }
        for name, bench in benches.items():
            if not arguments.only or name in arguments.only:
                results.append(bench())
                print(json.dumps(results[-1]), flush=True)
        if arguments.json:
            Path(arguments.json).write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
