"""Step 2, materialize: what follows from the records of the newest run: replicas, leader epochs,
states, and at which offsets there is one. Driver side.
"""

from collections.abc import Collection

import pyarrow as pa
import pyarrow.dataset as ds

from kraftlog.audit.told import Told, to_be_told
from kraftlog.log.stores import side_by_side
from kraftlog.pipeline.derive import derive, of_run
from kraftlog.pipeline.histories import write_faults
from kraftlog.pipeline.judged import goes_on_from
from kraftlog.pipeline.lineage_digests import grown_from, lineage_rows
from kraftlog.pipeline.plans import restorable_states
from kraftlog.pipeline.run import Run, run_numbered
from kraftlog.pipeline.states import States
from kraftlog.quorum.lineages import MAIN, lineage_of, stretches
from kraftlog.quorum.replica_rows import epoch_rows, replica_rows
from kraftlog.relations import Row
from kraftlog.state.outline import PARTITION_TYPES
from kraftlog.tables.lake import Lake
from kraftlog.tables.parquet import AddedFile
from kraftlog.tables.reports import JUDGED
from kraftlog.tables.spec import EPOCHS, LINEAGES, REPLAY_FAULTS, REPLICAS, TableSpec, state_tables

_PER_RUN = ("replicas", "epochs", "replay_faults", "lineages")
"""`lineages` comes last: the next run trusts what it says of `partitions`."""


def materialize(run: Run) -> Told | None:
    """Write `replicas`, `epochs`, `restorable` and the history tables, once per run; what that has
    told of the shared history, for its judgement. Where only that is missing, it is told again.
    """
    derive(run, (restorable_states,), lambda: run)
    if not run.lacks(*state_tables(), *_PER_RUN, JUDGED.name):
        return None
    lake, number, quorum, found = run.lake, run.number, run.quorum, run.lineages
    since = grown_from(lake, found[0], "partitions") if run.lacks("partitions") else None
    since, before = goes_on_from(lake, since, quorum.thresholds)
    told = None if since is not None and before is None else _to_be_told(run)
    if told is not None and before is not None:
        told.go_on(before)
    goes_on = told is not None and before is not None
    states = States(lake, run.run_id, run.start_spark, told, since, _held(told))
    states.fold(found)

    def commit(spec: TableSpec) -> int:
        is_kept = goes_on or (spec.name == "partitions" and states.grown_from is not None)
        replaces = _is_told_anew if is_kept else None
        added = states.written[spec.name]
        return lake.commit(spec, added, number, replaces, overwrite=not is_kept)

    side_by_side(commit, state_tables().values())
    follows = lineage_of(quorum, found)
    replicas = [{**row, "lineage": follows[row["replica"]]} for row in replica_rows(quorum)]
    if states.grown_from is not None:
        again = None if goes_on else PARTITION_TYPES
        states.written[REPLAY_FAULTS.name] += _told_before(lake, run.run_id, again)
    lake.commit(REPLAY_FAULTS, states.written[REPLAY_FAULTS.name], number)
    for spec, rows in (
        (REPLICAS, replicas),
        (EPOCHS, epoch_rows(quorum)),
        (LINEAGES, lineage_rows(found)),
    ):
        lake.write(spec, of_run(spec, rows, run.run_id), number)
    return states.told


def _to_be_told(run: Run) -> Told | None:
    """What the audit will ask of the shared history, where the lake holds all of it, in one
    piece.
    """
    parts = stretches(run.lineages[0])
    if len(parts) != 1 or not run.records.tells(run.quorum.chain):
        return None
    return to_be_told(run.quorum, parts[0], run.records)


def _held(told: Told | None) -> range:
    """The offsets at which the lake holds every table of the shared history."""
    if told is None or told.before is None:
        return range(0)
    return range(told.stretch.start_offset + 1, told.before.end_offset + 1)


def _is_told_anew(values: Row) -> bool:
    """Whether a file of `partitions` is told anew when the shared lineage has grown: all but the
    versions of it that had ended.
    """
    return bool(values["lineage"] != MAIN or values["is_current"])


def _told_before(lake: Lake, run_id: str, types: Collection[str] | None) -> list[AddedFile]:
    """The faults of the shared lineage that were not met again: of some types of records, or all."""
    last = run_numbered(lake, lake.run_number(REPLAY_FAULTS.name))
    if last is None:
        return []
    is_told = (ds.field("run_id") == last["run_id"]) & (ds.field("lineage") == MAIN)
    if types is not None:
        is_told &= ds.field("type").isin(sorted(types))
    kept = lake.rows(REPLAY_FAULTS.name, chosen=is_told)
    again = kept.set_column(0, kept.schema.field(0), pa.repeat(pa.scalar(run_id), kept.num_rows))
    return [added for _, added in write_faults(lake, again)]
