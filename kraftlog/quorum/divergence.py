"""Two logs side by side: how far they agree, where they differ, and what Kafka would cut.

In: two `LogView`s. Out: frozen comparisons. All arithmetic is over columns, so that a pair of logs
with millions of batches costs fractions of a second. Source: KIP-630 "Consistent Log and
Snapshots", KAFKA-1211, KIP-595 (diverging epoch).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import permutations

import numpy as np

from kraftlog.quorum import epochs
from kraftlog.quorum.evidence import Flags, Ids, Longs
from kraftlog.quorum.logview import LogView

DESCRIBED_BATCHES = 256
"""So many batches of each side of a difference are put into words."""


RUN_LIMIT = 200
"""So many differences of one pair are told apart."""


@dataclass(frozen=True, slots=True)
class DifferingRun:
    """Consecutive batches that two logs hold differently: offsets [start, end) of the first log.

    `rows` and `other_rows` are the batches of both (of the whole logs), side by side by offset.
    `same_epoch_at` is the first offset where both batches are of one epoch. `equal_after` tells
    whether the logs agree again further on.
    """

    start: int
    end: int
    rows: Longs
    other_rows: Longs
    same_epoch_at: int | None
    equal_after: bool


@dataclass(frozen=True)
class Comparison:
    """One pair of logs. `common_end` is the end of the largest prefix on which they agree: where the
    later one begins, if they differ in the first offset that both hold. None where they share no
    offset.
    """

    one: LogView
    other: LogView
    common_end: int | None
    runs: tuple[DifferingRun, ...]

    @property
    def shares_offsets(self) -> bool:
        return self.common_end is not None

    @property
    def common_start(self) -> int:
        """Where the later one of two logs begins."""
        return max(int(self.one.base[0]), int(self.other.base[0]))

    @property
    def begins_alike(self) -> bool:
        """Whether both hold the same batch before they differ anywhere."""
        return self.common_end is not None and self.common_end > self.common_start

    @property
    def alike_until(self) -> int:
        """Where the last batch ends that both hold alike, below their first difference."""
        if self.common_end is None:
            return 0
        one, other = self.one, self.other
        mine = one.base[: int(np.searchsorted(one.base, self.common_end, "left"))]
        place = np.minimum(np.searchsorted(other.base, mine), len(other.base) - 1)
        alike = np.flatnonzero(other.base[place] == mine)
        return int(one.last[alike[-1]]) + 1 if len(alike) else 0

    @property
    def parts_by(self) -> int | None:
        """By which offset the logs have parted, where that is out of sight as the other one begins
        later: it holds something else from its first offset on, or goes on from the first one's end
        in a newer epoch. Where that epoch did not begin there, they part before. None elsewhere.
        """
        one, other = self.one, self.other
        if one.is_empty or other.is_empty or int(other.base[0]) <= int(one.base[0]):
            return None
        begins, epoch = int(other.base[0]), int(other.epochs[0])
        is_amid = epoch > (one.last_epoch or 0) and epoch not in other.elections
        goes_on = is_amid and begins == one.end_offset
        if not goes_on and (not self.shares_offsets or self.begins_alike):
            return None
        before = one.index_at(begins - 1)
        return int(one.base[before]) if is_amid and before >= 0 else begins


def compare(one: LogView, other: LogView, are_alike: bool = False) -> Comparison:
    """What two logs hold at the offsets that both of them hold; nothing is looked at where it is
    known that they differ nowhere, and both hold the first of them.
    """
    if one.is_empty or other.is_empty:
        return Comparison(one, other, None, ())
    low = max(int(one.base[0]), int(other.base[0]))
    high = min(int(one.last[-1]), int(other.last[-1])) + 1
    if low >= high:
        return Comparison(one, other, None, ())
    if are_alike and one.index_at(low) >= 0 and other.index_at(low) >= 0:
        return Comparison(one, other, high, ())
    mine, theirs = _slice(one, low, high), _slice(other, low, high)
    if len(mine) == len(theirs) and _equal(one, mine, other, theirs).all():
        return Comparison(one, other, high, ())
    mine, partner = _beside(one, mine, other)
    if not len(mine):
        return Comparison(one, other, None, ())
    differs = ~_equal(one, mine, other, partner)
    runs = tuple(_runs(one, other, mine, partner, differs))
    end = runs[0].start if runs else high
    return Comparison(one, other, low if differs[0] else end, runs)


@dataclass(frozen=True)
class Comparisons(Mapping[tuple[str, str], Comparison]):
    """Every ordered pair of some logs, each compared when it is asked for. Logs of one group
    differ nowhere; of the others equal logs are compared once, and logs that agree one way.
    """

    logs: Mapping[str, LogView]
    group: Mapping[str, int]
    _known: dict[tuple[str, str], Comparison] = field(default_factory=dict)

    @classmethod
    def of(cls, logs: Sequence[LogView]) -> "Comparisons":
        """All pairs of these."""
        return cls({one.label: one for one in logs}, alike_groups(logs))

    def without(self, labels: AbstractSet[str]) -> "Comparisons":
        """The pairs in which none of some logs is."""
        rest = {label: one for label, one in self.logs.items() if label not in labels}
        return replace(self, logs=rest)

    def __getitem__(self, pair: tuple[str, str]) -> Comparison:
        one, other = (self.logs[label] for label in pair)
        if one is other:
            raise KeyError(pair)
        if self.group[one.label] == self.group[other.label]:
            return compare(one, other, are_alike=True)
        names = one.batches, other.batches
        if names not in self._known:
            self._known[names] = found = compare(one, other)
            if not found.runs:
                self._known[names[::-1]] = found
        return replace(self._known[names], one=one, other=other)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return permutations(self.logs, 2)

    def __len__(self) -> int:
        return len(self.logs) * (len(self.logs) - 1)

    def differing(self) -> list[Comparison]:
        """The pairs that differ somewhere."""
        apart: dict[int, list[str]] = {}
        for label in self.logs:
            mine = self.group[label]
            if mine not in apart:
                apart[mine] = [other for other in self.logs if self.group[other] != mine]
        pairs = (self[label, other] for label in self.logs for other in apart[self.group[label]])
        return [one for one in pairs if one.runs]


def alike_groups(logs: Iterable[LogView]) -> dict[str, int]:
    """A number for each log: logs of one number hold the same batch wherever both hold an offset."""
    groups: list[_Alike] = []
    found = {}
    for log in logs:
        joined = (number for number, group in enumerate(groups) if group.takes(log))
        found[log.label] = number = next(joined, len(groups))
        if number == len(groups):
            groups.append(_Alike(log.base, log.last, log.evidence.log.ids[log.rows]))
    return found


@dataclass
class _Alike:
    """All batches of some logs that differ nowhere, by offset: none lies in another."""

    base: Longs
    last: Longs
    ids: Ids

    def takes(self, log: LogView) -> bool:
        """Whether a log differs from them nowhere, and so is one of them now."""
        mine, partner = _overlapping(log.base, log.last, self.base, self.last)
        ids = log.evidence.log.ids[log.rows]
        if not (ids[mine] == self.ids[partner]).all():
            return False
        if len(mine) < len(ids):
            fresh = np.ones(len(ids), np.bool_)
            fresh[mine] = False
            base = np.concatenate([self.base, log.base[fresh]])
            order = np.argsort(base, kind="stable")
            self.base = base[order]
            self.last = np.concatenate([self.last, log.last[fresh]])[order]
            self.ids = np.concatenate([self.ids, ids[fresh]])[order]
        return True


def _beside(one: LogView, mine: Longs, other: LogView) -> tuple[Longs, Longs]:
    """Those of some batches that the other log overlaps, and its first batch that does so."""
    held, partner = _overlapping(one.base[mine], one.last[mine], other.base, other.last)
    return mine[held], partner


def _overlapping(base: Longs, last: Longs, others: Longs, ends: Longs) -> tuple[Longs, Longs]:
    """The same of batches by their first and last offsets."""
    if not len(others):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    partner = np.searchsorted(others, base, "right") - 1
    partner += (partner < 0) | (ends[partner] < base)
    partner, fits = np.minimum(partner, len(others) - 1), partner < len(others)
    fits &= others[partner] <= last
    return np.flatnonzero(fits), partner[fits]


def _slice(log: LogView, low: int, high: int) -> Longs:
    """Indexes in `rows` of the batches that hold an offset of [low, high)."""
    first = max(int(np.searchsorted(log.base, low, "right")) - 1, 0)
    first += int(log.last[first]) < low
    return np.arange(first, np.searchsorted(log.base, high, "left"), dtype=np.int64)


def _equal(one: LogView, mine: Longs, other: LogView, theirs: Longs) -> Flags:
    ids, other_ids = one.evidence.log.ids, other.evidence.log.ids
    same: Flags = (ids[one.rows[mine]] == other_ids[other.rows[theirs]]).all(axis=1)
    return same


def _runs(
    one: LogView, other: LogView, mine: Longs, partner: Longs, differs: Flags
) -> list[DifferingRun]:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], differs.astype(np.int8), [0]])))
    found = []
    spans = list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))
    # Thousands of differences say no more than the first ones; the last may be a tail.
    for first, end in [*spans[: RUN_LIMIT - 1], *spans[RUN_LIMIT - 1 :][-1:]]:
        mine_run, partner_run = mine[first:end], partner[first:end]
        same = one.raw_epochs[mine_run] == other.raw_epochs[partner_run]
        same &= ~(one.odd_epochs[mine_run] | other.odd_epochs[partner_run])
        starts = np.maximum(one.base[mine_run], other.base[partner_run])
        at = int(starts[int(same.argmax())]) if same.any() else None
        found.append(
            DifferingRun(
                int(starts[0]),
                int(one.last[mine_run[-1]]) + 1,
                one.rows[mine_run],
                other.rows[partner_run],
                at,
                end < len(differs),
            )
        )
    return found


def is_uncommitted_tail(
    one: LogView, other: LogView, run: DifferingRun, own_snapshot_end: int
) -> bool:
    """Whether a run is a suffix of `one` that Kafka's own truncation repairs, as `checks.md`
    defines it.

    Its log ends in an older epoch than the other one, it is cut where the two begin to differ, and
    it reaches below no snapshot of its own replica. What it contradicts may be of an older epoch
    still: a leader that wrote nothing but its LeaderChange leaves such a tail.
    """
    if run.equal_after or run.start < own_snapshot_end or run.same_epoch_at is not None:
        return False
    if (one.last_epoch or 0) >= (other.last_epoch or 0):
        return False
    # Where the other log begins above the tail's start, the beginning cannot be seen there.
    return end_after_repair(one, other) == run.start or (other.start_offset or 0) >= run.start


def replacing_epoch(one: LogView, other: LogView, run: DifferingRun) -> int:
    """The epoch whose leader went on without a tail of `one`: the other log's first above the
    tail's.
    """
    epoch = one.epoch_at(run.start)
    return next(start.epoch for start in other.epoch_starts if start.epoch > epoch)


def end_after_repair(follower: LogView, leader: LogView) -> int:
    """Where the follower's log ends after Kafka has repaired it against this leader (the rule of
    KAFKA-1211 and KIP-595).
    """
    return epochs.truncation_offset(epochs.vector_of(follower), epochs.vector_of(leader))


Place = tuple[str, int, int]
"""Path, position and size in bytes of a batch."""


def batches_to_describe(comparisons: Iterable[Comparison]) -> dict[str, Place]:
    """The batches whose records a finding puts into words, by id: the first few of each
    difference, of both sides, each with a place where it lies.
    """
    found: dict[str, Place] = {}
    for comparison in comparisons:
        for run in comparison.runs[:DESCRIBED_BATCHES]:
            found |= _places(comparison.one, run.rows[:DESCRIBED_BATCHES])
            found |= _places(comparison.other, run.other_rows[:DESCRIBED_BATCHES])
    return found


def _places(log: LogView, rows: Longs) -> dict[str, Place]:
    columns, segments = log.evidence.log, log.evidence.segments
    return {
        columns.id_text(row): (
            segments[int(columns.file[row])].path,
            int(columns.positions[row]),
            int(columns.sizes[row]),
        )
        for row in rows.tolist()
    }
