"""An HTTP server before an object store: it refuses what it is told to, and passes on the rest.

`gate(target, …)` runs it as a process of its own (`python -m tests.store_gate PORT TARGET RULE`), as
delta-rs holds Python's lock while it waits for an answer.
"""

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from tests.cluster.machines import stop, wait_for
from tests.s3_server import free_port

WRITES = ("PUT", "POST", "DELETE", "PATCH")
_OURS = {"connection", "content-length", "date", "server", "transfer-encoding"}


@dataclass(frozen=True)
class Rule:
    """Which requests are refused, and how."""

    status: int = 403
    code: str = ""
    refused: tuple[str, ...] = ("GET", "HEAD", *WRITES)
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def body(self) -> bytes:
        """As S3 and Azure tell it; those of GCS go by the status."""
        return f"<?xml version='1.0'?><Error><Code>{self.code}</Code></Error>".encode()


@contextmanager
def gate(target: str, rule: Rule) -> Iterator[str]:
    """The address of a gate before the store at `target`, while it lasts."""
    port = free_port()
    words = [sys.executable, "-m", "tests.store_gate", str(port), target, json.dumps(asdict(rule))]
    server = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    try:
        wait_for(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        stop(server)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    rule = Rule()
    target = ""

    def answer(self) -> None:
        body = self._body()
        status, headers, data = (
            (self.rule.status, self.rule.headers, self.rule.body)
            if self.command in self.rule.refused
            else self._passed(body)
        )
        size = len(data)
        if self.command == "HEAD":
            size, data = int(dict(headers).get("Content-Length", 0)), b""
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in _OURS:
                self.send_header(name, value)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = answer

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        pieces = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def _passed(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        headers = {k: v for k, v in self.headers.items() if k.lower() != "transfer-encoding"}
        if body:
            headers["Content-Length"] = str(len(body))
        store = http.client.HTTPConnection(self.target, timeout=60)
        store.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in headers.items():
            store.putheader(name, value)
        store.endheaders(body)
        answer = store.getresponse()
        data = answer.read()
        store.close()
        return answer.status, dict(answer.getheaders()), data

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


def main(port: str, target: str, rule: str) -> None:
    _Handler.rule, _Handler.target = Rule(**json.loads(rule)), urlsplit(target).netloc
    ThreadingHTTPServer(("127.0.0.1", int(port)), _Handler).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
