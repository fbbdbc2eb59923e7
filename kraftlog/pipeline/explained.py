"""The moments of a history from a lake's tables: each version of an object that comes or goes, and
of a range of offsets each record.

In: a lake and a subject. Out: the `Moment`s that `explain` would read from the files, and what the
newest run knew of leaders and committed offsets. Rows are filtered where they are read. A version's
end names no record: where several types could be meant, the records at that offset tell which; of
what a transaction made visible, when it was written.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import or_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from kraftlog.decode.tabular import LARGEST_MS
from kraftlog.errors import LakeError
from kraftlog.explain.moments import SNAPSHOT, Moment, in_order
from kraftlog.explain.subject import BROKER, TOPIC, Subject
from kraftlog.explain.timeline import KnownHistory
from kraftlog.log import names
from kraftlog.pipeline.run import newest_run
from kraftlog.quorum.holdings import Range, untold
from kraftlog.quorum.lineages import MAIN
from kraftlog.relations import Row
from kraftlog.state.arrow_events import in_offset_order
from kraftlog.state.declare import Data, Delete, Key, Put, Replace, StateTable
from kraftlog.state.history import SHOWN, VALIDITY, HeldVersions
from kraftlog.state.state import Change
from kraftlog.state.tables import TABLE, TABLES, TRANSACTION_TYPES
from kraftlog.tables.lake import Lake
from kraftlog.tables.reports import FINDINGS

REMOVAL = "(a removal)"


def _removed_by(table: StateTable) -> str | None:
    """The type of record that removes its rows; None where it may be one of several."""
    found = {
        one.record
        for one in table.operations
        if isinstance(one, Delete | Replace) or (isinstance(one, Put) and one.deletes is not None)
    }
    for other in TABLES:
        if table.name in [cascade.table for cascade in other.on_delete]:
            found |= {one.record for one in other.operations if isinstance(one, Delete)}
    return found.pop() if len(found) == 1 else None


def known_in(lake: Lake) -> KnownHistory:
    """What the newest run knew of leaders, and of what is committed.

    Raises LakeError where it has not been materialized yet."""
    newest = newest_run(lake)
    if lake.run_number("restorable") < newest["number"]:
        raise LakeError(
            f"{lake.root}: the newest run has no states yet; kraftlog run, or the materialize job, comes first"
        )
    run_id = newest["run_id"]
    bound_names = ["committed_lower", "committed_upper", "shown_end_offset"]
    names = ["replica", "log_start_offset", "log_end_offset", *bound_names]
    replicas = lake.rows_of_run("replicas", run_id, names)
    own = [row for row in replicas if row["committed_lower"] is not None]
    labels = {row["replica"] for row in own}
    foreign = frozenset(row["replica"] for row in replicas) - labels
    epochs = lake.rows_of_run("epochs", run_id, ["replica", "batch_leader_epoch", "leader_id"])
    leaders = {
        row["batch_leader_epoch"]: row["leader_id"]
        for row in epochs
        if row["leader_id"] is not None and row["replica"] in labels
    }
    bounds = ((row["committed_lower"], row["committed_upper"]) for row in own)
    lower, upper = next(bounds, (0, None))
    unknown = _untold(lake, run_id, foreign)
    proven = _never_committed(lake, run_id)
    end = max((row["log_end_offset"] or 0 for row in own), default=0)
    shown = tuple((row["log_start_offset"] or 0, row["shown_end_offset"]) for row in own)
    return KnownHistory(leaders, lower, upper, proven, foreign, unknown, end, shown)


def faults_in(lake: Lake) -> list[Row]:
    """What could not be read of the files of a lake."""
    names = ["path", "fault", "position", "detail"]
    rows: list[Row] = lake.rows("faults", names).to_pylist() if lake.exists("faults") else []
    return sorted(rows, key=lambda row: (row["path"], row["position"]))


def _untold(lake: Lake, run_id: str, foreign: frozenset[str]) -> tuple[Range, ...]:
    """Records of which nothing tells what they changed, by what can be restored of the cluster's own
    replicas.
    """
    names = ["replica", "start_offset", "end_offset", "source"]
    rows = lake.rows_of_run("restorable", run_id, names)
    own = [row for row in rows if row["replica"] not in foreign]
    known = [(row["start_offset"], row["end_offset"]) for row in own if row["source"] is not None]
    return untold(known, max((row["end_offset"] for row in own), default=-1))


def _never_committed(lake: Lake, run_id: str) -> frozenset[str]:
    """The replicas whose tails the audit has proven never to have been committed."""
    rows = lake.told_rows(FINDINGS, run_id, ["check", "replica", "evidence"])
    return frozenset(
        row["replica"]
        for row in rows
        if row["check"] == "uncommitted_tail_diverged"
        and row["evidence"].get("is_proven_uncommitted")
    )


def moments_in(lake: Lake, subject: Subject) -> Iterator[Moment]:
    """All moments that the subject's tables tell, lineage by lineage."""
    run_id = newest_run(lake)["run_id"]
    columns = ["lineage", "fork_offset", "start_offset", "end_offset"]
    stretches = lake.rows_of_run("lineages", run_id, columns)
    forks = {row["lineage"]: row["fork_offset"] for row in stretches}
    epochs = lake.rows_of_run("epochs", run_id)
    # Where a hole in the log ends what is known, every version ends, and nothing was removed.
    holes = {(row["lineage"], row["end_offset"] + 1) for row in stretches}
    is_range = subject.kind == "offsets"
    asked = replace(subject, end=_seen_until(lake, subject.end)) if is_range else subject
    found = [
        one
        for one in _steps(lake, asked)
        if one.change.after is not None or (one.lineage, one.offset) not in holes
    ]
    if is_range:
        chosen = (ds.field("offset") >= subject.first) & (ds.field("offset") <= subject.end - 1)
    else:
        unclear = sorted({one.told_by for one in found if one.is_unclear})
        chosen = ds.field("offset").isin(pa.array(unclear, pa.int64()))
    records = _Records(lake, run_id, chosen)
    for lineage in sorted(forks, key=lambda name: (name != MAIN, name)):
        at: dict[tuple[int, int], list[_Step]] = {}
        for one in found:
            if one.lineage == lineage and one.is_after(forks[lineage]):
                at.setdefault(one.place, []).append(one)
        told = [_moment(lineage, steps) for _, steps in sorted(at.items())]
        told = [
            replace(one, batch_leader_epoch=_epoch_at(epochs, one, frozenset(forks)))
            for one in told
        ]
        if is_range or any(one.is_unclear for steps in at.values() for one in steps):
            known = [
                (row["start_offset"], row["end_offset"])
                for row in stretches
                if row["lineage"] == lineage
            ]
            every = list(records.moments(lineage, forks, known))
            written = {one.offset: one for one in every}
            told = [_as_written(one, written.get(one.offset)) for one in told]
            told = _with_records(told, every) if is_range else told
        yield from told


