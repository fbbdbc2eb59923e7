"""Checks of the records inside batches: codecs, frames, types, rules, metadata transactions.

What is wrong with a batch's records is known once per content (`evidence.Content`); a finding is
told for each replica that holds it. Source: KIP-630 "Snapshot Format", KIP-631, KIP-868.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np

from kraftlog.audit import coverage
from kraftlog.audit.check import BadRow, Severity, at_batch, check
from kraftlog.audit.health_checks import newest_health
from kraftlog.audit.state_rules import CONTROLLERS, NODES
from kraftlog.audit.triage import (
    and_held_by,
    and_more,
    holding,
    instead_of,
    one_was_changed,
    replicas_text,
    rivals_at,
    told_once,
)
from kraftlog.log.batch import CODEC_MASK, CONTROL, codec_name
from kraftlog.log.fault import FaultKind
from kraftlog.log.names import LAST_OFFSET
from kraftlog.plain import counted, numbers, sentence, voters_text
from kraftlog.quorum.capping import capped
from kraftlog.quorum.content import (
    END_MARKER,
    KRAFT_VERSION,
    KRAFT_VOTERS,
    LEADER_CHANGE,
    LEVEL,
    REFUSED,
    RULES,
    UNKNOWN,
)
from kraftlog.quorum.evidence import BatchColumns, Content, ControlRecord, RecordIssue
from kraftlog.quorum.logview import LogView, voter_ids
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.snapshots import FOOTER, HEADER, SnapshotView
from kraftlog.state.tables import ABORT, BEGIN, END

CODEC_KINDS = frozenset({FaultKind.COMPRESSION, FaultKind.DECOMPRESSION_LIMIT})
RECORD_KINDS = frozenset(
    {
        FaultKind.RECORD_COUNT,
        FaultKind.BATCH_TRAILING,
        FaultKind.RECORD_FRAME,
        FaultKind.RECORD_VALUE,
        FaultKind.RECORD_TRAILING,
        FaultKind.TOO_MANY_FAULTS,
    }
)


@dataclass(frozen=True, slots=True)
class _Place:
    """A batch with remarkable content: in a log (`log` is set) or in a checkpoint."""

    replica: str
    path: str
    batches: BatchColumns
    row: int
    content: Content
    in_log: bool

    @property
    def key(self) -> tuple[str, str]:
        """What is the same wherever replicas hold the same batch in the same file."""
        return self.content.batch_id, "" if self.in_log else self.path.rsplit("/", 1)[-1]

    def issues(self, kinds: Collection[str]) -> list[RecordIssue]:
        return [issue for issue in self.content.issues if issue.kind in kinds]


def remarkable_places(quorum: Quorum) -> Iterator[_Place]:
    """Batches with remarkable content: by replica, its log's, then those of checkpoints read."""
    contents = quorum.evidence.contents
    for log in quorum.logs:
        columns = log.evidence.log
        for row in np.flatnonzero(columns.content >= 0).tolist():
            content = contents[int(columns.content[row])]
            yield _Place(log.label, log.path(row), columns, row, content, True)
        for snapshot in quorum.files_of(log.label):
            if snapshot.is_leftover:
                continue
            batches = snapshot.evidence.batches
            for row in np.flatnonzero(batches.content >= 0).tolist():
                content = contents[int(batches.content[row])]
                yield _Place(snapshot.replica, snapshot.path, batches, row, content, False)


def _issues(
    found: Iterable[_Place],
    kinds: Collection[str],
    part_of: Callable[[_Place], Hashable] = lambda place: None,
) -> Iterator[tuple[_Place, RecordIssue, int]]:
    """(place, issue, how many more there are after the last that is told) of each replica's first
    issues of each of some kinds, in each part of what it holds.
    """
    for _, held in groupby(found, key=lambda place: place.replica):
        issues = (
            (one, each, part)
            for one in held
            for part in [part_of(one)]
            for each in one.issues(kinds)
        )
        for (place, issue, _), more in capped(
            issues, lambda one: (one[1].kind, one[2]), lambda one: one[1].more
        ):
            yield place, issue, more


def _row(place: _Place, issue: RecordIssue, message: str, **evidence: Any) -> BadRow:
    base = int(place.batches.base_offsets[place.row])
    position = int(place.batches.positions[place.row])
    found: dict[str, Any] = {
        "batch_id": place.content.batch_id,
        "record_index": issue.record_index,
        "kind": issue.kind,
        "detail": issue.text,
    }
    if issue.byte_in_batch is not None:
        found["byte_position"] = position + issue.byte_in_batch
    return BadRow(
        place.replica,
        message,
        place.path,
        position,
        base + issue.record_index if place.in_log else None,
        base + issue.record_index + 1 if place.in_log else None,
        int(place.batches.epochs[place.row]),
        evidence=found | evidence,
    )


