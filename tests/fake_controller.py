"""A controller in this process, over a real socket, for what no real one can be brought to do: to
break off at the n-th answer, or to answer nonsense.

It serves a replica's folder as the leader would, by the rules of `kraftlog.simulate`.
"""

from __future__ import annotations

import socketserver
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kraftlog.decode.interpreter import read_message
from kraftlog.log.names import classify
from kraftlog.log.storage import LocalBytes
from kraftlog.message.catalogue import request_specs
from kraftlog.quorum.epochs import EpochVector
from kraftlog.simulate.extent import Extent, SnapshotId
from kraftlog.simulate.fetch import Answer as Fetched
from kraftlog.simulate.fetch import leader_fetch
from kraftlog.state.encode import encode_message
from tests.leader_messages import Leader, decode_ask, encode_piece, fetch_response, validate_leader
from tests.pulled import PARTITION, batches

FETCH, API_VERSIONS, DESCRIBE_QUORUM, FETCH_SNAPSHOT, DESCRIBE_CLUSTER = 1, 18, 55, 59, 60
VERSIONS = {
    FETCH: (0, 18),
    DESCRIBE_QUORUM: (0, 2),
    FETCH_SNAPSHOT: (0, 1),
    DESCRIBE_CLUSTER: (0, 2),
}
UNSUPPORTED_VERSION = 35
CLUSTER_ID = "fake-cluster-id-000000"


@dataclass
class FakeController:
    """Leads with the log of a folder. `garble` may change the frame that answers the n-th request,
    counted from 0 and over all connections; after one that is shorter the connection is closed.
    """

    folder: Path
    cluster_id: str = CLUSTER_ID
    node_id: int = 1
    epoch: int = 2
    high_watermark: int | None = None
    answer_bytes: int = 1 << 20
    described_ms: int = -1
    versions: dict[int, tuple[int, int]] = field(default_factory=lambda: dict(VERSIONS))
    garble: Callable[[int, int, bytes], bytes] = lambda number, api_key, answer: answer
    asked: list[tuple[int, dict[str, Any]]] = field(default_factory=list)

    @property
    def extent(self) -> Extent:
        entries: list[tuple[int, int]] = []
        end = 0
        for base, end, raw in batches(self.folder / PARTITION):  # noqa: B007
            (epoch,) = struct.unpack_from(">i", raw, 12)
            if not entries or entries[-1][0] != epoch:
                entries.append((epoch, base))
        start = entries[0][1] if entries else 0
        return Extent(start, EpochVector(tuple(entries), end), tuple(self.snapshots()))

    def snapshots(self) -> Iterator[SnapshotId]:
        for path in sorted((self.folder / PARTITION).glob("*.checkpoint")):
            parsed = classify(path.name)
            yield SnapshotId(parsed.epoch or 0, parsed.end_offset or 0)

    def answer(self, api_key: int, version: int, body: bytes) -> bytes:
        if api_key == API_VERSIONS:
            keys = {**self.versions, API_VERSIONS: (0, 0)}
            listed = b"".join(struct.pack(">hhh", key, *span) for key, span in keys.items())
            return (
                struct.pack(">hi", 0 if version == 0 else UNSUPPORTED_VERSION, len(keys)) + listed
            )
        spec, answer = (one.at(version) for one in request_specs()[api_key])
        asked, *_ = read_message(spec, body, 0, len(body))
        self.asked.append((api_key, asked))
        if api_key == FETCH_SNAPSHOT:
            ask = decode_ask(body, version)
            files = {one: self.snapshot_bytes(one) for one in self.snapshots()}
            piece = Leader(files, self.epoch, self.cluster_id).piece(ask)
            return encode_piece(piece, self.node_id, self.epoch, version)
        told = {
            FETCH: self._fetch,
            DESCRIBE_QUORUM: self._describe,
            DESCRIBE_CLUSTER: lambda _: {**_CLUSTER, "clusterId": self.cluster_id},
        }[api_key](asked)
        return encode_message(answer, told)

    def snapshot_bytes(self, one: SnapshotId) -> LocalBytes:
        name = f"{one.end_offset:020d}-{one.epoch:010d}.checkpoint"
        return LocalBytes(str(self.folder / PARTITION / name))

    def _fetch(self, asked: dict[str, Any]) -> dict[str, Any]:
        one = asked["topics"][0]["partitions"][0]
        offset, extent = one["fetchOffset"], self.extent
        same = asked["clusterId"] in (None, self.cluster_id)
        error = validate_leader(self.epoch, one["currentLeaderEpoch"], same)
        found = Fetched(error) if error else leader_fetch(extent, offset, one["lastFetchedEpoch"])
        limit = min(one["partitionMaxBytes"], self.answer_bytes)
        records = b""
        for _, after, raw in batches(self.folder / PARTITION):
            if after > offset:
                if records and len(records) + len(raw) > limit:
                    break
                records += raw
        mark = extent.end_offset if self.high_watermark is None else self.high_watermark
        return fetch_response(found, extent, self.node_id, self.epoch, mark, records)

    def _describe(self, _: dict[str, Any]) -> dict[str, Any]:
        end = self.extent.end_offset
        replica = {
            "replicaId": self.node_id,
            "replicaDirectoryId": "A" * 22,
            "logEndOffset": end,
            "lastFetchTimestamp": self.described_ms,
            "lastCaughtUpTimestamp": -1,
        }
        partition = {
            "partitionIndex": 0,
            "errorCode": 0,
            "errorMessage": None,
            "leaderId": self.node_id,
            "leaderEpoch": self.epoch,
            "highWatermark": end if self.high_watermark is None else self.high_watermark,
            "currentVoters": [replica],
            "observers": [],
        }
        topic = {"topicName": "__cluster_metadata", "partitions": [partition]}
        return {"errorCode": 0, "errorMessage": None, "topics": [topic], "nodes": []}


_CLUSTER = {
    "throttleTimeMs": 0,
    "errorCode": 0,
    "errorMessage": None,
    "endpointType": 2,
    "controllerId": 1,
    "brokers": [],
    "clusterAuthorizedOperations": -1,
}


class _Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while (head := self._read(4)) is not None:
            raw = self._read(int.from_bytes(head, "big"))
            if raw is None:
                return
            api_key, version, correlation, name = struct.unpack_from(">hhih", raw)
            at = 10 + max(name, 0)
            flexible = api_key != API_VERSIONS and self.flexible(api_key, version)
            server: Any = self.server
            body = server.controller.answer(api_key, version, raw[at + flexible :])
            answer = struct.pack(">i", correlation) + bytes(flexible) + body
            answer = len(answer).to_bytes(4, "big") + answer
            if api_key != API_VERSIONS:
                number, server.number = server.number, server.number + 1
                changed = server.controller.garble(number, api_key, answer)
                self.request.sendall(changed)
                if len(changed) < len(answer):
                    return
            else:
                self.request.sendall(answer)

    @staticmethod
    def flexible(api_key: int, version: int) -> bool:
        return request_specs()[api_key][0].header_version(version) == 2

    def _read(self, size: int) -> bytes | None:
        found = b""
        while len(found) < size:
            try:
                part = self.request.recv(size - len(found))
            except OSError:
                return None
            if not part:
                return None
            found += part
        return found


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    number = 0

    def handle_error(self, *_: object) -> None:
        """A client that hangs up is what such a test is about."""


@contextmanager
def serving(controller: FakeController) -> Iterator[str]:
    """Serve on the loopback; yields HOST:PORT."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.controller = controller  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
