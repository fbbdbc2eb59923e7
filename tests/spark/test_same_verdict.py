"""One verdict, whichever way the records took: from the files, or through a lake."""

import json
from pathlib import Path
from typing import Any

import pytest

from kraftlog.config import Options, load_options
from kraftlog.pipeline.input_audit import audit_input
from kraftlog.pipeline.run import newest_run
from kraftlog.pipeline.steps import run_steps
from kraftlog.report.judgement import judged_in
from kraftlog.tables.lake import Lake
from tests.golden.cases import DATA
from tests.in_process import InProcess
from tests.lakes import FOR_SPARK
from tests.unit.test_long_history import write

CASES = ("isolated", "upgraded-3.9", "synthetic-fuzz-1", "synthetic-transactions",
         "synthetic-client-batches", "synthetic-every-type", "voter-replaced")  # fmt: skip
KEY = "one key for both ways, and long enough"


def both(
    folder: Path, lake: Path, cut: dict[str, int] = FOR_SPARK
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of an audit from the files, and of a run; both went by the same values."""
    options: Options = load_options(
        {"input": [str(folder)], "lake": str(lake), "redaction_key": KEY, **cut}
    )
    run_steps(InProcess, options, "decode", "materialize", "audit")
    found = Lake(str(lake))
    held, judged = (
        judged_in(found, newest_run(found)["run_id"]),
        audit_input([str(folder)], options),
    )
    assert held.settings == judged.settings
    return list(judged.lines()), list(held.lines())


NAMES = ("batch_id", "content_hash")
"""Names of contents, which are made under the lake's own key."""


def as_lines(rows: list[dict[str, Any]]) -> list[str]:
    for row in rows:
        row["evidence"] = {name: one for name, one in row["evidence"].items() if name not in NAMES}
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in rows)


@pytest.mark.parametrize("case", CASES)
def test_a_run_says_what_an_audit_of_the_files_says(tmp_path: Path, case: str) -> None:
    files, lake = both(DATA / case / "replicas", tmp_path / "lake")
    assert as_lines(files) == as_lines(lake)


def test_so_it_does_of_a_long_history(tmp_path: Path) -> None:
    write(tmp_path / "replicas")
    files, lake = both(tmp_path / "replicas", tmp_path / "lake", {"split_size_bytes": 1 << 20})
    assert as_lines(files) == as_lines(lake)
