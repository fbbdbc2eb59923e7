"""The newest image that the remaining copies give, and what is known of what they do not hold.

In: a quorum, with what the history of its state shows. Out: a `Recovered`: the image, from whose
files it comes, what is proven of it, what only other copies hold, and which snapshots contradict it. The copy whose log is furthest in the newest epoch counts, as in an
election; where all are damaged, each in another place, they are put together. The records tell the state: a snapshot, of whatever copy, is the base only where the log
does not lead up to the offset from 0 on, and then the oldest from which it does. What cannot be
committed is left out. Source: KIP-595, KIP-630 "Motivation", KAFKA-14205.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from kraftlog.audit.grouping import EQUALS, contradicted
from kraftlog.audit.images import images_apart, states_apart
from kraftlog.decode.redaction import Redactor
from kraftlog.errors import InputError, KraftlogError
from kraftlog.log.names import CHECKPOINT, LOG
from kraftlog.message.message_spec import ZERO_UUID
from kraftlog.plain import natural
from kraftlog.quorum.bounds import Bounds
from kraftlog.quorum.chain import Chain, whole_log
from kraftlog.quorum.committed import (
    Committed,
    committed_in,
    committed_together,
    contradicted_from,
)
from kraftlog.quorum.evidence import ImageComparison
from kraftlog.quorum.holdings import Held, content_key
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.rebuild import image_at, state_at, states_between
from kraftlog.quorum.snapshots import SnapshotView
from kraftlog.state.difference import differences
from kraftlog.state.image import Image
from kraftlog.state.known import Known
from kraftlog.state.standing import Topics
from kraftlog.state.state import Change

CLEAR = Redactor(None)
"""A checkpoint with masked credentials would be of no use."""


class Cause(StrEnum):
    """Why a copy's records are no part of the image, in a sentence."""

    ASKED = "They come after the offset that was asked for."
    SECOND_HISTORY = "The voters of this side had committed them, too."
    UNCOMMITTED = "They contradict the history above, and none of them was committed."
    UNPROVEN = "They contradict the history above, and may have been committed."
    REPLACED = "The leader of a newer epoch was elected without them, by the leader-epoch-checkpoint of a copy. They may have been committed later."
    DIFFERENT = "They differ from what is committed."
    CUT = "Only a snapshot holds them: Kafka makes one of what is committed alone, and the logs go on without them in a newer epoch."
    OPEN = "They begin with an open transaction: it has no end before the offset that counts here, so that nothing of it has an effect."
    AFTER = "They come after what can have been committed, or nothing at hand leads up to them."


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What one copy holds beyond the recovered image and is no part of it: offsets [start, end),
    why, and what they change; `why_unknown` says why that is not known. What the copy holds below
    `committed` is committed. `snapshot` is the path of one that alone holds them, as its name says.
    """

    replica: str
    start_offset: int
    end_offset: int
    cause: Cause
    changes: tuple[Change, ...]
    committed: int
    why_unknown: str | None = None
    snapshot: str | None = None


@dataclass(frozen=True, slots=True)
class OldBroker:
    """A registered broker, and the ids of its log directories: as registered, else by its disk."""

    id: int
    directories: tuple[str, ...]

    def files(self) -> Iterator[tuple[str, str]]:
        """(directory id, the file that gives an empty disk this id), below the new folder."""
        folder = f"brokers/{self.id}"
        for one in self.directories:
            inside = folder if len(self.directories) == 1 else f"{folder}/{one}"
            yield one, f"{inside}/meta.properties"


class LostEnd(NamedTuple):
    """What the log of a copy once held that no copy holds in the history of the image: offsets
    [start, end); `words` say how that is known.
    """

    replica: str
    start_offset: int
    end_offset: int
    words: str


class OtherState(NamedTuple):
    """A copy whose snapshot of the id that the image begins with tells another state, in so many places."""

    replica: str
    places: int


@dataclass(frozen=True, slots=True)
class Recovered:
    """The image that a new quorum begins with, and of which copies the logs are that it is read
    from: more than one only where none can be read alone. What of it is known to be committed, `proven` tells;
    an open transaction is left out from `open_since` on. `bounds` and `cluster_id` are the old
    quorum's, `brokers` are those that it knows. `apart` are the copies and snapshots of other
    quorums, in words. `unseen` are the copies that leave the history out of sight, and how far
    others confirm them; `lost_ends` is what files witness behind all that is held; `unread` are the
    segments and snapshots that could not be read, by copy, in words. The image begins with a snapshot
    of `snapshot_of`, at `snapshot_end`, or with the log; `other_states` are what other copies have in
    its place, `opposed` the snapshots of its history that hold another state than its records give.
    """

    image: Image
    logs_of: tuple[str, ...]
    snapshot_of: str | None
    proven: Committed
    bounds: Bounds
    left_out: tuple[LeftOut, ...]
    brokers: tuple[OldBroker, ...]
    cluster_id: str | None
    apart: tuple[str, ...] = ()
    unseen: tuple[tuple[str, int], ...] = ()
    lost_ends: tuple[LostEnd, ...] = ()
    unread: tuple[tuple[str, str], ...] = ()
    open_since: int | None = None
    snapshot_end: int = 0
    other_states: tuple[OtherState, ...] = ()
    opposed: tuple[ImageComparison, ...] = ()


def recovered(quorum: Quorum, at: int | None = None) -> Recovered:
    """The newest image, or that at an offset.

    Raises InputError where no copy gives any, or none that."""
    copies = [Held.by(quorum, log) for log in quorum.peers]
    best, offset = _best(quorum, at)
    is_one = best.links is not quorum.chain
    known = committed_in(quorum, best.label) if is_one else committed_together(quorum)
    image = image_at(best, offset, CLEAR, known.offset, from_oldest=True)
    open_since = image.open_since
    if open_since is not None:
        image = image_at(best, open_since, CLEAR, known.offset, from_oldest=True)
    names = [name for name, _ in quorum.cluster_ids.most_common(1)]
    base = next((one for one in best.snapshots if one.path == image.base), None)
    segments = best.segments(0 if base is None else base.end_offset, image.end_offset)
    return Recovered(
        image,
        tuple(dict.fromkeys(label for label, _ in segments)) or (best.label,),
        None if base is None else base.replica,
        known._replace(offset=min(known.offset, image.end_offset)),
        quorum.bounds,
        (*_left_out(best, copies, image, at, open_since), *_cut_off(quorum, image)),
        tuple(_brokers(quorum, image)),
        names[0] if names else None,
        tuple(_apart(quorum)),
        tuple(_unseen(quorum, image)),
        tuple(_lost_ends(quorum, image.end_offset)),
        tuple(_unread(quorum)),
        open_since,
        0 if base is None else base.end_offset,
        () if base is None else tuple(_other_states(quorum, base)),
        tuple(_opposed(quorum, image)),
    )


def _other_states(quorum: Quorum, base: SnapshotView) -> Iterator[OtherState]:
    """What the snapshots of the same id say otherwise; equal bytes say the same."""
    topics, end = Topics(), base.end_offset
    own = state_at(Held.alone(quorum, base), end, CLEAR, topics)
    for one in quorum.credible_snapshots:
        if one.id == base.id and content_key(one) != content_key(base):
            _, places = images_apart(own, state_at(Held.alone(quorum, one), end, CLEAR, topics))
            if places:
                yield OtherState(one.replica, places)


def _opposed(quorum: Quorum, image: Image) -> Iterator[ImageComparison]:
    """The snapshots of its history that hold another state than its records give."""
    for one in contradicted(quorum, EQUALS):
        if one.end_offset <= quorum.leaves(one.replica, image.end_offset):
            yield one


def _unseen(quorum: Quorum, image: Image) -> Iterator[tuple[str, int]]:
    """The copies that leave the history below where it is seen, or may do so."""
    for log in quorum.peers:
        if log.is_empty:
            continue  # What could not be read is told as that, and what holds nothing loses nothing.
        end = log.end_offset or 0
        pair = quorum.comparisons.get((log.label, image.replica))
        is_held = log.label == image.replica or (pair is not None and pair.alike_until >= end)
        confirmed = quorum.confirmed(log.label, end) if is_held else quorum.shown_end(log)
        if confirmed < quorum.leaves(log.label, end):
            yield log.label, confirmed


def _lost_ends(quorum: Quorum, end: int) -> Iterator[LostEnd]:
    """What the files beside each log witness that neither it nor the history of the image holds."""
    end = max([end, *quorum.chain.end[-1:].tolist()])
    for log in quorum.peers:
        start = max(end, log.end_offset or 0)
        for one in quorum.witnesses(log)[:1]:
            if one.end_offset > start:
                yield LostEnd(log.label, start, one.end_offset, one.words)


def _unread(quorum: Quorum) -> Iterator[tuple[str, str]]:
    """What may hold anything, for all that is known."""
    for log in sorted(quorum.peers, key=lambda one: natural(one.label)):
        for one in log.evidence.problems:
            if one.kind in (CHECKPOINT, LOG) and not one.vanished:
                yield log.label, one.words


def _apart(quorum: Quorum) -> Iterator[str]:
    """What is of another quorum."""
    for label in sorted(quorum.foreign, key=natural):
        yield f"replica {label}"
    for one in quorum.own_snapshots:
        if one.path in quorum.stray_snapshots:
            yield f"{one.evidence.name} of replica {one.replica}"


def _brokers(quorum: Quorum, image: Image) -> Iterator[OldBroker]:
    """The registered brokers."""
    on_disk = {
        one.node_id: directory
        for one in quorum.replicas
        if (directory := one.directory_id) is not None
    }
    for (broker,), value in sorted(image.state.rows("brokers").items()):
        known = [one for one in value.get("logDirs") or () if one not in _RESERVED]
        copied = on_disk.get(broker)
        yield OldBroker(broker, tuple(known or ([copied] if copied else [])))


_RESERVED = frozenset({ZERO_UUID, "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"})
"""Ids that stand for no directory: unassigned, lost, migrating (KIP-858)."""


def _best(quorum: Quorum, at: int | None) -> tuple[Held, int]:
    """The copy that gives the newest state, and its offset; of several that whose log leads up to
    it from furthest back. Where none gives what all of them do together, each batch counts that
    can be read in one of them.
    """
    copies = [Held.shared(quorum, log) for log in quorum.peers]
    limits = [_limit(quorum, one) for one in copies]
    together = Held.together(quorum)
    if together is not None:
        copies.append(together)
        limits.append(_possible(quorum, together.end_offset))
    found: list[tuple[tuple[int, int, bool, int], Held]] = []
    for one, limit in zip(copies, limits, strict=True):
        ranges = [(low, min(high, limit)) for low, high in one.ranges if low <= limit]
        if at is not None:
            ranges = [(at, at) for low, high in ranges if low <= at <= high]
        if ranges:
            offset = max(high for _, high in ranges)
            base = one.oldest_base_for(offset)
            begin = 0 if base is None else base.end_offset
            alone = one is not together
            found.append(((one.epoch_before(offset), offset, alone, -begin), one))
    if not found:
        what = "no state" if at is None else f"no state at {at}"
        raise InputError(
            f"{what} that the quorum can have committed can be rebuilt from these copies; kraftlog restorable says what each of them gives"
        )
    (_, offset, _, _), best = max(found, key=lambda one: one[0])
    return best, offset


def _limit(quorum: Quorum, held: Held) -> int:
    """How far a copy counts: as far as it surely tells the others' history, and to what can be
    committed; one that differs from what is committed, up to there.
    """
    end = quorum.confirmed(held.label, held.end_offset)
    differs = contradicted_from(quorum, held.label)
    end = min(end, differs) if differs < quorum.committed_below(held.label) else end
    return _possible(quorum, end)


def _possible(quorum: Quorum, end: int) -> int:
    """What of the offsets below an end can have been committed."""
    upper = quorum.bounds.upper
    return end if upper is None else min(end, upper)


def _left_out(
    best: Held, copies: Sequence[Held], image: Image, at: int | None, open_since: int | None
) -> Iterator[LeftOut]:
    """What the copies hold beyond the image of one of them, or instead of a part of it."""
    quorum = best.quorum
    for one in copies:
        start, end = _departs(one, best, image.end_offset)
        if end <= start:
            continue
        known = committed_in(quorum, one.label).offset
        cause = _cause(quorum, one.label, start, image, at, open_since)
        try:
            states = states_between(one, start, one.end_offset, CLEAR)
        except KraftlogError as error:
            yield LeftOut(one.label, start, end, cause, (), known, str(error))
        else:
            told = tuple(_changes(*states))
            if end < one.end_offset:  # it agrees again, and what follows is in the image
                told = tuple(
                    each for each in told if image.state.get(each.table, each.key) != each.after
                )
            yield LeftOut(one.label, start, end, cause, told, known)


def _cut_off(quorum: Quorum, image: Image) -> Iterator[LeftOut]:
    """What only snapshots hold of a history that was cut."""
    for cut in filter(None, (quorum.cut_off_of(log.label) for log in quorum.peers)):
        label, end, path = cut.snapshot.replica, cut.snapshot.end_offset, cut.snapshot.path
        why = None if cut.is_seen else "where its history was cut is out of sight."
        told: tuple[Change, ...] = ()
        try:
            if cut.is_seen:
                topics, shared = Topics(), Held.shared(quorum, cut.log)
                held = state_at(Held.alone(quorum, cut.snapshot), end, CLEAR, topics)
                before = state_at(shared, cut.start, CLEAR, topics, from_oldest=True)
                told = tuple(
                    one
                    for one in _changes(before, held)
                    if image.state.get(one.table, one.key) != one.after
                )
        except KraftlogError as error:
            why = str(error)
        yield LeftOut(label, cut.start, end, Cause.CUT, told, 0, why, path)


def _departs(held: Held, best: Held, until: int) -> tuple[int, int]:
    """Offsets [start, end) of what a copy holds beyond an image of another one, up to its end, or
    instead of a part of it.
    """
    quorum, label, end = held.quorum, held.label, held.end_offset
    start = quorum.leaves(label, until)
    if best.links is quorum.chain:
        runs, agrees_again = _apart_from(held.log, best.links, until)
    else:
        pair = quorum.comparisons.get((label, best.label))
        if pair is not None:
            start = max(start, min(pair.alike_until, until))
        found = [one for one in pair.runs if one.start < until] if pair else []
        runs = [(one.start, one.end) for one in found]
        agrees_again = bool(found) and found[-1].equal_after
    if not runs or start < runs[0][0]:
        return start, end
    return runs[0][0], runs[-1][1] if end <= until and agrees_again else end


def _apart_from(log: LogView, links: Chain, until: int) -> tuple[list[tuple[int, int]], bool]:
    """Offsets [start, end) where a log holds other batches than links do, of those that begin below
    an offset; and whether it agrees with them at its end.
    """
    own = whole_log(log)
    at = np.minimum(np.searchsorted(links.base, own.base), len(links) - 1)
    same = (links.base[at] == own.base) & (links.ids[at] == own.ids).all(axis=1)
    other = own.part(np.flatnonzero(~same & (own.base < until)))
    return list(zip(other.base.tolist(), other.end.tolist(), strict=True)), bool(same[-1:].any())


def _cause(
    quorum: Quorum, label: str, start: int, image: Image, at: int | None, open_since: int | None
) -> Cause:
    """Why a copy's records from an offset on are no part of the image."""
    if quorum.fork_starts.get(label) == start:
        return Cause.SECOND_HISTORY
    if quorum.tail_starts.get(label) == start:
        if label in quorum.replaced:
            return Cause.REPLACED
        return Cause.UNCOMMITTED if label in quorum.never_committed else Cause.UNPROVEN
    if start < image.end_offset:
        return Cause.DIFFERENT if start < image.committed_offset else Cause.UNPROVEN
    if start == open_since:
        return Cause.OPEN
    return Cause.ASKED if start == at else Cause.AFTER


def _changes(one: Known, other: Known) -> Iterator[Change]:
    """What differs between two states, object by object."""
    before, after = states_apart(one, other)
    keys = dict.fromkeys((one.table, one.key) for one in differences(before, after))
    for table, key in keys:
        yield Change(table, key, before.get(table, key), after.get(table, key))
