"""What goes with the end of a log, as objects by their names: records of all kinds at offsets 12
and above, which the leader of epoch 3 was elected without.
"""

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kraftlog.audit.loss_words import loss_rows, lost_words
from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import find_replicas
from kraftlog.quorum.evidence import LossCount, Losses
from tests.collecting import collect
from tests.unit.audit_logs import (
    LIMITS,
    NO_OP,
    Batch,
    producer_ids,
    quorum,
    remove_topic,
    replace_batch,
    topic,
    unregister_broker,
    voters_batch,
)
from tests.unit.faults.borders import later_epoch
from tests.unit.faults.health import MIN_ISR, broker, change, level, partition, value
from tests.unit.faults.table import LATER


def lost(root: Path, *batches: tuple[bytes, ...], damage: int | None = None) -> Losses:
    """What node 3 loses that holds these batches from offset 12 on."""
    nodes, base = quorum(root), 12
    for values in batches:
        nodes[2].append(Batch(base, 2, values, None, LATER))
        base += len(values)
    later_epoch(nodes)
    if damage is not None:
        nodes[2].segment(0).unlink()
        nodes[2].checkpoint(6, 1).unlink()
    state = collect(find_replicas([str(root)]), LIMITS, Redactor(None)).state
    assert state is not None
    assert set(state.losses) == {("3", 12)}
    return state.losses["3", 12]


def scram(name: str) -> bytes:
    return value(
        "USER_SCRAM_CREDENTIAL_RECORD", name=name, mechanism=1, salt="c2Fs", storedKey="a2V5",
        serverKey="a2V5", iterations=4096,
    )  # fmt: skip


ADDED: dict[str, tuple[tuple[bytes, ...], LossCount]] = {
    "a topic, with its partitions": (
        (topic("d", 2 + 128),), LossCount("topics", "added", 1, ("d",)),
    ),
    "a partition": ((partition(0, [1], 1),), LossCount("partitions", "added", 1, ("b-0",))),
    "a config": (
        (MIN_ISR,), LossCount("configs", "added", 1, ("min.insync.replicas of topic a",)),
    ),
    "a user": (
        (scram("ann"),), LossCount("scram_credentials", "added", 1, ("ann (SCRAM-SHA-256)",)),
    ),
    "a feature": ((level(20),), LossCount("features", "added", 1, ("metadata.version",))),
    "a deletion": ((remove_topic(2),), LossCount("topics", "removed", 1, ("b",))),
    "an assignment": (
        (change(replicas=[1, 2, 3]),), LossCount("partitions", "changed", 1, ("a-0",)),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("records", "told"), ADDED.values(), ids=ADDED)
def test_one_object(tmp_path: Path, records: tuple[bytes, ...], told: LossCount) -> None:
    found = lost(tmp_path, records)
    assert (found.offset, found.objects) == (12, (told,))


@pytest.mark.parametrize(
    ("records", "again"),
    [
        ((NO_OP,), {}),
        ((change(isr=[1]),), {"partitions": 1}),
        ((change(leader=2), change(isr=[2])), {"partitions": 1}),
        ((broker(1, 12), broker(2, 13)), {"brokers": 2}),
    ],
)
def test_what_the_cluster_sets_anew_is_only_counted(
    tmp_path: Path, records: tuple[bytes, ...], again: dict[str, int]
) -> None:
    assert lost(tmp_path, records) == Losses(12, (), again)


def test_no_node_does_a_change_of_voters_or_an_unregistration_again(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    for node in nodes:
        replace_batch(node, 9, lambda one: replace(one, values=(broker(2, 9),)).raw())
    unregistered = Batch(12, 2, (unregister_broker(2, 9),), None, LATER)
    nodes[2].append(unregistered, kraft_version(13), voters_batch(14, 2, 4, ms=LATER))
    later_epoch(nodes)
    state = collect(find_replicas([str(tmp_path)]), LIMITS, Redactor(None)).state
    assert state is not None
    told = lost_words(loss_rows(state.losses["3", 12]))
    added = "Lost: kraft.version 1; voter 4 (directory AAAAAAAAAAAAAAAAAAAAaA)."
    assert told == f"{added} There again, because the deletion is lost: broker 2."


def kraft_version(base: int) -> Batch:
    """A KRaftVersion record of level 1."""
    key, level_1 = struct.pack(">hh", 0, 5), struct.pack(">hh", 0, 1) + b"\0"
    return Batch(base, 2, (level_1,), (key,), LATER)


def test_what_comes_and_goes_with_a_topic_is_told_with_it(tmp_path: Path) -> None:
    with_config: dict[str, Any] = {"resourceType": 2, "name": "retention.ms", "value": "1"}
    found = lost(
        tmp_path,
        (topic("d", 9), value("CONFIG_RECORD", resourceName="d", **with_config)),
        (topic("e", 10), value("CONFIG_RECORD", resourceName="a", **with_config)),
    )
    config = LossCount("configs", "added", 1, ("retention.ms of topic a",))
    assert found == Losses(12, (LossCount("topics", "added", 2, ("d", "e")), config), {})


def test_what_a_copy_has_otherwise_is_told_at_the_end_of_what_both_hold(tmp_path: Path) -> None:
    """Topic b of offset 5 is another one on 3, which ends a record later."""
    nodes = quorum(tmp_path)
    other = (producer_ids(1000), topic("z", 7))
    replace_batch(nodes[2], 4, lambda one: replace(one, values=other).raw())
    nodes[2].checkpoint(6, 1).unlink()
    nodes[2].append(Batch(12, 2, (NO_OP,), None, LATER))
    state = collect(find_replicas([str(tmp_path)]), LIMITS, Redactor(None)).state
    assert state is not None
    told = {pair: (one.offset, {*(one.objects or ())}) for pair, one in state.apart.items()}
    objects = {LossCount("topics", "added", 1, ("z",)), LossCount("topics", "removed", 1, ("b",))}
    assert told == {("3", "1"): (12, objects)}


def test_many_names_are_counted(tmp_path: Path) -> None:
    names = [f"t{number:03d}" for number in range(105)]
    found = lost(tmp_path, tuple(topic(name, 20 + at) for at, name in enumerate(names)))
    assert found.objects is not None
    (told,) = found.objects
    assert (told.count, len(told.names), set(told.names) <= set(names)) == (105, 100, True)


def test_without_the_beginning_it_is_not_known(tmp_path: Path) -> None:
    """No snapshot and no record tells the state at offset 12 on that node; others' snapshots do."""
    quorum_root = tmp_path / "with"
    quorum_root.mkdir()
    known = lost(quorum_root, (topic("d", 9),), damage=1)
    assert known == Losses(12, (LossCount("topics", "added", 1, ("d",)),), {})
