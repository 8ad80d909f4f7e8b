#!/usr/bin/env python3
"""Three gateways on one PostgreSQL under load, while gateways and the database are killed at random: is anything lost or doubled?

usage: bench.py [--chapar BINARY] [--seconds N] [--kills N] [--freezes N] [--crashes N] [--cuts N] [--cut-seconds N] [--skew N] [--rate N]
                [--backlog N] [--bursts N] [--seed N] [--json FILE]

Clients post with an Idempotency-Key and repeat what was not answered, at whichever gateway, through a backend for every platform of the
sandbox by turns (`platforms.py`). Half of the messages have a collapse id. Beside them two backends get --backlog messages a second each, nine
tenths of what their platform can take, so that something always waits; one of them must not repeat (`repeats_harm`). All of it is posted at one
gateway, and --bursts times after a silence of 5 s at once (`backlog.py`).

Gateways are killed with SIGKILL and started again, or stand still (SIGSTOP) for a third of their lease to twice that; the database is ended as by a
crash of its machine and started again; a cut takes the network between one gateway and the database away (as root: the database has a network
namespace of its own, and a link for each gateway). The
wall clocks of two gateways are wrong by --skew seconds, one ahead and one behind: by a small preload of our own (skew.c; needs a C compiler), since
a gateway never starts under Debian's faketime, which looks for libc's functions while jemalloc asks for the time. At the end everything accepted
must have ended, nothing may be claimed or wait, every platform must have got what is on record as taken by it, and no device may have been shown a
message twice; an attempt has the id of the one before. What a platform got again is counted. Of the backlog nothing may be lost, or come again without
saying so; of what must not be repeated at most 0.5 % may never have been sent; and where no fault was near, the gateway that sent least must have sent
0.7 of what the busiest one did.

Without options it is the run that docs/Scaling.md reports, which takes ten minutes and root; with --cuts 0 it needs no root.
"""
import argparse
import contextlib
import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gateway"))
import backlog  # noqa: E402
import platforms  # noqa: E402
from postgres import postgres  # noqa: E402

LEASE = 3  # Seconds: the shortest that the configuration takes.
NETWORK = Path("/run/netns/chapar-chaos")  # The database's network namespace, where there are cuts.


def ip(*words):
    subprocess.run(["ip", *words], check=True)


@contextlib.contextmanager
def network(isWanted):
    """A network namespace with a link for each gateway; what to run a program in it with."""
    if not isWanted:
        yield ()
        return
    ip("netns", "add", NETWORK.name)
    try:
        ip("-n", NETWORK.name, "link", "set", "lo", "up")
        for number in range(1, 4):
            ip("link", "add", f"chaos{number}", "type", "veth", "peer", "name", "inside", "netns", NETWORK.name)
            ip("-n", NETWORK.name, "link", "set", "inside", "name", f"inside{number}")
            ip("addr", "add", f"10.77.{number}.1/24", "dev", f"chaos{number}")
            ip("-n", NETWORK.name, "addr", "add", f"10.77.{number}.2/24", "dev", f"inside{number}")
            ip("link", "set", f"chaos{number}", "up")
            ip("-n", NETWORK.name, "link", "set", f"inside{number}", "up")
        yield ("ip", "netns", "exec", NETWORK.name)
    finally:
        ip("netns", "del", NETWORK.name)


def cut(number, seconds):
    """Takes the link of a gateway away for a while: packets are lost, and nobody is told."""
    ip("-n", NETWORK.name, "link", "set", f"inside{number}", "down")
    time.sleep(seconds)
    ip("-n", NETWORK.name, "link", "set", f"inside{number}", "up")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Node:
    """A gateway that can be killed and started again on its port."""

    def __init__(self, chapar, folder, number, database, template, skew):
        self.port, self.child = free_port(), None
        self.chapar, self.environment = chapar, dict(os.environ)
        if skew and number != 2:
            self.environment |= {"LD_PRELOAD": str(folder / "skew.so"), "SKEW": str(int(skew * (number - 2)))}
        self.config, self.log = folder / f"node-{number}.yaml", open(folder / f"node-{number}.log", "a")
        text = re.sub(r"port: 8080", f"port: {self.port}", template, count=1)
        url = f"postgres://chapar@10.77.{number}.2/postgres?sslmode=disable" if NETWORK.exists() else database.url
        store = f"store: {{ kind: postgres, url: '{url}', node: node-{number}, node_lease: {LEASE} }}\n"
        self.config.write_text(re.sub(r"store:\n(  .*\n)+", store, text, count=1))

    def start(self):
        self.child = subprocess.Popen([self.chapar, "serve", "--config", str(self.config)], stdout=subprocess.DEVNULL, stderr=self.log,
                                      env=self.environment)

    def freeze(self, seconds):
        """Lets it stand still for a while; it may be killed meanwhile."""
        child = self.child
        child.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        child.send_signal(signal.SIGCONT)

    def kill(self):
        self.child.send_signal(signal.SIGKILL)
        self.child.wait()

    def ask(self, method, path, body=None, headers=None, timeout=10):
        """The status and the answer; the status is 0 where there was none."""
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            text = answer.read()
            connection.close()
            return answer.status, text
        except (OSError, http.client.HTTPException):
            return 0, b""

    @property
    def is_ready(self):
        return self.ask("GET", "/readyz", timeout=2)[0] == 200


