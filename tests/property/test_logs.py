"""Logs side by side, held in memory: what columns say of them must be what a walk through their
batches, one offset at a time, says.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog.log.batch import HEADER_SIZE, MIN_RECORD_SIZE
from kraftlog.quorum.chain import whole_log
from kraftlog.quorum.divergence import batches_to_describe, compare
from kraftlog.quorum.epochs import EpochEnd, offset_for_leader_epoch, vector_of
from kraftlog.quorum.evidence import (
    UNREMARKABLE,
    BatchColumns,
    QuorumEvidence,
    ReplicaEvidence,
    SegmentEvidence,
    SideFile,
)
from kraftlog.quorum.holdings import Held
from kraftlog.quorum.lineages import MAIN, lineage_of, lineages, stretches
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum

RECORD = MIN_RECORD_SIZE + 3


@dataclass(frozen=True)
class Placed:
    """A batch: its offsets [base, end), its epoch, and what tells it from others."""

    base: int
    end: int
    epoch: int
    content: int

    @property
    def size(self) -> int:
        return HEADER_SIZE + RECORD * (self.end - self.base)


def evidence(label: str, log: list[Placed]) -> ReplicaEvidence:
    """A replica whose log lies in two files; where offsets are missing, bytes are missing, too."""
    positions, files, at, reached = [], [], 0, log[0].base if log else 0
    middle = len(log) // 2
    for index, one in enumerate(log):
        at = 0 if index == middle else at
        at += 7 * (one.base != reached)
        positions.append(at)
        files.append(int(index >= middle > 0))
        at, reached = at + one.size, one.end
    longs = [[one.base for one in log], [one.end - 1 for one in log]]
    counts = [one.end - one.base for one in log]
    columns = BatchColumns(
        np.array(files, np.int32),
        np.array(positions, np.int64),
        np.array([one.size for one in log], np.int64),
        np.array(longs[0], np.int64),
        np.array(longs[1], np.int64),
        np.array(counts, np.int32),
        np.array([one.epoch for one in log], np.int32),
        np.zeros(len(log), np.int32),
        np.array([1000 * one.base for one in log], np.int64),
        np.array([1000 * one.base for one in log], np.int64),
        np.ones(len(log), np.bool_),
        np.array([(one.content, one.base) for one in log], np.uint64).reshape(-1, 2),
        np.full(len(log), UNREMARKABLE, np.int32),
    )
    cuts = [0, middle, len(log)] if middle else [0, len(log)]
    segments = tuple(
        SegmentEvidence(
            f"/{label}/{log[first].base}.log", f"{log[first].base}.log", log[first].base,
            sum(one.size for one in log[first:end]), 0, first, end, (),
        )
        for first, end in pairwise(cuts)
        if log
    )  # fmt: skip
    meta = SideFile(f"/{label}/meta.properties", 0, {"node.id": label, "cluster.id": "c"})
    return ReplicaEvidence(label, f"/{label}", False, columns, segments, (), meta_properties=meta)


def view(label: str, log: list[Placed]) -> LogView:
    found = evidence(label, log)
    return LogView(found, (), (found,))


def quorum(logs: dict[str, list[Placed]]) -> Quorum:
    return Quorum(QuorumEvidence(tuple(evidence(*one) for one in logs.items()), ()))


def voting(logs: dict[str, list[Placed]], nodes: list[int], voters: set[int]) -> Quorum:
    """The same as copies of these nodes, with these voters by the configuration of the first one."""
    named = ",".join(f"{one}@host:9093" for one in sorted(voters))
    settings = SideFile("/1/server.properties", 0, {"controller.quorum.voters": named})
    ids = [
        SideFile(f"/{label}/meta.properties", 0, {"node.id": str(node), "cluster.id": "c"})
        for label, node in zip(logs, nodes, strict=False)
    ]
    found = [
        replace(evidence(*one), meta_properties=own, server_properties=None if at else settings)
        for at, (one, own) in enumerate(zip(logs.items(), ids, strict=True))
    ]
    return Quorum(QuorumEvidence(tuple(found), ()))


@st.composite
def histories(draw: st.DrawFn, epochs: int = 4) -> list[Placed]:
    """A log without holes, of ascending epochs, each of which has two batches at least: one alone
    between two of another epoch counts as damaged.
    """
    found: list[Placed] = []
    at, epoch = draw(st.integers(0, 3)), 1
    for _ in range(draw(st.integers(0, 5))):
        for count in draw(st.lists(st.integers(1, 3), min_size=2, max_size=4)):
            found.append(Placed(at, at + count, epoch, 0))
            at += count
        epoch += draw(st.integers(0, epochs - 1))
    return found


@st.composite
def copies(draw: st.DrawFn, history: list[Placed]) -> list[Placed]:
    """A copy that lost batches, has others in their place, or cuts them another way, or holds half of one."""
    found = []
    for one in history[draw(st.integers(0, 3)) : len(history) - draw(st.integers(0, 3))]:
        what = draw(st.integers(0, 9))
        if what == 0:
            continue
        if what == 1:
            found.append(Placed(one.base, one.end, one.epoch, draw(st.integers(1, 2))))
        elif what in (2, 3, 4) and one.end - one.base > 1:
            middle = one.base + 1
            halves = [
                Placed(one.base, middle, one.epoch, 3), Placed(middle, one.end, one.epoch, 3),
            ]  # fmt: skip
            found += {2: halves, 3: halves[:1], 4: halves[1:]}[what]
        else:
            found.append(one)
    return found


PAIRS = histories().flatmap(lambda one: st.tuples(copies(one), copies(one)))
GROUPS = histories(1).flatmap(lambda one: st.lists(copies(one), min_size=1, max_size=4))
ALIKE = GROUPS.flatmap(lambda one: st.lists(st.sampled_from(one), min_size=1, max_size=6))
"""Copies of which several hold the same."""


@settings(deadline=None)
@given(histories().flatmap(copies))
def test_a_log_by_its_columns(log: list[Placed]) -> None:
    found = view("1", log)
    at = {offset: index for index, one in enumerate(log) for offset in range(one.base, one.end)}
    end = log[-1].end if log else None
    assert found.rows.tolist() == list(range(len(log)))
    assert (found.end_offset, found.last_epoch) == (end, log[-1].epoch if log else None)
    assert found.start_offset == (log[0].base if log else None)
    holes = [(a.end, b.base, k) for k, (a, b) in enumerate(pairwise(log), 1)
             if a.end != b.base]  # fmt: skip
    assert [(one.start, one.end, one.row) for one in found.holes] == holes
    for offset in range(-1, (end or 0) + 2):
        assert found.index_at(offset) == at.get(offset, -1)
        for until in range(offset + 1, (end or 0) + 2):
            assert found.covers(offset, until) == all(o in at for o in range(offset, until))
    starts = [
        (one.epoch, one.base, index, index == 0 or log[index - 1].end == one.base)
        for index, one in enumerate(log)
        if index == 0 or log[index - 1].epoch != one.epoch
    ]
    told = [(one.epoch, one.start_offset, one.row, one.certain) for one in found.epoch_starts]
    assert told == starts
    assert vector_of(found).entries == tuple(one[:2] for one in starts)
    for epoch in range(8):
        older = [one for one in log if one.epoch <= epoch]
        newer = [one for one in log if one.epoch > epoch]
        ends = newer[0].base if newer else end or 0
        answer = offset_for_leader_epoch(vector_of(found), epoch)
        if not log or epoch > log[-1].epoch:
            assert answer is None
        elif older:
            assert answer == EpochEnd(older[-1].epoch, ends)
        else:
            assert answer == EpochEnd(epoch, log[0].base)


def side_by_side(one: list[Placed], other: list[Placed]) -> list[tuple[Placed, Placed, int]]:
    """Each batch of a log that overlaps the other one, with the first batch there that it overlaps,
    and the first offset that both hold.
    """
    found = []
    for batch in one:
        overlaps = [two for two in other if two.base < batch.end and batch.base < two.end]
        found += [(batch, two, max(batch.base, two.base)) for two in overlaps[:1]]
    return found


@settings(deadline=None)
@given(PAIRS)
def test_two_logs_side_by_side(pair: tuple[list[Placed], list[Placed]]) -> None:
    one, other = pair
    found = compare(view("1", one), view("2", other))
    low = max(one[0].base, other[0].base) if one and other else 0
    high = min(one[-1].end, other[-1].end) if one and other else 0
    if low >= high:
        assert (found.common_end, found.runs, found.shares_offsets) == (None, (), False)
        return
    beside = side_by_side(one, other)
    differs = [mine != theirs for mine, theirs, _ in beside]
    runs: list[list[int]] = []
    for at, differ in enumerate(differs):
        if differ and at and differs[at - 1]:
            runs[-1].append(at)
        elif differ:
            runs.append([at])
    told = []
    for run in runs:
        pairs = [beside[at] for at in run]
        same = [start for mine, theirs, start in pairs if mine.epoch == theirs.epoch]
        told.append((
            pairs[0][2], pairs[-1][0].end, [one.index(mine) for mine, _, _ in pairs],
            [other.index(theirs) for _, theirs, _ in pairs], same[0] if same else None,
            run[-1] + 1 < len(beside),
        ))  # fmt: skip
    assert [
        (run.start, run.end, run.rows.tolist(), run.other_rows.tolist(), run.same_epoch_at,
         run.equal_after)
        for run in found.runs
    ] == told  # fmt: skip
    end: int | None = told[0][0] if told else high
    if not beside:
        end = None
    elif differs[0]:
        end = low
    assert found.common_end == end
    assert found.begins_alike == any(not one for one in differs[:1])
    columns = found.one.evidence.log, found.other.evidence.log
    described = {}
    for run in runs:
        for at in run:
            for side, log, batch in zip("12", (one, other), beside[at][:2], strict=True):
                row, of = log.index(batch), columns[int(side) - 1]
                segment = found.one if side == "1" else found.other
                path = segment.evidence.segments[int(of.file[row])].path
                described[batch.content, batch.base] = path, int(of.positions[row]), batch.size
    places = batches_to_describe([found])
    assert {(int(key[:16], 16), int(key[16:], 16)): one for key, one in places.items()} == described


@settings(deadline=None)
@given(
    ALIKE,
    st.lists(st.integers(1, 6), min_size=6, max_size=6),
    st.sets(st.integers(1, 6), max_size=3),
)
def test_what_copies_hold_together(
    group: list[list[Placed]], nodes: list[int], voters: set[int]
) -> None:
    """Of one epoch, so that no copy has a tail: at each offset the batch counts that a majority of the
    voters holds, with all copies of each, else that of most copies, of equals that of the first
    copy, and none that begins inside the one before it.
    """
    logs = {str(number): log for number, log in enumerate(group, 1)}
    found = voting(logs, nodes, voters)
    copies_of = {
        one: {label for label, node in zip(logs, nodes, strict=False) if node == one}
        for one in voters
    }

    def is_of_voters(labels: list[str]) -> bool:
        own = [one for one in copies_of.values() if one]
        return 2 * sum(one <= set(labels) for one in own) > len(voters) > 0

    end = max((log[-1].end for log in group if log), default=0)
    for offset in range(end + 1):
        groups: dict[Placed, list[str]] = {}
        for label, log in logs.items():
            for batch in log:
                if batch.base <= offset < batch.end:
                    groups.setdefault(batch, []).append(label)
        told = [sorted(one.label for one in ones) for ones in found.holding_at(offset).values()]
        assert sorted(told) == sorted(groups.values())
        most = max(groups.values(), key=lambda one: (is_of_voters(one), len(one)), default=[])
        others = -1 if is_of_voters(most) else sum(map(len, groups.values())) - len(most)
        majority = found.majority_at(offset)
        labels = None if majority is None else [one.label for one in majority]
        assert labels == (most if len(most) > others else None)
    expected: list[tuple[Placed, str]] = []
    holders = {batch: [label for label, log in logs.items() if batch in log]
               for log in group for batch in log}  # fmt: skip
    first = {batch: label for label, log in reversed(logs.items()) for batch in log}
    for base in sorted({batch.base for batch in holders}):
        here = [batch for batch in holders if batch.base == base]
        best = min(
            here, key=lambda one: (not is_of_voters(holders[one]), -len(holders[one]), first[one])
        )
        if not expected or base >= expected[-1][0].end:
            expected.append((best, first[best]))
    links = found.chain
    assert len(links) == len(expected)
    assert links.base.tolist() == [one.base for one, _ in expected]
    assert links.end.tolist() == [one.end for one, _ in expected]
    assert links.ids[:, 0].tolist() == [one.content for one, _ in expected]
    assert [links.logs[at].label for at in links.log] == [label for _, label in expected]
    rows = [logs[label].index(one) for one, label in expected]
    assert links.row.tolist() == rows


@settings(deadline=None)
@given(GROUPS)
def test_lineages_of_copies(group: list[list[Placed]]) -> None:
    """A copy that holds a batch which the shared history lacks has a lineage of its own."""
    logs = {str(number): log for number, log in enumerate(group, 1)}
    found = quorum(logs)
    shared = found.chain
    main = list(zip(shared.base.tolist(), shared.end.tolist(), shared.ids[:, 0].tolist(),
                    strict=True))  # fmt: skip
    told = lineages(found)
    assert told[0].name == MAIN
    own = {label: log for label, log in logs.items()
           if any((one.base, one.end, one.content) not in main for one in log)}  # fmt: skip
    assert [one.name for one in told[1:]] == list(own)
    assert lineage_of(found, told) == {one: one if one in own else MAIN for one in logs}
    for one in told[1:]:
        log = logs[one.name]
        fork = next(b.base for b in log if (b.base, b.end, b.content) not in main)
        before = [base for base, end, _ in main if end <= fork]
        joined = [end for _, end, _ in main if end <= fork][-1:] == [fork]
        after = [b.base for b in log if b.base >= fork]
        expected = (fork, before + after) if joined else (0, [b.base for b in log])
        assert (one.fork_offset, one.links.base.tolist()) == expected


@settings(deadline=None)
@given(histories().flatmap(copies))
def test_runs_of_a_log(log: list[Placed]) -> None:
    """The offsets that follow each other; without a snapshot only those from offset 0 on tell a
    state.
    """
    runs: list[list[int]] = []
    for one in log:
        if runs and runs[-1][1] == one.base:
            runs[-1][1] = one.end
        else:
            runs.append([one.base, one.end])
    found = quorum({"1": log})
    held = Held.by(found, found.logs[0])
    assert held.runs == [tuple(one) for one in runs]
    from_zero = runs[:1] if log and log[0].base == 0 else []
    assert held.ranges == [(0, end) for _, end in from_zero]
    assert held.end_offset == (log[-1].end if log else -1)
    assert held.base_for(3) is None
    paths = [segment.path for segment in found.replicas[0].segments]
    for start, end in held.runs:
        for first in range(start, end):
            for after in range(first, end + 1):
                files = {
                    found.replicas[0].log.file[at]
                    for at, one in enumerate(log)
                    if one.base < after and one.end > first and after > first
                }
                assert held.segments(first, after) == [("1", paths[at]) for at in sorted(files)]
    (lineage,) = lineages(found)
    told = [(one.base, one.start_offset, one.end_offset, one.is_last) for one in stretches(lineage)]
    assert told == [(None, 0, end, True) for _, end in from_zero]
    links = whole_log(found.logs[0])
    assert links.base.tolist() == [one.base for one in log]
    assert links.end.tolist() == [one.end for one in log]
    assert links.row.tolist() == list(range(len(log)))
    assert set(links.log.tolist()) <= {0}
