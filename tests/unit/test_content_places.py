"""The two passes without Spark: each content has one place, known ones have none, and what changes
between the passes is left out.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftlog.config import load_options
from kraftlog.decode.columnar import decode_window
from kraftlog.errors import LakeError
from kraftlog.log.batch import CRC_POSITION, CRC_START
from kraftlog.log.directory import find_replicas, record_files
from kraftlog.pipeline import scan
from kraftlog.pipeline.content_places import Places, choose, first_of_each
from kraftlog.pipeline.contents import decode_bin
from kraftlog.pipeline.scan import ScannedFile, scan_bin
from kraftlog.pipeline.tasks import WrittenFile
from kraftlog.quorum.detect import type_counts
from kraftlog.source.splits import plan_splits
from kraftlog.source.task_settings import KEY_SIZE, limits_of, redactor_of
from kraftlog.tables.lake import Lake
from kraftlog.tables.spec import decoded_tables
from tests.golden.cases import DATA
from tests.property.engines import window_of
from tests.unit.audit_logs import Batch, partition, topic

Place = tuple[int, int]
"""A split and a position."""

SPLIT_SIZE = 4096
# Windows are smaller than splits, so that a split has several.
OPTIONS = load_options({"window_size_bytes": 1024})
# Few values, so that rows are equal, or equal in one of their halves.
NUMBERS = st.sampled_from([0, 1, 15, 16, 2**63, 2**64 - 1])


def test_equal_batches_tell_their_types_alike() -> None:
    values = (topic("a", 1), topic("b", 2), partition(1, [1], [1], 1))
    batches = [Batch(3 * at, 1, values) for at in range(200)]
    window = window_of([one.raw() for one in batches])
    (decoded,) = decode_window(window, None, redactor_of(OPTIONS), 1 << 20)
    told = type_counts(window, decoded, range(len(batches))).to_pylist()
    assert all(one == told[0] for one in told)
    assert sorted(told[0], key=lambda one: one["first_record_index"]) == [
        {"type": "TOPIC_RECORD", "record_count": 2, "first_record_index": 0},
        {"type": "PARTITION_RECORD", "record_count": 1, "first_record_index": 2},
    ]


class Passes:
    """A quorum, an empty lake, and the first pass over all splits."""

    def __init__(self, root: Path, lake: Path) -> None:
        self.splits = plan_splits(record_files(find_replicas([str(root)])), SPLIT_SIZE)
        self.bins = [list(range(len(self.splits)))]
        self.lake = Lake(str(lake))
        self.limits = limits_of(OPTIONS, redactor_of(OPTIONS))
        found = scan_bin(self.splits, self.bins, self.limits, self.lake, 0)
        self.scanned: list[ScannedFile] = list(found)

    def batches(self) -> Iterator[tuple[Place, dict[str, Any]]]:
        """Where each batch lies, and its row."""
        folder = self.lake.path("batches")
        for one in self.scanned:
            if one.file.table == "batches":
                for row in rows(folder, one.file):
                    yield (one.split, row["position"]), row

    def chosen(self, places: dict[int, Places]) -> list[Place]:
        """The batches that lie in the chosen ranges."""
        return sorted(
            (split, position)
            for (split, position), _ in self.batches()
            if split in places
            and any(start <= position < end for start, end in places[split].ranges.tolist())
        )

    def decode(self, places: dict[int, Places]) -> list[WrittenFile]:
        """The second pass."""
        redactor = redactor_of(OPTIONS, bytes(KEY_SIZE))
        bins = [list(places)]
        return list(decode_bin(self.splits, bins, places, self.limits, redactor, self.lake, 0))

    def stored(self, written: list[WrittenFile]) -> list[str]:
        """The ids that the second pass has decoded."""
        folder = self.lake.path("contents")
        found = [rows(folder, one) for one in written if one.table == "contents"]
        return sorted(row["batch_id"] for some in found for row in some)


def rows(folder: str, file: WrittenFile) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(f"{folder}/{file.added.path}").to_pylist()
    assert len(found) == file.row_count
    return found


def first_places(passes: Passes, known: set[str]) -> list[Place]:
    """The definition: the first place of each valid content that is not known."""
    first: dict[str, Place] = {}
    for place, row in passes.batches():
        if row["crc_valid"] and row["batch_id"] not in known:
            first[row["batch_id"]] = min(place, first.get(row["batch_id"], place))
    return sorted(first.values())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Five replicas; most of their batches are the same."""
    return Path(shutil.copytree(DATA / "isolated" / "replicas", tmp_path / "replicas"))


def log_of(root: Path, node: str) -> Path:
    return next((root / node / "__cluster_metadata-0").glob("*.log"))


