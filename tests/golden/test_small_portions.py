"""How much is gathered before it is written, merged or handed on changes nothing of what is told:
what takes millions of rows otherwise, done for every handful of them.
"""

import shutil
from pathlib import Path
from types import ModuleType

import pytest

from kraftlog.config import load_options
from kraftlog.metrics import compaction
from kraftlog.pipeline import contents, record_scan, scan
from kraftlog.pipeline.every_table import all_tables
from kraftlog.pipeline.steps import run_pipeline
from kraftlog.state import standing
from kraftlog.tables.lake import Lake
from tests.golden.cases import DATA
from tests.golden.test_told import cut
from tests.in_process import InProcess
from tests.lakes import FOR_SPARK, OF_THE_RUN, key_in

PORTIONS: dict[tuple[ModuleType, str], int] = {
    (scan, "_TABLE_ROWS"): 2,
    (scan, "_FLUSH_ROWS"): 5,
    (contents, "_FLUSH_ROWS"): 3,
    (record_scan, "_PORTION_ROWS"): 3,
    (record_scan, "_TOTALS_ROWS"): 2,
    (compaction, "_MERGED_ROWS"): 2,
    (standing, "_SPARE_ROWS"): -(10**6),
}


def test_tables_are_the_same_from_small_portions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, lake = tmp_path / "replicas", tmp_path / "lake"
    written = [tmp_path / name for name in ("large", "small")]
    for kept, portions in zip(written, ({}, PORTIONS), strict=True):
        lake.mkdir()
        key_in(lake)
        for (module, name), value in portions.items():
            monkeypatch.setattr(module, name, value)
        shutil.copytree(DATA / "isolated" / "replicas", root)
        cut(root, 20 << 10)
        run_over(root, lake)
        shutil.copytree(DATA / "isolated" / "replicas", root, dirs_exist_ok=True)
        run_over(root, lake)
        shutil.rmtree(root)
        lake.rename(kept)
    large, small = map(rows_of, written)
    assert {name for name, rows in large.items() if rows} > {"records", "partitions", "compaction"}
    for name, rows in large.items():
        assert small[name] == rows, name


def run_over(root: Path, lake: Path) -> None:
    run_pipeline(InProcess, load_options({"input": [str(root)], "lake": str(lake), **FOR_SPARK}))


def rows_of(lake: Path) -> dict[str, list[str]]:
    """All that the tables of a lake say."""
    found = {}
    for name in all_tables():
        rows = Lake(str(lake)).bare_dataset(name).to_table()
        kept = [one for one in rows.column_names if one not in OF_THE_RUN]
        found[name] = sorted(map(repr, rows.select(kept).to_pylist()))
    return found
