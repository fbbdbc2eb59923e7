"""Each ordered pair of replicas: how far two logs agree, and what the first is to the other.

In: a quorum. Out: rows of the table `divergences`. The epoch vectors say how far two logs can
agree, the batches' ids, which cover every byte, whether they do. The classes are those that the
audit's findings go by: one rule, told here pair by pair. Source: KAFKA-1211 (whole), KIP-595
(diverging epoch).
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from kraftlog.plain import offsets_are, offsets_text
from kraftlog.quorum.committed import committed_in
from kraftlog.quorum.divergence import Comparison, DifferingRun
from kraftlog.quorum.epochs import common_end, truncation_offset, vector_of
from kraftlog.quorum.logview import Hole, LogView
from kraftlog.quorum.model import Quorum
from kraftlog.relations import Row


class Kinship(StrEnum):
    """What the first log of a pair is to the other."""

    EQUAL = "equal"
    BEHIND = "behind"
    AHEAD = "ahead_committed"
    AHEAD_UNCOMMITTED = "ahead_uncommitted"
    UNCOMMITTED = "diverged_uncommitted"
    UNDECIDED = "diverged_undecided"
    COMMITTED = "diverged_committed"
    APART = "no_common_offsets"
    UNKNOWN = "unknown"


_WORST = (Kinship.COMMITTED, Kinship.UNDECIDED, Kinship.UNCOMMITTED)


class Pair(NamedTuple):
    """One ordered pair, its class, and why it is of that class."""

    comparison: Comparison
    kinship: Kinship
    reason: str


def tail_of_either(quorum: Quorum, comparison: Comparison, run: DifferingRun) -> str | None:
    """Whose uncommitted tail a run is, seen from one side or the other, or by a third copy; None where
    it is none.
    """
    seen = (
        side.one.label for side, one in _sides(quorum, comparison, run) if quorum.is_tail(side, one)
    )
    if run.equal_after or run.same_epoch_at is not None:
        return next(seen, None)
    labels = comparison.one.label, comparison.other.label
    left = (one for one in labels if quorum.tail_starts.get(one, run.start + 1) <= run.start)
    return next(seen, None) or next(left, None)


def is_second_history_of_either(quorum: Quorum, comparison: Comparison, run: DifferingRun) -> bool:
    """Whether one side's own voters had committed a run that the other side replaced."""
    return any(quorum.is_second_history(*one) for one in _sides(quorum, comparison, run))


def is_undecided(quorum: Quorum, comparison: Comparison, run: DifferingRun) -> bool:
    """Whether a run of what is committed, or of one epoch, is nobody's tail, and no majority holds
    it as the first log does.
    """
    return (
        (run.start < quorum.bounds.lower or run.same_epoch_at is not None)
        and comparison.one not in (quorum.majority_at(run.start) or ())
        and tail_of_either(quorum, comparison, run) is None
    )


def undecided_beside(quorum: Quorum, log: LogView) -> str | None:
    """The copy that a log differs from without that a majority decides; None where there is none."""
    found = (
        comparison.other.label
        for comparison in quorum.differing
        if comparison.one is log
        for run in comparison.runs
        if is_undecided(quorum, comparison, run)
    )
    return next(found, None)


def _sides(
    quorum: Quorum, comparison: Comparison, run: DifferingRun
) -> Iterator[tuple[Comparison, DifferingRun]]:
    """A difference as the first log tells it, then as the other does."""
    yield comparison, run
    other = quorum.comparisons[comparison.other.label, comparison.one.label]
    yield from ((other, one) for one in other.runs if one.start == run.start)


def ordered_pairs(quorum: Quorum) -> Iterator[Pair]:
    """Every ordered pair of copies of one cluster."""
    for comparison in quorum.comparisons.values():
        if comparison.runs:
            found = [_of_run(quorum, comparison, run) for run in comparison.runs]
            yield Pair(comparison, *min(found, key=lambda one: _WORST.index(one[0])))
        else:
            yield Pair(comparison, *_agreeing(quorum, comparison))


def _agreeing(quorum: Quorum, comparison: Comparison) -> tuple[Kinship, str]:
    """Of two logs that differ nowhere: the class, and why."""
    one, other = comparison.one, comparison.other
    mine, theirs = one.end_offset or 0, other.end_offset or 0
    unread = _unread(comparison)
    if unread is not None:
        return Kinship.UNKNOWN, unread
    if not comparison.shares_offsets:
        return Kinship.APART, f"no offset is in both: {_extent(one)}, {_extent(other)}"
    if mine == theirs and (lacking := _lacking(comparison)) is not None:
        label, hole = lacking
        return (
            Kinship.UNKNOWN,
            f"of {label} {offsets_are(hole.start, hole.end)} missing or damaged; what else both hold is equal",
        )
    if mine == theirs:
        return Kinship.EQUAL, f"both end at offset {mine}"
    longer = one if mine > theirs else other
    committed = committed_in(quorum, longer.label).offset
    if mine < theirs:
        known = max(0, min(theirs, committed) - mine)
        what = f"{known} of them known to be committed" if known else "none known to be committed"
        return Kinship.BEHIND, f"it lacks {offsets_text(mine, theirs)}, {what}"
    if mine <= committed:
        return Kinship.AHEAD, f"it holds more, and all of it is committed, below offset {committed}"
    return (
        Kinship.AHEAD_UNCOMMITTED,
        f"it holds more, and nothing proves that its records from offset {max(theirs, committed)} on are committed",
    )


