"""Boundary values at the control API of the simulators: neither `chapar sandbox` nor `chapar demo` may end of a call."""
import contextlib
import itertools
import random
import re
import socket
import ssl
import tempfile
import time
from pathlib import Path

import values
from rig import Client, NoAnswer, Sandbox

PLATFORMS = ["", "/apns", "/fcm", "/hms", "/rustore", "/onesignal", "/oauth2", "/altcraft", "/chabok", "/http", "/webpush"]
QUERIES = ["=", "&", "=&=", "a", "=a", "a=", "a=%", "a=%zz", "from=@", "limit=@", "from=@&limit=@", "name=@", "%00=@", "a=b=c"]
# Calls with their bodies; `@` is where a boundary value goes.
BODIES = {
    "rules": ['{"match":{"count":@},"steps":[{"do":"answer","status":500}]}', '{"match":{"share":@},"steps":[{"do":"silence"}]}', '{"match":{"every":@},"steps":[{"do":"silence"}]}',
              '{"match":{"first_request":@,"last_request":@},"steps":[{"do":"silence"}]}', '{"match":{"from":@,"until":@},"steps":[{"do":"silence"}]}',
              '{"match":{"connection":@},"steps":[{"do":"silence"}]}', '{"steps":[{"do":"delay","seconds":@}]}', '{"steps":[{"do":"answer","status":@,"retry_after":@}]}',
              '{"steps":[{"do":"answer","status":503,"retry_after":@,"retry_after_is_date":true}]}', '{"steps":[{"do":"answer","status":410,"reason":"Unregistered","timestamp":@}]}',
              '{"steps":[{"do":"answer","status":410,"reason":"Unregistered","timestamp_offset":@}]}', '{"steps":[{"do":"maximum_streams","count":@}]}',
              '{"steps":[{"do":"initial_window","bytes":@}]}', '{"steps":[{"do":"throttle","bytes_per_second":@}]}', '{"steps":[{"do":"reset_stream","code":@}]}',
              '{"steps":[{"do":"go_away","last":@,"code":@}]}', '{"steps":@}', "@"],
    "goaway": ['{"last":@,"code":@}', '{"connection":@}', "@"], "settings": ['{"maximum_streams":@}', '{"clock_offset":@}', '{"connection":@,"maximum_streams":@}'],
    "end": ['{"connection":@}', '{"how":@}'], "tokens": ['{"tokens":["ab"],"at":@,"state":"unregistered"}', '{"tokens":[@]}', '{"tokens":["a"],"state":@}'],
    "limits": ['{"devices_per_second":@}', '{"retry_after":@,"token_lifetime":@}'], "receipts": ['{"delay":@,"statuses":[@]}', '{"doubled":@}'], "players": ['{"count":@}'],
    "subscribed": ['{"id":@,"subscribed":@}'], "access": ['{"do":@}'], "shape": ['{"shape":@}'], "messages": ["@"],
}


def requests(choice):
    """Calls without end, each a method, a target and a body."""
    plain = [(method, prefix + path + "?" + query, None) for method in ("GET", "DELETE") for prefix in PLATFORMS
             for path in ("/", "/inbox", "/counters", "/rules") for query in QUERIES]
    posts = [("POST", f"{prefix}/{path}", body) for path, bodies in BODIES.items() for body in bodies for prefix in PLATFORMS[1:]]
    addresses, texts = values.address_values(), values.json_values()
    while True:
        batch = plain + posts
        choice.shuffle(batch)
        for method, target, body in batch:
            target = "".join(choice.choice(addresses) if part == "@" else part for part in target)
            body = "".join(choice.choice(texts) if part == "@" else part for part in body) if body is not None else None
            yield method, target, body


def visit(sandbox, platform):
    """Asks a platform's simulator something, so that its rules are looked at; what comes of it does not matter."""
    word = "onesignal" if platform == "oauth2" else platform
    listener = re.search(rf"^{word} \S+ +https://127.0.0.1:(\d+)", sandbox.process.log.read_text(), re.M)
    context = ssl._create_unverified_context()
    with contextlib.suppress(OSError, ValueError):
        with socket.create_connection(("127.0.0.1", int(listener[1])), 0.2) as plain, context.wrap_socket(plain) as connection:
            connection.sendall(b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
            connection.recv(1000)


def fuzz(seconds, seed):
    """Calls the control API for so long; gives what is found. Rules are removed after a call that a platform got meanwhile."""
    findings, deadline = [], time.monotonic() + seconds
    calls = requests(random.Random(f"{seed}-control"))
    sent = 0
    while time.monotonic() < deadline and len(findings) < 5:
        with tempfile.TemporaryDirectory(prefix="chapar-control-") as folder:
            sandbox = Sandbox(Path(folder))
            client = Client(sandbox.control)
            for number, (method, target, body) in enumerate(itertools.islice(calls, 2000)):
                if time.monotonic() > deadline:
                    break
                sent += 1
                data = body.encode("utf-8", "surrogatepass") if body is not None else None
                try:
                    answer = client.ask(method, target, data)
                    wrong = f"status {answer.status}" if answer.status >= 500 else None
                    if method == "POST" and answer.status == 200 and number % 3 == 0:
                        visit(sandbox, target.split("/")[1])
                        client.ask("DELETE", f"/{target.split('/')[1]}/rules")
                except NoAnswer as error:
                    wrong = str(error)
                if wrong is None:
                    continue
                time.sleep(0.5)
                ended = sandbox.process.child.poll()
                if ended is not None or not wrong.startswith("the connection ended"):
                    findings.append(f"the control API of the sandbox: {wrong}{f', it ended with {ended}' if ended is not None else ''}\n"
                                    f"    {method} {target}\n    {(body or '')[:400]}")
                    print(f"FOUND: {findings[-1]}", flush=True)
                if ended is not None:
                    break
            client.close()
            sandbox.end()
    print(f"control: {sent} calls, {len(findings)} findings", flush=True)
    return len(findings)
