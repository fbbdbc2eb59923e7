"""TCP between a puller and real servers, which cuts the connection at the n-th request.

It knows frames (a length, then as many bytes) and the api key that a request begins with, no more.
Requests are counted from 0 and over all servers; those in which a connection learns versions count
as well.
"""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from kraftlog.pull.address import Address
from kraftlog.pull.connection import Connection
from tests.pulled import plaintext


class Where(Enum):
    """Where a connection ends: before the request has passed, or in the middle of its answer."""

    REQUEST = "before the request"
    ANSWER = "inside the answer"


@dataclass
class CuttingProxy:
    """Cuts once, at request `at` (None for never); `cut_key` is that request's api key."""

    at: int | None = None
    where: Where = Where.REQUEST
    cut_key: int | None = None
    count: int = 0
    _stack: ExitStack = field(default_factory=ExitStack)
    _ports: dict[Address, Address] = field(default_factory=dict)

    def connect(self, address: Address) -> Connection:
        """A puller's connection to a server, through the proxy."""
        if address not in self._ports:
            server = _Server(("127.0.0.1", 0), _Handler)
            server.proxy, server.target = self, address
            thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
            thread.start()
            for ends in (server.server_close, thread.join, server.shutdown):
                self._stack.callback(ends)
            self._ports[address] = Address("127.0.0.1", server.server_address[1])
        return plaintext(self._ports[address])

    def close(self) -> None:
        self._stack.close()

    def passes(self, request: bytes) -> bool:
        """Count a request; whether it is none that is cut."""
        number, self.count = self.count, self.count + 1
        if number != self.at:
            return True
        self.cut_key = struct.unpack_from(">h", request, 4)[0]
        return False


@contextmanager
def cutting(at: int | None, where: Where) -> Iterator[CuttingProxy]:
    """A proxy for as long as the context lasts."""
    proxy = CuttingProxy(at, where)
    try:
        yield proxy
    finally:
        proxy.close()


class _Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        server: Any = self.server
        with socket.create_connection(server.target) as target:
            while (request := frame(self.request)) is not None:
                passes = server.proxy.passes(request)
                if not passes and server.proxy.where is Where.REQUEST:
                    return
                target.sendall(request)
                answer = frame(target)
                if answer is None:
                    return
                self.request.sendall(answer if passes else answer[: len(answer) // 2])
                if not passes:
                    return


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    proxy: CuttingProxy
    target: Address

    def handle_error(self, *_: object) -> None:
        """A client that hangs up is what such a test is about."""


def frame(source: socket.socket) -> bytes | None:
    """The next frame, its length included; None where the other side has hung up."""
    found, size = b"", 4
    while len(found) < size:
        part = source.recv(size - len(found))
        if not part:
            return None
        found += part
        if len(found) == 4:
            size = 4 + int.from_bytes(found, "big")
    return found
