"""A way to PostgreSQL that stops at a named statement: passes everything on and reads just enough of the protocol to know what is asked.

Of what a client sends it reads Parse (the name and the text of a statement) and Bind (the name), of what the server answers
ReadyForQuery (whether a transaction is open). https://www.postgresql.org/docs/current/protocol-message-formats.html
"""
import contextlib
import re
import socket
import struct
import threading


class Trap:
    """Waits for a statement within a transaction that more statements are to follow in."""

    def __init__(self, pattern, spring):
        self.pattern, self.spring = re.compile(pattern), spring
        self.sprung = threading.Event()


class Proxy:
    """Takes connections at a port of 127.0.0.1 and passes them on to the server whose socket is in a folder."""

    def __init__(self, folder):
        self.path = f"{folder}/.s.PGSQL.5432"
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.trap, self.lock = None, threading.Lock()
        # What is sent in place of a piece of the client's bytes, of the same length.
        self.altered = None
        threading.Thread(target=self._accept, daemon=True).start()

    def set(self, pattern, spring):
        """Calls `spring` once, when the answer of such a statement has come and has not been passed on; gives the trap."""
        trap = Trap(pattern, spring)
        with self.lock:
            self.trap = trap
        return trap

    def take(self, statement):
        """The trap, if the statement is for it; no other connection gets it then."""
        with self.lock:
            trap = self.trap
            if trap is None or not trap.pattern.search(statement):
                return None
            self.trap = None
            return trap

    def give_back(self, trap):
        """Sets it again, since the statement failed."""
        with self.lock:
            self.trap = self.trap or trap

    def end(self):
        self.listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):  # Closed.
            while True:
                client, _ = self.listener.accept()
                Connection(self, client)


class Connection:
    """One connection of a client, and its own to the server."""

    def __init__(self, proxy, client):
        self.proxy, self.client, self.server = proxy, client, socket.socket(socket.AF_UNIX)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.statements, self.is_open, self.trap = {}, False, None
        try:
            self.server.connect(proxy.path)
        except OSError:
            client.close()
            return
        for source, target, read in ((client, self.server, self._asked), (self.server, client, self._answered)):
            threading.Thread(target=self._pass, args=(source, target, read), daemon=True).start()

    def _pass(self, source, target, read):
        """Passes whole messages on, each after it was read; of a client the first one, which has no kind, as it comes."""
        rest, has_kind = b"", source is self.server
        with contextlib.suppress(OSError):
            while chunk := source.recv(262_144):
                data, place = rest + chunk, 0
                while True:
                    head = 5 if has_kind else 4
                    if len(data) - place < head:
                        break
                    end = place + head - 4 + struct.unpack_from("!i", data, place + head - 4)[0]
                    if end > len(data):
                        break
                    if has_kind:
                        read(data[place:place + 1], data[place + 5:end])
                    place, has_kind = end, True
                whole, rest = data[:place], data[place:]
                if source is self.client and self.proxy.altered:
                    whole = whole.replace(*self.proxy.altered)
                target.sendall(whole)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _asked(self, kind, body):
        if kind == b"P":
            name, text = body.split(b"\0", 2)[:2]
            self.statements[name] = text.decode(errors="replace")
        elif kind == b"B" and self.is_open and self.trap is None:
            # After the portal's name.
            self.trap = self.proxy.take(self.statements.get(body.split(b"\0", 2)[1], ""))

    def _answered(self, kind, body):
        if kind != b"Z":
            return
        self.is_open = body == b"T"
        trap, self.trap = self.trap, None
        if trap is None:
            return
        if self.is_open:
            trap.spring()
            trap.sprung.set()
        else:
            self.proxy.give_back(trap)
