"""The tables of measures, declared: what the metrics step writes, one set of rows per run."""

import pyarrow as pa

from kraftlog import relations
from kraftlog.relations import BOOL, LONG, TEXT, TIMESTAMP, column
from kraftlog.tables.spec import PER_RUN, RUN_ID, TableSpec

SNAPSHOTS = TableSpec(
    "snapshots",
    "one row per snapshot, replica and run",
    pa.schema(
        [
            RUN_ID,
            relations.REPLICA,
            relations.PATH,
            column("end_offset", LONG, "end offset of the snapshot (exclusive)"),
            column("epoch", LONG, "epoch of the snapshot"),
            column("complete", BOOL, "header first, footer last, no fault"),
            column("size_bytes", LONG, "size of the file (KIP-630: SnapshotSizeBytes)"),
            column("batch_count", LONG, "record batches"),
            column("record_count", LONG, "metadata records"),
            column("records_by_type", pa.map_(TEXT, LONG), "metadata records per type"),
            column("last_contained_log_timestamp", TIMESTAMP, "by the snapshot's header"),
            column("modified", TIMESTAMP, "modification time of the file"),
            column(
                "age_ms", LONG, "time from the last contained record to the newest record at hand"
            ),
            column(
                "lag_offsets_min",
                LONG,
                "offsets to the lower committed bound (KIP-630: SnapshotLag)",
            ),
            column("lag_offsets_max", LONG, "offsets to the end of the replica's log"),
            column("lag_bytes", LONG, "bytes of the replica's log after the snapshot's end"),
            column("is_latest", BOOL, "newest complete snapshot of its replica"),
        ]
    ),
    PER_RUN,
)

MEASURES: tuple[TableSpec, ...] = (SNAPSHOTS,)
