"""Files, versions and rows stay few: small files become one, rows of runs long ago go, and what no
kept run needs is deleted.

In: a lake under our lease. Out: counts. Kept are the versions of the tables as the last runs have
published them, so that a reader of one of them goes on undisturbed. Delta's own clean-up goes by
time, and a lake that is run every minute would keep a week of files of each minute. Source: the
Delta protocol, "Checkpoints" and "Delta Log Entries".
"""

import re
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import unquote

from deltalake import DeltaTable

from kraftlog.tables.lake import Lake, actions_of
from kraftlog.tables.parquet import lake_filesystem
from kraftlog.tables.rewrite import Without, merged_files, take_out
from kraftlog.tables.spec import PER_RUN, RUN_ID, RUNS, TableSpec

SMALL_BYTES = 2 << 20
"""Larger files are left as they are: what a run writes of a large log is read well as it is, and
to write it again takes a tenth of the run.
"""
MERGED_BYTES = 32 * SMALL_BYTES
"""So many bytes of files become one at most: what is merged is held in memory."""
_ENTRIES = 4
"""When the log has so many commits before the oldest version that is kept, that version gets a
checkpoint, and they go.
"""
_NAMED = re.compile(r"_delta_log/(\d{20})\.(json|checkpoint\.parquet)")


def compact(lake: Lake, spec: TableSpec, least: int) -> int:
    """Make one file of each group of at least so many small ones; how many files it has replaced.

    Tables that are replaced path by path, or as a whole, have no small files to gather."""
    if spec.is_by_file:
        return 0
    small = [one for one in lake.files(spec.name) if one[0]["size_bytes"] < SMALL_BYTES]
    if len(small) < least:
        return 0
    done = list(merged_files(lake.path(spec.name), small, least, MERGED_BYTES))
    if done:
        lake.replace(spec, done)
    return sum(len(one.removed) for one in done)


def forget_runs(lake: Lake, tables: Iterable[TableSpec], keep: int, least: int) -> int:
    """Take the rows of all but the last `keep` runs out of the tables that have rows per run, once
    there are at least so many such runs; how many these were.
    """
    if not lake.exists(RUNS.name):
        return 0
    rows = lake.rows(RUNS.name, [RUN_ID.name, "number"]).sort_by("number")
    gone = rows.slice(0, max(rows.num_rows - keep, 0)).column(RUN_ID.name).combine_chunks()
    if len(gone) < least:
        return 0
    specs = [one for one in tables if one.mode == PER_RUN and one != RUNS]
    # The runs themselves come last: while they stand there, the next one tries again.
    for spec in [*specs, RUNS]:
        if lake.exists(spec.name):
            take_out(lake, spec, Without(RUN_ID.name, gone))
    return len(gone)


def expire(lake: Lake, name: str, oldest: int, check: Callable[[], None]) -> int:
    """Delete what no version of a table from `oldest` on needs; how many files that were.

    `check` raises where the lake is no longer ours; it is called right before files are deleted."""
    table = lake.open(name)
    found = lake.stored(name)
    log = _log_entries(found)
    if oldest - max(log["checkpoint.parquet"], default=0) >= _ENTRIES:
        DeltaTable(lake.path(name), version=oldest).create_checkpoint()
        log["checkpoint.parquet"][oldest] = ""
    try:
        needed = set(lake.sizes(name))
        needed |= set(_removed_since(lake, name, oldest, int(table.version())))
    except FileNotFoundError:
        return 0  # a part of the log is missing: the damage is told elsewhere
    floor = max((one for one in log["checkpoint.parquet"] if one <= oldest), default=0)
    # Those of killed runs too.
    gone = [one for one in found if _is_data(one) and one not in needed]
    gone += [path for kind in log.values() for version, path in kind.items() if version < floor]
    check()
    filesystem, folder = lake_filesystem(lake.path(name))
    for path in gone:
        filesystem.delete_file(f"{folder}/{path}")
    return len(gone)


def _is_data(path: str) -> bool:
    """Whether a path below a table is that of a Parquet file with rows."""
    return path.endswith(".parquet") and not path.startswith("_")


def _log_entries(paths: Iterable[str]) -> dict[str, dict[int, str]]:
    """Of the paths below a table those of commits and checkpoints, by version."""
    found: dict[str, dict[int, str]] = {"json": {}, "checkpoint.parquet": {}}
    for path in paths:
        if named := _NAMED.fullmatch(path):
            found[named[2]][int(named[1])] = path
    return found


def _removed_since(lake: Lake, name: str, oldest: int, newest: int) -> Iterator[str]:
    """The files that commits after a version have removed: that version needs them.

    Raises FileNotFoundError where such a commit is missing."""
    for version in range(oldest + 1, newest + 1):
        for action in actions_of(lake.path(name), version):
            if removed := action.get("remove"):
                yield unquote(removed["path"])
