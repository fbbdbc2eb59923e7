"""Every check finds what it is for, in the right place, and a healthy quorum has no finding."""

import shutil
import struct
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import pytest

from kraftlog.audit import disk_checks, health_checks, partition_checks, voter_checks
from kraftlog.audit.check import checks_in
from kraftlog.audit.every_check import CATALOGUE
from kraftlog.audit.runner import AuditResult, Finding
from kraftlog.log.names import LEFT_OUT
from tests.unit.audit_logs import (
    HEADER_SIZE,
    NO_OP,
    START_MS,
    TRANSACTION,
    Batch,
    Node,
    audit,
    change_isr,
    found,
    frame,
    healthy_log,
    healthy_state,
    leader_change,
    overwrite,
    partition,
    producer_ids,
    quorum,
    remove_topic,
    replace_batch,
    snapshot,
    topic,
)
from tests.unit.faults import told
from tests.unit.faults.evidence import EVIDENCE, fits
from tests.unit.faults.rules import DECLARED, Used, used_by
from tests.unit.faults.steps import STEPS, follow, step_of
from tests.unit.faults.table import AT, END_POSITION, FAULTS, LATER, Fault, everywhere, fault
from tests.unit.sentences import slips

# --- log ---------------------------------------------------------------------------------------


@fault("batch_crc_valid", "critical", "2", 3, AT[3], "1 and 3 hold the same offsets intact")
def _(nodes: list[Node]) -> None:
    overwrite(nodes[1].segment(0), AT[3] + HEADER_SIZE + 1, b"\x7f")


@fault("batch_crc_valid", "critical", "1", says="checkpoint")
def _(nodes: list[Node]) -> None:
    overwrite(nodes[0].checkpoint(6, 1), 150, b"\x55")


