#!/usr/bin/env python3
"""The FCM backend against our own APNs backend: one connection each, from the public `send` to each notification's outcome.

usage: bench.py [--requests N] [--runs N] [--senders N] [--batch N] [--json FILE] [--binaries FOLDER]

Both send the same notifications to equally fast responders, by turns. FCM's requests are larger (the token and the id stand
in the body, with a token of 160 characters) and its answers have a body, which the backend reads. Trust the CPU per
request: requests/s suffer from whatever else the machine does. The goal is 0.9 of the APNs backend's requests/s; when it is missed the
exit code is 1.
"""
import argparse
import statistics
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "transport"))
import bench as transport  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=500_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--senders", type=int, default=6, help="calls of `send` at a time")
    parser.add_argument("--batch", type=int, default=256, help="notifications in one `send`")
    parser.add_argument("--json", help="write the result there, too")
    parser.add_argument("--binaries", help="the folder of apns-bench and fcm-bench, when they are built already")
    options = parser.parse_args()

    programs = {name: f"{options.binaries}/{name}" if options.binaries else transport.build(name)
                for name in ("apns-bench", "fcm-bench")}
    results = {"apns": [], "fcm": []}
    with tempfile.TemporaryDirectory() as folder:
        transport.make_certificates(folder)
        transport.make_responder(folder)
        transport.run("openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-out",
                      f"{folder}/key.p8")
        apns, apns_port = transport.respond(folder)
        fcm, fcm_port = transport.respond(folder, "-b", transport.FCM_ANSWER)
        shape = [str(options.requests), str(options.senders), str(options.batch)]
        ca = f"{folder}/ca.pem"
        try:
            transport.wait_for_port(apns_port)
            transport.wait_for_port(fcm_port)
            for _ in range(options.runs):
                results["apns"].append(transport.chapar(
                    [programs["apns-bench"], "127.0.0.1", str(apns_port), ca, f"{folder}/key.p8", *shape],
                    options.requests))
                results["fcm"].append(transport.chapar(
                    [programs["fcm-bench"], "127.0.0.1", str(fcm_port), ca, *shape], options.requests))
        finally:
            for server in (apns, fcm):
                server.terminate()
                server.wait()

    table = {name: {key: statistics.median(run[key] for run in runs) for key in ("rps", "cpu", "rss")}
             | {"failed": sum(run["failed"] for run in runs)} for name, runs in results.items()}
    ratio = {key: table["fcm"][key] / table["apns"][key] for key in ("rps", "cpu")}
    transport.report({"benchmark": "fcm", "requests": options.requests, "runs": options.runs, "senders": options.senders,
                      "batch": options.batch, "median": table, "ratio": ratio, "all": results}, options.json, rps=0.9)


if __name__ == "__main__":
    main()
