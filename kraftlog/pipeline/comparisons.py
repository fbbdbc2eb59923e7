"""Snapshots held against the history that leads up to them, for logs too long to replay record by
record: the small tables on the driver, the partitions where they are folded.

In: history rows and a snapshot's records. Out: what differs, and in the end the rows of the table
`snapshot_comparisons` and the evidence that the audit makes of them. Source: R25, R45.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from blake3 import blake3

from kraftlog.audit.image_words import images_differ
from kraftlog.audit.replays import EQUALS
from kraftlog.pipeline.grown import batch_ids
from kraftlog.pipeline.standing import CHANGE, PUT, holding_at, no_rows
from kraftlog.quorum.content import UNKNOWN
from kraftlog.quorum.evidence import Difference, ImageComparison, QuorumEvidence, StateEvidence
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.snapshots import SnapshotView
from kraftlog.state.fold import fold_partitions
from kraftlog.state.history import SHOWN, VALIDITY, history_tables
from kraftlog.state.outline import BASE_TOPIC, Outline, TopicEvent
from kraftlog.state.state import State

Row = dict[str, Any]
_PARTITIONS = SHOWN["partitions"]
_KEY = ("topic_id", "partition_id")
_LIMIT = 1000
"""So many partitions that differ are told of each share."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A distinct snapshot that is held against the history: its end, and its batches; pickles."""

    number: int
    end_offset: int
    ids: pa.Array

    @property
    def digest(self) -> str:
        """A hash over the ids of its batches."""
        return blake3("\n".join(self.ids.to_pylist()).encode()).hexdigest(length=16)


@dataclass(slots=True)
class Comparisons:
    """The snapshots of a quorum that are judged in a run, each content once.

    `expected` and `found` are the states of the small tables, by number, and of those partitions
    that differ; `judged_before` the verdicts of an earlier run, by digest.
    """

    snapshots: list[SnapshotView]
    judged: tuple[Judged, ...]
    judged_before: dict[str, Row] = field(default_factory=dict)
    expected: dict[int, State] = field(default_factory=dict)
    found: dict[int, State] = field(default_factory=dict)
    basis: dict[int, str] = field(default_factory=dict)

    def within(self, start_offset: int, end_offset: int) -> tuple[Judged, ...]:
        """Those that end in (start, end], by their ends."""
        inside = [one for one in self.judged if start_offset < one.end_offset <= end_offset]
        return tuple(sorted(inside, key=lambda one: one.end_offset))

    def take(self, differing: Row) -> None:
        """Take in what one share found: the partitions of one snapshot that differ."""
        for state, side in ((self.expected, "expected"), (self.found, "found")):
            for topic_id, partition_id, value in differing[side]:
                if differing["number"] in state:
                    state[differing["number"]].set("partitions", (topic_id, partition_id), value)

    def rows(self) -> Iterator[Row]:
        """The rows of `snapshot_comparisons`: one per file whose content was judged."""
        verdicts = dict(self.judged_before)
        numbers = {one.number: one for one in self.judged}
        for number, expected in self.expected.items():
            told, count = images_differ(expected, self.found[number])
            verdicts[numbers[number].digest] = {
                "basis": self.basis[number],
                "difference_count": count,
                "differences": json.dumps([asdict(one) for one in told], sort_keys=True),
            }
        for snapshot in self.snapshots:
            digest = Judged(0, snapshot.end_offset, batch_ids(snapshot)).digest
            if digest in verdicts:
                yield {
                    "replica": snapshot.replica,
                    "path": snapshot.path,
                    "end_offset": snapshot.end_offset,
                    "epoch": snapshot.epoch,
                    "digest": digest,
                    **verdicts[digest],
                }


def comparisons_of(quorum: Quorum, before: Iterable[Row]) -> Comparisons:
    """The snapshots that can be judged: whole, and not contradicted by the logs' own offsets."""
    snapshots = quorum.credible_snapshots
    distinct: dict[str, Judged] = {}
    for one in snapshots:
        judged = Judged(len(distinct), one.end_offset, batch_ids(one))
        distinct.setdefault(judged.digest, judged)
    names = ("basis", "difference_count", "differences")
    known = {row["digest"]: {name: row[name] for name in names} for row in before}
    known = {digest: row for digest, row in known.items() if digest in distinct}
    return Comparisons(snapshots, tuple(distinct.values()), known)


