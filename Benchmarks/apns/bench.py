#!/usr/bin/env python3
"""The APNs backend against h2load: one connection, from the public `send` to the outcome of each notification.

usage: bench.py [--requests N] [--runs N] [--senders N] [--batch N] [--json FILE] [--binary FILE]

h2load repeats one request with the same fields and a body of the same size; the backend encodes a payload for each
notification, signs its provider token, and gives each its own device token, title and id. Both go to the same responder
by turns. Trust the CPU per request: requests/s suffer from whatever else the machine does. The goals are 0.6 of h2load's requests/s
and 3 times its CPU; when one is missed the exit code is 1.
"""
import json
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "transport"))
import bench as transport  # noqa: E402

IDS = "01900000-0000-7000-8000-000000000000"
TEXT = ("Your parcel is on its way and should arrive tomorrow between nine and noon. "
        "Tap to follow it, to change the day or to name a neighbour.")
BODY = {"aps": {"alert": {"title": "Order 000000 shipped", "body": TEXT}, "badge": 1, "sound": "default"}}


def main():
    parser = transport.backend_options(__doc__)
    parser.add_argument("--binary", help="apns-bench, when it is built already")
    options = parser.parse_args()
    options.streams = 1000

    binary = options.binary or transport.build("apns-bench")
    fields = transport.FIELDS | {"apns-id": IDS, "apns-collapse-id": IDS, "authorization": transport.AUTHORIZATION}
    with tempfile.TemporaryDirectory() as folder:
        key = transport.make_key(folder)
        Path(folder, "body.json").write_text(json.dumps(BODY, separators=(",", ":")))

        def ours(port):
            return [binary, "127.0.0.1", str(port), f"{folder}/ca.pem", key, *transport.shape(options)]

        result = transport.compare(folder, options, fields, ours)
    result |= {"benchmark": "apns", "senders": options.senders, "batch": options.batch}
    transport.report(result, options.json, rps=0.6, cpu=3)


if __name__ == "__main__":
    main()
