"""Every real case is told rightly: from captures of real quorums, and from directories written here
where staging is impossible. Those that are staged with real Kafka are in tests/kafka.
"""

import os
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from kraftlog.audit.every_check import BY_NAME
from kraftlog.audit.runner import AuditResult
from tests.golden.test_audit import audit as audit_golden
from tests.real_cases import CASES, assert_told, warnings
from tests.unit.audit_logs import (
    NO_OP,
    START_MS,
    Batch,
    Node,
    audit,
    healthy_state,
    quorum,
    register_broker,
    remove_topic,
    snapshot,
    topic,
)
from tests.unit.faults.cases import LOOKED, free, joiner, only_raft, retained
from tests.unit.faults.health import FIRST, RUNNING, broker, level, value
from tests.unit.faults.table import LATER, everywhere

ROOT = Path(__file__).parents[2]
SOURCES = """
strimzi#11039 KAFKA-20395 KAFKA-20295 KIP-1312 KAFKA-20839 KAFKA-20427 KAFKA-19850
strimzi/proposals#203 bitnami/charts#29167 bitnami/containers#80381 UnexpectedAppendOffset
sentry-charts#1954 strimzi#12760 strimzi#11613 KAFKA-19541 strimzi#11262 KAFKA-14616 KAFKA-21022
""".split()
"""Where people have met them."""


def test_every_case_has_a_directory_and_every_staged_one_a_test() -> None:
    told = {source for one in CASES.values() for source in one.source.split(", ")}
    assert told == {*SOURCES, "leaderless partitions of 2025-12"}
    for one in CASES.values():
        if one.origin == "staged":
            path, _, test = one.where.partition("::")
            module = import_module(path.removesuffix(".py").replace("/", "."))
            assert callable(getattr(module, test)), one.where
        else:
            assert one.origin in {"golden", "built"}
            assert one.origin == "golden" or one.where in BUILT


def test_the_operators_guide_has_a_row_for_each_check() -> None:
    text = (ROOT / "kraftlog" / "docs" / "operator.md").read_text(encoding="utf-8")
    table = text.partition("## Which case is mine")[2].partition("\n## ")[0]
    named = {name for line in table.splitlines() for name in re.findall(r"`([a-z_]+)`", line)}
    assert {one.check for each in CASES.values() for one in each.findings} <= named
    assert named - set(BY_NAME) == set()


@pytest.mark.parametrize("name", [name for name, one in CASES.items() if one.origin == "golden"])
def test_a_capture_is_told_rightly(name: str) -> None:
    result = audit_golden(CASES[name].where)
    assert_told(name, result)
    assert warnings(result) <= {
        one.check for one in CASES[name].findings if one.severity == "warning"
    } | {"brokers_unfenced"}


Build = Callable[[list[Node], int], None]
BUILT: dict[str, Build] = {}


def built(make: Build) -> Build:
    """A directory by the name of a function; its second parameter varies sizes and ids."""
    BUILT[make.__name__] = make
    return make


@built
def no_feature_record(nodes: list[Node], more: int) -> None:
    """Brokers register in a log that has lost the record of its metadata.version."""
    everywhere(nodes, *(broker(1 + n, FIRST + n) for n in range(2 + more)))


@built
def level_behind(nodes: list[Node], more: int) -> None:
    numbers = range(1, 3 + more)
    everywhere(nodes, level(15), *(broker(n, FIRST + n, highest=30 + more) for n in numbers))


@built
def stale_broker_epoch(nodes: list[Node], more: int) -> None:
    """A change of a registration that is not the one which the log holds."""
    changed = value(
        "BROKER_REGISTRATION_CHANGE_RECORD",
        brokerId=1,
        brokerEpoch=FIRST + 7 + more,
        fenced=1,
        inControlledShutdown=0,
    )
    everywhere(nodes, *RUNNING, *[NO_OP] * more, changed)