def kind_of(judged: Judged) -> str:
    """How the records of a snapshot are called where they lie beside those of the log."""
    return f"snapshot{judged.number}"


def differing_partitions(rows: pa.Table, puts: pa.Table, judged: Judged) -> Row | None:
    """Some partitions' history against their records in a snapshot; None where they agree."""
    expected = _values(holding_at(rows, judged.end_offset))
    found = _values(_folded(puts, judged.end_offset))
    if expected.num_rows == found.num_rows and expected.equals(found):
        return None
    before, after = _by_key(expected), _by_key(found)
    keys = [key for key in {**before, **after} if before.get(key) != after.get(key)][:_LIMIT]
    if not keys:
        return None
    return {
        "number": judged.number,
        "expected": [[*key, before.get(key)] for key in keys],
        "found": [[*key, after.get(key)] for key in keys],
    }


def _folded(puts: pa.Table, offset: int) -> pa.Table:
    """A snapshot's partitions as history rows, its topics taken as given."""
    payload = pa.chunked_array(puts.column(PUT.lower())).combine_chunks()
    topics = pc.unique(pc.struct_field(payload, "topic_id")).to_pylist()
    outline = Outline(offset, 0, offset)
    outline.topics = [TopicEvent(BASE_TOPIC, 0, one, True) for one in topics if one is not None]
    return fold_partitions(outline, puts, no_rows(PUT), no_rows(CHANGE)).rows


def _values(rows: pa.Table) -> pa.Table:
    """What the versions say, sorted by partition, without who said it when."""
    names = {one.name for one in VALIDITY}
    fields = [one for one in history_tables()["partitions"].schema if one.name not in names]
    return (
        rows.select([one.name for one in fields])
        .cast(pa.schema(fields))
        .sort_by([(name, "ascending") for name in _KEY])
        .combine_chunks()
    )


def _by_key(values: pa.Table) -> dict[tuple[str, int], Row]:
    """Each partition's value under Kafka's own field names, as states hold it."""
    columns = {_PARTITIONS.column_name(one): one.json for one in _PARTITIONS.fields}
    return {
        (row["topic_id"], row["partition_id"]): {columns[name]: row[name] for name in row}
        for row in values.to_pylist()
    }


def with_comparisons(evidence: QuorumEvidence, rows: Iterable[Row]) -> QuorumEvidence:
    """The evidence of a large quorum, with what the fold found of its snapshots; those that it
    could not judge are named as skipped.
    """
    if evidence.state is None or evidence.state.judged:
        return evidence
    newer = next(
        (one.text for each in evidence.contents for one in each.issues if one.kind == UNKNOWN), None
    )
    rows = [row for row in rows if newer is None or not row["difference_count"]]
    found = tuple(
        ImageComparison(
            EQUALS,
            row["replica"],
            row["path"],
            row["end_offset"],
            row["epoch"],
            row["replica"],
            row["basis"],
            tuple(_difference(one) for one in json.loads(row["differences"])),
            row["difference_count"],
        )
        for row in rows
    )
    skipped = evidence.state.skipped
    if found or newer:
        others = tuple(one for one in skipped if one[0] != EQUALS)
        skipped = (*others, *_unjudged(Quorum(evidence), {one.path for one in found}, newer))
    state = StateEvidence(found, (), skipped, (EQUALS,) if found else ())
    return replace(evidence, state=state)


def _unjudged(
    quorum: Quorum, judged: set[str], newer: str | None
) -> Iterator[tuple[str, str, str]]:
    """The snapshots that hold a state and were held against nothing, with the reason."""
    for one in quorum.own_snapshots:
        if one.end_offset and one.path not in judged:
            why = quorum.contradiction(one) or "the history at hand does not lead up to its end"
            why = why if one.is_complete else "it is not complete"
            why = f"in the quorum's files {newer}" if newer and one.is_complete else why
            yield EQUALS, one.replica, f"{one.evidence.name}: {why}"


def _difference(row: Row) -> Difference:
    return Difference(**{**row, "fields": tuple(row["fields"])})


__all__ = ["Comparisons", "Judged", "comparisons_of", "differing_partitions", "with_comparisons"]
