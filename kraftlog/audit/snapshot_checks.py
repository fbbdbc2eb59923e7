"""Checks of checkpoint files, each by itself.

Whether they go with the logs is asked in `snapshot_log_checks`, whether their state is right in
`image_checks`. Source: KIP-630 "Snapshot Format", "Snapshot Control Records", "Interaction with the
Kafka Controller", KIP-1219, KAFKA-14238.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import chain

import numpy as np

from kraftlog.audit import coverage
from kraftlog.audit.check import BadRow, Severity, check
from kraftlog.audit.triage import MOVE_NAMED, instead_of, sound_snapshots
from kraftlog.log import names
from kraftlog.log.names import FILE_LIMIT_BYTES
from kraftlog.plain import counted
from kraftlog.quorum.joining import knows_leader_alone, stuck
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.retention import newest_ms
from kraftlog.quorum.settings import ROLES
from kraftlog.quorum.snapshots import SnapshotView
from kraftlog.state.tables import TABLES

ALLOWED = {
    "SNAPSHOT_HEADER",
    "SNAPSHOT_FOOTER",
    "ZK_MIGRATION_STATE_RECORD",
    *(table.record for table in TABLES),
}
"""What Kafka's image writers emit, of any version that writes checkpoints."""


@check(
    "snapshot_header_first", "critical", "snapshot", "KIP-630 Snapshot Control Records",
    "the first record is a SnapshotHeader, and the only one",
    action="snapshot", over=coverage.snapshots,
    meaning="""A checkpoint does not begin with its SnapshotHeader record, or holds more than one.
    Nothing tells how new its state is, and two snapshots may have been joined.""",
    advice="""Set the file aside, and take the one that the finding names: of the same name, or another
    that reaches the start of this node's log. Where the log begins at offset 0, or an older snapshot of
    its own reaches its start, the node starts without it: see log_start_covered.""",
)  # fmt: skip
def header_first(quorum: Quorum) -> Iterator[BadRow]:
    for one in quorum.snapshots:
        if one.not_read is not None or (one.starts_damaged and one.evidence.size_bytes):
            continue
        if one.starts_with_header and one.header_count <= 1:
            continue
        instead, asks = instead_of(quorum, one)
        if not one.starts_with_header:
            yield BadRow(
                one.replica,
                f"Snapshot {one.evidence.name} does not begin with a SnapshotHeader record. "
                f"Nothing tells how new its state is: do not trust it. {instead}",
                one.path,
                0,
                evidence={"size_bytes": one.evidence.size_bytes} | asks,
            )
        else:
            yield BadRow(
                one.replica,
                f"Snapshot {one.evidence.name} holds {one.header_count} SnapshotHeader records, where one is due: two snapshots may have been joined. {instead}",
                one.path,
                evidence={"headers": one.header_count} | asks,
            )


@check(
    "snapshot_footer_last", "critical", "snapshot", "KIP-630 Snapshot Control Records",
    "the last record is a SnapshotFooter, and nothing follows",
    action="snapshot", over=coverage.snapshots,
    meaning="""A checkpoint does not end with its SnapshotFooter record: it is incomplete, or goes
    on. Kafka does not look for the footer when it loads a snapshot, so a node would load what is
    there and miss the rest without an error. Where the bytes behind the last batch cannot begin
    another one, it cannot load the file.""",
    advice="""Do not start a node from it. Copy the complete file from the replica that the
    finding names, or remove it where an older snapshot and the log cover the same offsets.""",
)  # fmt: skip
def footer_last(quorum: Quorum) -> Iterator[BadRow]:
    complete = defaultdict[tuple[int, int], list[SnapshotView]](list)
    for one in sound_snapshots(quorum):
        complete[one.id].append(one)
    for one in quorum.snapshots:
        if one.not_read is not None or one.ends_with_footer or one.ends_damaged:
            continue
        peer = next((s for s in complete[one.id] if s.replica != one.replica), None)
        if peer is None:
            instead, asks = instead_of(quorum, one)
        else:
            instead = f"Replica {peer.replica} has the complete file ({peer.evidence.size_bytes:,} bytes): copy that file."
            asks = {}
        yield BadRow(
            one.replica,
            f"Snapshot {one.evidence.name} {_wrong_end(one)} {instead}",
            one.path,
            one.end_of_batches,
            other_replica=peer.replica if peer else None,
            evidence={
                "size_bytes": one.evidence.size_bytes,
                "bytes_after_last_batch": one.bytes_after_last_batch,
                "peer_size_bytes": peer.evidence.size_bytes if peer else None,
                **asks,
            },
        )


