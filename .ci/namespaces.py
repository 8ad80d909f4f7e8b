"""What the tests of package and image share: commands that must go well, programs that start and end, namespaces of the kernel."""
import ctypes
import fcntl
import shlex
import signal
import socket
import struct
import subprocess
import sys
import time

LIBC = ctypes.CDLL(None, use_errno=True)


def run(*command, **options):
    """What a command prints; its failure ends the test."""
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", **options)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(map(str, command))}\nended with {done.returncode}:\n{done.stdout[-4000:]}")
    return done.stdout


def expect(condition, text):
    if not condition:
        sys.exit(text)


def own_mounts():
    """Puts this process into a mount namespace of its own."""
    expect(LIBC.unshare(0x20000) == 0, "no mount namespace: root is needed")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)


def own_network():
    """Puts this process into a network namespace that has the machine's own addresses only, where every port is free."""
    expect(LIBC.unshare(0x40000000) == 0, "no network namespace: root is needed")
    with socket.socket() as anything:
        fcntl.ioctl(anything, 0x8914, struct.pack("16sh22x", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP


def wait(what, is_done, log, child, seconds=30):
    ended = time.monotonic() + seconds
    while not is_done():
        expect(child.poll() is None and time.monotonic() < ended, f"{what} did not start, exit code {child.poll()}:\n{log()[-4000:]}")
        time.sleep(0.05)


def stop(child, log):
    child.send_signal(signal.SIGTERM)
    expect(child.wait(40) == 0, f"the gateway ended with {child.returncode}:\n{log.read_text()[-4000:]}")