def _record(place: _Place, issue: RecordIssue) -> str:
    if place.in_log:
        offset = int(place.batches.base_offsets[place.row]) + issue.record_index
        return f"the record at offset {offset}"
    return f"record {issue.record_index} of a batch in {place.path.rsplit('/', 1)[-1]}"


def _batch(place: _Place) -> str:
    if place.in_log:
        return f"the batch at offset {int(place.batches.base_offsets[place.row])}"
    return f"a batch in {place.path.rsplit('/', 1)[-1]}"


def _others(quorum: Quorum, place: _Place) -> list[str]:
    """The other replicas whose logs hold the very same batch."""
    index = place.batches.content[place.row]
    return [
        log.label
        for log in quorum.logs
        if place.in_log and log.label != place.replica and (log.evidence.log.content == index).any()
    ]


@check(
    "batch_decompresses", "critical", "log", "KIP-630 Snapshot Format",
    "the codec is known and the batch unpacks within the limit",
    action="origin", over=coverage.batches, after="batch_header_valid",
    meaning="""A batch whose CRC is right names an unknown codec, unpacks to nothing or to more than
    the limit, or holds what Kafka itself does not unpack: a record that is longer than its batch is
    on disk, or LZ4 blocks that depend on one another. KRaft writes its log without compression, so
    another program wrote this batch.""",
    advice="""Find out who wrote it before a node loads it. A limit that is too small for an
    honest file is raised with decompress_limit_bytes: above its default it counts alone, however
    well a batch is packed.""",
)  # fmt: skip
def decompresses(quorum: Quorum) -> Iterator[BadRow]:
    for place, issue, more in _issues(remarkable_places(quorum), CODEC_KINDS):
        is_limit = issue.kind == FaultKind.DECOMPRESSION_LIMIT
        fails = "was not unpacked" if is_limit else "cannot be read"
        yield _row(
            place,
            issue,
            f"{sentence(_batch(place))} is compressed and {fails} ({issue.text}), although its CRC is right. "
            f"Kafka never compresses this log: find out who wrote the batch before a node loads it.{and_more(more)}",
            more=more,
        )


@check(
    "record_decodes", "critical", "log", "KIP-631",
    "each record's frame and body decode by its message spec with no bytes left over",
    action="origin", over=coverage.batches, after="leader_change_starts_epoch",
    meaning="""A record in a valid batch does not follow its message spec: a field leads beyond
    the record, bytes are left over behind a metadata record, it is a marker of a producer's transaction, or the number of
    records is not what the header says.
    Kafka's metadata loader stops or skips it, and does not notice bytes after a batch's last record. A warning at this check means that a batch was
    larger than batch_limit_bytes and was not read.""",
    advice="""If other replicas hold the same bytes, the record was written that way: look for the
    version or the tool that wrote it. If they do not, this copy was changed with a matching CRC:
    do not start the node from it.""",
)  # fmt: skip
def decodes(quorum: Quorum) -> Iterator[BadRow]:
    for place, issue, more in _issues(remarkable_places(quorum), RECORD_KINDS):
        others, is_after = _others(quorum, place), issue.kind == FaultKind.BATCH_TRAILING
        advice = "Compare this batch with the other replicas before this node starts."
        if others and (rivals := rivals_at(quorum, quorum.by_label[place.replica], place.row)):
            advice = one_was_changed(others, rivals)
        elif others:
            written = f"so the {'batch' if is_after else 'record'} was written that way"
            advice = f"{sentence(holding(others))} the same bytes, {written}: look for the Kafka version or the tool that wrote it."
        if is_after:
            told = f"{sentence(_batch(place))} does not end with its last record ({issue.text}), although its CRC is right. Kafka reads its records and not what follows."
        else:
            told = f"{sentence(_record(place, issue))} does not decode ({issue.text}), although the CRC of its batch is right. Kafka's loader stops there, or skips the record."
        text = f"{told} {advice}{and_more(more)}"
        yield _row(place, issue, text, same_bytes_on=others, more=more)
    for log in quorum.logs:
        for segment in log.evidence.segments:
            for fault in segment.faults:
                if fault.kind == FaultKind.BATCH_TOO_LARGE:
                    yield BadRow(
                        log.label, f"{sentence(fault.detail)}.",
                        segment.path, fault.position, fault.offset,
                        severity="warning", evidence={"size_bytes": fault.size_bytes},
                    )  # fmt: skip


