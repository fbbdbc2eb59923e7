"""What compaction would keep, read and lose, under several tombstone horizons.

In: survivors of the offset map, lives of objects, the shared log. Out: rows of the table
`compaction`. Source: KIP-630 "Motivation", "Loading State and Frequency of Compaction", "Consistent
Log and Snapshots", "Rejected Alternatives".
"""

from typing import Any

import numpy as np

from kraftlog.metrics.compaction import KEYS, KeyOf, OffsetMap
from kraftlog.metrics.objects import Lives
from kraftlog.metrics.shared_log import SharedLog
from kraftlog.metrics.tombstones import Deletions, deletions
from kraftlog.quorum.growth import DAY_MS

Row = dict[str, Any]
HORIZONS: dict[str, int | None] = {"never": None, "after one day": DAY_MS, "at once": 0}
"""When tombstones go; a day is Kafka's default delete.retention.ms."""


def compaction_rows(log: SharedLog, offsets: OffsetMap, every: dict[str, Lives]) -> list[Row]:
    """A row per horizon and record type with a key that the log holds."""
    survivors = offsets.survivors()
    now = int(log.max_timestamps.max()) if len(log) else 0
    deleting = {KEYS[kind].table for kind in KEYS if offsets.counts[kind] and KEYS[kind].deletes}
    gone = {name: deletions(every[name]) for name in sorted(deleting & every.keys())}
    rows = []
    for horizon, horizon_ms in HORIZONS.items():
        kept = survivors.kept(now, horizon_ms)
        for kind, how in KEYS.items():
            if not offsets.counts[kind]:
                continue
            mine = kept & survivors.of_type(kind)
            stones = mine & survivors.tombstones
            rows.append(
                {
                    "tombstones_go": horizon,
                    "object_kind": how.table,
                    "type": kind,
                    "record_count": offsets.counts[kind],
                    "size_bytes": offsets.sizes[kind],
                    "kept_record_count": int(mine.sum()),
                    "kept_size_bytes": int(survivors.sizes[mine].sum()),
                    "tombstone_count": int(stones.sum()),
                    "tombstone_size_bytes": int(survivors.sizes[stones].sum()),
                    "lost_object_count": int(mine.sum()) if how.is_patch else 0,
                    **_deceived(how, now, horizon_ms, gone),
                }
            )
    return rows


def _deceived(how: KeyOf, now: int, horizon_ms: int | None, every: dict[str, Deletions]) -> Row:
    """Whom the end of these tombstones deceives; nulls for a type that deletes nothing."""
    found: Row = dict.fromkeys(
        ("worst_position_offset", "kept_for_ever_count", "longest_span_offsets", "longest_span_ms")
    )
    if not how.deletes or how.table not in every:
        return found
    gone = every[how.table]
    worst = gone.worst_position(gone.gone(now, horizon_ms))
    return {
        "worst_position_offset": worst[0] if worst else None,
        "kept_for_ever_count": worst[1] if worst else 0,
        "longest_span_offsets": gone.longest_offsets,
        "longest_span_ms": gone.longest_ms,
    }


def state_bytes(offsets: OffsetMap) -> int:
    """Bytes of the last record of every object that has not been deleted: the state as KIP-630's
    comparison means it, by the records of this log.
    """
    found = offsets.survivors()
    return int(np.sum(found.sizes[~found.tombstones]))
