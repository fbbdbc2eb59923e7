"""The stream, run after run: what it has given is what the batch reader gives, whatever happens to
the files between two runs.
"""

import itertools
import json
import os
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog.decode.redaction import MASK_PREFIX
from kraftlog.errors import InputError, UsageError
from kraftlog.log.storage import FileBytes, open_file
from kraftlog.source import splits, stream_progress
from kraftlog.source.datasource import STREAMED
from kraftlog.source.stream_progress import spaced
from tests.golden.cases import DATA, PARTITION
from tests.unit.stream_runs import Rows, Stream, batch_rows, fields

LOG = "00000000000000000000.log"
HEALED = (DATA / "isolated-healed/replicas/2" / PARTITION / LOG).read_bytes()
ISOLATED = (DATA / "isolated/replicas/2" / PARTITION / LOG).read_bytes()


def write(root: Path, content: bytes, name: str = LOG) -> Path:
    """A replica's log with this content, and a modification time that no write had before."""
    path = root / "2" / PARTITION / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    clock = next(_CLOCK)
    os.utime(path, ns=(clock, clock))
    return path


_CLOCK = itertools.count(1_700_000_000_000_000_000, 1_000)


def ends(root: Path) -> list[int]:
    """Where the batches of a root's only log end, by the batch reader."""
    rows = [json.loads(row) for row in batch_rows(root, "batches")]
    return sorted(row["position"] + row["size_bytes"] for row in rows)


@pytest.mark.parametrize("relation", STREAMED)
@pytest.mark.parametrize("case", ["isolated", "synthetic-torn", "synthetic-snapshots"])
def test_two_runs_over_a_quorum_give_what_the_batch_reader_gives(case: str, relation: str) -> None:
    root = DATA / case / "replicas"
    stream = Stream(root, relation, split_size_bytes="4000")
    stream.run()
    second = stream.run()
    assert stream.rows == batch_rows(root, relation)
    # Only what follows the last batch of a last segment waits for the second run.
    assert not second or relation == "faults"
    assert not stream.run()


@settings(max_examples=12, deadline=None)
@given(st.lists(st.integers(0, len(HEALED)), max_size=6), st.sampled_from(["batches", "records"]))
def test_a_log_that_grows_gives_each_batch_once(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], relation: str
) -> None:
    root = tmp_path_factory.mktemp("grows")
    write(root, b"")
    stream = Stream(root, relation, split_size_bytes="3000")
    for size in [*sorted(sizes), len(HEALED)]:
        write(root, HEALED[:size])
        stream.run()
        assert stream.rows == batch_rows(root, relation)


def test_what_is_unchanged_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "copy"
    shutil.copytree(DATA / "isolated/replicas", root)
    stream = Stream(root, "records")
    stream.run()
    opened: list[str] = []

    def noted(path: str) -> FileBytes:
        opened.append(path)
        return open_file(path)

    for module in (stream_progress, splits):
        monkeypatch.setattr(module, "open_file", noted)
    start, end, parts = stream.plan()
    assert (start, parts, opened) == (end, [], [])
    grown = root / "1" / PARTITION / LOG
    grown.write_bytes(grown.read_bytes() + HEALED[-100:])
    stream.plan()
    assert opened == [str(grown)]


def test_a_cut_batch_is_a_fault_once_the_file_rests(tmp_path: Path) -> None:
    write(tmp_path, HEALED)
    *_, before_last, last = ends(tmp_path)
    write(tmp_path, HEALED[: last - 10])
    batches, faults = Stream(tmp_path, "batches"), Stream(tmp_path, "faults")
    batches.run()
    assert not faults.run()  # it may still be written
    told = faults.run()
    assert fields(told, "position") == [before_last]
    assert fields(told, "fault") == ["torn_batch"]
    assert not faults.run()
    write(tmp_path, HEALED[: last - 10])  # copied again
    assert not faults.run()
    assert not faults.run()
    write(tmp_path, HEALED)
    assert not faults.run()
    assert fields(batches.run(), "position") == [before_last]
    assert batches.rows == batch_rows(tmp_path, "batches")