@check(
    "record_type_known", "warning", "log", "KIP-631",
    "type, version, tagged fields and feature levels of each record are known",
    action="watch", over=coverage.batches,
    meaning="""A newer Kafka than this kraftlog knows wrote something: a record of an unknown type
    or version, a tagged field, a feature or a level of it. Each is told once. It is kept, and
    applied where its shape is known. What it may have changed is not judged, and the checks of the
    state say so.""",
    advice="""This is no fault of the quorum. Use a newer kraftlog to have everything judged.""",
)  # fmt: skip
def known(quorum: Quorum) -> Iterator[BadRow]:
    """Each thing that is unknown is told once, with all places that hold it."""
    found: dict[str, list[tuple[_Place, RecordIssue]]] = {}
    for place in remarkable_places(quorum):
        for issue in place.issues((UNKNOWN,)):
            found.setdefault(issue.text, []).append((place, issue))
    for text, held in found.items():
        place, issue = held[0]
        replicas = list(dict.fromkeys(one.replica for one, _ in held))
        records = {(one.content.batch_id, each.record_index): 1 + each.more for one, each in held}
        count = sum(records.values())
        yield _row(
            place,
            issue,
            f"{sentence(text)}: a newer Kafka than this kraftlog knows wrote it ({counted(count, 'record')}, the first is {_record(place, issue)}). "
            f"{sentence(holding(replicas))} it. "
            "It is kept raw where its shape is unknown, and what it may have changed is not judged. Use a newer kraftlog.",
            replicas=replicas,
            record_count=count,
        )


_RULE_ADVICE = "No controller of Kafka writes such a record: find out who did."


@check(
    "record_rules", "warning", "log", "KIP-630 Snapshot Format",
    "records and the headers of their batches are as a KRaft controller writes them",
    action="origin", over=coverage.batches,
    meaning="""A record has headers, a key, a timestamp of its own or no value, or holds bytes that
    Kafka's reader passes over. Or the header of its batch names a producer, a transaction, a codec,
    an append time, a time below 0, or attributes that this log never has. Or it is a control record that
    no leader writes: a LeaderChange whose leader is no voter or was elected by a minority, or a second
    one of an epoch. Or it is the header or footer of a snapshot, or a kraft.version that goes back or
    is below 0. Or its voters have such levels, a listener without a name, or two entries. It decodes, but no KRaft
    controller writes so. Where Kafka's reader refuses it, as the finding says, a node that
    reads it stops. A start reads the newest snapshot, where such a record is critical, and the
    log behind that, where such levels and voters are, and a kraft.version without voters. A
    control batch that names a producer is
    critical anywhere in a log: Kafka takes
    it for a transaction's end, and does not open the log.""",
    advice="""Find out which program wrote it. If it stands in one replica only, see
    committed_data_consistent for that offset.""",
)  # fmt: skip
def rules(quorum: Quorum) -> Iterator[BadRow]:
    """What several replicas hold is told once, of the first of them."""
    holders: dict[tuple[str, str], list[str]] = {}
    for place in remarkable_places(quorum):
        if place.issues(RULES):
            holders.setdefault(place.key, []).append(place.replica)
    first = (
        one for one in remarkable_places(quorum) if one.replica in holders.get(one.key, [])[:1]
    )

    def starting(place: _Place) -> list[str]:
        replicas = dict.fromkeys(holders[place.key])
        return [one for one in replicas if _starts_with(quorum, one, place)]

    def part_of(place: _Place) -> Hashable:
        """What a start reads of a log, or a file: many elsewhere do not hide one there."""
        return place.key[1], bool(starting(place))

    for place, issue, more in _issues(first, RULES, part_of):
        replicas = list(dict.fromkeys(holders[place.key]))
        name = place.path.rsplit("/", 1)[-1]
        newest = [
            own
            for one in replicas
            if (own := quorum.loaded_snapshot(one)) is not None and own.evidence.name == name
        ]
        stops, halts = "", issue.kind == END_MARKER and place.in_log
        severity: Severity | None = None
        if halts:
            severity = "critical"
            stops = f"Kafka fails over it while it opens the log, wherever a snapshot ends: {replicas_text(replicas)} cannot start. "
        elif issue.kind in REFUSED:
            stops = "Kafka's reader refuses it, and a node that reads it stops. "
            if readers := starting(place):
                severity = "critical" if issue.kind == LEVEL else None
                halts = severity is not None and readers == replicas
                stops = f"{stops}A start of {replicas_text(readers)} reads it. "
            elif newest and not place.in_log:
                severity, stops = "critical", f"{stops}A start begins with this file. "
                if len(replicas) == 1:
                    stops = f"{stops}{instead_of(quorum, newest[0])[0]} "
        row = _row(
            place,
            issue,
            f"{sentence(_record(place, issue))} breaks a rule of metadata records: {issue.text}. {stops}{_RULE_ADVICE}{and_held_by(replicas)}{and_more(more)}",
            replicas=replicas,
            more=more,
            **({"stops": NODES} if halts else {}),
        )
        yield replace(row, severity=severity)
    yield from told_once(_compressed(quorum))
    named = (one.end_offset for one in quorum.credible_snapshots if one.voters is not None)
    voters_from = min(named, default=LAST_OFFSET)
    yield from told_once(row for log in quorum.logs for row in _controls(log, voters_from))
    yield from told_once(row for log in quorum.logs for row in _without_voters(quorum, log))


