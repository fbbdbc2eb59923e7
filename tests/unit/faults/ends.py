"""Damages that leave sound files behind: logs that end too early, voters that were not copied, two
histories under one name.
"""

import shutil
import struct
from collections.abc import Callable
from dataclasses import replace

from kraftlog.log.batch import HEADER_SIZE
from tests.unit.audit_logs import (
    NO_OP,
    NO_PRODUCERS,
    START_MS,
    Batch,
    Node,
    copied_at,
    describe,
    frame,
    healthy_log,
    healthy_state,
    leader_change,
    partition,
    replace_batch,
    snapshot,
    stopped,
    topic,
    uvarint,
    voters_batch,
)
from tests.unit.faults.table import AT, END_POSITION, LATER, Damage, everywhere, fault

LOST = "log_end_lost"


def cut(node: Node, position: int) -> None:
    """End the last segment at a batch's end."""
    path = node.segment(6)
    path.write_bytes(path.read_bytes()[:position])


def emptied(node: Node) -> None:
    for path in node.folder.glob("*.log"):
        path.write_bytes(b"")


@fault(LOST, "critical", "3", 0, says="epoch 2 began at offset 8", also="segment_complete")
def _(nodes: list[Node]) -> None:
    emptied(nodes[2])


@fault(
    LOST, "critical", "3", 6,
    says="At least offsets 6 to 8 are lost here. Replicas 1 and 2 hold a part of them.",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """The others hold another epoch where the last of what is lost was."""
    nodes[2].segment(6).write_bytes(b"")
    nodes[2].epochs([(1, 0), (3, 8)])
    nodes[2].quorum_state(leaderId=3, leaderEpoch=3)


@fault(LOST, "critical", "3", 8, says="Replicas 1 and 2 hold it intact")
def _(nodes: list[Node]) -> None:
    cut(nodes[2], AT[8])


@fault(
    "voter_holds_committed_data", "info", "3", 8, says="see log_end_lost before you start it",
    also=LOST,
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """What is lost is not advised to be fetched by a start."""
    cut(nodes[2], AT[8])


@fault(LOST, "critical", "2", 7, says="epoch 2 began at offset 8")
def _(nodes: list[Node]) -> None:
    cut(nodes[1], AT[7])


def only_voter(nodes: list[Node], end: int = 12) -> None:
    """The first node is a quorum by itself, which was stopped at offset 12."""
    for node in nodes[1:]:
        shutil.rmtree(node.home)
    led = {
        one: leader_change(base, one, 1, granted=[1], voters=[1]) for one, base in ((1, 0), (2, 8))
    }
    log = [replace(led[one.epoch], ms=one.ms) if one.keys else one for one in healthy_log()]
    nodes[0].write([one for one in log if one.base < end])
    nodes[0].quorum_state(leaderId=1, leaderEpoch=2, currentVoters=[{"voterId": 1}])
    stopped(nodes[0], 12)


@fault(LOST, "critical", "1", 10, says="kraftlog recover puts together what", sound=only_voter)
def _(nodes: list[Node]) -> None:
    """Without others there is nobody to fetch from."""
    only_voter(nodes, 10)


@fault(
    LOST, "critical", "3", 8,
    says="Before this node starts, put the log folder of replica 2 in the place of its own",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """What 2 and 3 held was committed: an empty 3 would elect 1, which lags."""
    cut(nodes[0], AT[8])
    nodes[0].epochs([(1, 0)])
    cut(nodes[2], AT[8])


@fault(
    "file_readable", "warning", "3",
    says="too few other voters at hand are whole. Without a backup, put the log folder of replica 2 in the place of its own, with the quorum-state that is in it.",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """The same where nothing is left of 3, as `quorum_state_present` asks too."""
    cut(nodes[0], AT[8])
    nodes[0].epochs([(1, 0)])
    shutil.rmtree(nodes[2].folder)


def _led_on(*epochs: tuple[int, int]) -> Damage:
    """All logs end in epoch 1, and that of 1 after the others; 3 may have led epoch 2."""

    def damage(nodes: list[Node]) -> None:
        for node in nodes:
            node.checkpoint(6, 1).unlink()
            cut(node, AT[8] if node is nodes[0] else AT[7])
            node.epochs([(1, 0)])
            node.quorum_state(leaderId=1, leaderEpoch=1)
        nodes[0].append(Batch(8, 1, (topic("d", 4),), None, LATER))
        nodes[2].epochs([(1, 0), *epochs])
        nodes[2].quorum_state(leaderId=3 if epochs else 1, leaderEpoch=len(epochs) + 1)

    return damage


fault(
    "uncommitted_tail_diverged", "warning", "1", 8, also="log_end_lost", sound=_led_on(),
    says="epoch 2 began at offset 8; no log at hand shows what it wrote there",
)(_led_on((2, 8)))  # fmt: skip


def copied_first(nodes: list[Node]) -> None:
    """The leader of epoch 2 was copied before offset 10 was written."""
    cut(nodes[1], AT[10])
    copied_at(nodes[1], START_MS + 7500)


@fault(
    LOST, "warning", "2", 10, says="led epoch 2, of which replicas 1 and 3 hold offsets 10 to 11",
    sound=copied_first,
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    cut(nodes[1], AT[10])


@fault(LOST, "warning", "2", 10, says="led epoch 2, of which replicas 1 and 3 hold offsets 10")
def _(nodes: list[Node]) -> None:
    """Nobody has heard of a newer epoch, so that its own quorum-state need not say so."""
    cut(nodes[1], AT[10])
    (nodes[1].folder / "quorum-state").unlink()


fault(
    "voter_holds_committed_data", "info", "2", 10, says="It led the epoch in which its log ends"
)(lambda nodes: cut(nodes[1], AT[10]))  # fmt: skip


def _wrote_without(nodes: list[Node], *, until: int) -> None:
    """Voters 1 and 3 were set back into epoch 1; the log of 2, who led epoch 2, is as it was up to an
    offset.
    """
    for node in nodes[::2]:
        cut(node, AT[7])
        node.epochs([(1, 0)])
        node.quorum_state(leaderId=1, leaderEpoch=1)
    cut(nodes[1], AT[until])


fault(
    "voter_holds_committed_data", "warning", "1", 7,
    sound=lambda nodes: _wrote_without(nodes, until=9),
    says="replica 2 holds metadata that the leader of epoch 2 wrote, which it does only when all before its epoch is committed.",
)(lambda nodes: _wrote_without(nodes, until=10))  # fmt: skip


@fault(
    "voter_holds_committed_data", "warning", "1", 7,
    sound=lambda nodes: _wrote_without(nodes, until=9),
    says="lacks offsets 10 to 11, which broker 9 holds: before it starts, put the log folder of replica 9 in",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """The voter that is to lead has less than an observer."""
    Node(nodes[0].home.parent, 9).write(healthy_log())
    _wrote_without(nodes, until=10)


@fault(
    "voter_holds_committed_data", "warning", "2", 7,
    says="start controller 1 first, then only as many others as make a majority with it, and the rest, controller 2 among them, when it leads.",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """The leader of epoch 2 was set back with voter 3, and the first answer of 1 ends it."""
    for node in nodes[1:]:
        cut(node, AT[7])
        node.epochs([(1, 0)])
        node.quorum_state(leaderId=1, leaderEpoch=1)


@fault(
    "voter_holds_committed_data", "warning", "2", 7, says="may only be older than it: copy all voters",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Only an observer has what the leader of epoch 2 wrote."""
    Node(nodes[0].home.parent, 9).write(healthy_log())
    for node in nodes:
        cut(node, AT[7])
        node.epochs([(1, 0)])
        node.quorum_state(leaderId=1, leaderEpoch=1)


def writes_alone(nodes: list[Node], for_ms: int) -> None:
    """Voter 2 has gone on by itself."""
    times = (LATER, LATER + for_ms)
    nodes[1].append(*(Batch(12 + n, 2, (NO_OP,), None, at) for n, at in enumerate(times)))


fault(
    "voter_holds_committed_data", "warning", "2", 12, sound=lambda nodes: writes_alone(nodes, 60_000),
    says="Of all voters controller 2 alone holds offsets 12 to 13, written over 61 s in one epoch",
)(lambda nodes: writes_alone(nodes, 61_000))  # fmt: skip


def leads_epoch_2(nodes: list[Node]) -> None:
    describe(nodes[0], 2, 2, 12)


@fault(
    "single_leader_per_epoch", "critical", None, None, sound=leads_epoch_2,
    says="node 3 by kafka-metadata-quorum describe, and node 2 by the LeaderChange record",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    describe(nodes[0], 3, 2, 12)


@fault(
    "voter_holds_committed_data", "warning", "1", 11, sound=leads_epoch_2,
    says="the leader of epoch 3 has committed everything below offset 12, and its log cannot have",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """A leader knows no high watermark below the beginning of its epoch."""
    describe(nodes[0], 3, 3, 12)


@fault(
    "voter_holds_committed_data", "warning", "1", 8, says="cannot have one of epoch 2 there",
    sound=lambda nodes: describe(nodes[0], 1, 1, 8),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Epoch 2 cannot begin below what the leader of epoch 1 has committed."""
    describe(nodes[0], 1, 1, 20)


@fault(
    "voter_holds_committed_data", "warning", "3", 6, also="voter_holds_committed_data",
    says="committed them without one of voters 2 and 3: that one has lost them",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Voter 2 can be elected by voter 3, and voter 3 by nobody."""
    nodes[0].checkpoint(12, 2).write_bytes(snapshot(healthy_state(), 2, START_MS + 9000))
    cut(nodes[1], AT[8])
    nodes[2].segment(6).unlink()
    for node in nodes[1:]:
        node.epochs([(1, 0)])
        node.quorum_state(leaderId=1, leaderEpoch=1)


def led_but_not_written(nodes: list[Node]) -> None:
    nodes[1].epochs([(1, 0)])
    cut(nodes[1], AT[8])


@fault(LOST, "critical", "2", 8, says="that it leads epoch 2", sound=lambda nodes: None)
def _(nodes: list[Node]) -> None:
    led_but_not_written(nodes)


@fault(LOST, "critical", "2", 7, says="the first record, at offset 8. At least offsets 7 to 8")
def _(nodes: list[Node]) -> None:
    """The others have the record, from the leader that has lost it."""
    nodes[1].epochs([(1, 0)])
    cut(nodes[1], AT[7])


def _elected(*nodes: Node) -> None:
    """Voter 3 led epoch 3, and nobody has a record of it; some nodes have heard of it."""
    for node in nodes:
        node.epochs([(1, 0), (2, 8), (3, 12)])
    for node in (nodes[0], nodes[-1]):
        node.quorum_state(leaderId=3, leaderEpoch=3)


fault(LOST, "info", "3", 12, says="between its election and its first record")(
    lambda nodes: _elected(nodes[2])
)


def leads_3_too(nodes: list[Node]) -> None:
    """Two voters say that they lead epoch 3."""
    for node in (nodes[0], nodes[2]):
        node.quorum_state(leaderId=node.node_id, leaderEpoch=3)


fault(
    LOST, "critical", "3", 12, says="could be elected, as if these records", also="single_leader_per_epoch"
)(leads_3_too)  # fmt: skip


def pruned_to_its_end(nodes: list[Node]) -> None:
    """Retention moved the start of voter 3's log to its end, where its only snapshot ends."""
    nodes[2].segment(0).unlink()
    nodes[2].checkpoint(6, 1).unlink()
    nodes[2].checkpoint(12, 2).write_bytes(snapshot(healthy_state(), 2, START_MS + 11_000))
    nodes[2].epochs([(2, 12)])


fault(
    LOST, "critical", "3", 12, says="could be elected, as if these records",
    sound=pruned_to_its_end,
)(lambda nodes: _elected(nodes[0], nodes[2]))  # fmt: skip


def sent_a_newer_snapshot(nodes: list[Node]) -> None:
    """The same, its last records gone too; and its leader has sent it a snapshot of epoch 3."""
    for node in nodes[:2]:
        node.append(leader_change(12, 3, 1, LATER), Batch(13, 3, (NO_OP,), None, LATER))
        node.epochs([(1, 0), (2, 8), (3, 12)])
        node.quorum_state(leaderId=1, leaderEpoch=3)
    pruned_to_its_end(nodes)
    nodes[2].segment(6).unlink()
    nodes[2].segment(12).touch()
    nodes[2].checkpoint(14, 3).write_bytes(snapshot(healthy_state(), 3, LATER))
    nodes[2].quorum_state(leaderId=1, leaderEpoch=3)


@fault(LOST, "critical", "3", 12, says="that epoch 3 began", sound=sent_a_newer_snapshot)
def _(nodes: list[Node]) -> None:
    """Its epoch checkpoint tells of the epoch of that snapshot, which was in its log then."""
    sent_a_newer_snapshot(nodes)
    nodes[2].epochs([(2, 12), (3, 12)])


@fault(
    LOST,
    "critical",
    "3",
    6,
    says="Keep all folders, and compare with a backup; kraftlog recover puts together",
)
def _(nodes: list[Node]) -> None:
    """Its end may be on voter 2, which was not copied: Kafka 4.3.1 cut that, with the log of voter 1 in
    its place.
    """
    for node in (nodes[0], nodes[2]):
        node.segment(6).unlink()
    nodes[0].epochs([(1, 0)])
    nodes[0].quorum_state(leaderId=1, leaderEpoch=1)
    shutil.rmtree(nodes[1].home)


@fault(LOST, "critical", "2", 11, says="No copy at hand holds it.")
def _(nodes: list[Node]) -> None:
    """The others have a record of epoch 2 where epoch 7 began."""
    cut(nodes[1], AT[11])
    nodes[1].epochs([(1, 0), (2, 8), (7, 11)])


def _index(node: Node, *entries: tuple[int, int]) -> None:
    raw = b"".join(struct.pack(">ii", offset - 6, position) for offset, position in entries)
    node.segment(6).with_suffix(".index").write_bytes(raw)


@fault(
    LOST, "critical", "3", 11, says="lists a batch of offset 11",
    sound=lambda nodes: _index(nodes[2], (9, AT[9]), (11, AT[11])),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    _index(nodes[2], (9, AT[9]), (11, AT[11]))
    cut(nodes[2], AT[11])


def _dated(node: Node, offset: int, ms: int, padding: int = 0) -> None:
    """A `.timeindex` with one entry, and with zeros behind it unless the segment was closed."""
    raw = struct.pack(">qi", ms, offset - 6) + bytes(padding)
    node.segment(6).with_suffix(".timeindex").write_bytes(raw)


def _cut_and_dated(node: Node, padding: int) -> None:
    """Only the newest batch is lost, of which a closed segment's other index has no entry."""
    _dated(node, 11, healthy_log()[-1].ms, padding)
    cut(node, AT[11])


fault(
    LOST, "critical", "3", 11, says="00006.timeindex lists a batch of offset 11",
    sound=lambda nodes: _cut_and_dated(nodes[2], 12),
)(lambda nodes: _cut_and_dated(nodes[2], 0))  # fmt: skip
"""Where space was allocated ahead, Kafka may have cut the log itself."""
fault(
    LOST, "critical", "3", 12, says="00006.timeindex lists a batch of offset 40",
    sound=lambda nodes: _dated(nodes[2], 40, healthy_log()[-1].ms),
)(lambda nodes: _dated(nodes[2], 40, healthy_log()[-1].ms + 1))  # fmt: skip
"""An entry whose offset is damaged has the time of a batch that is there."""


def _preallocated(node: Node, entries: list[tuple[int, int]], *times: tuple[int, int]) -> None:
    """Indexes as a running node has them: zeros behind their entries."""
    _index(node, *entries)
    raw = b"".join(struct.pack(">qi", ms, offset - 6) for offset, ms in times)
    for suffix, more in ((".index", b""), (".timeindex", raw)):
        path = node.segment(6).with_suffix(suffix)
        path.write_bytes((path.read_bytes() if path.exists() else b"") + more + bytes(96))


INTERVAL = 4096
FURTHER = [(9, AT[9]), (40, END_POSITION + INTERVAL)]
"""The last entry is of a batch that is not there any more."""


def _truncated(node: Node, at: int, beyond: int = INTERVAL) -> None:
    """Kafka has cut the log there, where other records stand by now."""
    _closed(node, at)
    _preallocated(node, [(9, AT[9]), (40, END_POSITION + beyond)])


fault(
    LOST, "critical", "3", 12, says="lists a batch of offset 40",
    sound=lambda nodes: _truncated(nodes[2], 12),
)(lambda nodes: _preallocated(nodes[2], FURTHER))  # fmt: skip
fault(
    LOST, "critical", "3", 12, says="lists a batch of offset 40",
    sound=lambda nodes: _truncated(nodes[2], 11, INTERVAL - END_POSITION + AT[11]),
)(lambda nodes: _truncated(nodes[2], 11, INTERVAL - END_POSITION + AT[11] + 1))  # fmt: skip
"""Behind a cut, as behind a start, no entry is due before so many bytes."""
fault(
    LOST, "critical", "3", 12, says="lists a batch of offset 40",
    sound=lambda nodes: _truncated(nodes[2], 10, 0),
)(lambda nodes: _truncated(nodes[2], 6, 0))  # fmt: skip
"""The producer snapshot where the segment was rolled tells of no cut."""
fault(
    LOST, "critical", "3", 12, says="lists a batch of offset 40",
    sound=lambda nodes: _preallocated(nodes[2], FURTHER, (40, healthy_log()[-1].ms - 1)),
)(lambda nodes: _preallocated(nodes[2], FURTHER, (40, healthy_log()[-1].ms)))  # fmt: skip
"""Entries that are older than the log's last batch are of a tail that was cut before it came."""

ASTRAY = [(9, AT[9]), (10, AT[10] + 1)]


def _astray(node: Node, end: int) -> None:
    _closed(node, end)
    _preallocated(node, ASTRAY)


fault(
    "index_agrees", "warning", "3", 10, says="entry 1 (offset 10, position",
    sound=lambda nodes: _astray(nodes[2], 10),
)(lambda nodes: _preallocated(nodes[2], ASTRAY))  # fmt: skip
"""Bytes of entries behind the place of a cut stay until others are written over them."""


def _all_astray(node: Node, end: int) -> None:
    """No entry was below the cut: the only one is of a record that another one took the place of."""
    _closed(node, end)
    _preallocated(node, [], (10, healthy_log()[-1].ms - 1))


fault(
    "index_agrees", "warning", "3", 10, says="entry 0 (offset 10, timestamp",
    sound=lambda nodes: _all_astray(nodes[2], 10),
)(lambda nodes: _all_astray(nodes[2], 11))  # fmt: skip


@fault("index_agrees", "warning", "3", 10, says="entry 1 (offset 10, position")
def _(nodes: list[Node]) -> None:
    """Right entries follow: it is none of a tail that was cut."""
    _closed(nodes[2], 10)
    _preallocated(nodes[2], [*ASTRAY, (11, AT[11])])


@fault(LOST, "critical", "1", 12, says="belongs to a segment that is gone")
def _(nodes: list[Node]) -> None:
    (nodes[0].folder / f"{20:020d}.index").write_bytes(b"")


@fault(LOST, "critical", "1", 12, says="000000012.index belongs to a segment that is gone")
def _(nodes: list[Node]) -> None:
    """Where the log ends now, a next segment began, and a batch stood in it."""
    (nodes[0].folder / f"{12:020d}.index").write_bytes(struct.pack(">ii", 3, 700))


@fault(
    LOST, "critical", "1", 12, says="its segment 00000000000000000030.log begins at offset 30",
    sound=lambda nodes: nodes[0].segment(12).write_bytes(b""),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    nodes[0].segment(30).write_bytes(b"")


def blanked(node: Node, position: int) -> None:
    """The same size, and zeros from a place on: data that were never flushed."""
    path = node.segment(6)
    raw = path.read_bytes()
    path.write_bytes(raw[:position] + bytes(len(raw) - position))


def torn(node: Node, position: int) -> None:
    """The batch at a place lacks its end."""
    cut(node, position + HEADER_SIZE + 5)


def _unfinished_after_a_stop(damage: Callable[[Node, int], None]) -> Damage:
    """Node 3 stopped cleanly at offset 11; what it appended then was not finished."""

    def apply(nodes: list[Node]) -> None:
        _closed(nodes[2], 11)
        damage(nodes[2], AT[11])

    return apply


@fault(
    LOST, "critical", "3", 11, says="producer snapshot of offset 12, where its log once",
    sound=_unfinished_after_a_stop(blanked),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """The batch under the zeros was whole once: a clean stop notes the end behind it."""
    _closed(nodes[2], 12)
    blanked(nodes[2], AT[11])


def _torn_after_a_clean_stop(nodes: list[Node]) -> None:
    _closed(nodes[2], 12)
    torn(nodes[2], AT[11])


fault(
    LOST, "critical", "3", 11, says="producer snapshot of offset 12, where its log once",
    sound=_unfinished_after_a_stop(torn),
)(_torn_after_a_clean_stop)  # fmt: skip


@fault(
    LOST, "warning", "3", 11, says="Whether it was committed is not known",
    sound=_unfinished_after_a_stop(torn),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Voter 1 lags: nothing shows that offset 11 was committed."""
    cut(nodes[0], AT[11])
    _torn_after_a_clean_stop(nodes)


for _ending, _told in (
    (
        ".log.bak",
        "Look into 00000000000000000006.log.bak beside the log: what is missing may be there. Ev",
    ),
    (
        ".log.deleted",
        "may be there. Kafka deletes 00000000000000000006.log.deleted at its next start",
    ),
):

    @fault(LOST, "critical", "3", 6, says=_told)
    def _(nodes: list[Node], ending: str = _ending) -> None:
        """The rest of the log lies beside it, under another name."""
        nodes[2].segment(6).rename(nodes[2].segment(6).with_suffix(ending))


@fault(
    LOST, "critical", "3", 7, says="lists a batch of offset 11",
    sound=lambda nodes: torn(nodes[2], AT[7]),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """A torn batch explains one append, however many records its bytes have room for. Its twin
    fetched offset 7 and the first of epoch 2 together, and noted the epoch before it wrote.
    """
    _index(nodes[2], (11, AT[11]))
    torn(nodes[2], AT[7])


fault(
    "log_tail_complete", "warning", "3", 11, AT[11], "More is lost than a copy of a running",
    also=LOST,
)(_torn_after_a_clean_stop)  # fmt: skip


@fault(LOST, "critical", "3", 7, says="producer snapshot of offset 12, where its log once")
def _(nodes: list[Node]) -> None:
    """More than the torn batch is missing."""
    _closed(nodes[2], 12)
    torn(nodes[2], AT[7])


@fault("log_tail_complete", "warning", "3", 11, AT[11], "usual in a copy of a node that runs")
def _(nodes: list[Node]) -> None:
    """It was copied while offset 11 was written, and what is beside it after the stop."""
    _torn_after_a_clean_stop(nodes)
    copied_at(nodes[2], START_MS + 8500)


def _closed(node: Node, end: int) -> None:
    (node.folder / f"{end:020d}.snapshot").write_bytes(NO_PRODUCERS)


@fault(
    LOST, "critical", "1", 12, says="producer snapshot of offset 14",
    sound=lambda nodes: _closed(nodes[0], 12),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    _closed(nodes[0], 14)


def _led_until_stopped(node: Node, start: int) -> None:
    """What a leader leaves that was stopped cleanly in the epoch after its log's last one."""
    _closed(node, 12)
    node.segment(6).with_suffix(".index").write_bytes(b"")
    node.epochs([(1, 0), (2, 8), (3, start)])
    node.quorum_state(leaderId=node.node_id, leaderEpoch=3)


@fault(
    LOST, "critical", "1", 12, says="epoch 3 began at offset 13",
    sound=lambda nodes: _led_until_stopped(nodes[0], 12),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """At its end stands the entry of an epoch in which it wrote nothing; behind it, a lost one."""
    _led_until_stopped(nodes[0], 13)


@fault(LOST, "critical", "1", 12, says="epoch 3 began at offset 12")
def _(nodes: list[Node]) -> None:
    """Without a clean stop nothing says that the epoch's first batch was not written."""
    nodes[0].epochs([(1, 0), (2, 8), (3, 12)])


@fault(LOST, "critical", "1", 6, says="2 snapshots that end after its log")
def _(nodes: list[Node]) -> None:
    nodes[0].segment(6).unlink()
    nodes[0].epochs([(1, 0)])
    stored = [healthy_log()[1], healthy_log()[3]]
    for end in (7, 8):
        ms = START_MS + 1000 * (end - 3)
        nodes[0].checkpoint(end, 1).write_bytes(snapshot(stored, 1, ms))


@fault(LOST, "warning", "9", 8, says="This node does not vote")
def _(nodes: list[Node]) -> None:
    observer = Node(nodes[0].home.parent, 9)
    observer.write(healthy_log())
    cut(observer, AT[8])


@fault(LOST, "critical", "3", 6, says="No copy at hand holds them")
def _(nodes: list[Node]) -> None:
    for node in nodes:
        node.segment(6).unlink()


def named(end_offset: int) -> Damage:
    """A snapshot of all that the logs hold, by the time in it, is named as if it ended elsewhere."""

    def damage(nodes: list[Node]) -> None:
        stored = [one for one in healthy_log() if one.keys is None]
        newest = healthy_log()[-1].ms
        nodes[0].checkpoint(end_offset, 2).write_bytes(snapshot(stored, 2, newest))

    return damage


fault(
    "snapshot_within_committed", "critical", "1", 10_013, says="no leader writes the 10,001 records",
    sound=named(12),
)(named(10_013))  # fmt: skip


@fault("snapshot_within_committed", "critical", "1", 40, says="It is not of this log")
def _(nodes: list[Node]) -> None:
    """A lone voter that was stopped cleanly: what the name of a snapshot says, its log belies."""
    for node in nodes[1:]:
        shutil.rmtree(node.home)
    node = nodes[0]
    _closed(node, 12)
    node.segment(6).with_suffix(".index").write_bytes(b"")
    node.quorum_state(leaderId=-1, leaderEpoch=2, currentVoters=[{"voterId": 1}])
    stored = healthy_state()
    node.checkpoint(40, 2).write_bytes(snapshot(stored, 2, START_MS + 8000))


@fault("voters_present", "warning", None, says="1 of 3 voters was copied")
def _(nodes: list[Node]) -> None:
    for node in nodes[1:]:
        shutil.rmtree(node.home)


@fault(
    "voters_present",
    "warning",
    None,
    says="No copy of voter 3 is at hand: 2 of 3 voters were copied",
)
def _(nodes: list[Node]) -> None:
    shutil.rmtree(nodes[2].home)


def _removed(nodes: list[Node], *holders: int) -> None:
    """Voter 2 is removed by a record that these nodes hold."""
    for node in nodes:
        node.append(voters_batch(12, 2, 1, 2, 3, ms=LATER))
    for at in holders:
        nodes[at].append(voters_batch(13, 2, 1, 3, ms=LATER))


def _gone(nodes: list[Node], *holders: int) -> None:
    """Voter 2 is removed and gone."""
    _removed(nodes, *holders)
    shutil.rmtree(nodes[1].home)


@fault(
    "voters_present", "warning", None, sound=lambda nodes: _gone(nodes, 0, 2),
    says="While that change may not be committed, voter 2 votes as before it",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Voters 2 and 3 can go on without the change."""
    _gone(nodes, 0)


def swapped(nodes: list[Node], *holders: int) -> None:
    """Voter 2 has a new disk, and is removed with its old one, to be added with the new one next."""
    nodes[1].meta(directory=9)
    _removed(nodes, *holders)


@fault(
    "voters_present", "info", None, sound=lambda nodes: swapped(nodes, 0, 2),
    says="Node 2 is here with another disk, and the removal of the old one may not be committed yet",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Nobody can copy the old disk; the next copies hold the change."""
    swapped(nodes, 0)


def _alone(base: int, epoch: int, leader: int) -> Batch:
    """A LeaderChange of a quorum of one voter, which elected itself."""
    voters = uvarint(2) + struct.pack(">i", leader) + b"\0"
    value = struct.pack(">hi", 0, leader) + voters + voters + b"\0"
    return Batch(base, epoch, (value,), (struct.pack(">hh", 0, 2),), LATER)


def _two_histories(nodes: list[Node], value: bytes) -> None:
    nodes[2].append(_alone(12, 3, 3), Batch(13, 3, (value,), None, LATER))
    nodes[2].epochs([(1, 0), (2, 8), (3, 12)])
    nodes[2].quorum_state(leaderId=3, leaderEpoch=3, currentVoters=[{"voterId": 3}])
    for node in nodes[:2]:
        node.append(leader_change(12, 4, 1, LATER))
        node.epochs([(1, 0), (2, 8), (4, 12)])
        node.quorum_state(leaderId=1, leaderEpoch=4)


fault("committed_data_consistent", "critical", "3", 12, says="Two histories")(
    lambda nodes: _two_histories(nodes, NO_OP)
)
fault(
    "committed_data_consistent", "critical", "3", 12,
    says="what only the other side holds is lost. Only replica 3 has: topic theirs. Replica 3",
)(lambda nodes: _two_histories(nodes, topic("theirs", 77)))  # fmt: skip


@fault(
    "committed_data_consistent", "critical", "3", 12,
    says="the brokers follow. By the copies at hand brokers 8 and 9 hold that of replica 1. Never",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Brokers follow the new quorum."""
    _two_histories(nodes, NO_OP)
    for number in (8, 9):
        broker = Node(nodes[0].home.parent, number)
        broker.write(healthy_log())
        broker.append(leader_change(12, 4, 1, LATER))
        broker.epochs([(1, 0), (2, 8), (4, 12)])
        broker.quorum_state(leaderId=1, leaderEpoch=4)


def _begun_anew(nodes: list[Node]) -> None:
    """Node 1 alone is a quorum that was begun anew: the others are controllers of the old one, and
    vote by their own settings.
    """
    anew = [_alone(0, 9, 1), *(Batch(at, 9, (NO_OP,), None, LATER) for at in range(1, 20))]
    nodes[0].checkpoint(6, 1).unlink()
    nodes[0].segment(6).unlink()
    nodes[0].segment(0).write_bytes(b"".join(one.raw() for one in anew))
    nodes[0].epochs([(9, 0)])
    nodes[0].quorum_state(leaderId=1, leaderEpoch=9, currentVoters=[{"voterId": 1}])


fault(
    "committed_data_consistent", "critical", "2", 0,
    says="and find out which one the brokers follow. Never start nodes of both sides together",
    also="committed_data_consistent",
)(_begun_anew)  # fmt: skip
fault(
    "voter_sets_agree", "warning", "2",
    says="A majority of the first is 2 and 3, and a majority of the second is 1. They share no",
    also="committed_data_consistent",
)(_begun_anew)  # fmt: skip


LOST_THERE = topic("theirs", 77)
"""What one of two histories holds, and the other does not."""


def _history(node: Node, epoch: int, leader: int, *values: bytes, snapshotted: bool = True) -> None:
    """Offsets 12 to 14 of another epoch, and a snapshot of them."""
    node.append(leader_change(12, epoch, leader, LATER), Batch(13, epoch, values, None, LATER))
    node.epochs([(1, 0), (2, 8), (epoch, 12)])
    node.quorum_state(leaderId=leader, leaderEpoch=epoch)
    if snapshotted:
        kept = tuple(one for one in values if one != NO_OP)
        own = [Batch(0, epoch, kept, None, LATER)] if kept else []
        stored = [*(healthy_log()[one] for one in (1, 3, 8)), *own]
        node.checkpoint(13 + len(values), epoch).write_bytes(snapshot(stored, epoch, LATER))


def went_on_without(nodes: list[Node], snapshotted: bool) -> None:
    """The voters go on from older copies of their disks; a broker holds what they had committed."""
    for node in nodes:
        _history(node, 4, 2, NO_OP, snapshotted=False)
    broker = Node(nodes[0].home.parent, 9)
    broker.write(healthy_log())
    _history(broker, 3, 1, LOST_THERE, snapshotted=snapshotted)


fault(
    "committed_data_consistent", "critical", "9", 12,
    says="Two histories: from offset 12 on, replicas 9 and 1 hold different records",
    sound=lambda nodes: went_on_without(nodes, snapshotted=False),
)(lambda nodes: went_on_without(nodes, snapshotted=True))  # fmt: skip
fault(
    "committed_data_consistent", "critical", "9", 12, says="Only replica 9 has: topic theirs."
)(lambda nodes: went_on_without(nodes, snapshotted=True))  # fmt: skip
"""A snapshot is only made of what is committed: without one, the broker's end is a tail."""


@fault(
    "committed_data_consistent", "critical", "1", 12,
    says="and a leader was elected without what the side of replica 1 had committed. A new quorum",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Older copies of two disks were put back; what their leader wrote is on no majority yet."""
    nodes[2].append(leader_change(12, 4, 3, LATER, (2, 3)))
    nodes[2].epochs([(1, 0), (2, 8), (4, 12)])
    for node in nodes[1:]:
        node.quorum_state(leaderId=3, leaderEpoch=4)
    _history(nodes[0], 3, 1, LOST_THERE)


def of_another_quorum(nodes: list[Node], node_id: int, first: int, epoch: int) -> Node:
    """The voters name their directories; the log of one node is another cluster's, whose files begin
    at an offset, and say nothing of that in meta.properties.
    """
    for node in nodes:
        node.append(voters_batch(12, 2, 1, 2, 3, ms=LATER))
    root = nodes[0].home.parent
    shutil.rmtree(root / str(node_id), ignore_errors=True)
    node = Node(root, node_id)
    theirs = (topic("theirs", 77), partition(77, [21], [21], 21))
    log = [
        leader_change(first, epoch, 2, LATER),
        voters_batch(first + 1, epoch, 21, 22, 23, ms=LATER),
        Batch(first + 2, epoch, theirs, None, LATER),
        *(Batch(first + at, epoch, (NO_OP,), None, LATER) for at in range(4, 9)),
    ]
    node.write(log, cut=first)
    node.epochs([(epoch, first)])
    node.quorum_state(leaderId=2, leaderEpoch=epoch)
    node.checkpoint(6, 1).unlink()
    if first:
        raw = snapshot([log[2]], 1, START_MS, voters=(21, 22, 23))
        node.checkpoint(first, 1).write_bytes(raw)
    return node


def _their_snapshot(node: Node) -> None:
    """One of another cluster, which ends far behind the log."""
    raw = snapshot([healthy_log()[1]], 4, LATER, voters=(21, 22, 23))
    node.checkpoint(40, 4).write_bytes(raw)


def _another_clusters_snapshot(nodes: list[Node]) -> None:
    """It ends far behind the log of the broker that it lies beside."""
    for node in (*nodes, broker := Node(nodes[0].home.parent, 9)):
        if node is broker:
            node.write(healthy_log())
        node.append(voters_batch(12, 2, 1, 2, 3, ms=LATER))
        stopped(node, 13)
    _their_snapshot(broker)


fault(
    "committed_data_consistent", "critical", "9", 0,
    says="holds the log of another quorum: it shares no batch with the other copies, and no disk",
)(lambda nodes: of_another_quorum(nodes, 9, 0, 1))  # fmt: skip
fault(
    "committed_data_consistent", "critical", "3", 20,
    says="the other voters would elect this node, and cut their logs to its own",
)(lambda nodes: of_another_quorum(nodes, 3, 20, 5))  # fmt: skip
fault(
    "committed_data_consistent", "critical", "9", 20,
    says="have to cut its log at offset 8, below its start, where Kafka stops",
)(lambda nodes: of_another_quorum(nodes, 9, 20, 1))  # fmt: skip


@fault(
    "committed_data_consistent", "critical", "9", 0, also="snapshot_ahead_of_log",
    says="the next start drops the log and begins with 00000000000000000040-0000000004.checkpoint",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Of the other quorum's files a snapshot goes on further than the log."""
    _their_snapshot(of_another_quorum(nodes, 9, 0, 1))


def an_old_copy(ms: int) -> Damage:
    """A broker's copy of an earlier quorum whose voters had no directories; retention had removed its
    beginning, and its newest record was written then.
    """

    def damage(nodes: list[Node]) -> None:
        old = Node(nodes[0].home.parent, 9)
        changes = (Batch(10_001 + at, 3, (NO_OP,), None, ms) for at in range(20))
        old.write([leader_change(10_000, 3, 2, ms), *changes])
        old.checkpoint(6, 1).unlink()
        old.checkpoint(10_000, 2).write_bytes(snapshot([healthy_log()[1]], 2, ms))
        old.epochs([(3, 10_000)])
        old.quorum_state(leaderId=2, leaderEpoch=3)

    return damage


fault(
    "committed_data_consistent", "critical", "9", 10_000,
    says="holds the log of another quorum: it shares no batch with the other copies.",
    sound=an_old_copy(START_MS - 3_600_000),
)(an_old_copy(START_MS - 3_600_001))  # fmt: skip
"""All that it holds was written before what the voters hold far below."""


def began_anew(nodes: list[Node], ms: int = LATER) -> None:
    """Two of three voters lost their disks' content, and elected a leader in epoch 1 then."""
    log = [
        leader_change(0, 1, 1, ms, granted=(1, 2)),
        *(Batch(base, 1, (NO_OP,), None, ms) for base in (1, 2)),
    ]
    for node in nodes[:2]:
        for path in node.folder.iterdir():
            path.unlink()
        node.write(log, cut=2)
        node.checkpoint(6, 1).unlink()
        node.epochs([(1, 0)])
        node.quorum_state(leaderId=1, leaderEpoch=1)


fault(
    "committed_data_consistent", "critical", "3", 0, says="it may be what they held before.",
)(began_anew)  # fmt: skip
fault(
    "snapshot_within_committed", "critical", "9", 40,
    says="It is not of this log: the directories of its voters are on no disk at hand",
)(_another_clusters_snapshot)  # fmt: skip
fault(
    "snapshot_within_committed", "critical", "2", 40,
    says="It is not of this log: the directories of its voters are on no disk at hand",
)(lambda nodes: _their_snapshot(nodes[1]))  # fmt: skip


@fault(
    "snapshot_within_committed", "critical", "2", 40,
    says="It is not of this log: it names no voter, as each one of a log with voters of its own does",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Kafka 4.3.1 drops the log for it, stands for no election, and refuses its vote to all others."""
    for node in nodes:
        node.append(voters_batch(12, 2, 1, 2, 3, ms=LATER))
        stopped(node, 13)
    nodes[1].checkpoint(40, 4).write_bytes(snapshot([healthy_log()[1]], 4, LATER))


def went_on_from_backups(nodes: list[Node]) -> None:
    """Two of three voters go on from older copies of their disks, and the third is not started."""
    _history(nodes[0], 4, 1, LOST_THERE, NO_OP)
    for node in nodes[1:]:
        _history(node, 3, 2, NO_OP)


for label in ("2", "3"):
    fault(
        "voter_holds_committed_data", "critical", label, 12, also="committed_data_consistent",
        says="offsets 12 to 14 would be lost. Lost: topic theirs.",
    )(went_on_from_backups)  # fmt: skip
fault(
    "snapshot_epoch_agrees", "critical", "2", 13,
    also="committed_data_consistent voter_holds_committed_data",
    says="says epoch 2, but offset 13 is of epoch 3 in the log of 2",
)(
    lambda nodes: (
        went_on_from_backups(nodes),
        nodes[1].checkpoint(14, 3).rename(nodes[1].checkpoint(14, 2)),
    )
)  # fmt: skip


def left_by_a_start(nodes: list[Node], ms: int = LATER, begins: int = 0) -> None:
    """Voters without them were started, and the others have cut offsets 12 and 13 of epoch 3: a
    snapshot of them is left. The logs begin later, if that is asked.
    """
    for node in nodes:
        _history(node, 4, 2, NO_OP, snapshotted=False)
        node.append(Batch(14, 4, (NO_OP,), None, LATER))
    own = Batch(0, 3, (LOST_THERE,), None, ms)
    raw = snapshot([*(healthy_log()[one] for one in (1, 3, 8)), own], 3, ms)
    nodes[2].checkpoint(14, 3).write_bytes(raw)
    for node in nodes if begins else ():
        kept = [Batch(at, 4, (NO_OP,), None, LATER).raw() for at in (13, 14)]
        node.segment(13).write_bytes(b"".join(kept))
        for path in (node.segment(0), node.segment(6), node.checkpoint(6, 1)):
            path.unlink()
        node.checkpoint(13, 4).write_bytes(snapshot(healthy_state(), 4, LATER))
        node.epochs([(4, 13)])


fault(
    "snapshot_epoch_agrees", "critical", "3", 13,
    says="may be the only copy of committed records that were cut: it is whole and says epoch 3, but the log of 1 is in epoch 4 from offset 12 on",
)(left_by_a_start)  # fmt: skip
fault(
    "snapshot_epoch_agrees", "critical", "3", 13,
    says="is nothing lost. Lost: topic theirs.",
)(left_by_a_start)  # fmt: skip
fault(
    "snapshot_epoch_agrees", "critical", "3", 13,
    says="says epoch 3, but offset 13 is of epoch 4 in the log of 3",
)(lambda nodes: left_by_a_start(nodes, healthy_log()[-1].ms))  # fmt: skip
fault(
    "snapshot_epoch_agrees", "critical", "3", 13,
    says="that log begins too late to show whether it is newer",
)(lambda nodes: left_by_a_start(nodes, begins=13))  # fmt: skip
"""What is no newer than the logs is one of an earlier end under another name."""


def begun_anew(nodes: list[Node], ms: int) -> None:
    """Two voters lost their disks and were started: they began at offset 0, and voter 3 has cut its log to
    nothing. Its snapshot is left, of all that was committed before.
    """
    log = [
        leader_change(0, 1, 1, ms, (1, 2)),
        Batch(1, 1, (NO_OP, NO_OP), None, ms + 1),
        leader_change(3, 3, 2, ms + 2, (1, 2)),
        Batch(4, 3, (NO_OP,), None, ms + 3),
    ]
    raw = b"".join(one.raw() for one in log)
    for node in nodes:
        for path in (*node.folder.glob("*.log"), node.checkpoint(6, 1)):
            path.unlink()
        node.segment(0).write_bytes(raw if node.node_id < 3 else b"")
        node.epochs([(1, 0), (3, 3)] if node.node_id < 3 else [])
        node.quorum_state(leaderId=2, leaderEpoch=3)
    stored = snapshot(healthy_state(), 2, healthy_log()[-1].ms)
    nodes[2].checkpoint(12, 2).write_bytes(stored)


@fault(
    "snapshot_within_committed", "critical", "3", 12,
    says="may be the only copy of committed records that were cut from offset 0 on",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    begun_anew(nodes, LATER)


@fault(
    "snapshot_epoch_agrees", "critical", "3", 11,
    says="goes on from there, so these are two histories. Keep both folders whole",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """The same, where the log of voter 3 is still there, which begins with its snapshot."""
    begun_anew(nodes, LATER)
    nodes[2].segment(0).unlink()
    nodes[2].segment(12).write_bytes(Batch(12, 2, (NO_OP,), None, healthy_log()[-1].ms).raw())
    nodes[2].epochs([(2, 12)])


@fault(
    "snapshot_within_committed", "critical", "3", 12, says="begins at offset 3 of 1. Set it aside"
)
def _(nodes: list[Node]) -> None:
    """A state of that log itself, under another name, may be as old."""
    begun_anew(nodes, healthy_log()[-1].ms)


def ends_inside(nodes: list[Node], epoch: int) -> None:
    """Voter 3 ends at offset 13, where a batch of the others goes on to 15."""
    for node in nodes[:2]:
        node.append(Batch(12, 4, (NO_OP, NO_OP, NO_OP), None, LATER))
    nodes[2].append(Batch(12, epoch, (NO_OP,), None, LATER))


fault(
    "log_ends_on_batch", "warning", "3", 13, says="inside the batch of offsets 12 to 14",
    also="leader_change_starts_epoch log_matching committed_data_consistent",
)(lambda nodes: ends_inside(nodes, 4))  # fmt: skip


@fault(
    "log_ends_on_batch", "warning", "3", 13, says="Do not empty its log folder",
    also="log_matching log_end_lost", sound=lambda nodes: everywhere(nodes, NO_OP, NO_OP, NO_OP),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Voter 2 is behind: with an emptied voter 3 it would be elected (Kafka 4.3.1)."""
    nodes[0].append(Batch(12, 2, (NO_OP, NO_OP, NO_OP), None, LATER))
    nodes[2].append(Batch(12, 2, (NO_OP,), None, LATER))
    kept = [one.raw() for one in healthy_log() if 6 <= one.base < 10]
    nodes[1].segment(6).write_bytes(b"".join(kept))


@fault(
    "log_ends_on_batch", "warning", "4", 2, says="Do with its folder what the finding of committed_data_consistent says",
    also="committed_data_consistent single_leader_per_epoch log_matching log_end_lost",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Two nodes of a scale-out had a quorum of their own (bitnami/charts#29167)."""
    for number in (4, 5):
        node = Node(nodes[0].home.parent, number)
        members = (4, 5)
        node.write([leader_change(0, 1, 4, START_MS, members, members), Batch(1, 1, (NO_OP,))])
        node.checkpoint(6, 1).unlink()
        node.epochs([(1, 0)])
        node.quorum_state(
            leaderId=4, leaderEpoch=1, currentVoters=[{"voterId": one} for one in members]
        )


@fault(
    "committed_data_consistent", "critical", "3", 10, also="log_matching",
    says="it fetches the log again. Only replica 3 has: topic other. Only replica 1 has: topic c. At",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    replace_batch(nodes[2], 10, lambda one: replace(one, values=(topic("other", 78),)).raw())


@fault("election_storm", "warning", "1", says="898 epochs above every log at hand")
def _(nodes: list[Node]) -> None:
    nodes[0].quorum_state(leaderId=-1, leaderEpoch=900)


def rhythm(nodes: list[Node], silence_ms: int, until: int = 60, value: bytes = NO_OP) -> None:
    """Sixty no-ops, or other records, half a second after each other, with a silence in between; from
    `until` on the clock is as if there had been none.
    """
    for node in nodes:
        node.append(
            *(
                Batch(
                    12 + n,
                    2,
                    (value,),
                    None,
                    LATER + 500 * n + (silence_ms if 30 <= n < until else 0),
                )
                for n in range(60)
            )
        )


@fault(
    "leader_writes_on", "info", "1", 42, says="Nothing was written for 90 s before offset 42",
    sound=lambda nodes: rhythm(nodes, 50_000),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    rhythm(nodes, 90_000)


@fault("node_identity_unique", "warning", "1", says="holds the files of node 2")
def _(nodes: list[Node]) -> None:
    nodes[0].meta(node_id=2)
    nodes[1].meta(node_id=1)


@fault(
    "record_decodes", "critical", "3", 5, AT[4], "the header says 2 records, the batch holds 1",
    also="committed_data_consistent log_matching",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """A record was taken out, and the header left as it was: the log goes on where that says, so
    the batch stands in its place, and is held against those of the others.
    """
    replace_batch(
        nodes[2], 4, lambda one: replace(one, payload=frame(0, None, one.values[0])).raw()
    )


def _delta(node: Node, base: int) -> None:
    """A last offset delta that the records belie, under a right CRC."""
    replace_batch(node, base, lambda one: replace(one, count=2).raw())


@fault(
    "batch_header_valid", "critical", "3", 7, AT[7], "1 and 2 hold another batch there",
    also="record_decodes committed_data_consistent log_matching",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    _delta(nodes[2], 7)


@fault(
    "batch_header_valid", "critical", "1", 7, AT[7], "2 and 3 hold the same bytes",
    also="record_decodes",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    for node in nodes:
        _delta(node, 7)