def test_a_file_that_waits_to_be_deleted_is_not_given_again(tmp_path: Path) -> None:
    """Kafka renames what retention drops, and removes it a minute later."""
    path = write(tmp_path, HEALED[:4000])
    stream = Stream(tmp_path, "batches")
    stream.run()
    path.unlink()
    write(tmp_path, HEALED, f"{LOG}.deleted")  # it had grown before
    stream.run()
    assert fields(stream.rows, "position") == fields(batch_rows(tmp_path, "batches"), "position")
    assert not stream.run()
    write(tmp_path, HEALED)  # a log of that name again is another file
    assert stream.run() == batch_rows(path, "batches")


def test_in_a_closed_segment_a_cut_batch_is_a_fault_at_once(tmp_path: Path) -> None:
    write(tmp_path, HEALED[:-10])
    write(tmp_path, b"", "00000000000000000600.log")
    assert fields(Stream(tmp_path, "faults").run(), "fault") == ["torn_batch"]


def common_ends(one: bytes, other: bytes) -> list[int]:
    """Batch boundaries up to which two logs are equal."""
    places, at = [], 0
    while at < min(len(one), len(other)):
        after = at + 12 + int.from_bytes(one[at + 8 : at + 12], "big")
        if one[at:after] != other[at:after]:
            break
        places.append(after)
        at = after
    return places


@pytest.mark.parametrize("relation", ["batches", "records"])
def test_a_log_that_was_cut_and_written_on_comes_again_from_the_place(
    tmp_path: Path, relation: str
) -> None:
    write(tmp_path, ISOLATED)
    stream = Stream(tmp_path, relation)
    before = stream.run()
    write(tmp_path, HEALED)
    after = batch_rows(tmp_path, relation)
    again = stream.run()
    assert set(stream.rows) == set(before) | set(after)
    assert again.keys() >= after.keys() - before.keys()
    # A mark lies at most twice as far from the old end as the place itself.
    place = max(end for end in common_ends(ISOLATED, HEALED))
    assert min(fields(again, "position")) > len(ISOLATED) - 2 * (len(ISOLATED) - place) - 1_000
    assert not stream.run()


def test_a_log_that_was_only_cut_gives_no_new_content(tmp_path: Path) -> None:
    write(tmp_path, HEALED)
    stream = Stream(tmp_path, "batches")
    first = stream.run()
    write(tmp_path, HEALED[: ends(tmp_path)[-3]])
    again = stream.run()
    assert not again - first
    write(tmp_path, HEALED)
    assert fields(stream.run(), "position") == fields(first, "position")[-2:]


def test_a_file_that_was_copied_again_gives_nothing(tmp_path: Path) -> None:
    write(tmp_path, HEALED)
    stream = Stream(tmp_path, "records")
    assert stream.run()
    write(tmp_path, HEALED)
    assert not stream.run()


def test_a_byte_that_changed_anywhere_is_seen_with_the_file(tmp_path: Path) -> None:
    write(tmp_path, HEALED)
    stream, faults = Stream(tmp_path, "batches"), Stream(tmp_path, "faults")
    stream.run(), faults.run()
    hurt = bytearray(HEALED)
    hurt[700] ^= 1
    write(tmp_path, bytes(hurt))
    added = stream.run()
    assert [one for one in fields(added, "crc_valid") if not one] == [False]
    assert set(stream.rows) >= set(batch_rows(tmp_path, "batches"))
    faults.run()
    assert faults.rows == batch_rows(tmp_path, "faults") != Counter()


def test_a_log_that_grows_behind_damage_gives_the_rest(tmp_path: Path) -> None:
    hurt = HEALED[:9_000] + bytes(3_000) + HEALED[12_000:]
    write(tmp_path, hurt[:15_000])
    stream, faults = Stream(tmp_path, "batches"), Stream(tmp_path, "faults")
    for size in (15_000, 20_001, len(hurt)):
        write(tmp_path, hurt[:size])
        stream.run(), faults.run()
        assert stream.rows == batch_rows(tmp_path, "batches")
    assert faults.rows == batch_rows(tmp_path, "faults")


