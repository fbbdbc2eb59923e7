"""What a run keeps for the next one: measures of a log that has grown, in any number of steps, are
those of a run from nothing; and where nothing can be gone on from, all is read anew.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import Struct
from typing import Any

import pyarrow.compute as pc
import pytest

from kraftlog.config import Options, load_options
from kraftlog.log import names
from kraftlog.log.directory import LogFile, find_replicas, walk_file
from kraftlog.log.segment import Limits, Window
from kraftlog.metrics.record_totals import LOG
from kraftlog.pipeline import decode, known_records, record_scan, run, shared_measures
from kraftlog.pipeline.keeping import compact_lake, expire_lake
from kraftlog.pipeline.known_records import KEPT
from kraftlog.pipeline.run import newest_run
from kraftlog.pipeline.steps import run_pipeline, run_steps
from kraftlog.tables.lake import Lake
from kraftlog.tables.spec import REPLAY_FAULTS, state_tables
from tests.golden.cases import DATA
from tests.property.engines import sealed

TABLES = ("record_totals", "last_records", "record_sizes", "growth", "churn", "compaction",
          "event_amplification", "tombstone_horizons", "snapshot_policy", "cost_models",
          "object_lives")  # fmt: skip


def copy_until(source: Path, target: Path, end: int | None) -> None:
    """The replicas with their logs cut where a batch begins at an offset or later, and without
    snapshots that end behind it; None: whole.
    """
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    if end is None:
        return
    for replica in find_replicas([str(target)]):
        for file in replica.files:
            if file.kind == names.CHECKPOINT and int(Path(file.path).name[:20]) > end:
                Path(file.path).unlink()
            if file.kind != names.LOG:
                continue
            behind = [at for at, base in batches(file) if base >= end]
            os.truncate(file.path, min(behind, default=file.size_bytes))


def logs(root: Path) -> list[LogFile]:
    return [
        one
        for replica in find_replicas([str(root)])
        for one in replica.files
        if one.kind == names.LOG
    ]


def batches(file: LogFile) -> list[tuple[int, int]]:
    """Position and base offset of each batch."""
    return [
        (int(at), int(base))
        for found in walk_file(file, Limits())
        if isinstance(found, Window)
        for at, base in zip(
            found.batches.positions, found.batches.headers["base_offset"], strict=True
        )
    ]


def options(root: Path, lake: Path, **limits: int) -> Options:
    named = {
        "input": [str(root)],
        "lake": str(lake),
        "fail_on": "never",
        "redaction_key": "one" * 11,
    }
    return load_options({**named, **limits})


def no_spark() -> Any:
    """What little input does without."""
    return None


def measure(
    root: Path, lake: Path, start_spark: Callable[[], Any] = no_spark, **limits: int
) -> None:
    """Decode, materialize and measure, without Spark."""
    run_steps(start_spark, options(root, lake, **limits), "decode", "materialize", "metrics")


UNDER_A_KEY = ["run_id", "batch_id", "log_digest"]
"""Names of contents are made under the lake's own key, and runs have other names."""


def told(lake: Path) -> dict[str, list[str]]:
    """The rows of the newest run, in an order of their own."""
    found, answer = Lake(str(lake)), {}
    run_id = newest_run(found)["run_id"]
    for name in TABLES:
        rows = found.rows(name)
        rows = rows.filter(pc.equal(rows.column("run_id"), run_id))
        known = [one for one in UNDER_A_KEY if one in rows.column_names]
        answer[name] = sorted(map(repr, rows.drop_columns(known).to_pylist()))
    return answer


def histories(lake: Path) -> dict[str, list[str]]:
    """The rows of the history tables, and which faults their replay has met."""
    found, answer = Lake(str(lake)), {}
    for name in (*state_tables(), REPLAY_FAULTS.name):
        rows = found.rows(name)
        known = [one for one in UNDER_A_KEY if one in rows.column_names]
        answer[name] = sorted(map(repr, rows.drop_columns(known).to_pylist()))
    return answer