@given(st.lists(st.tuples(NUMBERS, NUMBERS)))
def test_the_first_of_each_by_its_definition(pairs: list[tuple[int, int]]) -> None:
    ids = np.array(pairs, np.uint64).reshape(len(pairs), 2)
    expected = [pair not in pairs[:at] for at, pair in enumerate(pairs)]
    assert first_of_each(ids).tolist() == expected


@pytest.mark.parametrize("rows_per_file", [3, 1_000_000])
def test_each_content_has_its_first_place(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_per_file: int
) -> None:
    monkeypatch.setattr(scan, "_FLUSH_ROWS", rows_per_file)
    log = log_of(root, "2")
    log.write_bytes(log.read_bytes() * 2)  # every batch twice in one file
    passes = Passes(root, tmp_path / "lake")
    expected = first_places(passes, set())
    assert len(expected) < sum(1 for _ in passes.batches()) / 2
    places = choose(passes.lake, passes.scanned)
    assert passes.chosen(places) == expected
    ids = {place: row["batch_id"] for place, row in passes.batches()}
    assert passes.stored(passes.decode(places)) == sorted(ids[place] for place in expected)


def test_a_split_that_is_chosen_as_a_whole_is_one_range(root: Path, tmp_path: Path) -> None:
    passes = Passes(root, tmp_path / "lake")
    places = choose(passes.lake, passes.scanned)
    first = passes.splits[0]
    assert places[0].ranges.tolist() == [[first.start, first.start + first.size_bytes]]


def test_what_the_lake_holds_has_no_place(root: Path, tmp_path: Path) -> None:
    passes = Passes(root, tmp_path / "lake")
    places = choose(passes.lake, passes.scanned)
    some = {split: places[split] for split in list(places)[::2]}
    written = passes.decode(some)
    known = set(passes.stored(written))
    assert known
    added = [one.added for one in written if one.table == "contents"]
    passes.lake.commit(decoded_tables()["contents"], added, 1)
    left = choose(passes.lake, passes.scanned)
    assert passes.chosen(left) == first_places(passes, known)
    assert not set(left) & set(some)
    added = [one.added for one in passes.decode(left) if one.table == "contents"]
    passes.lake.commit(decoded_tables()["contents"], added, 2)
    assert choose(passes.lake, passes.scanned) == {}


def test_a_batch_with_a_wrong_crc_has_no_place(root: Path, tmp_path: Path) -> None:
    log = log_of(root, "1")
    raw = bytearray(log.read_bytes())
    raw[CRC_START] ^= 1
    log.write_bytes(raw)
    passes = Passes(root, tmp_path / "lake")
    assert not all(row["crc_valid"] for _, row in passes.batches())
    places = choose(passes.lake, passes.scanned)
    assert passes.chosen(places) == first_places(passes, set())


def other_batch(raw: bytes, start: int, end: int) -> bytes:
    """Another valid batch takes the place of one."""
    batch = bytearray(raw[start:end])
    batch[-1] ^= 1
    batch[CRC_POSITION:CRC_START] = google_crc32c.value(bytes(batch[CRC_START:])).to_bytes(4, "big")
    return raw[:start] + bytes(batch) + raw[end:]


def torn(raw: bytes, start: int, end: int) -> bytes:
    """The file ends inside the batch."""
    return raw[: end - 1]


def moved(raw: bytes, start: int, end: int) -> bytes:
    """The batch lies somewhere else, and so does all that follows."""
    return raw[:start] + bytes(3) + raw[start:]


@pytest.mark.parametrize("change", [other_batch, torn, moved])
def test_a_batch_that_has_changed_since_the_first_pass_is_left_out(
    root: Path, tmp_path: Path, change: Callable[[bytes, int, int], bytes]
) -> None:
    for node in ("2", "3", "11", "12"):
        shutil.rmtree(root / node)
    passes = Passes(root, tmp_path / "lake")
    log = log_of(root, "1")
    of_log = {at for at, split in enumerate(passes.splits) if split.file.path == str(log)}
    seen = [row for (split, _), row in passes.batches() if split in of_log]
    victim = seen[len(seen) // 2]
    start, end = victim["position"], victim["position"] + victim["size_bytes"]
    places = choose(passes.lake, passes.scanned)
    log.write_bytes(change(log.read_bytes(), start, end))
    stored = passes.stored(passes.decode(places))
    ids = {row["batch_id"] for _, row in passes.batches()}
    assert set(stored) < ids, "nothing is decoded that the first pass has not seen"
    assert victim["batch_id"] not in stored
    before = {row["batch_id"] for row in seen if row["position"] < start}
    assert before <= set(stored)


def test_a_lake_that_machines_do_not_share(root: Path, tmp_path: Path) -> None:
    passes = Passes(root, tmp_path / "lake")
    shutil.rmtree(passes.lake.path("batches"))
    with pytest.raises(LakeError, match=r"put the lake where every machine sees it"):
        choose(passes.lake, passes.scanned)