def _unread(comparison: Comparison) -> str | None:
    """Why nothing is known of what two logs share, or of how far the shorter one goes; None where that
    is known.
    """
    logs = (comparison.one, comparison.other)
    least = min(log.end_offset or 0 for log in logs)
    for log in logs:
        is_short = log.unreadable_end and (log.end_offset or 0) == least
        if log.unread_segments and (is_short or not comparison.shares_offsets):
            one = log.unread_segments[-1]
            what = "the log" if log.unread else one.name
            return f"{what} of {log.label} cannot be read ({one.problem}), so that what it holds is not known"
    return None


def _lacking(comparison: Comparison) -> tuple[str, Hole] | None:
    """Whose log has the first hole among the offsets that both reach."""
    holes = (
        (hole.start, one.label, hole)
        for one in (comparison.one, comparison.other)
        for hole in one.holes
        if hole.end > comparison.common_start
    )
    found = min(holes, default=None)
    return None if found is None else found[1:]


def _extent(log: LogView) -> str:
    if log.is_empty:
        return f"{log.label} holds no batch"
    return f"{log.label} holds {int(log.base[0])} to {int(log.last[-1])}"


def _of_run(quorum: Quorum, comparison: Comparison, run: DifferingRun) -> tuple[Kinship, str]:
    """What one difference says of a pair: the class, and why."""
    if is_second_history_of_either(quorum, comparison, run):
        return Kinship.COMMITTED, "the voters of its own epoch had committed what differs"
    label = tail_of_either(quorum, comparison, run)
    if label is not None:
        if label in quorum.never_committed:
            return Kinship.UNCOMMITTED, f"a tail of {label} that was never committed"
        return Kinship.UNDECIDED, f"a tail of {label}; nothing proves that it was not committed"
    lower = quorum.bounds.lower
    if run.start < lower:
        return Kinship.COMMITTED, f"they differ below the committed bound {lower}"
    return Kinship.UNDECIDED, f"they differ above the committed bound {lower}"


def divergence_rows(quorum: Quorum) -> Iterator[Row]:
    """A row per ordered pair."""
    return (_row(one) for one in ordered_pairs(quorum))


def _row(pair: Pair) -> Row:
    comparison = pair.comparison
    one, other = comparison.one, comparison.other
    runs = comparison.runs
    first = runs[0] if runs else None
    columns, theirs = one.evidence.log, other.evidence.log
    begins = first.start if first else min(one.end_offset or 0, other.end_offset or 0)
    # Of logs without a common offset nothing was compared, so that nothing is the first one's only.
    own = one.rows[one.last >= begins] if comparison.shares_offsets else one.rows[:0]
    vectors = vector_of(one), vector_of(other)
    alike_until = comparison.common_end
    if alike_until is not None and (lacking := _lacking(comparison)) is not None:
        alike_until = max(comparison.common_start, min(alike_until, lacking[1].start))
    return {
        "replica": one.label,
        "other_replica": other.label,
        "kinship": str(pair.kinship),
        "reason": pair.reason,
        "common_start_offset": comparison.common_start if comparison.shares_offsets else None,
        "common_end_offset": alike_until,
        "epochs_agree_until": common_end(*vectors),
        "difference_count": len(runs),
        "difference_start_offset": first.start if first else None,
        "difference_end_offset": runs[-1].end if runs else None,
        "batch_leader_epoch": int(columns.epochs[first.rows[0]]) if first else None,
        "other_batch_leader_epoch": int(theirs.epochs[first.other_rows[0]]) if first else None,
        "differs_within_epoch": any(run.same_epoch_at is not None for run in runs),
        "agrees_again": any(run.equal_after for run in runs),
        "own_record_count": int(columns.record_counts[own].sum()),
        "own_size_bytes": int(columns.sizes[own].sum()),
        "truncation_offset": truncation_offset(*vectors),
    } | (_NOT_KNOWN if pair.kinship == Kinship.UNKNOWN else {})


_NOT_KNOWN: Row = dict.fromkeys(("own_record_count", "own_size_bytes", "truncation_offset"))
"""What follows from the ends of both logs."""
