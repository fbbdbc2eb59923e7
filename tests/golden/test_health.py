"""What the newest states of real quorums say of them, against what was done to them."""

import re
from functools import cache

import pytest

from kraftlog.audit.check import BadRow
from kraftlog.audit.runner import AuditResult, audit_of
from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import find_replicas
from kraftlog.log.segment import Limits
from kraftlog.quorum.model import Quorum
from tests.collecting import collect
from tests.golden.cases import DATA, scenario
from tests.golden.test_audit import audit

FACTS = scenario("offline")["facts"]


@cache
def audited(case: str) -> AuditResult:
    return audit(case)


def rows(case: str, check: str) -> list[BadRow]:
    return [one.row for one in audited(case).findings if one.check == check]


def names(case: str, check: str) -> list[str]:
    """The partitions that all findings of a check name."""
    return sorted(name for row in rows(case, check) for name in row.evidence["names"])


def test_partitions_without_a_leader_and_below_min_isr_by_name() -> None:
    assert names("offline", "partitions_have_leaders") == FACTS["offline"]
    assert names("offline", "partitions_reach_min_isr") == FACTS["under_min_isr"]
    messages = [row.message for row in rows("offline", "partitions_have_leaders")]
    for name in FACTS["offline"]:
        assert any(re.search(rf"\b{re.escape(name)}\b.* since 2026", one) for one in messages)


def test_since_when_and_who_is_the_safest_leader() -> None:
    found = {
        one["name"]: one
        for row in rows("offline", "partitions_have_leaders")
        for one in row.evidence["partitions"]
    }
    assert {name: one["since_offset"] for name, one in found.items()} == {
        "alerts.raw-2-3": 129, "alerts.raw-2-4": 96, "pair-2": 171, "pair-6": 128, "solo-3": 120,
        "solo-4": 88, "trio-1": 156,
    }  # fmt: skip
    assert found["trio-1"]["way_back"].startswith("start broker 14 of the ELR")
    assert found["solo-4"]["way_back"].startswith("bring back broker 15 of the ELR")


def test_the_unregistered_broker_in_assignments_and_elrs() -> None:
    (row,) = rows("offline", "replicas_registered")
    assert row.evidence["broker_id"] == 15
    assert row.evidence["names"] == FACTS["unregistered_in_assignment"]
    assert row.evidence["in_elr"] == FACTS["unregistered_in_elr"]


def test_the_fenced_broker_and_the_stray_folder() -> None:
    (row,) = rows("offline", "brokers_unfenced")
    assert (row.evidence["broker_id"], row.evidence["since_offset"]) == (14, 130)
    (stray,) = rows("offline", "folders_match_topics")
    (folder,) = stray.evidence["folders"]
    (known,) = FACTS["stray_folders"]
    assert (stray.replica, folder["folder"]) == (str(known["broker"]), known["folder"])
    assert folder["topic_id"] == known["topic_id"]
    assert FACTS["reborn"]["new_id"] in stray.message


def test_elections_that_were_unclean() -> None:
    (row,) = rows("offline", "elections_clean")
    assert row.evidence["names"] == row.evidence["marked"] == ["alerts.raw-2-2", "solo-2"]
    (past,) = rows("upgraded-3.9", "elections_clean")
    assert len(past.evidence["names"]) == 2
    assert past.evidence["marked"] == []
    assert (
        "Broker 12 was elected at 2026-11-21 00:47:03 UTC (recovered since): sessions.v2-13-0"
        in past.message
    )


@pytest.mark.parametrize("case", ["offline", "isolated"])
def test_who_led_last_is_known_however_the_history_is_cut(case: str) -> None:
    """Window by window, a leader may stand in none of the records of the window that ends it."""
    replicas = find_replicas([str(DATA / case / "replicas")])
    narrow = audit_of(Quorum(collect(replicas, Limits(window_size_bytes=300), Redactor(None))))
    for check in ("partitions_have_leaders", "elections_clean"):
        cut = [one.row for one in narrow.findings if one.check == check]
        assert cut == rows(case, check)
    led = [
        one["led_by"]
        for row in rows(case, "partitions_have_leaders")
        for one in row.evidence["partitions"]
    ]
    assert led
    assert None not in led


def test_the_ghost_that_blocks_and_the_one_that_does_not() -> None:
    found = {
        row.evidence["controller_id"]: row for row in rows("ghosts-4.4", "controllers_are_voters")
    }
    assert set(found) == {4, 5}
    assert (found[5].severity, found[4].severity) == (None, "info")
    assert found[5].evidence["blocks_upgrade"]
    assert found[5].evidence["highest_metadata_version"] == 30
    assert not found[4].evidence["blocks_upgrade"]
    assert not rows("unregistered-4.4", "controllers_are_voters")


def test_a_voter_by_its_id_only() -> None:
    facts = scenario("voter-replaced")["facts"]
    (row,) = rows("voter-replaced", "voter_directories_agree")
    evidence = row.evidence
    assert row.replica == "2"
    assert evidence["voter_directory_id"] == facts["old_directory_id"]
    assert evidence["directory_id"] == facts["new_directory_id"]
    assert (evidence["voters_left"], evidence["majority"]) == (2, facts["majority"])
    assert "none of them may fail" in row.message
    assert not rows("voter-readded", "voter_directories_agree")
    assert not rows("voter-readded", "voters_removed_stay_away")


@pytest.mark.parametrize("case", ["combined", "legacy", "upgraded-3.9", "isolated-healed"])
def test_a_cluster_that_was_shut_down_is_not_in_trouble(case: str) -> None:
    found = rows(case, "partitions_have_leaders") + rows(case, "brokers_unfenced")
    assert found
    assert {one.severity for one in found} == {"info"}