def _starts_with(quorum: Quorum, replica: str, place: _Place) -> bool:
    """Whether a start reads such a record: it begins with the batch at the newest snapshot's end."""
    found = [one for one in quorum.loadable_snapshots(replica) if one.is_named_as_shipped]
    last = int(place.batches.last_offsets[place.row])
    return place.in_log and all(last >= one.end_offset for one in found[-1:])


def _controls(log: LogView, voters_from: int) -> Iterator[BadRow]:
    """The control records of a log that no leader writes there. `voters_from` is where a set of
    voters stands by the snapshots.
    """
    for (row, one, text), more in capped(_unwritten(log, voters_from)):
        base = int(log.evidence.log.base_offsets[row])
        yield at_batch(
            log,
            row,
            f"The {one.type} record at offset {base + one.record_index} breaks a rule of metadata records: {text}. {_RULE_ADVICE}{and_more(more)}",
            base + one.record_index,
            evidence={
                "batch_id": log.evidence.log.id_text(row),
                "record_index": one.record_index,
                "kind": "control",
                "detail": text,
                "more": more,
            },
        )


def _unwritten(log: LogView, voters_from: int) -> Iterator[tuple[int, ControlRecord, str]]:
    """The same with what is wrong. Where this log names voters earlier, they stand from there on."""
    elected: dict[tuple[int, int], int] = {}
    for row in log.rows[log.remarkable].tolist():
        offset = int(log.evidence.log.base_offsets[row])
        for one in log.controls(row):
            if one.type == KRAFT_VOTERS:
                voters_from = min(voters_from, offset)
            elif one.type == LEADER_CHANGE:
                for problem in _unelected(one):
                    yield row, one, problem
                election = int(log.evidence.log.epochs[row]), (one.data or {}).get("leaderId", -1)
                first = elected.setdefault(election, offset + one.record_index)
                if first < offset + one.record_index:
                    yield (
                        row,
                        one,
                        f"that leader has begun epoch {election[0]} at offset {first}, and writes one such record only",
                    )
            elif one.type in (HEADER, FOOTER):
                yield row, one, "it belongs to a snapshot, and this is a log"
            elif one.data and one.data.get("kRaftVersion") == 0 and offset >= voters_from:
                yield row, one, "it takes kraft.version back to 0 while a set of voters stands"


def _without_voters(quorum: Quorum, log: LogView) -> Iterator[BadRow]:
    """A log that ends with a level of kraft.version for which voters must stand in the log or a
    snapshot, and do not: whoever is elected throws (Kafka's LeaderState).
    """
    controls = list(log.control_records())
    named = any(one.type == KRAFT_VOTERS for *_, one in controls)
    if named or not log.covers(0, log.end_offset or 0):
        return
    levels = [
        (offset, row, one, one.data["kRaftVersion"])
        for offset, _, row, one in controls
        if one.type == KRAFT_VERSION and one.data
    ]
    for offset, row, one, level in levels[-1:]:
        snapshots = quorum.snapshots_of(log.label)
        told = any(each.voters or each.has_unread_voters for each in snapshots)
        if level != 1 or told or any(each.end_offset > offset for each in snapshots):
            continue
        yield at_batch(
            log,
            row,
            f"The {one.type} record at offset {offset} sets kraft.version to {level}, and no record names the voters. "
            "A controller that is elected stops with an exception, so that nobody can lead. "
            "Begin a new quorum with voters of its own with kraftlog recover.",
            offset,
            severity="critical",
            evidence={
                "batch_id": log.evidence.log.id_text(row),
                "record_index": one.record_index,
                "kind": "control",
                "stops": CONTROLLERS,
            },
        )


