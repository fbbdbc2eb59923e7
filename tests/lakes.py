"""Lakes that are to hold the same, wherever they lie and whoever wrote them."""

from pathlib import Path

from kraftlog.source.task_settings import KEY_SIZE
from kraftlog.tables.lake import Lake
from kraftlog.tables.lake_names import KEY_FILE
from kraftlog.tables.spec import state_tables

FOR_SPARK = {"split_size_bytes": 65536}
"""The option under which even a golden quorum is work for Spark's tasks."""
CUT = ["--split-size-bytes", str(FOR_SPARK["split_size_bytes"])]
"""The same for a command."""

OF_THE_RUN = {"run_id", "started", "finished", "load_ms", "predicted_load_ms"}
"""Columns that differ between any two runs."""

SAME = ["records", "control_records", "contents", *state_tables()]
"""Tables whose rows say nothing of where the input lay, and when it was read."""


def key_in(folder: Path) -> Path:
    """The same key for both lakes: masks and ids compare so."""
    key = folder / KEY_FILE
    key.write_bytes(b"k" * KEY_SIZE)
    key.chmod(0o600)
    return key


def contents(lake: str) -> dict[str, list[str]]:
    """The rows of the tables that are the same wherever a lake lies."""
    found = {}
    for name in SAME:
        rows = Lake(lake).rows(name)
        kept = sorted({*rows.column_names} - {"run_id"})
        found[name] = sorted(map(repr, rows.select(kept).to_pylist()))
    return found
