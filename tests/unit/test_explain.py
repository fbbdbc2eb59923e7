"""What a timeline says of records that only one side holds, and of those that nothing leads up to."""

import struct
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from kraftlog.cli import main
from kraftlog.commands.faults import tell_faults
from kraftlog.explain.authorizer import read_accesses
from kraftlog.explain.words import sentences
from kraftlog.quorum.model import WAITS_LEVEL
from kraftlog.state.shapes import LOST, UNASSIGNED
from kraftlog.state.state import Change
from tests.unit.audit_logs import (
    NO_OP,
    START_MS,
    Batch,
    Node,
    acl,
    config,
    feature,
    healthy_log,
    healthy_state,
    leader_change,
    partition,
    quorum,
    quota,
    register_broker,
    remove_topic,
    replace_batch,
    snapshot,
    topic,
)

OLD = [
    Batch(8 + at, 1, (topic(name, 8 + at),), None, START_MS + 9000) for at, name in enumerate("xy")
]
NEW = [leader_change(8, 4, 2, granted=(2, 3)), Batch(9, 4, (topic("c", 3),), None, START_MS + 9000)]


def sides(root: Path, old: set[int], new: list[Batch]) -> None:
    """Three voters, of which some went on in epoch 1 and the others in epoch 4."""
    before = [one for one in healthy_log() if one.base < 8]
    for number in (1, 2, 3):
        node = Node(root, number)
        node.write(before + (OLD if number in old else new))
        node.epochs([(1, 0)] if number in old else [(1, 0), (4, 8)])


def explained(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["explain", *words]) == 0
    out, err = capsys.readouterr()
    return out + err


def states(told: str) -> dict[str, set[str]]:
    """For each epoch, what is said of its records."""
    found: dict[str, set[str]] = {}
    for line in told.splitlines():
        if "  epoch " in line:
            _, _, rest = line.partition("  epoch ")
            found.setdefault(rest[0], set()).add(rest.split("  ")[-1])
    return found


def test_what_follows_a_batch_that_differs_is_held_by_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = quorum(tmp_path)
    replace_batch(nodes[2], 4, lambda one: replace(one, ms=one.ms + 1).raw())
    told = explained(capsys, "4-8", "--input", str(tmp_path))
    _, _, apart = told.partition("only in the log of 3, which departs from the others here:")
    assert [line.split()[3] for line in apart.splitlines() if "  offset " in line] == ["4", "5"]


def test_what_a_majority_of_the_older_side_holds_is_not_called_uncommitted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two histories, both committed: the audit says so, and so must the timeline."""
    sides(tmp_path, {1, 3}, NEW)
    told = explained(capsys, "8-10", "--input", str(tmp_path))
    assert states(told)["1"] == {"not known to be committed"}


def test_what_a_level_of_metadata_version_proves_to_be_committed_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its leader writes no metadata before the first record of its epoch is committed."""
    node = Node(tmp_path, 1)
    node.write([leader_change(0, 1, 1), Batch(1, 1, (feature("metadata.version", WAITS_LEVEL),))])
    node.checkpoint(6, 1).unlink()
    told = explained(capsys, "0-1", "--input", str(tmp_path)).splitlines()
    (first, second) = (one for one in told if "  epoch 1" in one)
    assert first.endswith("  committed")
    assert second.endswith("  not known to be committed")


