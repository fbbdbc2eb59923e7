"""How long a node takes to load its state: measured here on each snapshot, as Kafka keeps no
LoadSnapshotLatencyMs, and predicted from sizes.

In: replicas as found on disk; or sizes and a rate. Out: milliseconds. What is measured is this
machine and this program; it compares snapshots, and days, with each other. Source: R4, R90.
"""

import time
from collections.abc import Collection, Iterable
from dataclasses import replace

from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import Replica
from kraftlog.log.segment import Limits
from kraftlog.state.reading import find_snapshots, load_snapshot

LOADED_BYTES = 8 << 20
"""Larger snapshots are not loaded just to be timed: they would take minutes."""


def load_times(
    replicas: Iterable[Replica], paths: Collection[str], redactor: Redactor, limits: Limits
) -> dict[str, float]:
    """Milliseconds by path, of those of the complete snapshots at `paths` that are small enough."""
    found = {}
    for replica in replicas:
        for file in replica.files:
            if file.path not in paths or file.size_bytes > LOADED_BYTES:
                continue
            for one in find_snapshots(replace(replica, files=(file,)), limits)[0]:
                begun = time.perf_counter()
                load_snapshot(one, redactor, limits)
                found[file.path] = (time.perf_counter() - begun) * 1000
    return found


def load_ms(snapshot_bytes: float, debt_bytes: float, bytes_per_second: float) -> float:
    """Predicted load time of a node that starts: its snapshot, and its replay debt (R4)."""
    return (snapshot_bytes + debt_bytes) / bytes_per_second * 1000
