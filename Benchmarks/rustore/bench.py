#!/usr/bin/env python3
"""The RuStore backend against our own FCM backend: one connection each, from the public `send` to each notification's outcome.

usage: bench.py [--requests N] [--runs N] [--senders N] [--batch N] [--json FILE] [--binaries FOLDER]

Both send the same notifications, with tokens and credentials of one length, to equally fast responders, by turns. RuStore's answer
is an empty object, FCM's has a name. The goal is at most 1.05 of the FCM backend's CPU a request, and 0.9 of its requests/s, which
suffer from whatever else the machine does. When one is missed the exit code is 1.
"""
import argparse
import statistics
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "transport"))
import bench as transport  # noqa: E402

ANSWERS = {"fcm": transport.FCM_ANSWER, "rustore": "{}"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=500_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--senders", type=int, default=6, help="calls of `send` at a time")
    parser.add_argument("--batch", type=int, default=256, help="notifications in one `send`")
    parser.add_argument("--json", help="write the result there, too")
    parser.add_argument("--binaries", help="the folder of fcm-bench and rustore-bench, when they are built already")
    options = parser.parse_args()

    programs = {name: f"{options.binaries}/{name}-bench" if options.binaries else transport.build(f"{name}-bench")
                for name in ANSWERS}
    results = {name: [] for name in ANSWERS}
    with tempfile.TemporaryDirectory() as folder:
        transport.make_certificates(folder)
        transport.make_responder(folder)
        servers = {name: transport.respond(folder, "-b", answer) for name, answer in ANSWERS.items()}
        shape = [str(options.requests), str(options.senders), str(options.batch)]
        try:
            for _, port in servers.values():
                transport.wait_for_port(port)
            for _ in range(options.runs):
                for name, (_, port) in servers.items():
                    command = [programs[name], "127.0.0.1", str(port), f"{folder}/ca.pem", *shape]
                    results[name].append(transport.chapar(command, options.requests))
        finally:
            for server, _ in servers.values():
                server.terminate()
                server.wait()

    table = {name: {key: statistics.median(run[key] for run in runs) for key in ("rps", "cpu", "rss")}
             | {"failed": sum(run["failed"] for run in runs)} for name, runs in results.items()}
    ratio = {key: table["rustore"][key] / table["fcm"][key] for key in ("rps", "cpu")}
    transport.report({"benchmark": "rustore", "requests": options.requests, "runs": options.runs, "senders": options.senders,
                      "batch": options.batch, "median": table, "ratio": ratio, "all": results}, options.json, rps=0.9, cpu=1.05)


if __name__ == "__main__":
    main()
