"""A port that passes on to another one until it is cut, as a network would be that parts.

Nodes that are told the relay's port reach each other through it. What was open when it is cut ends,
and whoever comes meanwhile is sent away.
"""

import socket
from contextlib import suppress
from threading import Lock, Thread

PIECE = 1 << 16


class Relay:
    """Listens on a port of the loopback from the beginning, and passes on to a target port."""

    def __init__(self, port: int, target: int) -> None:
        self._target, self._is_cut = target, False
        self._open: set[socket.socket] = set()
        self._lock = Lock()
        self._listening = socket.create_server(("127.0.0.1", port))
        Thread(target=self._serve, daemon=True).start()

    def cut(self) -> None:
        """From now on nobody gets through."""
        with self._lock:
            self._is_cut = True
            for one in self._open:
                with suppress(OSError):  # it has ended meanwhile
                    one.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        """From now on everybody does."""
        with self._lock:
            self._is_cut = False

    def _serve(self) -> None:
        while True:
            near, _ = self._listening.accept()
            with self._lock:
                far = None if self._is_cut else self._reached()
                if far is None:
                    near.close()
                    continue
                self._open |= {near, far}
            for pair in ((near, far), (far, near)):
                Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _reached(self) -> socket.socket | None:
        try:
            return socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            return None  # the node is down

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):  # either end may have gone, or have been cut
            while piece := source.recv(PIECE):
                sink.sendall(piece)
        for one in (source, sink):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._open -= {source}
        source.close()
