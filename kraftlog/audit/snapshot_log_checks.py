"""Checks of checkpoint files against the logs: whether a snapshot is of this history, committed, and
where its log needs it to begin.

What is right by the file alone `snapshot_checks` asks. Source: KIP-630 "Snapshot Format", "When to
Delete Snapshots", "Changes to Leader Election", "Validation of Snapshot and Log", KAFKA-14619.
"""

from collections.abc import Iterator

import numpy as np

from kraftlog.audit import coverage
from kraftlog.audit.check import ActionKey, BadRow, check
from kraftlog.audit.coverage import Coverage
from kraftlog.audit.loss_words import known_losses, lost_words
from kraftlog.audit.triage import (
    NEVER_TOGETHER,
    best_cover,
    fetch_again,
    holding,
    instead_of,
    replicas_text,
    sound_snapshots,
    start_is_covered,
)
from kraftlog.plain import offsets_text
from kraftlog.quorum.copy_times import copy_explains
from kraftlog.quorum.holdings import Held
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import CutOff, Quorum
from kraftlog.quorum.shortfalls import has_lost_its_end
from kraftlog.quorum.snapshots import BEFORE_EPOCHS, SnapshotView
from kraftlog.relations import moment


def _holding(quorum: Quorum, one: SnapshotView) -> Iterator[tuple[LogView, int]]:
    """(log, index of its batch) of each log that holds the last offset of a snapshot, the replica's
    own first. Uncommitted tails are left out, and so are logs that differ below that offset from the
    replica's own one, or from one that leads up to the snapshot: that finding is of the logs.
    """
    end, own = one.end_offset, quorum.by_label[one.replica]
    if end <= 0 or one.replica in quorum.foreign:
        return

    def speaks(log: LogView) -> bool:
        return log.index_at(end - 1) >= 0 and end <= quorum.speaks_until(log, one.replica)

    others = [log for log in quorum.peers if log is not own]
    leads = (log for log in others if log.ends_with(*one.id))
    usual = own if speaks(own) else next(leads, None)
    for log in (own, *others):
        if speaks(log) and (
            usual is None or log is usual or quorum.surely_agree(usual, log) >= end
        ):
            yield log, log.index_at(end - 1)


_CLAIMS = "A node that starts from it would claim the wrong history, and may cut its log. Set the file aside."
_MAY_CLAIM = (
    "Kafka goes by the name alone. If that is wrong, a node that starts from it would claim the wrong history, and may cut its log. "
    "If the header of the batch is (no CRC covers its epoch), nothing follows. Compare the file with another replica's."
)


