"""How long a node takes to load its state: measured here on snapshots, as Kafka keeps no
LoadSnapshotLatencyMs, and predicted from sizes.

In: snapshots and where their records are read from; or sizes and a rate. Out: milliseconds. What is
measured is this machine and this program; it compares snapshots, and days, with each other. Source:
KIP-630 "Motivation" and "Metrics".
"""

import time
from collections.abc import Iterable

from kraftlog.quorum.history import Records, loaded
from kraftlog.quorum.snapshots import SnapshotView


def load_times(snapshots: Iterable[SnapshotView], records: Records) -> dict[str, float]:
    """Milliseconds that the whole of each snapshot took to load, by path; contents that several
    replicas hold are loaded once. One that cannot be read to its end any more is left out.
    """
    of_content: dict[bytes, float | None] = {}
    found = {}
    for one in snapshots:
        content = one.evidence.batches.ids.tobytes()
        if content not in of_content:
            of_content[content] = _measured(one, records)
        spent = of_content[content]
        if spent is not None:
            found[one.path] = spent
    return found


def _measured(snapshot: SnapshotView, records: Records) -> float | None:
    begun = time.perf_counter()
    is_whole = loaded(records, snapshot) is not None
    return (time.perf_counter() - begun) * 1000 if is_whole else None


def load_ms(snapshot_bytes: float, debt_bytes: float, bytes_per_second: float) -> float:
    """Predicted load time of a node that starts: its snapshot, and its replay debt."""
    return (snapshot_bytes + debt_bytes) / bytes_per_second * 1000
