"""Splits: any cut of a file gives the same batches, and a cut is only made where a valid batch
begins.
"""

from itertools import pairwise
from pathlib import Path

import pytest

from kraftlog.log.directory import LogFile, find_replicas, record_files, walk_file
from kraftlog.log.fault import Fault
from kraftlog.log.segment import Limits
from kraftlog.source.splits import Split, pack, plan_splits
from tests.golden.cases import CASES, DATA

SMALL = Limits(window_size_bytes=700)


def found(split: Split) -> list[tuple[int, str]]:
    """(position, batch id or fault) of everything in a split, in order."""
    result = []
    for one in walk_file(split.file, SMALL, split.start, split.end):
        if isinstance(one, Fault):
            result.append((one.position, str(one.kind)))
        else:
            result += zip(one.batches.positions.tolist(), one.batches.batch_ids, strict=True)
    return result


@pytest.mark.parametrize("case", CASES)
def test_splits_together_are_the_whole_file(case: str) -> None:
    files = record_files(find_replicas([str(DATA / case / "replicas")]))
    whole = {file.path: found(Split(file)) for file in files}
    for size in (300, 5_000):
        parts: dict[str, list[tuple[int, str]]] = {file.path: [] for file in files}
        for split in plan_splits(files, size):
            parts[split.file.path] += found(split)
        assert parts == whole


def damaged(tmp_path: Path) -> LogFile:
    folder = tmp_path / "1" / "__cluster_metadata-0"
    folder.mkdir(parents=True)
    source = DATA / "isolated/replicas/1/__cluster_metadata-0/00000000000000000000.log"
    raw = bytearray(source.read_bytes())
    raw[9_000:12_000] = bytes(3_000)
    (folder / source.name).write_bytes(raw)
    return record_files(find_replicas([str(tmp_path)]))[0]


def test_behind_damage_the_rest_is_one_split(tmp_path: Path) -> None:
    file = damaged(tmp_path)
    splits = plan_splits([file], 2_000)
    assert 1 < len(splits) < 7
    assert splits[-1].start < 9_000
    assert [one for split in splits for one in found(split)] == found(Split(file))


def test_no_split_begins_with_a_batch_whose_crc_is_wrong(tmp_path: Path) -> None:
    """Its length may be wrong as well: the walk must come to it from the batches before it."""
    file = damaged(tmp_path)
    size = 1_500
    raw = bytearray(Path(file.path).read_bytes())
    first = plan_splits([file], size)[1].start
    raw[first + 30] ^= 1
    Path(file.path).write_bytes(raw)
    starts = [split.start for split in plan_splits([file], size)]
    batches = [position for position, _ in found(Split(file))]
    after = next(one for one in batches if one > first)
    assert starts[1] == after
    assert starts[0] == 0
    assert all(later - earlier >= size for earlier, later in pairwise(starts))


def test_what_came_after_the_listing_belongs_to_the_last_split(tmp_path: Path) -> None:
    source = DATA / "isolated/replicas/1/__cluster_metadata-0/00000000000000000000.log"
    folder = tmp_path / "1" / source.parent.name
    folder.mkdir(parents=True)
    path, raw = folder / source.name, source.read_bytes()
    path.write_bytes(raw)
    whole = found(Split(record_files(find_replicas([str(tmp_path)]))[0]))
    middle = whole[len(whole) // 2][0]
    path.write_bytes(raw[:middle])
    (file,) = record_files(find_replicas([str(tmp_path)]))
    path.write_bytes(raw)
    for size in (300, middle + 1):
        splits = plan_splits([file], size)
        assert [one for split in splits for one in found(split)] == whole
    # A cut beyond what was listed is as good as any.
    assert plan_splits([file], 300)[-1].start > middle


def test_packing_leaves_nothing_out_and_no_group_empty() -> None:
    groups = pack([5, 1, 1, 9, 3], 3)
    assert sorted(index for group in groups for index in group) == [0, 1, 2, 3, 4]
    assert len(groups) == 3
    assert all(groups)
    assert pack([], 4) == []
    assert pack([7], 4) == [[0]]