@check(
    "snapshot_epoch_agrees", "critical", "snapshot", "KIP-630 Snapshot Format",
    "the epoch in a snapshot's name is that of its last offset in every log, and fits what begins there",
    action="snapshot", over=coverage.snapshots, after="snapshot_name_valid",
    meaning="""The epoch in a checkpoint's name is not the epoch that the logs have at its last
    offset, or not that of its own batches, or there is none yet, at offset 0; or a log begins there, or behind it, with a batch that no such
    epoch can lie before: each epoch begins with a LeaderChange, and none is followed by an older one. A node that starts from it would claim a history that
    never was, and might win an election with it. A log that ended before that epoch says nothing against
    it, unless a majority of the voters did, or the snapshot's own node has not heard of the epoch. Or the file is right, and the logs have lost what it
    holds: voters that lacked committed records were started together, and the others cut theirs.
    Where its batches are of its epoch and its last record is newer than what the logs hold up to where a
    newer epoch begins, the finding says so, with what it has otherwise. A warning is of a file that ends
    below the start of its log, which Kafka deletes before it loads any.""",
    advice="""Set the file aside before the node starts. Take another replica's snapshot. Where the finding
    says that it may be the only copy of committed records, keep it, and see what is to be done again with
    kraftlog diff FOLDER@OFFSET SNAPSHOT (a replica's folder, the snapshot's end).""",
)  # fmt: skip
def epoch_agrees(quorum: Quorum) -> Iterator[BadRow]:
    for one in quorum.snapshots:
        batches = one.evidence.batches
        odd = np.flatnonzero(batches.epochs != one.epoch)
        if one.path not in quorum.told_otherwise and not len(odd) and not one.precedes_epochs:
            continue
        found = {log.label: int(log.epochs[index]) for log, index in _holding(quorum, one)}
        against = {label: epoch for label, epoch in found.items() if epoch != one.epoch}
        begins = quorum.start_against(one)
        cut = quorum.cut_off.get(one.path)
        is_base = cut is not None and _goes_on_behind(quorum, cut)
        is_odd = against or begins is not None or len(odd) or one.precedes_epochs
        if not is_odd and not is_base:
            continue
        if cut is not None:
            yield _cut_off_row(quorum, cut)
            continue
        label, epoch = next(iter(against.items()), (begins[0].label if begins else None, None))
        where = (
            f"offset {one.end_offset - 1} is of epoch {epoch} in the log of {label}"
            if epoch is not None
            else begins[1]
            if begins is not None
            else BEFORE_EPOCHS
            if one.precedes_epochs
            else f"its batches are of epoch {one.epoch_of_batches}"
            if one.epoch_of_batches is not None
            else f"a batch in it is of epoch {int(batches.epochs[odd[0]])}"
        )
        is_certain = against or begins or one.precedes_epochs or one.epoch_of_batches is not None
        asks: dict[str, ActionKey] = {}
        todo = _CLAIMS if is_certain else _MAY_CLAIM
        is_deleted = not any(each is one for each in quorum.loadable_snapshots(one.replica))
        if is_deleted:
            todo = "Kafka deletes it at its next start, before it looks at any: find out who put it there."
        elif begins is not None:
            instead, asks = _in_its_place(quorum, one)
            todo = f"A node that starts from it would claim the wrong history. {instead}"
        yield BadRow(
            one.replica,
            f"Snapshot {one.evidence.name} says epoch {one.epoch}, but {where}. {todo}",
            one.path,
            int(batches.positions[odd[0]]) if len(odd) and not against else None,
            one.end_offset - 1 if one.end_offset else None,
            batch_leader_epoch=one.epoch,
            other_replica=label if label != one.replica else None,
            severity="warning" if is_deleted else None,
            evidence={"epochs_in_logs": found, "batches_of_other_epoch": len(odd), **asks},
        )


def _in_its_place(quorum: Quorum, one: SnapshotView) -> tuple[str, dict[str, ActionKey]]:
    """What is done about a snapshot of an epoch that cannot be; nobody empties a folder for a name."""
    start = quorum.by_label[one.replica].start_offset or 0
    if start and not any(each.end_offset >= start for each in sound_snapshots(quorum)):
        why = "No other snapshot at hand reaches the start of its log: keep all folders, and find out who named it so before any node starts."
        return why, {"asks": "stop"}
    return instead_of(quorum, one)


def _cut_off_row(quorum: Quorum, cut: CutOff) -> BadRow:
    """A snapshot that may be of a history that was cut: it is more than a wrong name."""
    one, label, start = cut.snapshot, cut.log.label, cut.start
    epoch = cut.log.epoch_at(start)
    where = f"the log of {label} is in epoch {epoch} from offset {start} on"
    kept, asks = _keep(quorum, cut)
    newer = "it is newer than what that log holds below"
    if not cut.is_seen:
        newer = "that log begins too late to show whether it is newer"
    return BadRow(
        one.replica,
        f"Snapshot {one.evidence.name} may be the only copy of committed records that were cut: it is whole and says epoch {one.epoch}, but {where}. "
        f"Kafka makes a snapshot only of what is committed; {newer}, and no log at hand leads up to it. "
        f"A node that starts from it would claim a history that the others have left. {kept}",
        one.path,
        offset=one.end_offset - 1,
        batch_leader_epoch=one.epoch,
        other_replica=label if label != one.replica else None,
        evidence={
            "newer_epoch_from": start,
            "objects_lost": known_losses(quorum, one.path, start),
            **asks,
        },
    )