def _as_written(one: Moment, record: Moment | None) -> Moment:
    """A moment with the time and the type of the record that made it, where that is at hand: a
    removal's is not where a transaction's end made it visible.
    """
    if record is None or one.record_type == SNAPSHOT or record.record_type in TRANSACTION_TYPES:
        return one
    return replace(one, timestamp=record.timestamp, record_type=record.record_type)


def _with_records(told: list[Moment], every: list[Moment]) -> list[Moment]:
    """What versions tell, and the records that change nothing, as one log."""
    changing = {one.offset for one in told}
    return in_order([*told, *(one for one in every if one.offset not in changing)])


def _seen_until(lake: Lake, end: int) -> int:
    """Up to where it is seen what the records below an offset change: up to the end of a transaction
    that is open there.
    """
    if not lake.exists("records"):
        return end
    is_marker = ds.field("type").isin(sorted(TRANSACTION_TYPES))
    rows = lake.rows("records", ["offset", "type"], is_marker).sort_by("offset").to_pylist()
    before = [row["type"] for row in rows if row["offset"] < end]
    after = [row["offset"] for row in rows if row["offset"] >= end]
    is_open = after and before and before[-1] == "BEGIN_TRANSACTION_RECORD"
    return after[0] + 1 if is_open else end


@dataclass(frozen=True)
class _Records:
    """The records at some offsets, each as a moment that changes nothing."""

    lake: Lake
    run_id: str
    chosen: ds.Expression

    def moments(
        self, lineage: str, forks: Mapping[str, int], known: Sequence[Range]
    ) -> Iterator[Moment]:
        """Those of a lineage, where its state is known."""
        chosen = pc.is_in(self._held.column("batch_id"), value_set=self._ids(lineage, forks))
        rows = self._held.filter(chosen)
        kinds = pc.unique(rows.column("type")).to_pylist()
        parts = [rows.filter(pc.equal(rows.column("type"), kind)) for kind in kinds]
        for origin, _, data in in_offset_order((), parts):
            offset = origin.offset or 0
            is_own = offset >= forks[lineage] and any(low <= offset < end for low, end in known)
            if is_own:
                yield Moment(
                    lineage, offset, origin.timestamp, origin.batch_leader_epoch, origin.type,
                    (), offset, data,
                )  # fmt: skip

    @cached_property
    def _held(self) -> pa.Table:
        """The records with these offsets, whoever holds them; of the control records also what they
        say, as leaders are told by it.
        """
        tables = [
            self.lake.rows(name, columns, self.chosen)
            for name, columns in (("records", _ENVELOPE), ("control_records", None))
            if self.lake.exists(name)
        ]
        return pa.concat_tables(tables, promote_options="default")

    @cached_property
    def _batches(self) -> pa.Table:
        """The batches of logs with these records: who holds which."""
        inside = ds.field("batch_id").isin(pc.unique(self._held.column("batch_id")))
        in_logs = (ds.field("file_kind") == names.LOG) & ds.field("crc_valid")
        columns = ["replica", "batch_id", "base_offset"]
        return self.lake.rows("batches", columns, inside & in_logs)

    @cached_property
    def _lineages(self) -> dict[str, str]:
        """Which lineage tells each replica."""
        rows = self.lake.rows_of_run("replicas", self.run_id, ["replica", "lineage"])
        return {row["replica"]: row["lineage"] for row in rows}

    def _ids(self, lineage: str, forks: Mapping[str, int]) -> pa.Array:
        """The batches of a lineage: those of the replicas that it tells; the shared one's also what
        the others hold below their forks.
        """
        found = []
        for row in self._batches.to_pylist():
            own = self._lineages.get(row["replica"])
            is_shared = lineage == MAIN and row["base_offset"] < forks.get(own or MAIN, 0)
            if own == lineage or is_shared:
                found.append(row["batch_id"])
        return pa.array(found, pa.string())