def _wrong_end(one: SnapshotView) -> str:
    """What is wrong with an end that is no footer, and what Kafka does with it."""
    rest = counted(one.bytes_after_last_batch, "byte")
    if not len(one.evidence.batches) and one.bytes_after_last_batch:
        what = f"holds no record batch in its {rest}"
    elif one.bytes_after_last_batch:
        what = f"goes on for {rest} after its last record batch"
    elif one.has_footer:
        what = "goes on after its SnapshotFooter record, with records that do not belong to it"
    else:
        what = "does not end with a SnapshotFooter record"
    if not one.has_footer:
        what += ": it is incomplete"
    if one.noticed_damage is not None:
        return f"{what}. Kafka cannot load it."
    if not one.has_footer:
        return f"{what}. Kafka would load it all the same, and miss what is cut off."
    rest = "without that" if one.bytes_after_last_batch else "with what follows"
    return f"{what}. Kafka would load it all the same, {rest}."


@check(
    "snapshot_name_valid", "warning", "snapshot", "KIP-630 Snapshot Format",
    "a snapshot's name has the shipped form of 20 and 10 digits",
    action="snapshot", over=coverage.snapshots,
    meaning="""A checkpoint's name does not have the form that Kafka writes: 20 digits, a hyphen
    and 10 digits. It may have the form of KIP-630's text. Kafka reads fixed columns of the name
    and would fail, or take another epoch for it. What follows these columns it does not look at: a file
    set aside under such a name counts all the same, and is not found when it is opened. At level critical
    Kafka takes it for the newest snapshot, and the node does not start.""",
    advice="""Rename the file to the name that the finding gives, or move it out of the folder.""",
)  # fmt: skip
def name_valid(quorum: Quorum) -> Iterator[BadRow]:
    stopping = frozenset().union(*(_stopping(quorum, log) for log in quorum.logs))
    for one in quorum.snapshots:
        if not one.is_named_as_shipped:
            right = names.checkpoint_name(one.end_offset, one.epoch)
            do = f"Rename it to {right}."
            if quorum.named_twin(one) is not None:
                do = f"It lies beside {right}: move it elsewhere."
            yield BadRow(
                one.replica,
                f"Snapshot {one.evidence.name} is not named as Kafka names its snapshots. "
                f"Kafka reads fixed columns of the name: it would refuse the file, or take it for a snapshot of another epoch. {do}",
                one.path,
                severity="critical" if one.path in stopping else None,
                evidence={"form": one.evidence.name_form, "expected_name": right},
            )
    told = {one.path for one in quorum.snapshots}
    for replica in quorum.replicas:
        for path in replica.foreign_names:
            name = path.rsplit("/", 1)[-1]
            if path in told or not name.endswith(names.SNAPSHOT_ENDINGS):
                continue
            stops = path in stopping
            does = (
                "fails on such a name"
                if names.is_refused(name)
                else f"takes it for the newest snapshot, {name[:31]}, does not find that, and does not start"
                if stops
                else f"takes it for the snapshot {name[:31]}"
            )
            yield BadRow(
                replica.label,
                f"The file {name} ends in {name[name.rindex('.checkpoint') :]}, but its name is not that of a snapshot. Kafka {does}: {MOVE_NAMED}",
                path,
                severity="critical" if stops else None,
            )


def _stopping(quorum: Quorum, log: LogView) -> frozenset[str]:
    """The files of a replica that Kafka takes for the newest snapshot, does not find, and needs: it
    throws away a log that ends before, and one that begins above offset 0 is no start.
    """
    misnamed = quorum.misnamed(log.label)
    own = (one.id for one in quorum.snapshots_of(log.label) if one.is_named_as_shipped)
    newest = max(chain(own, misnamed.values()), default=(0, 0))
    start, end = log.start_offset or 0, log.end_offset or 0
    if not (newest > (log.last_epoch or 0, end) or 0 < start <= newest[1]):
        return frozenset()
    return frozenset(path for path, known in misnamed.items() if known == newest)


@check(
    "snapshot_leftover", "info", "snapshot",
    "KIP-630 Interaction with the Kafka Controller, KIP-630 Changes to Leader Election",
    "no .part and no .deleted file is left",
    action="know", over=coverage.files, goes_by=("snapshot_part_ms", ROLES),
    meaning="""A file is left of a snapshot that was not finished when it was copied (.part), or of
    one that waits for its removal (.deleted). This is usual in copies of running nodes.""",
    advice="""Nothing needs to be done where the finding says so. A .part that grows in no later copy,
    together with election_storm, points to a node that cannot fetch a snapshot within its timeout
    (KAFKA-19541).""",
)  # fmt: skip
def leftover(quorum: Quorum) -> Iterator[BadRow]:
    yield from _deleted(quorum)
    waits = {one.log.label for one in stuck(quorum)}
    for one in quorum.every_snapshot:
        evidence = one.evidence
        if evidence.kind != names.CHECKPOINT_PART:
            continue
        peer = next((s for s in quorum.snapshots if s.id == one.id and s.is_complete), None)
        size = counted(evidence.size_bytes, "byte")
        if peer is not None:
            size += f" of the {peer.evidence.size_bytes:,} that {peer.replica} has"
        idle = _idle_ms(quorum, one)
        if idle is not None:
            size += f", last written {idle / 1000:,.0f} s before the newest record at hand"
        yield BadRow(
            one.replica,
            f"The file {evidence.name} ({size}) is a snapshot that was not finished when it was copied. "
            f"Kafka removes what is left of it at its next start{_what_follows(quorum, one, waits)}.",
            one.path,
            other_replica=peer.replica if peer else None,
            evidence={
                "size_bytes": evidence.size_bytes,
                "complete_size_bytes": peer.evidence.size_bytes if peer else None,
                "idle_ms": idle,
            },
        )