def _goes_on_behind(quorum: Quorum, cut: CutOff) -> bool:
    """Whether the log beside such a snapshot needs it, and goes on behind it."""
    log, end = quorum.by_label[cut.snapshot.replica], cut.snapshot.end_offset
    is_of_it = log.epoch_at(end - 1) in (-1, cut.snapshot.epoch)
    return is_of_it and 0 < (log.start_offset or 0) <= end < (log.end_offset or 0)


def _keep(quorum: Quorum, cut: CutOff) -> tuple[str, dict[str, ActionKey]]:
    """What is done with such a snapshot, and what only it holds, where that is known."""
    objects = known_losses(quorum, cut.snapshot.path, cut.start)
    told = f" {lost_words(objects)}" if objects else ""
    if _goes_on_behind(quorum, cut):
        todo = (
            "The log beside it goes on from there, so these are two histories. Keep both folders whole, and find out which one the brokers follow. "
            f"{NEVER_TOGETHER}{told}"
        )
        return todo, {"asks": "stop"}
    todo = f"Keep a copy of the file, then set it aside, and see with kraftlog diff what it has otherwise. Only if its name is wrong is nothing lost.{told}"
    return todo, {}


@check(
    "snapshot_batch_aligned", "critical", "snapshot", "KAFKA-14619, KIP-868",
    "a snapshot's end offset is a batch's boundary, and in no metadata transaction, in every log that holds it",
    action="snapshot", over=coverage.snapshots,
    meaning="""A snapshot ends inside a record batch. A node whose log begins there asks for the
    middle of the batch, is sent the whole, and stops with UnexpectedAppendOffsetException, again
    at each start (seen with Kafka 4.4.0). Or it ends inside a metadata transaction, where no Kafka takes
    one. What the transaction wrote before is lost to a node that begins there, and a controller stops at
    the record that ends it.""",
    advice="""While the node is stopped, set this snapshot aside and do what the finding says: the
    node begins with another one that reaches its log's start, of its own or from the replica that is
    named. Where there is none, it must join anew with an empty log folder.""",
)  # fmt: skip
def aligned(quorum: Quorum) -> Iterator[BadRow]:
    found = [(one, _cuts(quorum, one)) for one in quorum.snapshots]
    unfit = {one.id for one, inside in found if inside or quorum.open_transaction(one)}
    for one, inside in found:
        for label, (base, last) in list(inside.items())[:1]:
            instead, asks = instead_of(quorum, one, unfit)
            yield BadRow(
                one.replica,
                f"Snapshot {one.evidence.name} ends inside the batch of offsets {base} to {last} (log of {label}). "
                "A node that begins with it asks for the middle of that batch and is sent the whole. It stops with UnexpectedAppendOffsetException, again at each start. "
                f"{instead}",
                one.path,
                offset=one.end_offset,
                other_replica=label if label != one.replica else None,
                evidence={"batches": inside, **asks},
            )
        opened = quorum.open_transaction(one)
        if opened is not None and not inside and one.path not in quorum.cut_off:
            log, transaction = opened
            instead, asks = instead_of(quorum, one, unfit)
            yield BadRow(
                one.replica,
                f"Snapshot {one.evidence.name} ends inside {transaction.words} (log of {log.label}), where no Kafka takes one. "
                "A node that begins with it never sees what that wrote before, and a controller stops at the record that ends it, again at each start. "
                f"{instead}",
                one.path,
                offset=one.end_offset,
                other_replica=log.label if log.label != one.replica else None,
                evidence={
                    "transaction_begins": transaction.begin,
                    "transaction_ends": transaction.until if transaction.is_ended else None,
                    **asks,
                },
            )


