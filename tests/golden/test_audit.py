"""The audit of real quorums: what is true of each is found, and nothing that a person would call
false.
"""

import shutil
from functools import cache
from pathlib import Path

import pytest

from kraftlog.audit.runner import AuditResult, audit_of
from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import find_replicas
from kraftlog.log.names import LOG_FOLDER
from kraftlog.log.segment import Limits
from kraftlog.quorum.model import Quorum
from tests.collecting import collect
from tests.golden.cases import DATA, KAFKA_4_4, scenario
from tests.unit.audit_logs import batch_starts
from tests.unit.sentences import slips

REAL = (
    "combined", "isolated", "isolated-healed", "lagging", "lagging-caughtup", "legacy",
    "steady-live", "upgraded-3.9", *KAFKA_4_4,
)  # fmt: skip

STOPPED = {"isolated-healed", "lagging-caughtup", "legacy", "upgraded-3.9", "combined"}
WARNINGS: dict[str, set[str]] = {
    # Broker 12 is cut off, too, and partitions wait for it.
    "isolated": {
        "uncommitted_tail_diverged",
        "partitions_have_leaders",
        "partitions_reach_min_isr",
        "brokers_unfenced",
    },
    "ghosts-4.4": {"controllers_are_voters"},
    "offline": {
        "partitions_have_leaders",
        "partitions_reach_min_isr",
        "brokers_unfenced",
        "folders_match_topics",
    },
    "voter-replaced": {"voter_directories_agree"},
    # Broker 14 was killed and unregistered; two partitions have no other replica that was in sync.
    "steady-live": {"partitions_have_leaders", "partitions_reach_min_isr"},
}


@cache
def audit(case: str) -> AuditResult:
    return audited(DATA / case / "replicas")


def audited(*roots: Path) -> AuditResult:
    replicas = find_replicas([str(one) for one in roots])
    return audit_of(Quorum(collect(replicas, Limits(), Redactor(b"k" * 32))))


@pytest.mark.parametrize("case", REAL)
def test_a_real_quorum_has_no_critical_finding(case: str) -> None:
    result = audit(case)
    told = [(one.check, one.row.replica, one.row.message) for one in result.findings]
    assert {one.severity for one in result.findings} <= {"warning", "info"}, told
    warned = {one.check for one in result.findings if one.severity == "warning"}
    assert warned == WARNINGS.get(case, set()), told
    assert not [one for one in result.results if one.result == "errored"]
    assert result.exit_code() == 0


@pytest.mark.parametrize(
    ("case", "other", "node"),
    [
        ("combined", "isolated", "1"),
        ("ghosts-4.4", "lagging-caughtup", "3"),
        ("isolated", "voter-replaced", "11"),
        ("lagging-caughtup", "offline", "11"),
        ("steady-live", "lagging", "11"),
        ("upgraded-3.9", "lagging", "3"),
    ],
)
def test_a_folder_of_another_cluster_is_said_to_be_one_and_nothing_else_changes(
    case: str, other: str, node: str, tmp_path: Path
) -> None:
    """Its log may overlap the others', begin behind their ends, or cut batches another way."""
    shutil.copytree(DATA / other / "replicas" / node, tmp_path / "stranger")
    alone, told = audit(case), audited(DATA / case / "replicas", tmp_path)
    stranger = [one for one in told.findings if one.row.replica == "stranger"]
    assert [one.check for one in stranger] == ["cluster_id_agrees"]
    assert [one for one in told.findings if one not in stranger] == list(alone.findings)


