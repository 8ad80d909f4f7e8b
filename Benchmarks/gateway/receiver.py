#!/usr/bin/env python3
"""A stand-in for a server that a gateway posts to: the receiver of a webhook, or a collector of traces.

usage: receiver.py PORT FILE PATTERN

It answers 200 to each POST. FILE gets six numbers of 64 bits after each: requests, items, different items, the time of the first and of the
last request in nanoseconds of the monotonic clock, bytes of bodies. An item is a match of PATTERN in a body.
"""
import contextlib
import mmap
import os
import re
import struct
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock

sys.path.insert(0, str(Path(__file__).parent))
from rig import LOAD_CPU, free_port, wait_for_port  # noqa: E402

FORM = "<6Q"
EVENTS, SPANS = r'"number":(\d+)', r'"spanId":"([0-9a-f]+)"'


class Receiver:
    """A running stand-in, as a benchmark sees it."""

    def __init__(self, port, file):
        self.port, self.url = port, f"http://127.0.0.1:{port}"
        self.counters = mmap.mmap(os.open(file, os.O_RDONLY), 4096, prot=mmap.PROT_READ)

    def figures(self):
        names = ("requests", "items", "different", "first", "last", "bytes")
        return dict(zip(names, struct.unpack_from(FORM, self.counters, 0)))


@contextlib.contextmanager
def receiver(rig, pattern):
    """Runs a stand-in on the load's core."""
    port = free_port()
    file = Path(rig.path(f"receiver-{port}.stat"))
    file.write_bytes(bytes(4096))
    with rig.process("taskset", "-c", LOAD_CPU, sys.executable, str(Path(__file__)), str(port), str(file), pattern):
        wait_for_port(port)
        yield Receiver(port, file)


def serve(port, file, pattern):
    counters = mmap.mmap(os.open(file, os.O_RDWR), 4096)
    item, seen, lock = re.compile(pattern.encode()), set(), Lock()
    totals = [0] * 6

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def body(self):
            if "chunked" not in self.headers.get("transfer-encoding", ""):
                return self.rfile.read(int(self.headers.get("content-length", 0)))
            parts = []
            while length := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(length))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        def do_POST(self):
            body = self.body()
            items = item.findall(body)
            now = time.monotonic_ns()
            with lock:
                seen.update(items)
                totals[:] = [totals[0] + 1, totals[1] + len(items), len(seen), totals[3] or now, now, totals[5] + len(body)]
                struct.pack_into(FORM, counters, 0, *totals)
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_):
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads, request_queue_size = True, 128

    Server(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2], sys.argv[3])
