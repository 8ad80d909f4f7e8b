#!/usr/bin/env python3
"""The RuStore backend against our own FCM backend: one connection each, from the public `send` to each notification's outcome.

usage: bench.py [--requests N] [--runs N] [--senders N] [--batch N] [--json FILE] [--binaries FOLDER]

Both send the same notifications, with tokens and credentials of one length, to equally fast responders, by turns. RuStore's answer
is an empty object, FCM's has a name. The goal is at most 1.05 of the FCM backend's CPU a request, and 0.9 of its requests/s, which
suffer from whatever else the machine does. When one is missed the exit code is 1.
"""
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "transport"))
import bench as transport  # noqa: E402

if __name__ == "__main__":
    transport.compare_backends(__doc__, own=("rustore", ["-b", "{}"]), reference=("fcm", ["-b", transport.FCM_ANSWER]),
                               rps=0.9, cpu=1.05)