def test_an_older_copy_of_a_disk_is_said_to_be_one_and_says_nothing_of_the_leader(
    tmp_path: Path,
) -> None:
    """Of a quorum that was shut down, whose last leader nobody was left to follow."""
    held = DATA / "upgraded-3.9" / "replicas"
    log = tmp_path / "backup" / LOG_FOLDER
    shutil.copytree(held / "1", tmp_path / "backup")
    (segment,) = log.glob("*.log")
    raw = segment.read_bytes()
    starts = batch_starts(raw)
    segment.chmod(0o600)
    segment.write_bytes(raw[: starts[len(starts) // 2]])
    for one in list(log.iterdir()):
        if one != segment:
            one.unlink()
    told = audited(held, tmp_path).findings
    assert [one.check for one in told if one.severity == "critical"] == ["node_identity_unique"]
    assert not [one for one in told if one.check == "newest_leader_commits"]


def test_copies_of_two_clusters_that_nothing_names_are_said_to_be_so_perhaps(
    tmp_path: Path,
) -> None:
    for case, node in (("legacy", "1"), ("legacy", "2"), ("legacy", "3"), ("lagging", "11")):
        held = DATA / case / "replicas" / node / LOG_FOLDER
        shutil.copytree(held, tmp_path / f"{case}-{node}" / LOG_FOLDER)
    told = [one for one in audited(tmp_path).findings if one.severity == "critical"]
    assert [one.check for one in told] == ["committed_data_consistent"]
    assert (
        "both sides committed theirs. These are copies of two clusters, or" in told[0].row.message
    )


def test_the_dead_leader_and_a_broker_carry_an_uncommitted_tail() -> None:
    tails = [one for one in audit("isolated").findings if one.check == "uncommitted_tail_diverged"]
    assert {(one.row.replica, one.node_id, one.row.offset) for one in tails} == {
        ("2", 2, 176),
        ("12", 12, 176),
    }
    by_node = {one.node_id: one.row for one in tails}
    assert by_node[2].message.startswith("Controller 2 carries an uncommitted tail")
    assert by_node[12].message.startswith("Broker 12 carries an uncommitted tail")
    for row in by_node.values():
        assert "from offset 176 on, which a restart cuts" in row.message
        assert "None of it was committed" in row.message
        assert "Lost: topics ghost-topic-a, ghost-topic-b;" in row.message
        assert row.evidence["truncation_offset"] == 176
        assert any("LEADER_CHANGE" in one for one in row.evidence["first_difference"].values())
        types = row.evidence["types_lost"]
        assert row.end_offset is not None
        assert sum(types.values()) == row.evidence["records_lost"] == row.end_offset - 176
        assert types["TOPIC_RECORD"] == 2
    for told in by_node[2].evidence["records"].values():
        assert len(told) == len(set(told)) == 8
    assert (by_node[2].end_offset, by_node[12].end_offset) == (243, 242)


@pytest.mark.parametrize("case", ["upgraded-3.9", "lagging-caughtup"])
def test_leftover_configs_are_one_info_for_the_quorum(case: str) -> None:
    """Kafka's own doing: configs of a topic that was created and removed in one loader delta."""
    result = audit(case)
    found = [one for one in result.findings if one.check.startswith("snapshot")]
    (one,) = [
        found for found in found if "configs of topics that do not exist" in found.row.message
    ]
    assert (one.check, one.severity) == ("snapshot_equals_replay", "info")
    evidence = one.row.evidence
    assert all(told["key"].startswith("configs:") for told in evidence["differences"])
    held = {each["replica"] for each in evidence["snapshots"]}
    assert held == set(evidence["replicas"])
    if case == "upgraded-3.9":
        assert held == {"12"}
    assert "set" not in one.row.message.split("hold configs")[0]


@pytest.mark.parametrize("case", REAL)
def test_the_committed_interval_holds_the_described_high_watermark(case: str) -> None:
    replicas = find_replicas([str(DATA / case / "replicas")])
    bounds = Quorum(collect(replicas, Limits(), Redactor(None), replay=False)).bounds
    # It was described a moment before the copy, so the copy may know of more.
    assert bounds.upper is None or scenario(case)["high_watermark"] <= bounds.upper
    # Only nodes that were stopped cleanly prove where their logs ended.
    assert (bounds.upper == bounds.lower) == (case in STOPPED), bounds


def test_a_torn_tail_and_a_cut_snapshot_are_told_apart() -> None:
    result = audit("synthetic-torn")
    tails = [one for one in result.findings if one.check == "log_tail_complete"]
    assert [one.row.evidence["size_bytes"] for one in tails] == [126]
    assert {one.check for one in result.findings if one.scope == "snapshot"} == {
        "snapshot_footer_last"
    }


@pytest.mark.parametrize("case", REAL)
def test_every_message_is_made_of_sentences(case: str) -> None:
    for finding in audit(case).findings:
        assert slips(finding.row.message) == [], finding.row.message


def test_the_audit_says_the_same_each_time() -> None:
    assert list(audit.__wrapped__("steady-live").rows()) == list(audit("steady-live").rows())