def _cuts(quorum: Quorum, one: SnapshotView) -> dict[str, tuple[int, int]]:
    """The batch inside which a snapshot ends, by the logs that hold it."""
    if one.path not in quorum.told_otherwise or one.path in quorum.cut_off:
        return {}
    return {
        log.label: (int(log.base[index]), int(log.last[index]))
        for log, index in _holding(quorum, one)
        if int(log.last[index]) != one.end_offset - 1
    }


@check(
    "snapshot_timestamp_agrees", "warning", "snapshot", "KIP-630 Snapshot Control Records",
    "LastContainedLogTimestamp is that of the last record contained",
    action="snapshot", over=coverage.snapshots,
    meaning="""The header's LastContainedLogTimestamp is not the time of the last record before the
    snapshot's end. Kafka's retention of snapshots goes by that time. A file whose header was
    changed may be changed elsewhere, too. Where it is the time of a later batch of the same epoch,
    or of a batch in another snapshot, Kafka has written it so, and it is only a note. A leader under
    load takes the time of a batch from a buffer that it has filled again meanwhile (KAFKA-20913, seen
    with Kafka 3.9.1 to 4.4.0).""",
    advice="""Look at snapshot_equals_replay for the same file. If that holds, only retention by
    time goes wrong, and only until the next snapshot.""",
)  # fmt: skip
def timestamp_agrees(quorum: Quorum) -> Iterator[BadRow]:
    for one in quorum.snapshots:
        stamp = one.last_contained_timestamp
        if stamp is None or one.path in quorum.cut_off:
            continue  # of another history than the logs: `epoch_agrees` tells
        for log, index in _holding(quorum, one):
            row = int(log.rows[index])
            newest = int(log.evidence.log.max_timestamps[row])
            if int(log.last[index]) == one.end_offset - 1 and newest != stamp:
                later = _later_of(log, index, stamp) or _in_another(quorum, one, newest, stamp)
                is_a_note = later is not None or _may_be_of_a_buffer(quorum, one, newest, stamp)
                if later is not None:
                    why = f"That is the time of {later}, which the leader wrote before it took the snapshot: Kafka does so under load (KAFKA-20913). The time alone is no fault."
                elif is_a_note:
                    why = "The node led then, and made it later still: under load Kafka tells the time of another batch in a buffer (KAFKA-20913). The time alone is no fault."
                else:
                    why = "Retention by time uses that time, and the file may have been changed. Compare its state with the log's."
                whose = (
                    "the log beside it" if log.label == one.replica else f"the log of {log.label}"
                )
                yield BadRow(
                    one.replica,
                    f"Snapshot {one.evidence.name} says that its last record is of {_time(stamp)}, but {whose} has {_time(newest)} at offset {one.end_offset - 1}. "
                    + why,
                    one.path,
                    offset=one.end_offset - 1,
                    other_replica=log.label if log.label != one.replica else None,
                    severity="info" if is_a_note else None,
                    evidence={"header_timestamp": stamp, "log_timestamp": newest},
                )
            break


def _later_of(log: LogView, index: int, stamp: int) -> str | None:
    """The next batch of a time after one batch of the same epoch, by its base offset."""
    after = slice(index + 1, None)
    is_it = log.evidence.log.max_timestamps[log.rows[after]] == stamp
    found = np.flatnonzero(is_it & (log.epochs[after] == log.epochs[index]))
    return f"offset {int(log.base[after][found[0]])}" if len(found) else None


def _in_another(quorum: Quorum, own: SnapshotView, newest: int, stamp: int) -> str | None:
    """Another snapshot with a batch of a time after the newest record's, by its name: a leader
    writes its snapshots by the buffers of its log. Source: KafkaRaftClient.createSnapshot.
    """
    for one in quorum.own_snapshots if stamp > newest else ():
        if one.id != own.id and stamp in one.evidence.batches.max_timestamps:
            return f"a batch in snapshot {one.evidence.name}"
    return None


