"""What an earlier run has found in the records of the shared log, kept for the next one: so a run
over a log that has grown reads the records that are new, and no others.

In: a lake, the shared log as it is now, the batches of its snapshots. Out: which batches are to be
read, and what is known of all others; rows of the table `record_totals`, and back. What is kept
counts for a log of which it is a prefix, batch by batch, and for the version of kraftlog that wrote
it. By which files it was read does not matter: they may have been merged or written anew since.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.metrics.amplification import BrokerEvent, Bursts
from kraftlog.metrics.compaction import OffsetMap
from kraftlog.metrics.record_totals import LOG, RECORD_TOTALS, SNAPSHOT
from kraftlog.metrics.shared_log import SharedLog
from kraftlog.pipeline.record_scan import CHANGES, Scanned, Wanted, scan_records
from kraftlog.pipeline.run import last_writer
from kraftlog.quorum.evidence import BatchColumns
from kraftlog.tables.lake import Lake

TOTALS_TABLE, LAST_TABLE, EVENTS_TABLE = "record_totals", "last_records", "event_amplification"
KEPT = (EVENTS_TABLE, LAST_TABLE, TOTALS_TABLE)
"""In the order in which they are written."""


@dataclass(frozen=True, slots=True)
class KnownRecords:
    """What a run has found in the log's first batches, and in snapshots: all but the partition
    changes from an offset on, which may belong to an event whose burst goes on.
    """

    batch_count: int
    totals: pa.Table
    offsets: OffsetMap
    changes_from: int


def scanned(
    lake: Lake, log: SharedLog, snapshots: Iterable[BatchColumns], events: Iterable[BrokerEvent]
) -> Scanned:
    """What the records of the log and of its snapshots add up to."""
    bursts = Bursts(log, events)
    nothing = KnownRecords(0, RECORD_TOTALS.empty_table(), OffsetMap(), 0)
    known = _known(lake, log, bursts) or nothing
    held = _offsets_by_id(snapshots)
    source, ids = known.totals.column("source"), known.totals.column("batch_id")
    is_held = pc.is_in(ids, value_set=pa.array(list(held), pa.string()))
    totals = known.totals.filter(pc.or_(pc.equal(source, LOG), is_held))
    new = held.keys() - {*totals.column("batch_id").to_pylist()}
    changes = log.row_at(known.changes_from)
    first = min(known.batch_count, changes)
    texts = log.id_texts(first)
    wanted = Wanted(
        {
            LOG: {*texts[known.batch_count - first :].to_pylist()},
            SNAPSHOT: new,
            CHANGES: {*texts[changes - first :].to_pylist()},
        },
        {
            LOG: (log.end_before(known.batch_count), inf),
            SNAPSHOT: (
                min((held[one][0] for one in new), default=0),
                max((held[one][1] for one in new), default=0),
            ),
            CHANGES: (known.changes_from, inf),
        },
    )
    return scan_records(lake, wanted, bursts, totals, known.offsets)


def _offsets_by_id(snapshots: Iterable[BatchColumns]) -> dict[str, tuple[int, int]]:
    """The first and the last offset of each batch of some snapshots."""
    return {
        one.id_text(row): (int(one.base_offsets[row]), int(one.last_offsets[row]))
        for one in snapshots
        for row in range(len(one))
    }


def _known(lake: Lake, log: SharedLog, bursts: Bursts) -> KnownRecords | None:
    """What the newest run that has kept something knows of this log; None where that was another
    log, or another kraftlog.
    """
    writer = last_writer(lake, *KEPT)
    if writer is None or not (rows := lake.rows(TOTALS_TABLE)).num_rows:
        return None
    first = rows.slice(0, 1).to_pylist()[0]
    count = first["log_batch_count"]
    if count > len(log) or first["log_digest"] != log.digest(count):
        return None
    events = lake.rows_of_run(EVENTS_TABLE, writer["run_id"])
    changes_from = bursts.know(events, log.end_before(count))
    if changes_from is None:
        return None
    totals, offsets = rows.select(RECORD_TOTALS.names).cast(RECORD_TOTALS), OffsetMap()
    offsets.know(lake.rows(LAST_TABLE), totals.filter(pc.equal(totals.column("source"), LOG)))
    return KnownRecords(count, totals, offsets, changes_from)


def total_rows(found: Scanned, log: SharedLog) -> pa.Table:
    """The totals as rows of `record_totals`, each with the log that they are of."""
    count = len(found.totals)
    rows = found.totals.append_column("log_batch_count", pa.repeat(len(log), count))
    return rows.append_column("log_digest", pa.repeat(log.digest(len(log)), count))