_ENVELOPE = ["batch_id", "offset", "timestamp", "batch_leader_epoch", "type", "record_version"]


def _epoch_at(epochs: list[Row], one: Moment, forked: frozenset[str]) -> int:
    """The epoch of a record's batch by the logs of its lineage; that of the version it began, where
    no log at hand reaches back.
    """
    for row in epochs:
        own = one.lineage if one.lineage != MAIN else row["replica"]
        inside = row["start_offset"] <= one.offset < row["end_offset"]
        if inside and row["replica"] == own and (own == one.lineage or own not in forked):
            return int(row["batch_leader_epoch"])
    return one.batch_leader_epoch


@dataclass(frozen=True, slots=True)
class _Step:
    """One change of one object. `record_offset` is None for what stands in a base snapshot."""

    lineage: str
    offset: int
    record_offset: int | None
    timestamp: int
    epoch: int
    record_type: str | None
    change: Change

    @property
    def place(self) -> tuple[int, int]:
        """From where on it is seen, and the record that made it."""
        return self.offset, -1 if self.record_offset is None else self.record_offset

    @property
    def told_by(self) -> int:
        """The offset of the record that tells what this does not."""
        return self.offset - 1 if self.record_offset is None else self.record_offset

    @property
    def is_unclear(self) -> bool:
        """Whether its record's type is not known, or when it was written, within a transaction."""
        return self.record_type is None or self.record_offset not in (None, self.offset - 1)

    def is_after(self, fork: int) -> bool:
        """Whether it is not of the shared lineage, below a fork: what the fork's base snapshot holds
        stands at the fork itself.
        """
        return self.offset > fork or (self.offset == fork and self.record_offset is None)