def _unelected(change: ControlRecord) -> Iterator[str]:
    """Why no election has this outcome; who granted the vote is not told of every leader."""
    if change.data is None:
        return
    leader, voters = change.data["leaderId"], voter_ids(change.data["voters"])
    granting = voter_ids(change.data["grantingVoters"])
    if voters and leader not in voters:
        yield f"leader {leader} is none of its voters ({numbers(sorted(voters))})"
    elif granting and 2 * len(granting & voters) <= len(voters):
        yield f"leader {leader} was elected by {voters_text(sorted(granting))}, no majority of the voters ({numbers(sorted(voters))})"


def _compressed(quorum: Quorum) -> Iterator[BadRow]:
    """The compressed batches of each log and each snapshot, by their columns."""
    held: list[tuple[str, BatchColumns, SnapshotView | None]] = [
        *((one.label, one.evidence.log, None) for one in quorum.logs),
        *((one.replica, one.evidence.batches, one) for one in quorum.every_snapshot),
    ]
    for replica, columns, snapshot in held:
        packed = np.flatnonzero(columns.crc_valid & (columns.attributes & CODEC_MASK != 0))
        if not len(packed):
            continue
        row, count = int(packed[0]), len(packed)
        base, codec = int(columns.base_offsets[row]), codec_name(int(columns.attributes[row]))
        which = f"The batch at offset {base} is"
        if count > 1:
            which = f"{count:,} batches from offset {base} on are"
        if snapshot is not None:
            which = f"{count:,} of {len(columns):,} batches in {snapshot.evidence.name} {'is' if count == 1 else 'are'}"
        yield BadRow(
            replica,
            f"{which} compressed ({codec}), and KRaft never compresses: find out who wrote that.",
            quorum.by_label[replica].path(row) if snapshot is None else snapshot.path,
            int(columns.positions[row]),
            base if snapshot is None else None,
            batch_leader_epoch=int(columns.epochs[row]),
            evidence={
                "batch_id": columns.id_text(row),
                "detail": f"compressed with {codec}",
                "batches": count,
            },
        )


@check(
    "transactions_well_formed", "critical", "log", "KIP-868",
    "Begin, End and Abort of metadata transactions pair up and do not nest",
    action="origin", over=coverage.batches,
    meaning="""Begin, End and Abort records of metadata transactions do not pair up, and Kafka's
    loader fails there. Or a later leader has written in one that is open, which Kafka's leaders
    abort first. At level info a transaction is still open at the log's end: its records
    have no effect until it ends, which is usual in the moments after the first start of a
    cluster. At level warning one is open at a metadata.version that has none, and nobody can
    lead.""",
    advice="""Look for the controller that wrote the record, by the leader of that epoch. If an
    open transaction stays open in the next copy, the active controller is stuck: read its
    server.log, and move leadership.""",
)  # fmt: skip
def transactions(quorum: Quorum) -> Iterator[BadRow]:
    yield from told_once(row for log in quorum.logs for row in broken_transactions(quorum, log))


def broken_transactions(quorum: Quorum, log: LogView) -> Iterator[BadRow]:
    """What is wrong with those of one replica."""
    # A snapshot is never taken inside a transaction (`aligned` tells of one that was): at its end
    # none is open.
    closed = sorted({one.end_offset for one in quorum.credible_snapshots})
    found = newest_health(quorum)
    hidden = None if found is None else found.hidden_level
    yield from _transactions(log, closed, hidden)


MV_3_6_IV1 = 13
"""The first metadata.version with transactions."""