def _what_follows(quorum: Quorum, one: SnapshotView, waits: Collection[str]) -> str:
    """What is to be done about an unfinished snapshot, whose node may need it."""
    if knows_leader_alone(quorum, quorum.by_label[one.replica]):
        return ", and Kafka 4 ends with an error then, as nothing else on this disk says who votes: do not start the node before it has a log folder that does"
    if one.replica in waits:
        return ". That does not help the node, which needs the whole snapshot: see the finding of controllers_catch_up"
    return ": nothing needs to be done"


def _deleted(quorum: Quorum) -> Iterator[BadRow]:
    """One row per replica: a busy node deletes a dozen snapshots at a time. What a pull keeps aside
    waits for nothing.
    """
    for replica in quorum.replicas:
        found = [one for one in replica.snapshots if one.kind == names.CHECKPOINT_DELETED]
        if not found or replica.is_pulled:
            continue
        size_bytes, first = sum(one.size_bytes for one in found), found[0].name
        size = counted(size_bytes, "byte")
        what = (
            f"The file {first} ({size}) is a deleted snapshot that waits to be removed"
            if len(found) == 1
            else f"{len(found)} deleted snapshots ({size}) wait to be removed, {first} and others"
        )
        yield BadRow(
            replica.label,
            f"{what}. Kafka does so within a minute, or at its next start: nothing needs to be done.",
            found[0].path,
            evidence={
                "size_bytes": size_bytes,
                "complete_size_bytes": None,
                "idle_ms": None,
                "paths": [one.path for one in found],
            },
        )


def _idle_ms(quorum: Quorum, one: SnapshotView) -> int | None:
    """For how long nothing has come of an unfinished snapshot; None where its file carries a newer
    time than all records, as after a copy that did not keep times.
    """
    now = newest_ms(quorum)
    if now is None:
        return None
    return now - one.evidence.modified_ms if now > one.evidence.modified_ms else None


@check(
    "snapshot_too_large_to_fetch", "warning", "snapshot", "KIP-1219",
    "a snapshot is smaller than 2 GiB",
    action="snapshot", over=coverage.snapshots,
    goes_by=("snapshot_usual_bytes",),
    meaning="""Kafka cannot open a snapshot of more than 2,147,483,647 bytes. A node whose newest
    snapshot it is does not start, and that is critical. With an older one a node goes on, but its
    retention stops at the file, and drops nothing. At level info a snapshot is only larger than the
    usual 10 MiB, and new nodes take longer to join.""",
    advice="""Set such a file aside: the node begins with an older snapshot, and the log after it.
    Then find out what fills the metadata with the column records_by_type of the table snapshots,
    as the next snapshot would be as large.""",
)  # fmt: skip
def too_large(quorum: Quorum) -> Iterator[BadRow]:
    usual = quorum.thresholds.snapshot_usual_bytes
    unfit = {one.id for one in quorum.snapshots if one.evidence.size_bytes > FILE_LIMIT_BYTES}
    for one in quorum.snapshots:
        size = one.evidence.size_bytes
        is_newest = quorum.loaded_snapshot(one.replica) is one
        severity: Severity | None = "critical" if is_newest else None
        if size > FILE_LIMIT_BYTES:
            follows = (
                "the node does not start with it"
                if is_newest
                else "retention stops at it, and drops nothing"
            )
            instead, asks = instead_of(quorum, one, unfit)
            what = f"Kafka opens no file of more than {FILE_LIMIT_BYTES:,}: {follows}. {instead} Find out what fills the metadata."
        elif size > usual:
            severity, asks = "info", {}
            what = f"That is more than the usual {usual:,} bytes (snapshot_usual_bytes). Expect long transfers to new nodes."
        else:
            continue
        yield BadRow(
            one.replica,
            f"Snapshot {one.evidence.name} has {size:,} bytes. {what}",
            one.path,
            severity=severity,
            evidence={"size_bytes": size} | asks,
        )