@built
def wrong_broker_in_snapshot(nodes: list[Node], more: int) -> None:
    """One node's snapshot holds an older registration: its loader stops at the next change."""
    registered = (*RUNNING, *[NO_OP] * more)
    everywhere(nodes, *registered)
    end = FIRST + len(registered)
    kept = healthy_state()
    for node in nodes:
        own = RUNNING if node.node_id < 3 else (RUNNING[0], broker(1, FIRST - 3), RUNNING[2])
        stored = [*kept, Batch(0, 2, own)]
        node.checkpoint(end, 2).write_bytes(snapshot(stored, 2, LATER))


@built
def inside_a_batch(nodes: list[Node], more: int) -> None:
    """A log that was laid out anew in the middle of a batch."""
    everywhere(nodes, *[NO_OP] * (4 + more))
    joiner(nodes[2])
    nodes[2].segment(0).rename(nodes[2].segment(FIRST + 1 + more))


@built
def full_disk(nodes: list[Node], more: int) -> None:
    """Nothing is free; a batch is torn, and a snapshot was never finished."""
    retained(metadata_max_retention_bytes=100 + more)(nodes)
    for node in nodes:
        node.append(Batch(13, 2, (NO_OP,) * (5 + more), None, LOOKED))
    path = nodes[0].segment(6)
    path.write_bytes(path.read_bytes()[: -7 - more])
    part = nodes[0].folder / f"{18 + more:020d}-{2:010d}-4711.checkpoint.part"
    part.write_bytes(nodes[0].checkpoint(6, 1).read_bytes()[: 90 + more])
    before = START_MS // 1000
    os.utime(part, (before, before))
    free(0)(nodes)
    (nodes[1].home / "df.txt").rename(nodes[0].home / "df.txt")


@built
def only_raft_records(nodes: list[Node], more: int) -> None:
    only_raft(nodes)


@built
def stuck_joiner(nodes: list[Node], more: int) -> None:
    """A controller on an empty disk, whose epoch rises, and with it that of nobody else."""
    joiner(nodes[2])
    nodes[2].quorum_state(leaderId=-1, leaderEpoch=5 + 30 * more)
    part = nodes[2].folder / f"{6:020d}-{1:010d}-9.checkpoint.part"
    part.write_bytes(nodes[0].checkpoint(6, 1).read_bytes()[: 61 + more])
    then = START_MS // 1000 - 700
    os.utime(part, (then, then))


@built
def mass_deletion(nodes: list[Node], more: int) -> None:
    numbers = range(20, 27 + more)
    everywhere(nodes, *(topic(f"orders-{n}", n) for n in numbers))
    gone = tuple(remove_topic(n) for n in numbers)
    for node in nodes:
        node.append(Batch(FIRST + len(numbers), 2, gone, None, LATER + 1))


@pytest.mark.parametrize("more", [0, 3])
@pytest.mark.parametrize("name", [name for name, one in CASES.items() if one.origin == "built"])
def test_a_written_directory_is_told_rightly(name: str, more: int, tmp_path: Path) -> None:
    BUILT[CASES[name].where](quorum(tmp_path), more)
    assert_told(name, audit(tmp_path))


def test_what_stops_a_loader_says_who_holds_it(tmp_path: Path) -> None:
    """The registration that the change is of lies on one node only: the others stop."""
    nodes = quorum(tmp_path)
    stale_broker_epoch(nodes, 0)
    result: AuditResult = audit(tmp_path)
    (row,) = [one.row for one in result.findings if one.check == "references_exist"]
    assert row.offset == FIRST + len(RUNNING)
    assert "2 and 3 hold the same bytes" in row.message
    assert row.evidence["same_bytes_on"] == ["2", "3"]


def test_one_node_that_lacks_a_registration_is_told_who_has_it(tmp_path: Path) -> None:
    """Another record stands in its place on one node: a loader stops there alone."""
    nodes = quorum(tmp_path)
    renewed = register_broker(7, FIRST)
    for node in nodes:
        own = renewed if node.node_id < 3 else register_broker(7, FIRST, incarnation=2)
        node.append(Batch(FIRST, 2, (own,), None, LATER))
        node.append(Batch(FIRST + 1, 2, (NO_OP,), None, LATER))
    told = {one.check: one.row for one in audit(tmp_path).findings if one.severity == "critical"}
    assert told["log_matching"].replica == "3"
    assert told["log_matching"].offset == FIRST