class Client(threading.Thread):
    """Posts messages one after the other until told to stop; each is repeated until it is accepted."""

    def __init__(self, person, nodes, pause, stop):
        super().__init__(daemon=True)
        self.person, self.nodes, self.pause, self.stop = person, nodes, pause, stop
        self.random = random.Random(person.number)
        self.accepted, self.repeats, self.refused = [], 0, []  # What was accepted: the notification's number and the title.

    def run(self):
        serial = 0
        while not self.stop.is_set():
            serial += 1
            title, request = platforms.message(self.person, serial)
            self.post(title, json.dumps(request), f"chaos-{self.person.number}-{serial}")
            time.sleep(self.pause)

    def post(self, title, body, key):
        end = time.monotonic() + 120
        while time.monotonic() < end:
            status, text = self.random.choice(self.nodes).ask(
                "POST", "/v1/notifications", body, {"content-type": "application/json", "idempotency-key": key})
            if status == 202:
                self.accepted.append((number_of(json.loads(text)["id"]), title))
                return
            if 400 <= status < 500 and status not in (409, 429):
                self.refused.append((status, text[:200]))
                return
            self.repeats += 1
            time.sleep(0.05)
        self.refused.append((0, b"never accepted"))


def wait_until(claim, seconds, what):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if claim():
                return
        except (OSError, subprocess.CalledProcessError):
            pass
        time.sleep(0.2)
    raise SystemExit(f"it did not happen in {seconds} s: {what}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chapar", default=str(Path(__file__).resolve().parents[2] / ".build/release/chapar"))
    parser.add_argument("--seconds", type=float, default=600, help="over which the faults are spread")
    parser.add_argument("--kills", type=int, default=50, help="of gateways")
    parser.add_argument("--freezes", type=int, default=20, help="of gateways")
    parser.add_argument("--crashes", type=int, default=5, help="of the database")
    parser.add_argument("--cuts", type=int, default=5, help="of the network between a gateway and the database; needs root")
    parser.add_argument("--cut-seconds", type=float, default=20)
    parser.add_argument("--skew", type=float, default=60, help="seconds by which the clocks of two gateways are wrong")
    parser.add_argument("--rate", type=float, default=200, help="messages a second to the simulators, about")
    parser.add_argument("--backlog", type=float, default=300, help="messages a second to each of two backends near their platform's limit; 0 for none")
    parser.add_argument("--bursts", type=int, default=10, help="of these, each after a silence")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", help="write the figures there as well")
    arguments = parser.parse_args()
    if arguments.cuts and os.geteuid() != 0:
        parser.error("cuts of the network need root; --cuts 0 does without")
    platforms.prove()
    backlog.prove()
    chance = random.Random(arguments.seed)
    folder = Path(tempfile.mkdtemp(prefix="chapar-chaos-"))
    folder.chmod(0o755)  # The server may run as another user.
    children = []
    try:
        settings = ["max_connections=200"] + (["listen_addresses=*", "trust=10.77.0.0/16"] if arguments.cuts else [])
        with network(arguments.cuts) as within, postgres(folder / "postgres", *settings, within=within) as database:
            figures = run(arguments, chance, folder, database, children)
    finally:
        for child in children:
            child.kill()
            child.wait()
    print(platforms.table(figures["platforms"]))
    print(json.dumps(figures))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(figures, indent=2))
    wrong = [name for name in ("lost", "left", "refused") if figures[name]] + platforms.complaints(figures["platforms"]) \
        + backlog.complaints(figures["backlog"])
    if wrong:
        print(f"not as promised: {', '.join(wrong)}; see {folder}", file=sys.stderr)
        sys.exit(1)
    subprocess.run(["rm", "-rf", str(folder)], check=False)