def _may_be_of_a_buffer(quorum: Quorum, one: SnapshotView, newest: int, stamp: int) -> bool:
    """Whether a leader can have had a batch of a time in its buffers before it made a snapshot: one that
    it never wrote, as it led no longer, or that was of a snapshot which retention has dropped.
    """
    made = int(one.evidence.batches.max_timestamps[0])
    led = quorum.leaders.get(one.epoch) == quorum.by_label[one.replica].evidence.node_id
    return led and newest < stamp < made


def _time(stamp: int) -> str:
    at = moment(stamp)
    return f"{at:%Y-%m-%d %H:%M:%S}.{stamp % 1000:03} UTC" if at else str(stamp)


@check(
    "snapshot_within_committed", "critical", "snapshot",
    "KIP-630 Loading State and Frequency of Compaction, KIP-630 Validation of Snapshot and Log",
    "no snapshot ends above the upper committed bound",
    action="stop", over=coverage.snapshots,
    meaning="""A snapshot ends above everything that can be committed. Kafka only takes snapshots
    of committed records, so it is of another log, or committed records are missing from
    every copy. At level info its logs were copied a moment before it.""",
    advice="""Copy the quorum again. If the finding stays, set the snapshot aside before the node
    starts, and find out where it comes from.""",
)  # fmt: skip
def within_committed(quorum: Quorum) -> Iterator[BadRow]:
    bounds = quorum.bounds
    ends = [log.end_offset or 0 for log in quorum.peers if not log.is_empty]
    # A log that does not contradict it makes a snapshot itself evidence of what is committed.
    upper = bounds.upper if bounds.upper is not None else max(ends, default=None)
    for one in quorum.own_snapshots:
        against = quorum.stray_snapshots.get(one.path) or quorum.contradiction(one)
        if upper is None or one.end_offset <= upper:
            continue
        if against is None and bounds.upper is None:
            continue
        reason = (
            bounds.upper_reason if bounds.upper is not None else "every log at hand ends before it"
        )
        explained = against is None
        asks: dict[str, ActionKey] = {}
        advice = (
            "The logs were probably copied a moment before it: copy the quorum again to be sure."
        )
        if not explained:
            instead, asks = _set_aside(quorum, one)
            advice = f"It is not of this log: {against}. {instead}"
        yield BadRow(
            one.replica,
            f"Snapshot {one.evidence.name} ends at offset {one.end_offset}, but nothing from offset {upper} on can be committed: {reason}. {advice}",
            one.path,
            offset=one.end_offset,
            severity="info" if explained else None,
            evidence={"upper_bound": upper, "reason": reason, "contradiction": against, **asks},
        )


def _set_aside(quorum: Quorum, one: SnapshotView) -> tuple[str, dict[str, ActionKey]]:
    """What is done with a snapshot that is not of the log beside it, before its node starts."""
    cut = quorum.cut_off.get(one.path)
    if cut is None:
        if quorum.by_label[one.replica].is_empty:
            return "Set it aside before the node starts.", {}
        return _in_its_place(quorum, one)
    kept, asks = _keep(quorum, cut)
    return (
        f"But it may be the only copy of committed records that were cut from offset {cut.start} on. {kept}",
        asks,
    )


def _unread_cover(quorum: Quorum, log: LogView) -> SnapshotView | None:
    """The snapshot that reaches a log's start by its name, where no complete one does, and which
    was not read: whether the state is lost is not known.
    """
    start = log.start_offset or 0
    reaching = [one for one in quorum.snapshots_of(log.label) if one.end_offset >= start > 0]
    if any(one.is_complete for one in reaching):
        return None
    return next((one for one in reaching if one.not_read), None)


def _starts(quorum: Quorum) -> Coverage:
    return coverage.logs(quorum).but_for(
        (log.label, f"{one.evidence.name} cannot be read ({one.not_read})")
        for log in quorum.logs
        if (one := _unread_cover(quorum, log)) is not None
    )