@fault(
    "batch_header_valid", "critical", "3", 3, AT[3], "CRC proves the records whole",
    also="offsets_contiguous",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    overwrite(nodes[2].segment(0), AT[3] + 16, b"\x07")


@fault(
    "batch_header_valid", "critical", "3", 3, AT[3], "CRC proves the records whole",
    also="offsets_contiguous",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    shorter = len(healthy_log()[2].raw()) - 12 - 3
    overwrite(nodes[2].segment(0), AT[3] + 8, struct.pack(">i", shorter))


@fault(
    "batch_header_valid", "critical", "3", 7, AT[7], "records",
    also="record_decodes committed_data_consistent log_matching",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    replace_batch(nodes[2], 7, lambda one: replace(one, count=2).raw())


@fault("batch_decompresses", "critical", offset=12, position=END_POSITION)
def _(nodes: list[Node]) -> None:
    for node in nodes:
        node.append(Batch(12, 2, (NO_OP,), None, LATER, attributes=1, payload=b"no gzip"))


@fault("file_readable", "warning", "1", says="00012.log could not be read (it is a folder, not a")
def _(nodes: list[Node]) -> None:
    nodes[0].segment(12).mkdir()


@fault("file_readable", "warning", "1", says="000002.checkpoint could not be read (it is a folder")
def _(nodes: list[Node]) -> None:
    nodes[0].checkpoint(12, 2).mkdir()


@fault("segment_complete", "critical", "1", 4, AT[4], also="offsets_contiguous")
def _(nodes: list[Node]) -> None:
    path = nodes[0].segment(0)
    path.write_bytes(path.read_bytes()[:-5])


@fault("log_tail_complete", "warning", "1", 12, END_POSITION, "100 zero bytes")
def _(nodes: list[Node]) -> None:
    path = nodes[0].segment(6)
    path.write_bytes(path.read_bytes() + bytes(100))


@fault("log_tail_complete", "warning", "1", 11, AT[11], "torn batch")
def _(nodes: list[Node]) -> None:
    path = nodes[0].segment(6)
    path.write_bytes(path.read_bytes()[:-3])


@fault("offsets_contiguous", "critical", "1", 3, AT[3], "Kafka does not notice: a start keeps")
def _(nodes: list[Node]) -> None:
    replace_batch(nodes[0], 3, lambda one: b"")


@fault("offsets_contiguous", "critical", "1", 3, AT[3], "no CRC covers")
def _(nodes: list[Node]) -> None:
    overwrite(nodes[0].segment(0), AT[3] + 6, b"\x01")


@fault("segment_name_matches", "critical", "1", 6, 0)
def _(nodes: list[Node]) -> None:
    nodes[0].segment(6).rename(nodes[0].segment(7))


@fault("epochs_monotonic", "critical", "1", 11, AT[11], also="committed_data_consistent")
def _(nodes: list[Node]) -> None:
    overwrite(nodes[0].segment(6), AT[11] + 12, struct.pack(">i", 1))


@fault(
    "leader_change_starts_epoch", "critical", "1", 8, AT[8],
    also="committed_data_consistent log_matching",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    replace_batch(nodes[0], 8, lambda one: Batch(8, 2, (NO_OP,), None, one.ms).raw())


@fault("record_decodes", "critical", offset=13, position=END_POSITION, says="left after")
def _(nodes: list[Node]) -> None:
    everywhere(nodes, NO_OP, topic("d", 4) + b"\0")


@fault("record_type_known", "warning", offset=12, says="kept raw")
def _(nodes: list[Node]) -> None:
    everywhere(nodes, b"\x01\xc0\x21\x00\x00")


@fault("record_rules", "warning", offset=12, says="a key")
def _(nodes: list[Node]) -> None:
    for node in nodes:
        node.append(Batch(12, 2, (NO_OP,), None, LATER, payload=frame(0, b"key", NO_OP)))


@fault("record_rules", "warning", offset=12, says="timestamp delta")
def _(nodes: list[Node]) -> None:
    for node in nodes:
        node.append(Batch(12, 2, (NO_OP,), None, LATER, payload=frame(0, None, NO_OP, 5)))


_CUT = TRANSACTION["end"] + b"\0"
"""A record that cannot be decoded may begin a transaction, or end one."""


@fault("transactions_well_formed", "critical", offset=13, says="begins inside")
def _(nodes: list[Node]) -> None:
    begin = TRANSACTION["begin"]
    everywhere(nodes, begin, begin, TRANSACTION["end"])


@fault("transactions_well_formed", "critical", offset=12, says="while none is open")
def _(nodes: list[Node]) -> None:
    everywhere(nodes, TRANSACTION["end"])


@fault("transactions_well_formed", "critical", offset=12, says="while none is open")
def _(nodes: list[Node]) -> None:
    everywhere(nodes, TRANSACTION["abort"])


@fault(
    "transactions_well_formed", "critical", offset=14, says="ends a metadata transaction",
    also="record_decodes",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """What is not decoded hides no more than what comes before the next Begin or End."""
    everywhere(nodes, _CUT, TRANSACTION["end"], TRANSACTION["end"])


@fault("transactions_well_formed", "info", offset=12, says="still open")
def _(nodes: list[Node]) -> None:
    everywhere(nodes, TRANSACTION["begin"])


@fault("epoch_checkpoint_agrees", "warning", "1", says="wrong entry")
def _(nodes: list[Node]) -> None:
    nodes[0].epochs([(1, 0), (2, 7)])


@fault("epoch_checkpoint_agrees", "warning", "1", says="extra entry")
def _(nodes: list[Node]) -> None:
    nodes[0].epochs([(1, 0), (2, 8), (9, 10)])


@fault("epoch_checkpoint_agrees", "warning", "1", says="lacks an entry")
def _(nodes: list[Node]) -> None:
    nodes[0].epochs([(1, 0)])


@fault("index_agrees", "warning", "1", says="points at no start")
def _(nodes: list[Node]) -> None:
    entry = struct.pack(">ii", 7 - 6, AT[7] + 1)
    nodes[0].segment(6).with_suffix(".index").write_bytes(entry)


@fault("index_agrees", "warning", "1", says="does not have")
def _(nodes: list[Node]) -> None:
    entry = struct.pack(">qi", START_MS + 1, 7 - 6)
    nodes[0].segment(6).with_suffix(".timeindex").write_bytes(entry)


@fault("index_agrees", "warning", "1", says="no segment beside it")
def _(nodes: list[Node]) -> None:
    nodes[0].segment(12).with_suffix(".index").write_bytes(b"")


@fault("epoch_within_quorum_state", "warning", "1", 8)
def _(nodes: list[Node]) -> None:
    nodes[0].quorum_state(leaderId=1, leaderEpoch=1)


@fault("timestamps_monotonic", "info", offset=12)
def _(nodes: list[Node]) -> None:
    everywhere(nodes, NO_OP, ms=START_MS)


# --- snapshot ----------------------------------------------------------------------------------


@fault("snapshot_header_first", "critical", "1")
def _(nodes: list[Node]) -> None:
    raw = nodes[0].checkpoint(6, 1).read_bytes()
    nodes[0].checkpoint(6, 1).write_bytes(raw[12 + struct.unpack_from(">i", raw, 8)[0] :])


@fault("snapshot_footer_last", "critical", "1", says="2 has the complete file")
def _(nodes: list[Node]) -> None:
    stored = [healthy_log()[1], healthy_log()[3]]
    raw = snapshot(stored, 1, START_MS + 3000, footer=False)
    nodes[0].checkpoint(6, 1).write_bytes(raw)


def _goes_on(node: Node, more: bytes) -> None:
    path = node.checkpoint(6, 1)
    path.write_bytes(path.read_bytes() + more)


@fault("snapshot_footer_last", "critical", "1", says="for 40 bytes after its last record batch. K")
def _(nodes: list[Node]) -> None:
    """Kafka takes fewer than 12 bytes, and what begins as a batch, for the end of the file."""
    _goes_on(nodes[0], bytes(40))


@fault("snapshot_footer_last", "critical", "1", says="load it all the same, without that.")
def _(nodes: list[Node]) -> None:
    _goes_on(nodes[0], bytes(11))


@fault("snapshot_footer_last", "critical", "1", says="load it all the same, with what follows.")
def _(nodes: list[Node]) -> None:
    _goes_on(nodes[0], Batch(5, 1, (topic("more", 9),), None, START_MS).raw())


@fault("snapshot_footer_last", "critical", "1", says="holds no record batch in its 90 bytes")
def _(nodes: list[Node]) -> None:
    nodes[0].checkpoint(6, 1).write_bytes(bytes(90))


@fault("snapshot_name_valid", "warning", "1", says="Rename it to")
def _(nodes: list[Node]) -> None:
    path = nodes[0].checkpoint(6, 1)
    path.rename(path.with_name(f"{6:020d}-{1:018d}.checkpoint"))


@fault("snapshot_epoch_agrees", "critical", "1", says="of epoch 1")
def _(nodes: list[Node]) -> None:
    nodes[0].checkpoint(6, 1).rename(nodes[0].checkpoint(6, 2))


@fault("snapshot_batch_aligned", "critical", "1", 5, says="inside the batch")
def _(nodes: list[Node]) -> None:
    nodes[0].checkpoint(6, 1).rename(nodes[0].checkpoint(5, 1))


@fault("snapshot_timestamp_agrees", "warning", "1")
def _(nodes: list[Node]) -> None:
    stored = [healthy_log()[1], healthy_log()[3]]
    nodes[0].checkpoint(6, 1).write_bytes(snapshot(stored, 1, START_MS + 2999))


@fault("snapshot_within_committed", "critical", "1", 500)
def _(nodes: list[Node]) -> None:
    nodes[0].checkpoint(6, 1).rename(nodes[0].checkpoint(500, 1))


@fault(
    "log_start_covered",
    "critical",
    "1",
    0,
    says="Take 00000000000000000006-0000000001.checkpoint from replicas 2 and 3",
)
def _(nodes: list[Node]) -> None:
    nodes[0].segment(0).unlink()
    nodes[0].checkpoint(6, 1).unlink()


@fault(
    "log_start_covered", "critical", "1", 0,
    says="put what kraftlog checkpoint 2 --at 6 --out DIR writes into its log folder",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """The logs of others reach back, and nobody has a snapshot."""
    nodes[0].segment(0).unlink()
    for node in nodes:
        node.checkpoint(6, 1).unlink()


@fault(
    "log_start_covered", "critical", "3", 6,
    says="replica 2 holds the records: put what kraftlog checkpoint 2 --at 10 --out DIR",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """What node 1 holds from offset 8 on is its tail: its state at 10 never was the quorum's."""
    nodes[2].segment(0).unlink()
    nodes[2].segment(6).unlink()
    nodes[2].write([one for one in healthy_log() if one.base >= 10])
    tail = [Batch(at, 1, (NO_OP,), None, LATER) for at in (8, 9, 10)]
    nodes[0].write([*healthy_log()[:6], *tail])
    nodes[0].epochs([(1, 0)])


def _fetched(label: int, *, ahead: bool = True) -> Callable[[list[Node]], None]:
    """A node that has fetched a snapshot, and did not live to drop its old log."""

    def damage(nodes: list[Node]) -> None:
        own = {one.node_id: one for one in nodes}.get(label) or Node(nodes[0].home.parent, label)
        own.write(healthy_log())
        for one in (*nodes, own):
            state = snapshot(healthy_state(), 2, healthy_log()[-1].ms)
            one.checkpoint(12, 2).write_bytes(state)
        if ahead:
            own.segment(6).unlink()
            own.epochs([(1, 0)])
            own.quorum_state(leaderId=2, leaderEpoch=2)

    return damage


for _label, _ends in ((11, "The snapshot holds what they did."), (3, "something took the end")):
    fault(
        "snapshot_ahead_of_log", "warning", str(_label), 0, says=_ends,
        sound=_fetched(_label, ahead=False),
    )(_fetched(_label))  # fmt: skip


@fault(
    "snapshot_ahead_of_log", "warning", "1", 0, says="discards offsets 0 to 3", also="log_end_lost"
)
def _(nodes: list[Node]) -> None:
    nodes[0].segment(6).unlink()
    path = nodes[0].segment(0)
    path.write_bytes(path.read_bytes()[: AT[4]])


@fault(
    "log_start_covered", "critical", "1", 0,
    says=f"would begin with {6:020d}-0000000001.checkpoint", also="snapshot_footer_last",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    nodes[0].segment(0).unlink()
    stored = [healthy_log()[1], healthy_log()[3]]
    nodes[0].checkpoint(6, 1).write_bytes(snapshot(stored, 1, START_MS + 3000, footer=False))


@fault("snapshot_below_log_start", "info", "1", 6, also="log_start_covered")
def _(nodes: list[Node]) -> None:
    nodes[0].segment(0).unlink()
    path = nodes[0].segment(6)
    path.write_bytes(path.read_bytes()[AT[7] :])
    path.rename(nodes[0].segment(7))


@fault("snapshot_leftover", "info", "1", says="3 bytes of the")
def _(nodes: list[Node]) -> None:
    path = nodes[0].checkpoint(6, 1)
    path.with_name(f"{6:020d}-{1:010d}-77.checkpoint.part").write_bytes(b"abc")


@fault("snapshot_record_allowed", "warning", "1", says="NO_OP_RECORD")
def _(nodes: list[Node]) -> None:
    stored = [healthy_log()[1], healthy_log()[2], healthy_log()[3]]
    nodes[0].checkpoint(6, 1).write_bytes(snapshot(stored, 1, START_MS + 3000))


@fault("snapshot_headers_in_order", "info", "1")
def _(nodes: list[Node]) -> None:
    raw = nodes[0].checkpoint(6, 1).read_bytes()
    overwrite(nodes[0].checkpoint(6, 1), 12 + struct.unpack_from(">i", raw, 8)[0] + 7, b"\x09")


@fault(
    "snapshot_equals_replay", "critical", "1", 6, says="name is renamed, not a",
    also="snapshots_agree",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    stored = [Batch(0, 1, (topic("renamed", 1), partition(1, [1, 2], [1, 2], 1))), healthy_log()[3]]
    nodes[0].checkpoint(6, 1).write_bytes(snapshot(stored, 1, START_MS + 3000))


@fault("snapshots_agree", "critical", "1", 6, says="topic b", also="snapshot_equals_replay")
def _(nodes: list[Node]) -> None:
    stored = [healthy_log()[1], Batch(0, 1, (producer_ids(1000),))]
    nodes[0].checkpoint(6, 1).write_bytes(snapshot(stored, 1, START_MS + 3000))


# --- replica -----------------------------------------------------------------------------------


@fault(
    "committed_data_consistent", "critical", "3", 4,
    says="replica 3 differs from replicas 1 and 2, which agree", also="log_matching",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    changed = (producer_ids(2000), topic("b", 2))
    replace_batch(nodes[2], 4, lambda one: replace(one, values=changed).raw())


@fault(
    "log_matching", "critical", "3", 4, says="nextProducerId=2000",
    also="committed_data_consistent",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    changed = (producer_ids(2000), topic("b", 2))
    replace_batch(nodes[2], 4, lambda one: replace(one, values=changed).raw())


@fault(
    "uncommitted_tail_diverged",
    "warning",
    "3",
    12,
    says="tail from offset 12 on, which a restart cuts",
)
def _(nodes: list[Node]) -> None:
    nodes[2].append(Batch(12, 2, (NO_OP,), None, LATER), Batch(13, 2, (NO_OP,), None, LATER))
    for node in nodes[:2]:
        node.append(leader_change(12, 3, 1, LATER))
        node.epochs([(1, 0), (2, 8), (3, 12)])
        node.quorum_state(leaderId=1, leaderEpoch=3)


@fault("single_leader_per_epoch", "critical", offset=12, says="two leaders", also="log_matching")
def _(nodes: list[Node]) -> None:
    for node in nodes[:2]:
        node.append(leader_change(12, 3, node.node_id, LATER))


def _twice_in_each_log(nodes: list[Node], epoch: int) -> None:
    for node in nodes:
        node.append(leader_change(12, epoch, 3, LATER))


@fault(
    "single_leader_per_epoch", "critical", "1", 12, END_POSITION,
    says="node 3 by the LeaderChange record at offset 12 of replica 1, and node 2 by the LeaderChange record at offset 8 of replica 1. Kafka never writes both into one log",
    sound=lambda nodes: _twice_in_each_log(nodes, 3),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    _twice_in_each_log(nodes, 2)


@fault("single_leader_per_epoch", "critical", "3", says="quorum-state")
def _(nodes: list[Node]) -> None:
    nodes[2].quorum_state(leaderId=3, leaderEpoch=2)


def cut_to_six(node: Node) -> None:
    node.segment(6).unlink()
    node.epochs([(1, 0)])


@fault("voter_holds_committed_data", "info", "3", 6, says="cannot elect it")
def _(nodes: list[Node]) -> None:
    cut_to_six(nodes[2])


@fault("voter_holds_committed_data", "critical", "3", 6, says="would elect it", also="log_end_lost")
def _(nodes: list[Node]) -> None:
    cut_to_six(nodes[1])
    cut_to_six(nodes[2])
    stored = healthy_state()
    nodes[0].checkpoint(12, 2).write_bytes(snapshot(stored, 2, START_MS + 9000))


@fault("meta_properties_valid", "warning", "1", says="missing")
def _(nodes: list[Node]) -> None:
    (nodes[0].home / "meta.properties").unlink()


@fault("cluster_id_agrees", "critical", "2", says="another")
def _(nodes: list[Node]) -> None:
    nodes[1].meta(cluster="another")


@fault("node_identity_unique", "critical", "3", says="both claim to be node 1")
def _(nodes: list[Node]) -> None:
    nodes[2].meta(node_id=1)


@fault("voter_sets_agree", "warning", "3", says="are 1 and 2 by")
def _(nodes: list[Node]) -> None:
    voters = [{"voterId": one} for one in (1, 2)]
    nodes[2].quorum_state(leaderId=2, leaderEpoch=2, currentVoters=voters)


@fault("voter_sets_agree", "warning", "3", says="controller.quorum.voters")
def _(nodes: list[Node]) -> None:
    text = "controller.quorum.voters=1@a:9093,2@b:9093,4@c:9093\n"
    (nodes[2].home / "server.properties").write_text(text)


@fault("quorum_state_present", "warning", "3", says="is missing")
def _(nodes: list[Node]) -> None:
    (nodes[2].folder / "quorum-state").unlink()


@fault("quorum_state_present", "warning", "3", says="cannot be read")
def _(nodes: list[Node]) -> None:
    (nodes[2].folder / "quorum-state").write_text('{"leaderEpoch": 1e999}')


@fault("election_storm", "warning", says="30 leaders")
def _(nodes: list[Node]) -> None:
    for node in nodes:
        node.append(*(leader_change(12 + i, 3 + i, 1, LATER + i) for i in range(29)))


# --- state -------------------------------------------------------------------------------------


@fault("references_exist", "critical", offset=12, says="there is no partition")
def _(nodes: list[Node]) -> None:
    everywhere(nodes, change_isr(9, [1]))


@fault("references_exist", "critical", offset=13)
def _(nodes: list[Node]) -> None:
    everywhere(nodes, NO_OP, remove_topic(9))


@fault("isr_within_replicas", "critical", offset=12, says="isr [1, 7]")
def _(nodes: list[Node]) -> None:
    everywhere(nodes, change_isr(1, [1, 7]))


@fault("isr_within_replicas", "critical", offset=12, says="twice")
def _(nodes: list[Node]) -> None:
    everywhere(nodes, partition(2, [1, 1], [1], 1))


@fault("leader_in_isr", "critical", offset=12, says="leader 1")
def _(nodes: list[Node]) -> None:
    everywhere(nodes, change_isr(1, [2]))


@fault("partition_epochs_step", "critical", offset=13, says="partitionEpoch goes back")
def _(nodes: list[Node]) -> None:
    everywhere(nodes, change_isr(1, [1]), partition(1, [1, 2], [1, 2], 1))


@fault("topic_identity_unique", "critical", offset=12, says="named a")
def _(nodes: list[Node]) -> None:
    everywhere(nodes, topic("a", 8))


@fault("producer_ids_increase", "critical", offset=12, says="from 1000 to 999")
def _(nodes: list[Node]) -> None:
    everywhere(nodes, producer_ids(999))


@fault("mass_deletion", "warning", offset=17, says="5 of 8 topics")
def _(nodes: list[Node]) -> None:
    everywhere(nodes, *(topic(f"t{n}", n) for n in range(10, 15)))
    gone = tuple(remove_topic(n) for n in range(10, 15))
    for node in nodes:
        node.append(Batch(17, 2, gone, None, LATER + 1))


def case(one: Fault) -> str:
    """A fault's name in a report."""
    return f"{one.check}-{one.says or one.severity}"


def findings_of(one: Fault, result: AuditResult) -> list[Finding]:
    """The findings that a fault must give."""
    return [
        finding
        for finding in found(result, one.check)
        if finding.severity == one.severity
        and one.replica in (None, finding.row.replica)
        and one.offset in (None, finding.row.offset)
        and one.position in (None, finding.row.position)
        and one.says in finding.row.message
    ]


class Audit(NamedTuple):
    """What the audit of a quorum with a fault finds, by which rules, and where the quorum lies."""

    result: AuditResult
    used: list[Used]
    root: Path


Audited = Callable[[Fault], Audit]


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Audited:
    """The audit of a quorum with each fault, once."""

    @cache
    def results(one: Fault) -> Audit:
        root = tmp_path_factory.mktemp("fault")
        one.damage(quorum(root))
        return Audit(*used_by(partial(audit, root, limits=one.limits)), root)

    return results


@pytest.mark.parametrize("one", FAULTS, ids=case)
def test_a_fault_is_found_where_it_is_and_nothing_else_is_critical(
    one: Fault, audited: Audited
) -> None:
    """And all that is found is told as it must be; whatever fails is told, not only the first."""
    audit_of = audited(one)
    failed = []
    for holds in (_is_found, _says_where_it_is, _keeps_names, _is_a_sentence, _is_told_so):
        try:
            holds(one, audit_of)
        except Exception as error:
            failed.append(error)
    if failed:
        raise ExceptionGroup(case(one), failed)


def _is_found(one: Fault, of: Audit) -> None:
    result = of.result
    told = [(row.check, row.severity, row.row.offset, row.row.message) for row in result.findings]
    assert findings_of(one, result), told
    critical = {row.check for row in result.findings if row.severity == "critical"}
    assert critical <= one.critical, told


OF_FILES = {"file_readable", "log_start_covered", "segment_name_matches"}
"""Checks that tell of a whole file."""
MOVED = {"offsets_contiguous", "batch_header_valid", "batch_crc_valid", "epochs_monotonic"}
"""Checks of headers that cannot be believed: what they tell is worked out from their neighbours."""


def _says_where_it_is(_: Fault, of: Audit) -> None:
    """Its place in a log leads to the batch that it tells of: by offset, epoch and replica."""
    for finding in of.result.findings:
        row = finding.row
        assert row.offset is None or row.end_offset is None or row.offset < row.end_offset
        if row.path is None or row.evidence.get("kind") == LEFT_OUT:  # which is no replica's
            continue
        path = Path(row.path)
        assert row.replica is not None
        assert f"/{row.replica}/" in row.path
        if path.suffix != ".log" or finding.check in OF_FILES:
            continue
        assert row.position is not None
        assert row.offset is not None
        header = path.read_bytes()[row.position : row.position + HEADER_SIZE]
        unread = "fault" in row.evidence or finding.check == "record_decodes" or not any(header)
        assert unread or row.batch_leader_epoch is not None
        if len(header) < HEADER_SIZE or finding.check in MOVED:
            continue
        base, epoch, delta = (
            struct.unpack_from(form, header, at)[0]
            for form, at in ((">q", 0), (">i", 12), (">i", 23))
        )
        if row.batch_leader_epoch is not None:
            assert row.batch_leader_epoch == epoch, row.message
            # A record that is missing in its batch lies behind the batch's last one.
            last = base + max(delta, row.evidence.get("record_index", 0))
            assert base <= row.offset <= last, row.message


def _keeps_names(_: Fault, of: Audit) -> None:
    """A new name is declared in `faults.evidence`."""
    for finding in of.result.findings:
        shapes, told = EVIDENCE[finding.check], finding.row.evidence
        assert told.keys() <= shapes.keys(), finding.check
        assert [name for name in told if not fits(told[name], shapes[name])] == [], told


def _is_a_sentence(_: Fault, of: Audit) -> None:
    for finding in of.result.findings:
        assert slips(finding.row.message) == [], finding.row.message


def _is_told_so(one: Fault, of: Audit) -> None:
    """What stands in `faults/told`: every word, place and number of the check's findings."""
    assert told.told(of.result, of.root, one.check) == told.section(one)


def test_every_name_of_the_evidence_is_seen(audited: Audited) -> None:
    seen: dict[str, set[str]] = {check: set() for check in EVIDENCE}
    for one in FAULTS:
        for finding in audited(one).result.findings:
            seen[finding.check] |= finding.row.evidence.keys()
    assert seen == {check: set(shapes) for check, shapes in EVIDENCE.items()}


@pytest.mark.parametrize("one", [one for one in FAULTS if one.sound], ids=case)
def test_what_is_nearest_to_a_fault_is_none(one: Fault, tmp_path: Path) -> None:
    assert one.sound
    one.sound(quorum(tmp_path))
    result = audit(tmp_path)
    assert [row.row.message for row in found(result, one.check)] == []
    assert [row.row.message for row in result.findings if row.severity == "critical"] == []


def test_who_does_what_a_finding_says_has_settled_it(audited: Audited, tmp_path: Path) -> None:
    """It is gone then, and nothing that was sound is critical."""
    done: set[str] = set()
    for place, one in enumerate(FAULTS):
        before = audited(one)
        bad = {(row.check, row.row.replica) for row in before.result.findings}
        for number, finding in enumerate(before.result.findings):
            words = step_of(finding)
            if words is None or finding.severity == "info":
                continue
            done.add(words)
            root = tmp_path / f"{place}-{number}"
            shutil.copytree(before.root, root, symlinks=True)
            follow(root, moved(finding, before.root, root), words)
            after = audit(root, limits=one.limits).findings
            left = [row.row.message for row in after if row == moved(finding, before.root, root)]
            new = [
                row.row.message
                for row in after
                if row.severity == "critical" and (row.check, row.row.replica) not in bad
            ]
            assert not left + new, (one, finding.row.message)
            shutil.rmtree(root)
    assert done == set(STEPS)


def moved(finding: Finding, root: Path, to: Path) -> Finding:
    """The same of a quorum that was copied."""
    path = finding.row.path
    row = replace(finding.row, path=path and path.replace(str(root), str(to), 1))
    return replace(finding, row=row)


@pytest.mark.parametrize("one", FAULTS, ids=case)
def test_no_check_breaks_beside_a_copy_that_holds_nothing(one: Fault, tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    one.damage(nodes)
    for file in [*nodes[2].folder.iterdir()] if nodes[2].folder.is_dir() else []:
        shutil.rmtree(file) if file.is_dir() and not file.is_symlink() else file.unlink()
    broken = [row for row in audit(tmp_path, limits=one.limits).results if row.result == "errored"]
    assert not broken


@pytest.mark.parametrize(
    "values",
    [
        (TRANSACTION["begin"], _CUT, TRANSACTION["begin"], TRANSACTION["end"]),
        (TRANSACTION["begin"] + b"\0", TRANSACTION["end"]),
        (TRANSACTION["begin"], _CUT),
    ],
)
def test_what_is_not_decoded_may_begin_or_end_a_transaction(
    values: tuple[bytes, ...], tmp_path: Path
) -> None:
    everywhere(quorum(tmp_path), *values)
    result = audit(tmp_path)
    assert found(result, "record_decodes")
    assert not found(result, "transactions_well_formed")


def test_every_rule_has_a_fault_that_it_tells(audited: Audited) -> None:
    told = set()
    for one in FAULTS:
        result, used, _ = audited(one)
        sentences = [finding.row.message for finding in findings_of(one, result)]
        told |= {place.rule for place in used if any(place.text in text for text in sentences)}
    untold = [rule for rules in DECLARED.values() for rule in rules if rule not in told]
    assert [f"{rule.function}, line {rule.first_line}" for rule in untold] == []


@pytest.mark.parametrize(
    ("damaged", "is_cut"), [(AT[1], True), (AT[6], True), (AT[11] - (AT[10] - AT[9]), False)]
)
@pytest.mark.parametrize(("at", "raw"), [(17, b"\xaa"), (16, b"\x07")])
def test_a_hole_behind_damaged_bytes_is_cut_off_with_them(
    tmp_path: Path, damaged: int, is_cut: bool, at: int, raw: bytes
) -> None:
    """Offset 9 is missing; the CRC or the magic of a batch before it, or behind it, is damaged."""
    node = quorum(tmp_path)[0]
    replace_batch(node, 9, lambda one: b"")
    overwrite(node.segment(0 if damaged == AT[1] else 6), damaged + at, raw)
    rows = found(audit(tmp_path), "offsets_contiguous")
    told = [one.row.message for one in rows if one.row.offset == 9]
    assert ["Kafka does not notice" in one for one in told] == [not is_cut]


def test_a_healthy_quorum_has_no_finding(tmp_path: Path) -> None:
    quorum(tmp_path)
    result = audit(tmp_path)
    assert told.told(result, tmp_path, told.HEALTHY) == told.sections(told.HEALTHY)[told.HEALTHY]
    assert [row.row.message for row in result.findings] == []
    # What the small folders do not hold (indexes, leftovers) was not judged, and is no gap.
    assert {one.result for one in result.results} == {"passed", "skipped"}
    assert [one.check for one in result.results if one.is_gap] == []
    reasons = {one.check: one.reason for one in result.results if one.result == "skipped"}
    assert reasons.pop("index_agrees") == "no index is at hand"
    # Nor does it register a node, name racks, record its voters, have topic folders, or say what is
    # free on its disks.
    modules = (partition_checks, health_checks, voter_checks, disk_checks)
    of_pairs = {"snapshot_not_too_often", "snapshot_times_in_order"}  # of two snapshots
    assert set(reasons) <= {one.name for module in modules for one in checks_in(module)} | of_pairs
    assert "the logs grow by" in (reasons["disk_has_room"] or "")
    assert all(one.judged for one in result.results if one.result == "passed")
    assert result.verdict.grade == "sound"
    assert result.exit_code("info", strict=True) == 0


def test_a_snapshot_that_no_replay_reaches_is_named(tmp_path: Path) -> None:
    """The one at offset 6 holds; of the one behind a record that does not decode nobody knows."""
    nodes = quorum(tmp_path)
    everywhere(nodes, TRANSACTION["abort"] + b"\0", NO_OP)
    nodes[0].checkpoint(14, 2).write_bytes(snapshot(healthy_log()[1:2], 2, LATER))
    results = {one.check: one for one in audit(tmp_path).results}
    for check in ("snapshot_equals_replay", "references_exist"):
        assert results[check].result == "skipped"
        assert results[check].is_gap
        assert results[check].judged
        assert "1: offset 12 cannot be read" in (results[check].reason or "")
    reason = results["snapshot_equals_replay"].reason or ""
    assert f"1: {nodes[0].checkpoint(14, 2).name} is where the replay begins" in reason
    rows = {row["check"]: row["message"] for row in audit(tmp_path).rows()}
    assert rows["snapshot_equals_replay"] == reason


def test_every_check_has_a_fault_that_it_finds() -> None:
    assert {check.name for check in CATALOGUE} == {one.check for one in FAULTS}


def test_a_second_copy_of_a_folder_is_told(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    shutil.copytree(nodes[0].home, tmp_path / "1-old")
    rows = found(audit(tmp_path), "node_identity_unique")
    assert {rows[0].row.replica, rows[0].row.other_replica} == {"1", "1-old"}
    assert "one voter votes twice" in rows[0].row.message


def test_of_two_copies_of_a_folder_the_one_that_is_behind_is_named(tmp_path: Path) -> None:
    """Whatever it is called: the newer one runs."""
    nodes = quorum(tmp_path)
    shutil.copytree(nodes[0].home, tmp_path / "0-new")
    nodes[0].write(healthy_log()[:-1])
    rows = found(audit(tmp_path), "node_identity_unique")
    assert (rows[0].row.replica, rows[0].row.other_replica) == ("1", "0-new")