def run(arguments, chance, folder, database, children):
    sandbox = subprocess.Popen([arguments.chapar, "sandbox", "--dir", str(folder / "sandbox"), "--json"], stdout=subprocess.PIPE, text=True)
    children.append(sandbox)
    listeners = json.loads(sandbox.stdout.readline())["listeners"]
    control = listeners["control"].removeprefix("http://")
    template = platforms.configuration((folder / "sandbox/chapar.yaml").read_text())
    if arguments.skew:
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", folder / "sandbox/skew.so", Path(__file__).parent / "skew.c"], check=True)
    waiting = backlog.Backlog(arguments.backlog, arguments.bursts, arguments.seconds)
    nodes = [Node(arguments.chapar, folder / "sandbox", number, database, template.replace("backends:\n", "backends:\n" + waiting.sections(number), 1),
                  arguments.skew) for number in range(1, 4)]
    for node in nodes:
        node.start()
        children.append(node.child)
    wait_until(lambda: all(node.is_ready for node in nodes), 60, "the gateways are ready")
    stop = threading.Event()
    people = platforms.enrol(nodes[0].ask, control, wait_until)
    platforms.be_far(control)
    clients = [Client(person, nodes, len(people) / arguments.rate, stop) for person in people]
    for client in clients:
        client.start()
    waiting.start(nodes, stop)
    started = time.monotonic()
    harm(arguments, chance, nodes, database, children, waiting)
    stop.set()
    for client in clients:
        client.join(150)
    waiting.join()
    span = time.monotonic() - started
    try:
        wait_until(lambda: database.ask("SELECT count(*) FROM chapar.waiting") == "0", 180, "everything has ended")
    except SystemExit:
        print(database.ask("SELECT id, owner, lease, due, attempts, flags, clock_timestamp() FROM chapar.waiting LIMIT 5"),
              database.ask("SELECT * FROM chapar.nodes"), *(node.ask("GET", "/readyz") for node in nodes), folder,
              sep="\n", file=sys.stderr)
        raise
    accepted = [pair for client in clients for pair in client.accepted]
    ends = [row.rsplit("|", 1) for row in database.ask("SELECT notification, recipient, state FROM chapar.results").splitlines()]
    ends = [(*place.split("|", 1), state) for place, state in ends]
    of_backlog = waiting.figures([(recipient, int(state)) for _, recipient, state in ends])
    rows = [(notification, state) for notification, recipient, state in ends if not backlog.TOKEN.search(recipient)]
    states = {int(number): int(state) for number, state in rows}
    known = {int(number) for number in database.ask("SELECT id FROM chapar.notifications").splitlines()}
    repeats = {way.backend: platforms.call(control, "GET", way.repeats[0])[way.repeats[1]] for way in platforms.WAYS if way.repeats}
    figures = platforms.tally(dict(accepted), states, platforms.copies(control), repeats)
    for node in nodes:
        node.child.terminate()
    for node in nodes:
        node.child.wait(60)
    left = int(database.ask("SELECT count(*) FROM chapar.waiting"))
    refused = [refusal for client in clients for refusal in client.refused] + waiting.refused
    for refusal in refused[:5]:
        print(f"refused: {refusal}", file=sys.stderr)
    return {
        "benchmark": "chaos", "seconds": round(span), "kills": arguments.kills, "freezes": arguments.freezes, "crashes": arguments.crashes, "cuts": arguments.cuts,
        "skew": arguments.skew, "accepted": len(accepted), "repeated_requests": sum(client.repeats for client in clients),
        "refused": len(refused), "ended": len(rows), "lost": max(len(dict(accepted).keys() - known), len(accepted) - len(rows)), "left": left,
        **{name: sum(one[name] for one in figures.values())
           for name in ("platform_got", "again_with_the_same_id", "again_with_another_id", "again_with_the_same_content",
                        "doubled_on_device")},
        "platforms": figures, "backlog": of_backlog}


def harm(arguments, chance, nodes, database, children, waiting):
    """Lets the faults happen, spread over the time; returns when it is over."""
    faults = ["kill"] * arguments.kills + ["freeze"] * arguments.freezes + ["crash"] * arguments.crashes + ["cut"] * arguments.cuts
    chance.shuffle(faults)
    started, lasting = time.monotonic(), []
    for place, fault in enumerate(faults):
        due = started + arguments.seconds * (place + 1) / (len(faults) + 1)
        time.sleep(max(0, due - time.monotonic()))
        node = chance.choice(nodes)
        if fault == "kill":
            waiting.note_fault(2 * LEASE)
            node.kill()
            time.sleep(chance.uniform(0, 0.5))
            node.start()
            children.append(node.child)
        elif fault == "freeze":
            span = chance.uniform(LEASE / 3, 2 * LEASE)
            waiting.note_fault(span + LEASE)
            lasting.append(threading.Thread(target=node.freeze, args=(span,)))
            lasting[-1].start()
        elif fault == "cut":
            waiting.note_fault(arguments.cut_seconds + 2 * LEASE)
            lasting.append(threading.Thread(target=cut, args=(nodes.index(node) + 1, arguments.cut_seconds)))
            lasting[-1].start()
        else:
            waiting.note_fault(2 * LEASE)
            database.crash()
            time.sleep(chance.uniform(0.2, 2))
            database.start()
    time.sleep(max(0, started + arguments.seconds - time.monotonic()))
    for one in lasting:
        one.join()


def number_of(text):
    """The number of an id: 13 digits of Crockford's base 32."""
    value = 0
    for letter in text:
        value = value << 5 | "0123456789ABCDEFGHJKMNPQRSTVWXYZ".index(letter)
    return value


if __name__ == "__main__":
    main()