@check(
    "log_start_covered", "critical", "snapshot",
    "KIP-630 Motivation, KIP-630 Validation of Snapshot and Log, KAFKA-14238",
    "a log that begins above 0 has a complete snapshot that reaches its start",
    action="refetch", over=_starts,
    meaning="""A log begins above offset 0 and no complete snapshot reaches its start. The state
    of the offsets between is lost on this replica. Kafka refuses to start where no snapshot's name
    reaches the log's start. It does not look further: it begins with an incomplete one.""",
    advice="""Copy a snapshot from a replica that the finding names, or have kraftlog checkpoint
    write it from the log of one: the finding has the command, with the replica by its label. If none
    has either, or a batch or a metadata transaction goes on over that offset, the node must join anew
    with an empty log folder, while a majority of the others is up.""",
)  # fmt: skip
def start_covered(quorum: Quorum) -> Iterator[BadRow]:
    for log in quorum.logs:
        start = log.start_offset
        if not start or log.evidence.single_file or log.unreadable_start:
            continue
        if start_is_covered(quorum, log) or _unread_cover(quorum, log) is not None:
            continue
        own = quorum.snapshots_of(log.label)
        lost_from = max((one.end_offset for one in own if one.is_complete), default=0)
        reaching = max(
            (one for one in own if one.end_offset >= start), key=lambda one: one.id, default=None
        )
        at = start if reaching is None else reaching.end_offset
        helpers, advice, asks = _who_covers(quorum, log, start, at)
        does = (
            "Kafka refuses to start."
            if reaching is None
            else f"Kafka goes by the names of snapshots, and would begin with {reaching.evidence.name}, which is not complete: set it aside."
        )
        yield BadRow(
            log.label,
            f"The log begins at offset {start}, and no complete snapshot reaches up to there. "
            f"The state of {offsets_text(lost_from, start)} is lost here. {does} {advice}",
            log.evidence.segments[0].path,
            offset=lost_from,
            end_offset=start,
            evidence={"log_start_offset": start, "covered_by": helpers, **asks},
        )


def _who_covers(
    quorum: Quorum, log: LogView, start: int, at: int
) -> tuple[list[str], str, dict[str, ActionKey]]:
    """Who has a snapshot that reaches a log's start, or files that give one; what to do, and what
    the finding asks for by that.
    """
    reaching = (one for one in sound_snapshots(quorum) if one.end_offset >= start)
    best, holders = best_cover(log, reaching)
    if best is not None:
        return holders, f"Take {best.evidence.name} from {replicas_text(holders)}.", {}
    makers = [
        one.label
        for one in quorum.peers
        if one is not log
        and one.allows_snapshot(at)
        and quorum.confirmed(one.label, at) == at
        and any(a <= at <= b for a, b in Held.by(quorum, one).ranges)
    ]
    if makers:
        return (
            makers,
            f"No replica at hand has a sound one, but {holding(makers)} the records: put what kraftlog checkpoint {makers[0]} --at {at} --out DIR writes into its log folder.",
            {},
        )
    todo, asks = fetch_again(quorum, log.label)
    return [], f"No replica at hand has a sound one, or could give one. {todo}", asks


def _ends(quorum: Quorum) -> Coverage:
    """Snapshots that are held against the end of the log beside them."""
    logs = (log for log in quorum.logs if quorum.snapshots_of(log.label) and log.unreadable_end)
    return coverage.snapshots(quorum).but_for(coverage.unread(logs))


