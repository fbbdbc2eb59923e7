"""Logs that Kafka's own writers make while the test runs, read by Kafka's own classes and by us."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraftlog.log.directory import find_replicas
from tests import kafka_judge
from tests.canonical import canonical_lines
from tests.golden.cases import Replica
from tests.golden.compare import differences, run_kraftlog
from tests.images import built
from tests.kafka_judge import JUDGE, NEWEST

pytestmark = pytest.mark.kafka

# The Make cases that are not golden, and one that is golden in part only (its checkpoint is large).
MADE = ["bad-crc", "compress-mixed", "compress-none", "every-type", "quirks", "torn"]


def record_files(log_dir: Path) -> list[Path]:
    return sorted(path for path in log_dir.iterdir() if path.suffix in (".log", ".checkpoint"))


def assert_equal(
    paths: list[Path], capsys: pytest.CaptureFixture[str], release: str = JUDGE
) -> None:
    for command, judge in (("batches", kafka_judge.batches), ("records", kafka_judge.records)):
        ours = run_kraftlog(command, paths, lambda: capsys.readouterr().out)
        found = differences(command, judge(paths, release), ours)
        assert not found, "\n".join([command, *found[:5]])


@pytest.mark.parametrize("release", [JUDGE, NEWEST])
@pytest.mark.parametrize("name", MADE)
def test_made_case(
    name: str, release: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log_dir = kafka_judge.make_case(name, tmp_path, seed=7, release=release)
    assert_equal(record_files(log_dir), capsys, release)


def controller(number: int) -> kafka_judge.Row:
    return {
        "type": "REGISTER_CONTROLLER_RECORD",
        "version": 0,
        "data": {"controllerId": number, "endPoints": [], "features": []},
    }


def unregister(number: int) -> kafka_judge.Row:
    return {
        "type": "UNREGISTER_CONTROLLER_RECORD",
        "version": 0,
        "data": {"controllerId": number},
    }


def level(number: int) -> kafka_judge.Row:
    data = {"name": "metadata.version", "featureLevel": number}
    return {"type": "FEATURE_LEVEL_RECORD", "version": 0, "data": data}


def test_what_4_4_added_changes_the_state_as_it_does_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Controllers that are unregistered, one of them twice, one never known, one back again."""
    steps = [
        [level(33), controller(1), controller(2), controller(3)],
        [unregister(2)],
        [unregister(2), unregister(9)],
        [controller(2), unregister(3)],
    ]
    log_dir = kafka_judge.make_script(
        [{"records": step} for step in steps], tmp_path / kafka_judge.PARTITION, release=NEWEST
    )
    assert_equal(record_files(log_dir), capsys, NEWEST)
    (replica,) = find_replicas([str(log_dir)])
    end = 0
    for step in steps:
        end += len(step)
        judged = kafka_judge.image(log_dir, at=end, release=NEWEST)
        ours = built(replica, end)
        assert judged.lines == canonical_lines(ours.state)
        assert judged.facts["fault_count"] == len(ours.faults) == 0


@pytest.mark.parametrize("release", [JUDGE, NEWEST])
def test_directories_that_are_not_as_many_as_the_replicas(release: str, tmp_path: Path) -> None:
    """Beside replicas, as many are asked for though no place in them is known."""
    topic, unknown = "A" * 21 + "E", "A" * 22
    ids = {"partitionId": 0, "topicId": topic}
    held = {"isr": [1], "leader": 1, "leaderEpoch": 0, "partitionEpoch": 0}

    def put(count: int) -> kafka_judge.Row:
        data = {**ids, **held, "replicas": [1, 2], "directories": [unknown] * count}
        return {"type": "PARTITION_RECORD", "version": 2, "data": data}

    def change(**data: list[int] | list[str]) -> kafka_judge.Row:
        return {"type": "PARTITION_CHANGE_RECORD", "version": 2, "data": {**ids, **data}}

    named = {"type": "TOPIC_RECORD", "version": 0, "data": {"name": "orders", "topicId": topic}}
    steps = [
        *(level(30), named, put(0), put(2), put(1), put(3)),
        *(change(directories=[unknown] * count) for count in (0, 1, 3)),
        *(change(replicas=[1, 2, 3], directories=[unknown] * count) for count in (2, 4, 0, 3)),
        change(replicas=[2]),
    ]
    log_dir = kafka_judge.make_script(
        [{"records": [step]} for step in steps], tmp_path / kafka_judge.PARTITION, release=release
    )
    (replica,) = find_replicas([str(log_dir)])
    judged, ours = kafka_judge.image(log_dir, release=release), built(replica, len(steps))
    assert judged.lines == canonical_lines(ours.state)
    for offset, told in zip([4, 5, 9, 10], judged.facts["faults"], strict=True):
        assert f"record from offset {offset}: " in told
        assert "lengths for replicas and directories do not match" in told
    assert [one.origin.offset for one in ours.faults] == [4, 5, 9, 10]


@pytest.mark.parametrize("seed", [2, 20261121])
def test_random_history(seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log_dir = kafka_judge.fuzz(
        tmp_path / "fuzz", seed=seed, batches=1000, segment_bytes=100_000, snapshot_every=300
    )
    paths = record_files(log_dir)
    assert len(paths) > 2
    assert_equal(paths, capsys)


def test_realistic_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kafka_judge.scale_gen(
        tmp_path,
        size="1M",
        brokers=5,
        topics=20,
        partitions=300,
        snapshotEvery="400K",
        segment="400K",
    )
    paths = record_files(tmp_path)
    assert len(paths) > 2
    assert_equal(paths, capsys)


@pytest.mark.parametrize(
    "replica", [Replica("isolated", "2"), Replica("unregistered-4.4", "2")], ids=str
)
def test_the_judge_still_says_what_the_golden_answers_say(replica: Replica) -> None:
    release = replica.release
    names = dict.fromkeys(row["file"] for row in replica.batches())
    paths = [replica.file(name) for name in names]
    assert kafka_judge.batches(paths, release) == replica.batches()
    assert kafka_judge.records(paths, release) == replica.records()
    image = kafka_judge.image(replica.log_dir, release=release)
    assert image.rows == replica.image()
    digests = kafka_judge.image_digests(replica.log_dir, release=release)
    assert digests == replica.image_digests()
    early = kafka_judge.image(replica.log_dir, at=100, release=release)
    assert early.refused is None
    assert len(early.lines) < len(image.lines)


def test_a_gap_is_refused_and_not_hidden(tmp_path: Path) -> None:
    log_dir = kafka_judge.make_case("snapshots", tmp_path)
    image = kafka_judge.image(log_dir, at=100)
    assert image.refused is not None
    assert not image.lines


def test_the_dump_tool_prints_every_record(tmp_path: Path) -> None:
    described = [{"records": [{"type": "NO_OP_RECORD", "version": 0, "data": {}}] * 3}]
    log_dir = kafka_judge.make_script(described, tmp_path / "made")
    (segment,) = record_files(log_dir)
    assert kafka_judge.dump_log_segments(segment).count("NO_OP_RECORD") == 3


def test_a_missing_judge_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_judge, "LIBS", tmp_path)
    with pytest.raises(kafka_judge.JudgeMissing, match="make -C tests/java"):
        kafka_judge.batches([tmp_path / "0.log"])
