"""Which SCRAM users Kafka's own loader loses when a node starts.

In: a quorum with its newest state. Out: the users by replica. The loader gathers what it reads at
once into one delta. A removal that leaves a mechanism without a user takes that mechanism's map off
the image, and users that the delta sets after it, in the order of Java's HashMap, come into the map
that is gone. A node begins with its newest snapshot, or at offset 0, and reads up to 8 MiB of one
segment at once. Source: Kafka 3.9.1 to 4.4.0: ScramDelta.apply, MetadataLoader.handleCommit,
KafkaMetadataLog.read, KafkaRaftClient.MAX_FETCH_SIZE_BYTES.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

import numpy as np

from kraftlog.quorum.health import Health
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum

User = tuple[int, str]
"""A mechanism, and a name."""

_READ_BYTES = 8 << 20
_LEAST_TABLE = 16


def lost_by_loading(quorum: Quorum) -> dict[str, tuple[User, ...]]:
    """The users that each replica's node loses when it starts; replicas that lose none are left out,
    and so are those whose way from their snapshot on is not known, or that begin with one which shows
    nothing: one that is damaged stops them.
    """
    health = quorum.state.health
    if health is None or health.doubt or not health.past.scram:
        return {}
    ranges = (start for start, end in quorum.state.ranges if start < health.offset <= end)
    known_from = next(ranges, health.offset)
    found = {}
    for log in quorum.peers:
        start, begins = quorum.own_snapshot_end(log.label), quorum.loaded_snapshot(log.label)
        is_seen = start >= known_from and (begins is None or begins.end_offset <= start)
        if is_seen and not log.evidence.is_pulled:
            lost = _lost(log, start, health)
            if lost:
                found[log.label] = lost
    return found


def may_have_lost(quorum: Quorum, mechanism: int, end_offset: int) -> bool:
    """Whether the loader may have lost users of a mechanism below an offset: one was removed there.
    Where no newest state is known, nothing tells.
    """
    health = quorum.state.health
    return health is None or any(
        one.mechanism == mechanism and not one.is_set
        for offset, one in health.past.scram.items()
        if offset < end_offset
    )


def written_since(quorum: Quorum, users: Collection[User], offset: int) -> bool:
    """Whether records at or behind an offset say anew what each of some users has."""
    health = quorum.state.health
    known = {} if health is None else health.past.scram
    return {*users} <= {one[:2] for at, one in known.items() if at >= offset}


def _lost(log: LogView, start: int, health: Health) -> tuple[User, ...]:
    known, end = health.past.scram, log.end_offset or 0
    after = {one[:2] for offset, one in known.items() if offset >= end}
    read = {offset: one for offset, one in sorted(known.items()) if start <= offset < end}
    if all(one.is_set for one in read.values()):
        return ()
    base = set(health.scram_users)
    for offset, one in sorted(known.items(), reverse=True):
        if offset >= start:
            (base.add if one.was_set else base.discard)(one[:2])
    starts = _reads(log, start)
    steps: dict[int, dict[int, dict[str, bool]]] = defaultdict(lambda: defaultdict(dict))
    for offset, one in read.items():
        steps[one.mechanism][bisect_right(starts, offset)][one.user] = one.is_set
    lost = [
        (mechanism, user)
        for mechanism, deltas in steps.items()
        for user in lost_users({name for of, name in base if of == mechanism}, deltas.values())
    ]
    return tuple(sorted(one for one in lost if one not in after))


def _reads(log: LogView, start: int) -> list[int]:
    """Where the reads begin in which Kafka goes through a log from an offset on."""
    columns = log.evidence.log
    file, positions = columns.file[log.rows], columns.positions[log.rows]
    ends = positions + columns.sizes[log.rows]
    row, starts = int(np.searchsorted(log.base, start)), list[int]()
    while row < len(log.rows):
        starts.append(int(log.base[row]))
        after = int(np.searchsorted(file, file[row], "right"))
        limit = positions[row] + _READ_BYTES
        row = max(row + 1, row + int(np.searchsorted(ends[row:after], limit, "right")))
    return starts


def lost_users(base: Collection[str], deltas: Iterable[Mapping[str, bool]]) -> set[str]:
    """The users of one mechanism that are missing after some deltas: each says in the order of the
    records which users it sets (True) or removes last.
    """
    meant, held = set(base), set(base)
    for delta in deltas:
        is_off = False
        for name in _in_java_order(delta):
            if delta[name]:
                meant.add(name)
                held.add(name)
            else:
                meant.discard(name)
                held.discard(name)
                is_off = is_off or not held
        if is_off:
            held = set()
    return meant - held


def _in_java_order(names: Collection[str]) -> list[str]:
    """Keys as a java.util.HashMap that they were put into goes through them."""
    size = _LEAST_TABLE
    while len(names) > size * 3 // 4:
        size *= 2
    return sorted(names, key=lambda one: _spread(one) % size)


def _spread(text: str) -> int:
    """A String's hash as HashMap spreads it."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value ^ value >> 16