@check(
    "snapshot_ahead_of_log", "warning", "snapshot",
    "KIP-630 Changes to Leader Election, KIP-630 Validation of Snapshot and Log",
    "a snapshot past the log's end has an empty log",
    action="refetch", over=_ends,
    goes_by=("copy_skew_ms",),
    meaning="""The newest snapshot ends after the log's end, and the log is not empty. This is the
    state between fetching a snapshot and dropping the old log. At its next start the node drops
    the log and begins at the snapshot's end. At level info the log was copied before the snapshot
    was taken.""",
    advice="""Where the finding says that the snapshot holds what the log did, a node that was
    killed on its way needs nothing. Otherwise copy the log folder before the node starts, and
    find out where the end of its log went.""",
)  # fmt: skip
def ahead_of_log(quorum: Quorum) -> Iterator[BadRow]:
    for log in quorum.logs:
        newest = quorum.loaded_snapshot(log.label)
        if newest is None or log.is_empty or log.unreadable_end:
            continue
        end, epoch = log.end_offset or 0, log.last_epoch or 0
        discards = newest.id > (epoch, end)
        if not discards:
            # Kafka goes by the epoch first; a larger end offset of an older epoch cannot be.
            newest = max(quorum.loadable_snapshots(log.label), key=lambda one: one.end_offset)
        if not discards and newest.end_offset <= end:
            continue
        start = int(log.base[0])
        stamp = newest.last_contained_timestamp
        live = stamp is not None and copy_explains(quorum, log, stamp)
        against = quorum.stray_snapshots.get(newest.path) or quorum.contradiction(newest)
        takes_over = discards and against is None and _takes_over(quorum, log, newest)
        instead, asks = ("", {}) if against is None else _set_aside(quorum, newest)
        yield BadRow(
            log.label,
            f"The newest snapshot, {newest.evidence.name}, is ahead of the log, which ends at offset {end} of epoch {epoch}. "
            + (
                f"The next start discards {offsets_text(start, end)} and begins at {newest.end_offset}. "
                if discards
                else "Its epoch is older, so the next start keeps the log all the same. "
            )
            + (
                "This is usual in a copy of a running node where the log was copied first."
                if live
                else f"The file is not of this log ({against}). {instead}"
                if against is not None
                else "The snapshot holds what they did. A node that was killed when it had fetched a snapshot leaves this. "
                "If this one was not, keep a copy of the folder: something took the end of its log."
                if takes_over
                else "Find out where the end of this log went before the node starts."
            ),
            newest.path,
            offset=start,
            end_offset=end,
            severity="info" if live else None,
            evidence={
                "log_end_offset": end,
                "snapshot_end_offset": newest.end_offset,
                **({} if against is None else {"set_aside": against, "asks": "snapshot"} | asks),
                **({"asks": "keep"} if takes_over else {}),
            },
        )


def _takes_over(quorum: Quorum, log: LogView, newest: SnapshotView) -> bool:
    """Whether nothing is lost where a node begins at its snapshot's end: it is whole, another log
    goes on from there, its own leaves the history nowhere, and no voter has lost more than that.
    """
    is_beyond = newest.is_complete and newest.end_offset >= (log.end_offset or 0)
    if not is_beyond or log.label in quorum.departed:
        return False
    if quorum.role(log.evidence) != "observer" and has_lost_its_end(quorum, log):
        return False
    return any(
        (one.start_offset or 0) <= newest.end_offset <= (one.end_offset or 0)
        for one in quorum.peers
        if one is not log
    )


@check(
    "snapshot_below_log_start", "info", "snapshot", "KIP-630 When to Delete Snapshots",
    "no snapshot ends below the log start offset",
    action="know", over=coverage.snapshots,
    meaning="""A snapshot ends before the log starts: nothing can be replayed on it. Kafka
    deletes such files when it starts.""",
    advice="""Nothing needs to be done.""",
)  # fmt: skip
def below_start(quorum: Quorum) -> Iterator[BadRow]:
    for log in quorum.logs:
        start = log.evidence.first_base_offset
        for one in quorum.snapshots_of(log.label):
            if one.end_offset < start:
                yield BadRow(
                    log.label,
                    f"Snapshot {one.evidence.name} ends before the log begins, at offset {start}: nothing can be replayed on it. Kafka deletes it at its next start.",
                    one.path,
                    offset=one.end_offset,
                    evidence={"log_start_offset": start},
                )
