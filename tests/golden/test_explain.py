"""Timelines of real quorums: what a person reads is what was done to them."""

import json
from pathlib import Path
from typing import Any

import pytest

from kraftlog.cli import main
from kraftlog.decode.redaction import Redactor
from kraftlog.explain.moments import SNAPSHOT, MomentSource
from kraftlog.log.directory import find_replicas
from kraftlog.log.segment import Limits
from kraftlog.quorum.model import Quorum
from tests.collecting import collect
from tests.golden.cases import DATA, scenario

Row = dict[str, Any]
OFFLINE = DATA / "offline" / "replicas"
CLEAR = Redactor(None)


def explained(capsys: pytest.CaptureFixture[str], case: str, *words: str) -> list[Row]:
    """The rows of `kraftlog explain`."""
    capsys.readouterr()
    where = ["--input", str(DATA / case / "replicas"), "--format", "json"]
    assert main(["explain", *words, *where]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def texts(rows: list[Row]) -> list[str]:
    return [text for row in rows for text in row["text"]]


def test_a_topic_that_was_created_again(capsys: pytest.CaptureFixture[str]) -> None:
    rows = explained(capsys, "offline", "topic", "reborn")
    ids = scenario("offline")["facts"]["reborn"]
    told = [text for text in texts(rows) if text.startswith("topic ")]
    assert told == [
        f"topic reborn (id {ids['old_id']}) is created",
        f"topic reborn (id {ids['old_id']}) is removed",
        f"topic reborn (id {ids['new_id']}) is created",
    ]
    removed = [row for row in rows if row["record_type"] == "REMOVE_TOPIC_RECORD"]
    assert [row["offset"] for row in removed] == [131]
    assert [one["object"] for one in removed[0]["changes"]][1:] == [
        "partition reborn-0",
        "partition reborn-1",
    ]


def test_a_partition_from_what_to_what_under_which_leader(
    capsys: pytest.CaptureFixture[str],
) -> None:
    *_, last = explained(capsys, "offline", "partition", "solo-2")
    assert (last["offset"], last["leader_id"], last["committed"]) == (182, 2, True)
    fields = {one["field"]: (one["before"], one["after"]) for one in last["changes"]}
    assert fields["leader"] == (-1, 13)
    assert fields["isr"] == ([], [13])
    (text,) = last["text"]
    assert "leader none → 13" in text
    assert "an unclean election: records may be lost" in text


def test_a_bare_name_is_a_topic_or_else_a_partition(
    capsys: pytest.CaptureFixture[str],
) -> None:
    named = explained(capsys, "offline", "solo-2")
    assert named == explained(capsys, "offline", "partition", "solo-2")
    assert explained(capsys, "offline", "solo") == explained(capsys, "offline", "topic", "solo")
    assert not explained(capsys, "offline", "nobody-2")


@pytest.mark.parametrize(
    "partition, offset", [("solo-1", 138), ("pair-5", 139), ("alerts.raw-2-1", 140)]
)
def test_elections_from_the_elr(
    partition: str, offset: int, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = explained(capsys, "offline", "partition", partition)
    (row,) = [one for one in rows if one["offset"] == offset]
    assert "leader none → 12" in row["text"][0]
    assert row["text"][0].endswith("elected from the ELR")


def test_a_broker_that_was_fenced_and_one_that_was_unregistered(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fenced = texts(explained(capsys, "offline", "broker", "14"))
    assert fenced[0].startswith("broker 14 registers with epoch 27, rack r0")
    assert fenced[-1].startswith("broker 14 is fenced")
    assert texts(explained(capsys, "offline", "broker:15"))[-1] == "broker 15 is unregistered"


def test_a_controller_that_was_unregistered(capsys: pytest.CaptureFixture[str]) -> None:
    rows = explained(capsys, "unregistered-4.4", "controller", "5")
    said = [(row["offset"], row["record_type"]) for row in rows]
    # A set of voters is one record: only the changes that name controller 5 are told.
    assert said == [
        (56, "REGISTER_CONTROLLER_RECORD"),
        (57, "KRAFT_VOTERS"),
        (61, "KRAFT_VOTERS"),
        (85, "REGISTER_CONTROLLER_RECORD"),
        (191, "UNREGISTER_CONTROLLER_RECORD"),
    ]
    assert "metadata.version 7 to 30" in rows[0]["text"][0]
    assert (
        "registers again (a new start of its process), supports metadata.version 7 to 33"
        in rows[3]["text"][0]
    )
    levels = [
        row["text"][0]
        for row in explained(capsys, "unregistered-4.4", "feature", "metadata.version")
    ]
    assert levels[1:] == [
        f"feature metadata.version: level {low} → {low + 1}" for low in (30, 31, 32)
    ]


def test_what_only_a_dead_leader_holds_is_not_committed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = explained(capsys, "isolated", "offsets", "174-180")
    by_lineage: dict[str, list[Row]] = {}
    for row in rows:
        by_lineage.setdefault(row["lineage"], []).append(row)
    assert {row["committed"] for row in by_lineage["main"]} == {True}
    (own,) = by_lineage.keys() - {"main", "12"}
    assert own == "2"
    for label in ("2", "12"):
        assert {row["committed"] for row in by_lineage[label]} == {False}
        assert min(row["offset"] for row in by_lineage[label]) == 176
        assert {row["leader_id"] for row in by_lineage[label]} == {2}


def test_between_two_times_and_a_log_that_begins_at_a_snapshot(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = explained(capsys, "steady-live", "feature", "metadata.version")
    assert rows[0]["record_type"] in ("SNAPSHOT", "FEATURE_LEVEL_RECORD")
    every = explained(capsys, "offline", "topic", "reborn")
    between = ["--between", "2026-11-21T22:56:38", "2026-11-21T22:56:41"]
    some = explained(capsys, "offline", "topic", "reborn", *between)
    assert [row["offset"] for row in some] == [131, 132, 133, 134]
    assert len(every) > len(some)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("140-100", "'140-100' ends before it begins: write 100-140"),
        (f"0-{1 << 63}", "goes beyond the last offset that there can be"),
        ("broker twelve", "'twelve' is not a node id: write broker 12"),
        ("partition orders", "'orders' is not a partition: write partition orders-3"),
        ("config nothing/x", "is not a config: write config topic/orders or broker/12"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(
    what: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", *what.split(), "--input", str(OFFLINE)]) == 2
    assert said in capsys.readouterr().err


def test_what_an_option_has_taken_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["plan", "join", "--input", str(OFFLINE), "3"])
    said = "required: follower (write it before --input, which takes all words behind it); see"
    assert said in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["plan", "join"])
    assert "required: follower, --input; see" in capsys.readouterr().err


AUTHORIZER = """\
[2026-11-21 22:56:38,190] DEBUG Principal = User:mallory is Denied operation = DELETE from host = \
10.0.0.9 on resource = Topic:LITERAL:reborn for request = DeleteTopics with resourceRefCount = 1 \
based on rule DefaultDeny (kafka.authorizer.logger)
[2026-11-21 22:56:38,200] DEBUG Principal = User:CN=ops, O=x is Allowed operation = DELETE from \
host = 10.0.0.7 on resource = Topic:LITERAL:reborn for request = DeleteTopics with \
resourceRefCount = 1 based on rule MatchingAcl(acl=…) (kafka.authorizer.logger)
[2026-11-21 22:56:38,201] DEBUG Principal = User:bob is Allowed operation = DELETE from host = \
10.0.0.8 on resource = Topic:LITERAL:other for request = DeleteTopics with resourceRefCount = 1 \
based on rule MatchingAcl(acl=…) (kafka.authorizer.logger)
[2026-11-21 22:50:00,000] DEBUG Principal = User:early is Allowed operation = DELETE from host = \
10.0.0.8 on resource = Topic:LITERAL:reborn for request = DeleteTopics with resourceRefCount = 1 \
based on rule MatchingAcl(acl=…) (kafka.authorizer.logger)
"""


def test_who_asked_for_it_is_joined_from_the_authorizers_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "kafka-authorizer.log"
    log.write_text(AUTHORIZER, encoding="utf-8")
    rows = explained(capsys, "offline", "topic", "reborn", "--authorizer-log", str(log))
    who = {row["offset"]: row["who"] for row in rows if row["who"]}
    assert list(who) == [131]
    assert [(one["principal"], one["host"]) for one in who[131]] == [
        ("User:CN=ops, O=x", "10.0.0.7")
    ]


def test_for_people_who_asked_is_likely_and_not_proven(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "kafka-authorizer.log"
    log.write_text(AUTHORIZER, encoding="utf-8")
    given = ["--input", str(OFFLINE), "--authorizer-log", str(log)]
    assert main(["explain", "topic", "reborn", *given]) == 0
    shown = capsys.readouterr()
    said = "    likely asked for by User:CN=ops, O=x from 10.0.0.7 (DeleteTopics)"
    assert shown.out.splitlines().count(said) == 1
    assert "who asked is likely, not proven" in shown.err
    log.write_text("[2026-11-21 22:56:38,200] INFO Kafka has started (kafka.server)\n")
    assert main(["explain", "topic", "reborn", *given]) == 2
    assert "no line of Kafka's authorizer is in it" in capsys.readouterr().err


def test_who_altered_a_topics_configs_is_who_named_the_topic(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "kafka-authorizer.log"
    line = (
        "[2026-11-21 22:56:13,700] DEBUG Principal = User:{} is Allowed operation = ALTER_CONFIGS from "
        "host = h on resource = Topic:LITERAL:{} for request = IncrementalAlterConfigs (kafka.authorizer.logger)\n"
    )
    log.write_text(line.format("ann", "sessions.dlq-1") + line.format("bob", "alerts.raw-2"))
    rows = explained(
        capsys, "offline", "config", "topic/sessions.dlq-1", "--authorizer-log", str(log)
    )
    assert [one["principal"] for row in rows if row["offset"] == 39 for one in row["who"]] == [
        "User:ann"
    ]


def test_for_people_each_record_has_a_head_and_its_changes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["explain", "broker", "15", "--input", str(OFFLINE)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "broker 15, times in UTC"
    head = "2026-11-21 22:56:25.695  offset 99  UNREGISTER_BROKER_RECORD  epoch 1, leader 2"
    assert out[-2:] == [f"{head}  committed", "    broker 15 is unregistered"]
    assert main(["explain", "topic", "nobody", "--input", str(OFFLINE)]) == 0
    assert "nothing in the records at hand" in capsys.readouterr().out
    assert main(["explain", "offsets", "5000-6000", "--input", str(OFFLINE)]) == 0
    assert "the logs at hand end at offset 211" in capsys.readouterr().err


def test_what_a_snapshot_holds_was_there_before(capsys: pytest.CaptureFixture[str]) -> None:
    """Its time is not when a broker registered or a topic was created."""
    root = str(DATA / "steady-live" / "replicas" / "3")
    for words, said in {
        ("topic", "durable"): "exists",
        ("broker", "14"): "is registered with epoch 31",
        ("controller", "1"): "is registered, supports metadata.version 7 to 30",
    }.items():
        assert main(["explain", *words, "--input", root]) == 0
        _, head, first, *_ = capsys.readouterr().out.splitlines()
        assert "as the snapshot of 3 at offset 943 has it" in head
        assert f" {said}" in first


@pytest.mark.parametrize(
    "words, said",
    [
        (["broker", "x"], "not a node id"),
        (["offsets", "abc"], "'abc' is not a range of offsets: write 100-140"),
        (["config", "orders"], "write config topic/orders"),
        (["partition", "orders"], "write partition orders-3"),
        (["two words"], "nothing that can be explained"),
        (["topic"], "'topic' alone names no object: say topic NAME"),
        (["broker", "1", "--between", "2026-11-22", "2026-11-21"], "lies before its beginning"),
        (["broker", "1", "--authorizer-log", "/nowhere"], "cannot be read"),
    ],
)
def test_what_cannot_be_explained_is_one_sentence(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", *words, "--input", str(OFFLINE)]) == 2
    assert said in capsys.readouterr().err


def test_what_two_replicas_hold_apart_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["explain", "174-178", "--input", str(DATA / "isolated" / "replicas")]) == 0
    lines = capsys.readouterr().out.splitlines()
    apart = [line for line in lines if line.startswith("only in the log")]
    assert apart == ["only in the logs of 2 and 12, which depart from the others here:"]
    assert "    controller 3 leads from here on, elected by 1, 3" in lines


@pytest.mark.parametrize("asked", ["4-12", "4"])
def test_what_a_record_of_a_transaction_changes_is_told_once_where_that_is_seen(
    asked: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = explained(capsys, "isolated", "offsets", asked)
    assert [row["offset"] for row in rows] == ([*range(4, 13)] if "-" in asked else [4])
    assert rows[0]["text"] == ["feature metadata.version is set to level 30"]
    assert rows[0]["visible_from_offset"] == 12


def test_a_range_of_offsets_is_told_alike_from_a_snapshot_and_from_the_beginning() -> None:
    """What lies before the range is folded from the newest snapshot, or from offset 0."""
    quorum = Quorum(collect(find_replicas([str(OFFLINE)]), Limits(), CLEAR, replay=False))
    every = list(MomentSource(quorum, CLEAR, frozenset()).moments())
    for first, end in ((1, 40), (90, 135), (120, 200)):
        offsets = range(first, end)
        told = MomentSource(quorum, CLEAR, frozenset(), offsets).moments()
        found = [(one.offset, one.changes) for one in told if one.record_type != SNAPSHOT]
        wanted = {one.offset: one.changes for one in every if one.offset in offsets}
        assert [(at, held) for at, held in found if held] == sorted(wanted.items())
        assert {at for at, _ in found} == set(offsets)
