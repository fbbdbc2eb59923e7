"""`kraftlog changes` between two offsets is the difference between the two states, each object
once, and names the elections in between.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from kraftlog.cli import main
from kraftlog.decode.redaction import Redactor
from kraftlog.explain.moments import MomentSource
from kraftlog.explain.timeline import net
from kraftlog.log.directory import find_replicas
from kraftlog.log.segment import Limits
from kraftlog.quorum.model import Quorum
from tests.collecting import collect
from tests.golden.cases import DATA, Replica
from tests.images import built

CLEAR = Redactor(None)


@pytest.mark.parametrize(
    "replica, first, end",
    [
        (Replica("isolated", "1"), 100, 362),
        (Replica("unregistered-4.4", "2"), 20, 271),
        (Replica("unregistered-4.4", "2"), 85, 192),
        (Replica("synthetic-semantics", "0"), 3, 40),
        (Replica("synthetic-transactions", "0"), 5, 30),
    ],
    ids=str,
)
def test_the_net_changes_are_what_differs_between_two_images(
    replica: Replica, first: int, end: int
) -> None:
    replicas = find_replicas([str(DATA / replica.case / "replicas")])
    quorum = Quorum(collect(replicas, Limits(), CLEAR, replay=False))
    found = net(MomentSource(quorum, CLEAR, frozenset()).moments(), first, end)
    (own,) = find_replicas([str(replica.folder)])
    before, after = (built(own, at).state for at in (first, end))
    keys = {(one.table, one.key) for one in found.changes}
    for one in found.changes:
        assert (before.get(one.table, one.key), after.get(one.table, one.key)) == one[2:]
    for state in (before, after):
        for table, key, _ in state:
            if before.get(table, key) != after.get(table, key):
                assert (table, key) in keys


def changes(
    capsys: pytest.CaptureFixture[str], *words: str, name: str = "isolated"
) -> list[dict[str, Any]]:
    capsys.readouterr()
    root = str(DATA / name / "replicas")
    assert main(["changes", "--input", root, *words, "--format", "json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_log_that_begins_amid_an_epoch_tells_no_election(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """All copies begin with snapshots: two of them at offset 336, one at 929."""
    rows = changes(capsys, "--from", "929", "--to", "1170", name="steady-live")
    assert [row["text"] for row in rows if row["kind"] == "election"] == [
        "leader 2 in epoch 2, from offset 1103 on",
        "leader 1 in epoch 3, from offset 1168 on",
    ]


def test_an_election_and_topics_that_came_and_went(capsys: pytest.CaptureFixture[str]) -> None:
    rows = changes(capsys, "--from", "176", "--to", "200")
    (election,) = [row for row in rows if row["kind"] == "election"]
    assert election["text"] == "leader 3 in epoch 2, from offset 176 on"
    topics = {row["name"].split()[1]: row["change"] for row in rows if row["name"][:5] == "topic"}
    assert topics["real-1"] == "new"
    assert topics["shipments.raw-7"] == "gone"
    # What only the dead leader holds is no part of the history.
    assert "ghost-topic-a" not in topics
    assert not [
        row for row in changes(capsys, "--from", "1", "--to", "150") if "real-1" in str(row)
    ]


@pytest.mark.parametrize(
    "words, said",
    [
        (["--input", "{root}"], "say --from N --to M"),
        (["--input", "{root}", "--from", "9", "--to", "3"], "the lower one first"),
        (
            ["--input", "{root}", "--from", "9", "--to", "9999"],
            "ends at offset 362: choose --to so",
        ),
        (["--input", "{root}", "--from", "3", "--to", "9", "--run", "2"], "are runs of --lake"),
        (["--lake", "/nowhere/lake"], "there is no lake; kraftlog run"),
        (["--lake", "x", "--from", "1"], "runs are --run and --since"),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    root = str(DATA / "isolated" / "replicas")
    assert main(["changes", *(word.format(root=root) for word in words)]) == 2
    assert said in capsys.readouterr().err


def test_a_history_that_begins_later_is_not_told_as_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = str(DATA / "lagging-caughtup" / "replicas" / "1")
    assert main(["changes", "--input", root, "--from", "1", "--to", "2080"]) == 2
    assert "the history at hand begins at offset" in capsys.readouterr().err