def _moment(lineage: str, steps: list[_Step]) -> Moment:
    told = next((one for one in steps if one.record_type is not None), steps[0])
    is_base = told.record_offset is None and told.record_type is not None
    return Moment(
        lineage,
        told.offset if told.record_offset is None else told.record_offset,
        told.timestamp,
        told.epoch,
        SNAPSHOT if is_base else told.record_type or REMOVAL,
        tuple(one.change for one in steps),
        told.offset - 1,
    )


def _steps(lake: Lake, subject: Subject) -> Iterator[_Step]:
    """The changes of every table that the subject lives in, topics first."""
    ids: set[str] = set()
    for table in sorted(subject.tables or set(SHOWN), key=list(TABLE).index):
        if not lake.exists(table):
            continue
        for step in _of_table(lake, table, _filter(table, subject, ids)):
            if table == "topics":
                ids.add(step.change.key[0])
            yield step


def _filter(table: str, subject: Subject, ids: set[str]) -> ds.Expression | None:
    """What can be left out where rows are read; `Subject.of` decides in the end."""
    if subject.kind == "offsets":
        if table == "topics":
            return None  # their names are asked for
        end = min(subject.end, names.LAST_OFFSET)
        places = map(ds.field, ("valid_from_offset", "valid_to_offset"))
        return reduce(or_, ((one > subject.first) & (one <= end) for one in places))
    topic = subject.topic
    if topic is not None and table == "topics":
        return (ds.field("name") == topic) | (ds.field("topic_id") == topic)
    if topic is not None and table == "partitions":
        return ds.field("topic_id").isin(pa.array(sorted(ids), pa.string()))
    if table == "configs":
        kind = {"topic": TOPIC, "broker": BROKER}.get(subject.kind, subject.number)
        return (ds.field("resource_type") == kind) & (ds.field("resource_name") == subject.name)
    return None


def _of_table(lake: Lake, table: str, chosen: ds.Expression | None) -> Iterator[_Step]:
    rows = lake.rows(table, chosen=chosen)
    when = rows.select(["lineage", *(one.name for one in VALIDITY)]).to_pylist()
    versions: dict[tuple[str, str, Key], list[tuple[Row, Data]]] = {}
    for row, one in zip(when, HeldVersions(table, rows).objects, strict=True):
        key = row["lineage"], one.table, one.key
        versions.setdefault(key, []).append((row, one.value))
    for (lineage, name, key), held in versions.items():
        held.sort(key=lambda pair: pair[0]["valid_from_offset"])
        yield from _of_object(name, lineage, key, held)


def _of_object(table: str, lineage: str, key: Key, held: list[tuple[Row, Data]]) -> Iterator[_Step]:
    for index, (row, value) in enumerate(held):
        before = held[index - 1] if index else None
        follows = before is not None and before[0]["valid_to_offset"] == row["valid_from_offset"]
        yield _Step(
            lineage,
            row["valid_from_offset"],
            row["record_offset"],
            _ms(row["valid_from"]),
            row["batch_leader_epoch"],
            row["record_type"],
            Change(table, key, before[1] if before and follows else None, value),
        )
        end = row["valid_to_offset"]
        after = held[index + 1][0]["valid_from_offset"] if index + 1 < len(held) else None
        if end is not None and end != after:
            gone = Change(table, key, value, None)
            record, epoch = _removed_by(TABLE[table]), row["batch_leader_epoch"]
            yield _Step(lineage, end, end - 1, _ms(row["valid_to"]), epoch, record, gone)


def _ms(time: Any) -> int:
    """As `history.milliseconds`: a time that the column could not hold is beyond it again."""
    return LARGEST_MS + 1 if time is None else int(time.timestamp() * 1000)