@check(
    coverage.RECORD_ALLOWED, "warning", "snapshot", "KIP-630 Snapshot Format",
    "a snapshot holds only records that Kafka's images write, and that Kafka loads",
    action="snapshot", over=coverage.loaded_snapshots,
    meaning="""A snapshot holds records of a type that Kafka writes to logs only, never to
    snapshots. Or it holds what Kafka throws at when it loads it: a second set of voters, a second
    kraft.version, or one below 0; a partition before its topic, or of none; a value that cannot be;
    a topic twice; a transaction. In the newest snapshot that is critical: the node would not
    start, or, where the finding says so, no controller. A kraft.version that only a newer Kafka can
    know is told by record_type_known.""",
    advice="""Somebody else wrote this file: set it aside, and take another replica's.""",
)  # fmt: skip
def record_allowed(quorum: Quorum) -> Iterator[BadRow]:
    for one in quorum.snapshots:
        for row in _not_loaded(quorum, one):
            instead, asks = instead_of(quorum, one)
            is_newest = quorum.loaded_snapshot(one.replica) is one
            begins = " A start begins with this file." if is_newest else ""
            yield replace(
                row,
                message=f"{row.message}{begins} No Kafka writes such a file. {instead}",
                evidence={**row.evidence, **asks},
                severity="critical" if is_newest else None,
            )
        found = one.evidence.first_of_type
        for kind in sorted(set(one.evidence.type_counts) - ALLOWED):
            if kind.startswith(("UNKNOWN", "FRAME_VERSION")):
                continue
            instead, asks = instead_of(quorum, one)
            count = one.evidence.type_counts[kind]
            yield BadRow(
                one.replica,
                f"Snapshot {one.evidence.name} holds {count:,} {kind}, which no snapshot of Kafka can hold: another program wrote this file. {instead}",
                one.path,
                found[kind][0],
                evidence={"type": kind, "count": count, "record_index": found[kind][1]} | asks,
            )


def _not_loaded(quorum: Quorum, one: SnapshotView) -> Iterator[BadRow]:
    """At what Kafka throws when it loads a snapshot."""
    name = one.evidence.name
    if (impossible := one.impossible_control) is not None:
        text = f"Kafka does not load snapshot {name}: {impossible}."
        yield BadRow(one.replica, text, one.path, evidence={"detail": impossible})
    found = quorum.state.refusals.get(one.path)
    if found is None:
        return
    who = "A controller" if found.by_controllers else "Kafka"
    more = f" So it is with {counted(found.count - 1, 'other record')}." if found.count > 1 else ""
    batches = one.evidence.batches
    ends = np.cumsum(batches.record_counts)
    row = int(np.searchsorted(ends, found.place, "right"))
    index = found.place - int(ends[row] - batches.record_counts[row])
    yield BadRow(
        one.replica,
        f"{who} does not load snapshot {name}, and throws at its record {found.place} ({found.type}): {found.detail}.{more}",
        one.path,
        int(batches.positions[row]),
        evidence={
            "type": found.type,
            "count": found.count,
            "record_index": index,
            "detail": found.detail,
            "only_controllers": found.by_controllers,
        },
    )


@check(
    "snapshot_headers_in_order", "info", "snapshot", "KIP-630 Snapshot Format",
    "batches of a checkpoint are numbered from 0 on, in one epoch",
    action="snapshot", over=coverage.every_snapshot,
    meaning="""Batches of a checkpoint are not numbered from 0 on, or are of several epochs. Kafka
    gives these numbers no meaning, but does not write them so. A header may be damaged.""",
    advice="""Compare the file with another replica's, and see snapshot_equals_replay.""",
)  # fmt: skip
def headers_in_order(quorum: Quorum) -> Iterator[BadRow]:
    for one in quorum.every_snapshot:
        batches = one.evidence.batches
        # A broken file is told already; Kafka gives these numbers no meaning.
        is_cut = one.evidence.kind == names.CHECKPOINT_PART
        if (one.is_damaged and not is_cut) or not len(batches):
            continue
        due = np.concatenate([[0], batches.last_offsets[:-1] + 1])
        epoch = one.epoch if one.is_leftover else batches.epochs[0]
        odd = np.flatnonzero((batches.base_offsets != due) | (batches.epochs != epoch))
        if len(odd):
            row = int(odd[0])
            base, epoch = int(batches.base_offsets[row]), int(batches.epochs[row])
            yield BadRow(
                one.replica,
                f"A batch of {one.evidence.name} begins at {base} in epoch {epoch}, where {int(due[row])} in epoch {int(batches.epochs[0])} is due. "
                "Kafka ignores these numbers, but does not write them so. "
                "A header may be damaged: compare the file with another replica's.",
                one.path,
                int(batches.positions[row]),
                batch_leader_epoch=epoch,
                evidence={"base_offset": base, "expected": int(due[row])},
            )
