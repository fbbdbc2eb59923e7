"""A quorum → the way of one follower to one leader, a row per step.

In: a `Quorum`, labels of replicas, a way. Out: plain rows with the names of the command line's
contract. A follower without a copy begins with an empty disk. Source: KIP-630, KIP-1219.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from kraftlog.errors import InputError
from kraftlog.quorum.ends import known_epoch
from kraftlog.quorum.epochs import EpochVector
from kraftlog.quorum.joining import (
    FetchSettings,
    fetch_settings,
    has_to_learn_voters,
    names_leader,
)
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.settings import RESPONSE_BYTES, default_of, number_of
from kraftlog.relations import Row
from kraftlog.simulate.boot import Boot, Disk
from kraftlog.simulate.disk import disk_of
from kraftlog.simulate.extent import SnapshotId
from kraftlog.simulate.fetch import RECORDS, Answer, Dialect
from kraftlog.simulate.join import CAUGHT_UP, PIECE, JoinStep, LeaderLog, Way, after_crash, join
from kraftlog.simulate.liveness import Link
from kraftlog.simulate.plan_rows import Plans, likely_leaders
from kraftlog.simulate.snapshot_server import GONE, Recovery, recovery

BANDWIDTH = 12_500_000
"""Of a link that was not named: 100 Mbit/s."""
NEW = "new"
"""The follower that nobody has seen: a new observer with an empty disk."""
EMPTY = Disk(0, EpochVector((), 0))


@dataclass(frozen=True, slots=True)
class Joiner:
    """Who joins: a disk, whether the node knows that it votes, or has still to learn who does, and
    whether its quorum-state names a leader, and its epoch.
    """

    disk: Disk
    is_voter: bool
    learns_voters: bool
    names_leader: bool = False
    epoch: int = 0


def joiner_of(quorum: Quorum, name: str) -> Joiner:
    """The replica of that name; the node of that id that votes and of which there is no copy; or
    a `new` observer. The last two begin with nothing.

    Raises InputError for any other name.
    """
    voters, is_dynamic = quorum.voters, quorum.recorded_voters is not None
    log = replica_named(quorum, name)
    if log is not None:
        learns = has_to_learn_voters(quorum, log)
        votes = log.evidence.node_id in voters and not learns
        state = log.evidence.state_file
        epoch = state.leader_epoch if state is not None else 0
        return Joiner(disk_of(quorum, log), votes, learns, names_leader(log), epoch)
    if name == NEW:
        return Joiner(EMPTY, is_voter=False, learns_voters=is_dynamic)
    if name in {str(one) for one in voters}:
        return Joiner(EMPTY, is_voter=not is_dynamic, learns_voters=is_dynamic)
    known = ", ".join(quorum.by_label)
    raise InputError(f"there is no replica {name}: name one of {known}, a voter's id, or {NEW}")


def replica_named(quorum: Quorum, name: str) -> LogView | None:
    """The replica of that label, or the only copy of the node of that id."""
    copies = [log for log in quorum.logs if str(log.evidence.node_id) == name]
    return quorum.by_label.get(name, copies[0] if len(copies) == 1 else None)


def leader_of(quorum: Quorum, name: str, dialect: Dialect = Dialect.SHIPPED) -> LeaderLog:
    """What a replica would serve if it led, once it has started.

    Raises InputError for a name that is no replica's, and for a replica that does not start.
    """
    log = replica_named(quorum, name)
    if log is None:
        raise InputError(f"there is no replica {name}: name one of {', '.join(quorum.by_label)}")
    booted = Plans(quorum, dialect).boots[log.label]
    if not booted.boots:
        raise InputError(f"replica {name} cannot lead, as it does not start: {booted.reason}")
    sizes = {
        SnapshotId(*one.id): one.evidence.size_bytes
        for one in quorum.snapshots_of(log.label)
        if one.is_live
    }
    ends, extent = log.last + 1, booted.extent
    kept = (ends > extent.start_offset) & (ends <= extent.end_offset)
    columns, rows = log.evidence.log, log.rows[kept]
    segments = columns.file[rows].astype(np.int64)
    limit = number_of(log.evidence, RESPONSE_BYTES).value or default_of(RESPONSE_BYTES)
    epoch = leader_epoch(quorum, log)
    return LeaderLog(extent, sizes, ends[kept], columns.sizes[rows], segments, limit, epoch)


def leader_epoch(quorum: Quorum, log: LogView) -> int:
    """The epoch that a replica leads: the newest that it knows, where it is known to lead that one
    and no log is of a later one; else it has still to be elected, in the one after all that the
    voters know.
    """
    newest, own = quorum.newest_epoch, known_epoch(log) or log.last_epoch or 0
    if own >= newest and quorum.leaders.get(own) == log.evidence.node_id is not None:
        return own
    return 1 + max([newest, own, *(known_epoch(one) or 0 for one in quorum.voter_logs)])


def join_rows(quorum: Quorum, follower: str, leader: str, way: Way) -> Iterator[Row]:
    """One row per step of the way, with what becomes of the node if the connection breaks or the
    node stops when it is done. Whether it votes is its own matter, not that of `way`.

    Raises InputError where the two cannot be leader and follower.
    """
    one, other = replica_named(quorum, follower), replica_named(quorum, leader)
    if one is not None and one is other:
        raise InputError(f"replica {follower} cannot follow itself")
    joiner, source = joiner_of(quorum, follower), leader_of(quorum, leader, way.dialect)
    foreign = [log.label in quorum.otherwise_named for log in (one, other) if log is not None]
    if len(set(foreign)) > 1:
        raise InputError(
            f"replicas {follower} and {leader} are of two clusters: the leader answers INCONSISTENT_CLUSTER_ID to every fetch"
        )
    way = replace(way, is_voter=joiner.is_voter, learns_voters=joiner.learns_voters)
    steps = join(joiner.disk, source, way, names_leader=joiner.names_leader, epoch=joiner.epoch)
    for number, step in enumerate(steps, 1):
        yield step_row(number, step, source, way)


class Joined(NamedTuple):
    """A way, by whose settings it is reckoned, and who leads."""

    leader: str
    settings: FetchSettings
    rows: list[Row]


def joined(
    quorum: Quorum,
    follower: str,
    leader: str | None,
    link: Link,
    given: tuple[int | None, int | None, int | None, int | None],
    dialect: Dialect,
) -> Joined:
    """The way of a follower; `given` are bytes of a snapshot, bytes of the log, and the timeouts of
    fetching and of one request, where they are not to be those of the follower's own settings.

    Raises InputError where the two cannot be leader and follower, or nobody leads.
    """
    log = replica_named(quorum, follower)
    settings = fetch_settings(log.evidence if log else None, *given)
    sizes = (settings.chunk.value, settings.fetch.value)
    timeouts = (settings.timeout.value, settings.request_timeout.value)
    likely = likely_leaders(quorum, dialect) - {log.label if log else follower}
    if leader is None and not likely:
        raise InputError(f"{follower} is itself the likely leader: name another with --from")
    leads = leader or min(likely)
    rows = join_rows(quorum, follower, leads, Way(link, *sizes, *timeouts, dialect))
    return Joined(leads, settings, list(rows))


def step_row(number: int, step: JoinStep, leader: LeaderLog, way: Way) -> Row:
    """One step, what its request brought, and what becomes of the node after it."""
    asked, snapshot = step.request, step.part_of
    if asked is not None and asked.snapshot is not None:
        snapshot = asked.snapshot
    booted, answer = after_crash(step, leader, way)
    return {
        "step": number,
        "at_ms": round(step.at_ms, 1),
        "what": step.name,
        "epoch": step.epoch,
        "request": asked.number if asked else None,
        "fetch_offset": asked.fetch_offset if asked else None,
        "last_fetched_epoch": asked.last_fetched_epoch if asked else None,
        "snapshot_end_offset": snapshot.end_offset if snapshot else None,
        "snapshot_epoch": snapshot.epoch if snapshot else None,
        "position": asked.span.position if asked else None,
        "size_bytes": asked.span.size_bytes if asked else None,
        "log_start_offset": step.disk.start_offset,
        "log_end_offset": step.disk.vector.end_offset,
        "part_bytes": step.part_bytes,
        "if_connection_breaks": _on_break(step, way),
        "if_snapshot_is_gone": _on_deletion(step, way),
        "if_node_stops": _on_stop(step, booted, answer, way),
        "note": step.note,
    }


def _on_break(step: JoinStep, way: Way) -> str | None:
    """What the running node does when no answer comes any more after this step."""
    if not step.part_bytes:
        return f"asks again from offset {step.disk.vector.end_offset}" if step.request else None
    if step.name != PIECE:
        return None
    if way.dialect == Dialect.SHIPPED and way.is_voter:
        return f"asks again from byte {step.part_bytes}; after {way.timeout_ms} ms without an answer it deletes the .part and stands for election"
    if way.dialect == Dialect.SHIPPED:
        return "asks the voters who leads; the leader names its snapshot anew, from byte 0"
    return f"asks again from byte {step.part_bytes}"


def _on_deletion(step: JoinStep, way: Way) -> str | None:
    """What the node does when the leader has deleted the snapshot before it asks for more."""
    if step.name != PIECE:
        return None
    part = "deletes the .part and " if way.dialect == Dialect.SHIPPED else ""
    begins = {
        Recovery.FETCH_AGAIN: f"fetches from offset {step.disk.vector.end_offset} again",
        Recovery.FETCH_FROM_ZERO: "fetches from offset 0 and epoch 0",
    }
    return f"{GONE}: {part}{begins[recovery(GONE, way.dialect)]}"


def _on_stop(step: JoinStep, booted: Boot, answer: Answer | None, way: Way) -> str:
    """How the node goes on when it stops after this step and starts again."""
    if answer is None:
        return f"does not start: {booted.reason}"
    part = ""
    if step.part_of is not None and way.dialect == Dialect.SHIPPED:
        part = "deletes the .part, "
    elif step.part_of is not None:
        part = "has a .part (the KIP does not say what happens to it), "
    held = f"loads snapshot {booted.snapshot.name}, " if booted.snapshot else ""
    end = booted.extent.end_offset
    gets = f"snapshot {answer.snapshot.name} from byte 0" if answer.snapshot else answer.kind
    if step.name == CAUGHT_UP and answer.kind == RECORDS and end == step.disk.vector.end_offset:
        gets = "nothing but what is new"
    return f"{part}{held}fetches from offset {end}: {gets}"


def in_words(row: Row) -> Row:
    """A row for people: fewer columns, the same facts."""
    told = row["what"]
    told = told if told.isupper() else told.replace("_", " ")
    if row["what"] == PIECE:
        end = row["position"] + row["size_bytes"] - 1
        which = f"bytes {row['position']} to {end}" if row["size_bytes"] else "no bytes"
        told = f"{which} of {_name(row)}"
    elif row["what"] == RECORDS:
        told = f"{row['size_bytes']} bytes of records"
    elif row["snapshot_end_offset"] is not None:
        told = f"{told} ({_name(row)})"
    if row["note"]:
        told = f"{told}: {row['note']}"
    return {
        "step": row["step"],
        "seconds": round(row["at_ms"] / 1000, 2),
        "what": told,
        "log": f"{row['log_start_offset']} to {row['log_end_offset']}",
        "part_bytes": row["part_bytes"],
        "if_node_stops": row["if_node_stops"],
    }


def _name(row: Row) -> str:
    return f"snapshot {row['snapshot_end_offset']}-{row['snapshot_epoch']}"