@contextmanager
def read_batches() -> Iterator[list[int]]:
    """How many batches of the log each pass over the records has asked for."""
    seen: list[int] = []
    scan = record_scan.scan_records

    def noted(lake: Any, wanted: Any, *rest: Any) -> Any:
        seen.append(len(wanted.ids[LOG]))
        return scan(lake, wanted, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(known_records, "scan_records", noted)
        yield seen


def nothing(_: Options) -> None:
    """The lake is left as it is."""


def merge(chosen: Options) -> None:
    """All small files become one, and what no version needs is deleted."""
    compact_lake(chosen, 2)
    expire_lake(chosen)


def lose(*tables: str) -> Callable[[Options], None]:
    """Some tables are not there, as in a lake of an earlier version."""

    def act(chosen: Options) -> None:
        for name in tables:
            shutil.rmtree(Path(str(chosen.lake)) / name)

    return act


DONE_BETWEEN = {
    "nothing": nothing,
    "merged": merge,
    "before they were kept": lose(*KEPT[1:]),
    "one table lost": lose(KEPT[1]),
    "another version": nothing,
}
GO_ON = ("nothing", "merged")


@pytest.mark.parametrize(
    ("case", "between", "cuts"),
    [
        ("isolated", "nothing", (0.5, 0.7, 0.9)),
        ("legacy", "merged", (0.3, 0.6)),
        ("synthetic-every-type", "before they were kept", (0.45,)),
        ("synthetic-every-type", "merged", (0.2, 0.8)),
        # Both cuts lie within a transaction.
        ("synthetic-fuzz-1", "nothing", (0.3333333333333333, 0.40722492803397653)),
        ("synthetic-snapshots", "one table lost", (0.02, 0.9)),
        ("synthetic-transactions", "another version", (0.6,)),
    ],
)
def test_grown_in_any_steps_is_whole(
    tmp_path: Path, case: str, between: str, cuts: tuple[float, ...]
) -> None:
    source = DATA / case / "replicas"
    root, whole, grown = (tmp_path / name for name in ("root", "whole", "grown"))
    with read_batches() as at_once:
        copy_until(source, root, None)
        measure(root, whole)
    end = max(Lake(str(whole)).rows("replicas").column("log_end_offset").to_pylist())
    with read_batches() as in_steps:
        for cut in cuts:
            copy_until(source, root, int(cut * end))
            measure(root, grown)
        DONE_BETWEEN[between](options(root, grown))
        copy_until(source, root, None)
        with pytest.MonkeyPatch.context() as patch:
            if between == "another version":
                patch.setattr(run, "__version__", "another")
            measure(root, grown)
    assert told(grown) == told(whole)
    # Each batch has been asked for once, or all of them again.
    assert sum(in_steps if between in GO_ON else in_steps[-1:]) == sum(at_once)


def test_little_that_is_new_is_decoded_without_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, root, lake = DATA / "isolated" / "replicas", tmp_path / "root", tmp_path / "lake"
    started = []

    def is_started(end: int | None, **limits: int) -> bool:
        copy_until(source, root, end)
        started.clear()
        measure(root, lake, lambda: started.append(1), **limits)
        return bool(started)

    assert not is_started(100)
    assert not is_started(200)
    assert is_started(None, split_size_bytes=100)
    monkeypatch.setattr(decode, "WALKED_BYTES", 1000)
    assert is_started(300)


TIMES = Struct(">qq")
TIMES_AT = 27


def an_hour_later(batch: bytearray) -> bytes:
    """The batch with other times, under a right CRC."""
    later = (one + 3_600_000 for one in TIMES.unpack_from(batch, TIMES_AT))
    TIMES.pack_into(batch, TIMES_AT, *later)
    return sealed(bytes(batch))


def test_a_snapshot_is_timed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, lake = tmp_path / "root", tmp_path / "lake"
    copy_until(DATA / "legacy" / "replicas", root, None)
    whole = {one: one.read_bytes() for one in root.rglob("*.log")}
    files = {one: one.stat() for one in root.rglob("*.checkpoint")}
    assert files

    def times() -> dict[str, float | None]:
        found = Lake(str(lake))
        rows = found.rows_of_run("snapshots", newest_run(found)["run_id"])
        return {row["path"]: row["load_ms"] for row in rows}

    for path, content in whole.items():
        path.write_bytes(content[:-100])
    measure(root, lake)
    before = times()
    assert any(before.values())
    for path, content in whole.items():
        path.write_bytes(content)
    monkeypatch.setattr(
        shared_measures, "load_times", lambda new, _: dict.fromkeys((one.path for one in new), -1)
    )
    measure(root, lake)
    assert times() == before
    touched = max(path for path, one in before.items() if one)
    os.utime(touched, (1, 1))
    measure(root, lake)
    assert {path for path, one in times().items() if one == -1} == {touched}


def test_other_content_in_the_middle_is_read_anew(tmp_path: Path) -> None:
    """A batch that a run has read is there with another time, under a right CRC."""
    root, whole, grown = (tmp_path / name for name in ("root", "whole", "grown"))
    copy_until(DATA / "synthetic-transactions" / "replicas", root, None)
    with read_batches() as seen:
        measure(root, grown)
        (file,) = logs(root)
        positions = [at for at, _ in batches(file)]
        at, log = len(positions) // 2, Path(file.path)
        start, end = [*positions, file.size_bytes][at : at + 2]
        raw = bytearray(log.read_bytes())
        raw[start:end] = an_hour_later(raw[start:end])
        log.write_bytes(raw)
        measure(root, grown)
        assert seen == [len(positions)] * 2
        measure(root, whole)
    assert told(grown) == told(whole)


def test_a_lineage_that_begins_again_from_its_own_snapshot_is_told_from_there(
    tmp_path: Path,
) -> None:
    """A replica departs from the shared log, and has a hole behind that: what held where it departs
    is not what its last stretch begins with.
    """
    root, whole, grown = (tmp_path / name for name in ("root", "whole", "grown"))
    for until in (432, None):  # the second time with a batch behind the snapshot
        copy_until(DATA / "legacy" / "replicas", root, until)
        (file,) = (one for one in logs(root) if one.replica == "3")
        starts = {base: at for at, base in batches(file)}
        log = Path(file.path)
        raw = bytearray(log.read_bytes())
        own = slice(starts[210], next(at for base, at in starts.items() if base > 210))
        raw[own] = an_hour_later(raw[own])
        del raw[starts[264] : starts[274]]
        log.write_bytes(raw)
        run_pipeline(no_spark, options(root, grown))
    run_pipeline(no_spark, options(root, whole))
    rows = Lake(str(grown)).rows("lineages").to_pylist()
    assert [one["start_offset"] for one in rows if one["lineage"] == "3"][-2:] == [0, 432]
    assert histories(grown) == histories(whole)
