"""TCP between Kafka's nodes, which slows one node's way to its leader down, notes what it asks for,
and holds its n-th piece of a snapshot, or what it asks after the snapshot.

It knows frames (a length, then as many bytes) and the heads of requests; those of other clients
pass as they are.
"""

from __future__ import annotations

import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kraftlog.decode.interpreter import read_message
from kraftlog.message.catalogue import request_specs
from kraftlog.pull.messages import FETCH_SNAPSHOT
from kraftlog.simulate.liveness import Link
from kraftlog.wire import unsigned_varint
from tests.cutting_proxy import frame
from tests.leader_messages import decode_ask

FETCH = 1


class Seen(NamedTuple):
    """One request of the node: its position in a snapshot, or its fetch offset and last epoch."""

    api_key: int
    at: int
    epoch: int


@dataclass
class SlowProxy:
    """Requests of the client called `client` go over `link`; `hold` says which one waits."""

    client: str
    link: Link
    port: int = 0
    target: tuple[str, int] = ("127.0.0.1", 0)
    seen: list[Seen] = field(default_factory=list)
    pieces_until_hold: int | None = None
    holds_log_after: int | None = None
    held: threading.Event = field(default_factory=threading.Event)
    _may_go_on: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def forget(self) -> None:
        """Let all pass from now on, and note anew."""
        self.pieces_until_hold = self.holds_log_after = None
        self._may_go_on.set()
        self.held, self._may_go_on = threading.Event(), threading.Event()
        self.seen = []

    def note(self, request: bytes) -> bool:
        """Whether this is the slowed node's; it returns when the request may pass."""
        asked = _asked(request, self.client)
        if asked is None:
            return False
        with self._lock:
            self.seen.append(asked)
            pieces = sum(one.api_key == FETCH_SNAPSHOT for one in self.seen)
            piece = asked.api_key == FETCH_SNAPSHOT and pieces == self.pieces_until_hold
            log = asked.api_key == FETCH and asked.at == self.holds_log_after
            if piece or log:
                self.seen.pop()
        if piece or log:
            self.held.set()
            self._may_go_on.wait()
        return True


@contextmanager
def slowed(client: str, link: Link) -> Iterator[SlowProxy]:
    """A proxy for as long as the context lasts; its target is set before anybody asks."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.proxy = SlowProxy(client, link, server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server.proxy
    finally:
        server.proxy.forget()
        server.shutdown()
        thread.join()
        server.server_close()


def _asked(request: bytes, client: str) -> Seen | None:
    """What a Fetch or FetchSnapshot of this client asks for. Their heads are of version 2: api key,
    version, correlation id, client id, tagged fields, of which there are none.
    """
    key, version = (int.from_bytes(request[at : at + 2], "big") for at in (4, 6))
    size = int.from_bytes(request[12:14], "big")
    if key not in (FETCH, FETCH_SNAPSHOT) or request[14 : 14 + size] != client.encode():
        return None
    tags, begin = unsigned_varint(request, 14 + size, len(request), "tags")
    assert tags == 0
    if key == FETCH_SNAPSHOT:
        asked = decode_ask(request[begin:], version)
        return Seen(key, asked.position, asked.snapshot.epoch)
    return _fetch(request[begin:], version)


def _fetch(body: bytes, version: int) -> Seen:
    spec = request_specs()[FETCH][0].at(version)
    message, *_ = read_message(spec, body, 0, len(body))
    one: dict[str, Any] = message["topics"][0]["partitions"][0]
    return Seen(FETCH, one["fetchOffset"], one["lastFetchedEpoch"])


class _Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        server: Any = self.server
        proxy: SlowProxy = server.proxy
        with suppress(OSError), socket.create_connection(proxy.target) as target:
            while (request := frame(self.request)) is not None:
                is_slow = proxy.note(request)
                target.sendall(request)
                answer = frame(target)
                if answer is None:
                    return
                if is_slow:
                    time.sleep(proxy.link.response_ms(len(answer)) / 1000)
                self.request.sendall(answer)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    proxy: SlowProxy

    def handle_error(self, *_: object) -> None:
        """A node that is killed hangs up: that is what such a test is about."""
