"""How long a node takes to load its state: measured here on each snapshot, as Kafka keeps no
LoadSnapshotLatencyMs, and predicted from sizes.

In: replicas as found on disk; or sizes and a rate. Out: milliseconds. What is measured is this
machine and this program; it compares snapshots, and days, with each other. Source: KIP-630
"Motivation" and "Metrics".
"""

import time
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import NamedTuple

from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import Replica
from kraftlog.log.segment import Limits
from kraftlog.state.reading import LogBatch, Snapshot, feed, find_snapshots, read_batches
from kraftlog.state.replay import Replay

MEASURED_BYTES = 1 << 20
"""So much of a snapshot is loaded to be timed, in whole batches: to load a larger one would take
minutes, and each of its records costs what those before it do. 8 MB took half of all measures."""


class Loaded(NamedTuple):
    """How long a whole snapshot takes to load, and of how many of its bytes that was measured."""

    milliseconds: float
    measured_bytes: int


def load_times(
    replicas: Iterable[Replica], paths: Collection[str], redactor: Redactor, limits: Limits
) -> dict[str, Loaded]:
    """Load times by path, of those of the complete snapshots at `paths`, however large."""
    found = {}
    for replica in replicas:
        for file in replica.files:
            if file.path not in paths:
                continue
            for one in find_snapshots(replace(replica, files=(file,)), limits)[0]:
                found[file.path] = _measured(one, redactor, limits)
    return found


def _measured(snapshot: Snapshot, redactor: Redactor, limits: Limits) -> Loaded:
    """Load a snapshot, or as much of it as is measured: the rest takes its share."""
    size, done, replay = snapshot.file.size_bytes, 0, Replay()
    begun = time.perf_counter()
    for batch in read_batches(snapshot.file, limits):
        if isinstance(batch, LogBatch):
            feed(replay, batch, None, None, redactor, limits)
            done += len(batch.raw)
        if done >= MEASURED_BYTES:
            break
    spent = (time.perf_counter() - begun) * 1000
    return Loaded(spent * size / done if done else spent, min(done, size))


def load_ms(snapshot_bytes: float, debt_bytes: float, bytes_per_second: float) -> float:
    """Predicted load time of a node that starts: its snapshot, and its replay debt."""
    return (snapshot_bytes + debt_bytes) / bytes_per_second * 1000