def test_segments_come_and_go(tmp_path: Path) -> None:
    root = tmp_path / "copy"
    shutil.copytree(DATA / "steady-live/replicas/14", root / "14")
    logs = sorted((root / "14" / PARTITION).glob("*.log"))
    assert len(logs) > 1
    kept = logs[-1].read_bytes()
    logs[-1].unlink()
    stream = Stream(root, "records")
    first = stream.run()
    assert first == batch_rows(root, "records")
    logs[-1].write_bytes(kept)
    second = stream.run()
    assert set(fields(second, "path")) == {str(logs[-1])}
    assert stream.rows == batch_rows(root, "records")
    logs[0].unlink()
    assert not stream.run()
    assert str(logs[0]) not in json.dumps(stream.checkpoint)


def test_what_cannot_be_read_is_tried_again(tmp_path: Path) -> None:
    path = write(tmp_path, b"")
    path.unlink()
    path.mkdir()
    stream, faults = Stream(tmp_path, "batches"), Stream(tmp_path, "faults")
    assert not stream.run()
    assert fields(faults.run(), "fault") == ["unreadable"]
    assert not faults.run()
    path.rmdir()
    write(tmp_path, HEALED)
    assert stream.run() == batch_rows(tmp_path, "batches")
    assert not faults.run()


@pytest.mark.parametrize("relation", ["batches", "records"])
def test_a_micro_batch_that_is_tried_again_gives_the_same(tmp_path: Path, relation: str) -> None:
    write(tmp_path, HEALED[:10_000])
    stream = Stream(tmp_path, relation)
    start, end, parts = stream.plan()
    first = stream.read(parts)
    write(tmp_path, HEALED)  # it grows between the two attempts
    assert first == stream.read(stream.reader().partitions(start, end))
    stream.checkpoint, stream.rows = end, Counter(first)
    stream.run()
    assert stream.rows == batch_rows(tmp_path, relation)


def masks(rows: Rows) -> set[str]:
    found = [json.loads(row)["user_scram_credential_record"] for row in rows]
    return {one["salt"] for one in found if one}


def test_masks_are_those_of_the_key_and_the_key_is_not_in_the_offset() -> None:
    root = DATA / "isolated/replicas"
    columns = ["user_scram_credential_record"]
    one, same, other, none = (
        Stream(root, "records", columns, redaction_key=key, tasks="20")
        for key in ("abcde" * 7, "abcde" * 7, "x" * 32, "")
    )
    salts = masks(one.run())
    assert salts
    assert all(salt.startswith(MASK_PREFIX) for salt in salts)
    assert masks(same.run()) == salts
    assert not masks(other.run()) & salts
    assert "abcde" not in json.dumps(one.checkpoint)
    # Without a key it is random, and yet one for all tasks: five replicas hold equal secrets.
    assert len(masks(none.run())) == len(salts)


@pytest.mark.parametrize("relation", ["replicas", "epochs"])
def test_what_is_told_of_a_whole_quorum_is_no_stream(relation: str) -> None:
    with pytest.raises(UsageError, match=f"relation '{relation}' .* use spark.read"):
        Stream(DATA, relation).reader()


def test_a_checkpoint_of_another_relation_is_refused(tmp_path: Path) -> None:
    write(tmp_path, HEALED)
    stream, other = Stream(tmp_path, "batches"), Stream(tmp_path, "records")
    stream.run()
    other.checkpoint = stream.checkpoint
    with pytest.raises(UsageError, match="a stream of 'batches', this one is of 'records'"):
        other.run()


def test_an_input_that_is_gone_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, HEALED)
    stream = Stream(tmp_path, "batches")
    stream.run()
    shutil.rmtree(path.parent)
    with pytest.raises(InputError, match="no __cluster_metadata-0 folder"):
        stream.run()


@given(st.lists(st.integers(60, 5_000), min_size=1, max_size=300), st.data())
def test_marks_are_few_and_near(sizes: list[int], data: st.DataObject) -> None:
    boundaries = np.cumsum(sizes)
    last = int(boundaries[-1])
    marks = spaced(boundaries)
    assert last in marks
    assert len(marks) <= 1 + max(0, np.ceil(np.log2(last / 128)))
    # Up to twice as far from the end, and a batch, a mark lies before any place.
    place = int(data.draw(st.sampled_from(boundaries.tolist())))
    lowest = last - 2 * max(128, last - place) - max(sizes)
    assert lowest < 0 or any(lowest <= mark <= place for mark in marks)