def _transactions(
    log: LogView, closed: list[int], hidden: tuple[int, int] | None
) -> Iterator[BadRow]:
    """One replica's Begin, End and Abort in order. Where the log begins, or goes on after a hole or
    after what cannot be decoded, nobody knows what is open. `hidden` is `Health.hidden_level`.
    """
    gaps = sorted([*(((one.row, -1), one.end) for one in log.holes), *_undecoded(log)])
    opened: tuple[int, int] | None = None
    unknown_from: int | None = log.start_offset or None
    for offset, row, event in log.transaction_marks:
        here = (row, event.record_index)
        while gaps and here > gaps[0][0]:
            opened, unknown_from = None, gaps.pop(0)[1]
        if unknown_from is not None and any(unknown_from <= end <= offset for end in closed):
            unknown_from = None
        problem = _misplaced_event(log, event, opened, unknown_from is None)
        if problem is not None:
            yield _event(log, here, problem, None, {"stops": NODES})
        elif opened is not None:
            yield from _outlived(log, opened, here, event.type == ABORT)
        opened = here if event.type == BEGIN else None
        unknown_from = None
    if opened is not None and not gaps:
        if outlived := list(_outlived(log, opened, (int(log.rows[-1]), 0), False)):
            yield from outlived
            return
        text = (
            "A metadata transaction is still open at the log's end: its records have no effect until it ends. This is usual right after a start. "
            "If it stays open in the next copy, the controller is stuck."
        )
        if hidden is None or hidden[0] != _offset(log, opened) or hidden[1] >= MV_3_6_IV1:
            yield _event(log, opened, text, "info", {})
            return
        text = (
            f"A metadata transaction is open at the log's end, and metadata.version {hidden[1]} has no transactions. "
            "From Kafka 3.6 on, a controller that is elected stops with an exception, so that nobody can lead. "
            "Begin a new quorum with what remains with kraftlog recover."
        )
        yield _event(log, opened, text, "warning", {"stops": CONTROLLERS})


def _undecoded(log: LogView) -> Iterator[tuple[tuple[int, int], int]]:
    """The places of records that cannot be decoded, which may begin or end a transaction, each with
    the offset behind it.
    """
    for row in log.rows[log.remarkable].tolist():
        content = log.content(row)
        for one in () if content is None else content.issues:
            if one.kind in _HIDING:
                here = (row, one.record_index)
                yield here, _offset(log, here) + 1


_HIDING = RECORD_KINDS - {FaultKind.BATCH_TRAILING} | {
    FaultKind.COMPRESSION,
    FaultKind.DECOMPRESSION_LIMIT,
}


def _misplaced_event(
    log: LogView, event: ControlRecord, opened: tuple[int, int] | None, known: bool
) -> str | None:
    advice = "Kafka's loader fails there. Find out which controller wrote it."
    if event.type == BEGIN and opened is not None:
        name = event.data["name"] if event.data else "not known"
        told = f"its name is {name}" if name else "it has no name"
        where = f"inside the one begun at offset {_offset(log, opened)}"
        return f"A metadata transaction begins {where} ({told}). {advice}"
    if event.type != BEGIN and opened is None and known:
        word = "ends" if event.type == END else "aborts"
        return f"A record {word} a metadata transaction while none is open. {advice}"
    return None


def _outlived(
    log: LogView, opened: tuple[int, int], closed: tuple[int, int], is_abort: bool
) -> Iterator[BadRow]:
    """A transaction in which a later leader has written. The first record of a new leader aborts one
    that is open. Source: Kafka's ActivationRecordsGenerator.
    """
    columns = log.evidence.log
    start, end = np.searchsorted(log.rows, (opened[0], closed[0] + 1))
    rows, epochs = log.rows[start:end], log.epochs[start:end]
    written = rows[(epochs > epochs[0]) & (columns.attributes[rows] & CONTROL == 0)]
    if not len(written) or (is_abort and closed == (int(written[0]), 0)):
        return
    first = int(written[0])
    text = (
        f"A metadata transaction that begins at offset {_offset(log, opened)} is open still where a later leader begins to write, at offset {int(columns.base_offsets[first])}. "
        "Kafka's leaders abort it first, so the log was changed. No record from its begin on has an effect before it ends. Where it does not, the next leader aborts all of them. "
        "Keep all folders, and restart no controller before you know what was changed."
    )
    yield _event(log, opened, text, None, {})


def _offset(log: LogView, place: tuple[int, int]) -> int:
    return int(log.evidence.log.base_offsets[place[0]]) + place[1]


def _event(
    log: LogView,
    place: tuple[int, int],
    message: str,
    severity: Severity | None,
    stops: Mapping[str, str],
) -> BadRow:
    where = {"batch_id": log.evidence.log.id_text(place[0]), "record_index": place[1]}
    evidence, offset = {**where, **stops}, _offset(log, place)
    return at_batch(log, place[0], message, offset, severity=severity, evidence=evidence)
