#!/usr/bin/env python3
"""The FCM backend against our own APNs backend: one connection each, from the public `send` to each notification's outcome.

usage: bench.py [--requests N] [--runs N] [--senders N] [--batch N] [--json FILE] [--binaries FOLDER]

Both send the same notifications to equally fast responders, by turns. FCM's requests are larger (the token and the id stand
in the body, with a token of 160 characters) and its answers have a body, which the backend reads. Trust the CPU per
request: requests/s suffer from whatever else the machine does. The goal is 0.9 of the APNs backend's requests/s; when it is missed the
exit code is 1.
"""
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "transport"))
import bench as transport  # noqa: E402


def files(name, folder):
    return [transport.make_key(folder)] if name == "apns" else []


if __name__ == "__main__":
    transport.compare_backends(__doc__, own=("fcm", ["-b", transport.FCM_ANSWER]), reference=("apns", []), rps=0.9, files=files)