@pytest.mark.parametrize(
    ("new", "said"),
    [
        (NEW, "not committed"),
        ([Batch(8, 4, (NO_OP,), None, START_MS + 9000), NEW[1]], "not known to be committed"),
    ],
)
def test_a_tail_is_uncommitted_where_that_is_proven(
    new: list[Batch], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sides(tmp_path, {3}, new)
    told = explained(capsys, "8-10", "--input", str(tmp_path))
    assert states(told) == {"4": {"committed"}, "1": {said}}


def test_an_acl_is_taken_from_its_principal_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    acls = (acl(1, "t", "User:ann"), acl(1, "t", "User:bob"))
    for node in quorum(tmp_path):
        node.append(Batch(12, 2, acls, None, START_MS + 9000))
    for who in ("ann", "bob"):
        told = explained(capsys, "principal", f"User:{who}", "--input", str(tmp_path))
        assert "'User:ann' → 'User:bob'" in told


def test_what_lies_behind_a_hole_in_all_copies_is_told_to_be_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for node in quorum(tmp_path):
        node.write([one for one in healthy_log() if one.base != 3])
        node.checkpoint(6, 1).unlink()
    told = explained(capsys, "topic", "a", "--input", str(tmp_path))
    note = "what changed at offsets 3 to 11 is not known: no file at hand leads up to it"
    assert note in told
    assert main(["changes", "--input", str(tmp_path), "--from", "1", "--to", "9"]) == 2
    assert "the states at offsets 4 to 12 can be rebuilt from no file" in capsys.readouterr().err
    assert main(["changes", "--input", str(tmp_path), "--from", "1", "--to", "3"]) == 0


def test_the_last_record_that_is_lost_is_not_said_to_have_changed_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The state after it is known, by a snapshot, and the one before it is not."""
    for node in quorum(tmp_path):
        node.segment(0).unlink()
    told = explained(capsys, "5", "--input", str(tmp_path))
    assert "what changed at offsets 0 to 5 is not known" in told
    assert "not known" not in explained(capsys, "6", "--input", str(tmp_path))


def test_a_file_that_cannot_be_read_is_told_whatever_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is said to have changed nothing where something was not read."""
    nodes = quorum(tmp_path)
    for node in nodes[:2]:
        for path in node.folder.iterdir():
            path.unlink()
        node.segment(0).mkdir()
    tail = nodes[2].segment(6)
    tail.write_bytes(tail.read_bytes() + b"torn")
    asked = (
        (["explain", "topic", "nobody"], "nothing in the records that could be read changed it\n"),
        (["changes", "--from", "11", "--to", "12"], "nothing that could be read is different\n"),
    )
    for (words, said), form in product(asked, ("table", "json")):
        assert main([*words, "--input", str(tmp_path), "--format", form]) == 0
        out, err = capsys.readouterr()
        assert (
            err.count("00.log could not be read (it is a folder, not a file): nothing is kn") == 2
        )
        assert f"{tail} cannot be read at byte " in err
        assert out.endswith(said if form == "table" else "")
        assert form == "table" or not out


def test_of_many_files_that_cannot_be_read_the_first_are_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [
        {"path": f"{file}.log", "fault": "zeros", "position": place, "detail": "no batch"}
        for file in range(10)
        for place in (0, 61)
    ]
    assert tell_faults(rows)
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "kraftlog: 0.log cannot be read at byte 0 (no batch), and in 1 more place"
    assert (len(said), said[8]) == (9, "kraftlog: so it is with 2 more files")
    assert not tell_faults([])


def test_a_broker_that_registers_again_tells_whether_its_process_is_a_new_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for node in quorum(tmp_path):
        again = (register_broker(11, 12), register_broker(11, 13), register_broker(11, 14, 2))
        node.append(Batch(12, 2, again, None, START_MS + 9000))
    told = explained(capsys, "broker", "11", "--input", str(tmp_path)).splitlines()
    assert [one.strip() for one in told if "registers again" in one] == [
        "broker 11 registers again with epoch 13",
        "broker 11 registers again with epoch 14 (a new start of its process)",
    ]


def test_of_what_one_record_changes_the_rest_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A topic, and 20 partitions with it."""
    many = (topic("d", 200), *(partition(200, [1], [1], 1, partition_id=at) for at in range(20)))
    for node in quorum(tmp_path):
        node.append(
            Batch(12, 2, many, None, START_MS + 9000),
            Batch(33, 2, (remove_topic(200),), None, START_MS + 9000),
        )
    told = explained(capsys, "offsets", "33-33", "--input", str(tmp_path)).splitlines()
    assert told[-2:] == ["    partition d-10 is removed", "    and 9 more of the same record"]


def test_a_line_with_a_date_that_is_none_is_passed_over() -> None:
    line = "[{}] INFO Principal = User:a is Allowed operation = CREATE from host = h on resource = Topic:LITERAL:t for request = CreateTopics (kafka.authorizer.logger)"
    lines = [line.format(one) for one in ("2026-13-45 99:99:99,999", "2026-11-21 10:00:00,000")]
    assert len(list(read_accesses(lines))) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("topic", "aa"), "know no topic aa, but a"),
        (("partition", "aa-0"), "know no topic aa, but a"),
        (("principal", "bobby"), "know no principal User:bobby, but User:bob"),
        (("broker", "77"), "know no broker 77, but 11"),
        (("feature", "zzz"), "know no feature zzz"),
        (("quota", "user/bobby"), "know no quota user/bobby, but user/bob"),
        (("config", "topic/aa"), "know no config topic/aa, but topic/a and topic/a/k.y"),
        (("config", "topic/a/k.x"), "know no config topic/a/k.x, but topic/a/k.y and topic/a"),
        (("config", "client-metrics/z"), "know no config client-metrics/z"),
    ],
)
@pytest.mark.parametrize("form", ["table", "json"])
def test_of_what_nothing_is_known_the_nearest_names_are_told(
    words: tuple[str, ...], said: str, form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for node in quorum(tmp_path):
        named = (acl(1, "t", "User:bob"), register_broker(11, 13), quota("bob", 1.0))
        records = (*named, config(2, "a", "k.y", "1"))
        node.append(Batch(12, 2, records, None, START_MS + 9000))
    assert main(["explain", *words, "--input", str(tmp_path), "--format", form]) == 0
    assert capsys.readouterr().err.endswith(f"the records at hand {said}\n")


@pytest.mark.parametrize(("name", "is_there"), [("a-0", True), ("a-7", False)])
def test_a_partition_that_its_topic_does_not_have_is_said(
    name: str, is_there: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quorum(tmp_path)
    assert main(["explain", "partition", name, "--input", str(tmp_path)]) == 0
    told = capsys.readouterr()
    assert "topic a (id" in told.out
    said = f"no record shown is of partition {name} itself, all are of its topic"
    assert (said not in told.err) == is_there


def test_who_leads_is_known_where_only_a_quorum_state_tells_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A leader that leads for long: where it was elected, no log reaches back to any more."""
    for number in (1, 2, 3):
        node = Node(tmp_path, number)
        node.write([one for one in healthy_log() if one.base > 8], 9)
        node.checkpoint(9, 2).write_bytes(snapshot(healthy_state(), 2, START_MS + 8000))
    told = explained(capsys, "9-11", "--input", str(tmp_path))
    assert told.count("epoch 2, leader 2  ") == 3
    assert "unknown" not in told


@pytest.mark.parametrize(
    ("what", "named", "value"),
    [
        ("client-id/app", "client-id app", 1.0),
        ("client-id/", "client-id (default)", 2.0),
        ("client-id/<default>", "client-id (default)", 2.0),
        ("client-id/(default)", "client-id (default)", 2.0),
        ("ip/::1", "ip ::1", 3.0),
    ],
)
def test_a_quota_is_told_by_what_it_is_of(
    what: str, named: str, value: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = quota("app", 1.0, "client-id"), quota(None, 2.0, "client-id"), quota("::1", 3.0, "ip")
    for node in quorum(tmp_path):
        node.append(Batch(12, 2, records, None, START_MS + 9000))
    told = explained(capsys, "quota", what, "--input", str(tmp_path))
    assert told.startswith(f"quotas of {named}, times in UTC\n")
    assert [line.strip() for line in told.splitlines() if "is set" in line] == [
        f"quota producer_byte_rate of {named} is set to {value}"
    ]


@pytest.mark.parametrize("what", ["broker/", "broker/<default>", "broker/(default)"])
def test_the_default_of_all_brokers_by_the_names_that_it_has(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No change of it would otherwise be told, as if there had been none."""
    for node in quorum(tmp_path):
        node.append(Batch(12, 2, (config(4, "", "a.b", "1"),), None, START_MS + 9000))
    told = explained(capsys, "config", what, "--input", str(tmp_path))
    assert "config a.b of broker (default of all) is set to" in told


def test_a_quota_of_nothing_that_has_one_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quorum(tmp_path)
    assert main(["explain", "quota", "topic/a", "--input", str(tmp_path)]) == 2
    assert "write quota client-id/NAME, user/NAME or ip/NAME" in capsys.readouterr().err


def test_a_name_that_is_there_is_not_said_to_be_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A time of which nothing is told, and a kind that has no names."""
    quorum(tmp_path)
    long_ago = ("--between", "1999-01-01", "1999-01-02")
    for words in (("topic", "a", *long_ago), ("partition", "a-0", *long_ago), ("900",)):
        assert "know no" not in explained(capsys, *words, "--input", str(tmp_path))


PARTITION = {
    "partitionId": 0, "topicId": "T", "replicas": [11, 12], "isr": [], "removingReplicas": [],
    "addingReplicas": [], "leader": -1, "leaderEpoch": 3, "partitionEpoch": 7,
    "directories": [UNASSIGNED, "D"], "leaderRecoveryState": 1, "eligibleLeaderReplicas": [],
    "lastKnownElr": [],
}  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({}, {"partitionEpoch": 8}, " is written again as it was"),
        ({}, {"partitionEpoch": 9}, " is as it was, after 2 changes"),
        (
            {},
            {"partitionEpoch": 9, "directories": ["E", LOST]},
            ": log directory on broker 11 unassigned → E, log directory on broker 12 D → lost",
        ),
        ({}, {"replicas": [12], "directories": ["D"]}, ": replicas [11, 12] → [12]"),
        ({"isr": [11]}, {"isr": [11], "leader": 11}, ": leader none → 11, elected from the ISR"),
        (
            {"eligibleLeaderReplicas": [11]},
            {"isr": [11], "leader": 11},
            ": ISR [] → [11], leader none → 11, ELR [11] → [], elected from the ELR",
        ),
        (
            {},
            {"isr": [11], "leader": 11},
            ": ISR [] → [11], leader none → 11, an unclean election: records may be lost",
        ),
        (
            {"leader": 12, "isr": [12]},
            {"isr": [11], "leader": 11},
            ": ISR [12] → [11], leader 12 → 11, an unclean election: records may be lost",
        ),
        (
            {"leader": 12, "isr": [12, 11]},
            {"isr": [11], "leader": 11},
            ": ISR [12, 11] → [11], leader 12 → 11",
        ),
        (
            {"leader": 12, "isr": [12], "replicas": [12, 11]},
            {"isr": [11], "leader": 11, "replicas": [11], "directories": ["D"]},
            ": replicas [12, 11] → [11], ISR [12] → [11], leader 12 → 11",
        ),
    ],
)
def test_what_a_change_of_a_partition_says(
    before: dict[str, Any], after: dict[str, Any], said: str
) -> None:
    """The partition is marked as recovering from an unclean election before."""
    change = Change("partitions", ("T", 0), {**PARTITION, **before}, {**PARTITION, **after})
    assert list(sentences(change, lambda _: "a")) == [f"partition a-0{said}"]


def test_when_a_token_expires_is_a_time_and_a_feature_that_goes_is_at_level_0() -> None:
    token = {
        "tokenId": "t", "owner": "User:a", "requester": "User:a", "renewers": [],
        "expirationTimestamp": START_MS,
    }  # fmt: skip
    later = {**token, "expirationTimestamp": START_MS + 60_000}
    made, renewed, gone = (
        Change("delegation_tokens", ("t",), None, token),
        Change("delegation_tokens", ("t",), token, later),
        Change("features", ("f",), {"name": "f", "featureLevel": 1}, None),
    )
    for_another = Change("delegation_tokens", ("t",), None, {**token, "requester": "User:b"})
    told = [text for one in (made, renewed, gone, for_another) for text in sentences(one, str)]
    assert told == [
        "delegation token t of User:a is made, renewers [], expires 2023-11-14 22:13:20 UTC",
        "delegation token t of User:a: expires 2023-11-14 22:13:20 UTC → 2023-11-14 22:14:20 UTC",
        "feature f is set to level 0",
        "delegation token t of User:a is made by User:b, renewers [], expires 2023-11-14 22:13:20 UTC",
    ]


def listening(port: int) -> list[dict[str, Any]]:
    return [{"name": "C", "host": "h", "port": port}]


def test_where_controllers_and_voters_are_reached_is_told_as_listeners() -> None:
    """A controller that starts at another port: as in `kafka-metadata-quorum describe`."""
    first = {"incarnationId": "i", "features": [], "endPoints": listening(1)}
    again = {"incarnationId": "j", "features": [], "endPoints": listening(2)}
    levels = [{"minSupportedVersion": 0, "maxSupportedVersion": one} for one in (0, 1)]
    voter = {"endpoints": listening(1), "kRaftVersionFeature": levels[0]}
    moved = {"endpoints": listening(2), "kRaftVersionFeature": levels[1]}
    told = [
        *sentences(Change("controllers", (1,), first, again), str),
        *sentences(Change("voters", (1, "D"), voter, moved), str),
    ]
    assert told == [
        "controller 1 registers again (a new start of its process), with no range of metadata.version, listeners C://h:1 → C://h:2",
        "voter 1 (directory D): listeners C://h:1 → C://h:2, supported kraft.version 0 to 0 → 0 to 1",
    ]


def test_kraft_version_is_a_feature_though_control_records_tell_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    level = struct.pack(">hhb", 0, 1, 0)
    for node in quorum(tmp_path):
        node.append(Batch(12, 2, (level,), (struct.pack(">hh", 0, 5),), START_MS + 9000))
    told = explained(capsys, "feature", "kraft.version", "--input", str(tmp_path))
    assert "feature kraft.version is set to level 1" in told
    assert "know no" not in told


@pytest.mark.parametrize("kind", ["client-metrics", "client_metrics"])
def test_configs_of_client_metrics_are_named_as_by_kafkas_tool(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for node in quorum(tmp_path):
        node.append(Batch(12, 2, (config(16, "m", "interval.ms", "9"),), None, START_MS + 9000))
    told = explained(capsys, "config", f"{kind}/m", "--input", str(tmp_path))
    assert "config interval.ms of client metrics m is set to '9'" in told


@pytest.mark.parametrize("asked", ["a/b", "a/b/consumer.session.timeout.ms"])
def test_a_group_may_have_a_slash_in_its_name(
    asked: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for node in quorum(tmp_path):
        node.append(
            Batch(
                12,
                2,
                (config(32, "a/b", "consumer.session.timeout.ms", "9"),),
                None,
                START_MS + 9000,
            )
        )
    told = explained(capsys, "config", f"group/{asked}", "--input", str(tmp_path))
    assert "config consumer.session.timeout.ms of group a/b is set to '9'" in told
