"""What is missing or broken in a lake: whole tables, their logs, Parquet files that are gone, cut,
or no longer hold what was written; and what others have written into it.

In: a lake, and what its register has published last. Out: `Damage`s. Files are listed and compared
with Delta's log; only where it is asked for is each opened, or every page of it read, against the
checksum that it was written with. Source: the Delta protocol, "Add File and Remove File" (`dataChange`).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.table import SUPPORTED_READER_FEATURES

from kraftlog.errors import LakeError, UnwritableError
from kraftlog.log.stores import require_read, side_by_side
from kraftlog.plain import in_line
from kraftlog.tables.lake import WRITER, Lake, actions_of
from kraftlog.tables.parquet import lake_filesystem
from kraftlog.tables.register import Published
from kraftlog.tables.spec import RUNS, TableSpec

GONE, UNREADABLE = "it is gone", "its log cannot be read"
_UNSUPPORTED = "Kernel error: Unsupported"
"""How delta-rs begins where a log is whole, and of a format that it does not know."""


@dataclass(frozen=True, slots=True)
class Damage:
    """What is wrong with one table, in words; `lost` are the files (below its folder) that cannot
    be read any more. Without a log nothing of a table can be read, and one that is not
    `is_log_whole` may have named other files. `whole` is the last version
    before another writer changed its rows or columns, or gathered files that have to stay apart, or
    before a killed run wrote it; None where nobody has, or it was not there before.
    """

    spec: TableSpec
    what: str
    lost: frozenset[str] = frozenset()
    has_log: bool = True
    is_log_whole: bool = True
    whole: int | None = None

    @property
    def table(self) -> str:
        return self.spec.name


def damages(
    lake: Lake,
    tables: Iterable[TableSpec],
    published: Published | None,
    *,
    deep: bool = False,
    opens: bool = False,
) -> Iterator[Damage]:
    """Those of the tables that are damaged; `deep` reads all files, `opens` only their footers.

    Raises LakeError where something else lies in a table's place, UnwritableError where another
    writer has changed a table's format, StoreError where one cannot be looked at.
    """
    finished = finished_run(lake, published)

    def look(spec: TableSpec) -> Damage | None:
        return _damage(lake, spec, published, finished, deep, opens)

    # One at a time, where whole files go through memory.
    found = side_by_side(look, tables, 1) if deep else side_by_side(look, tables)
    yield from (one for one in found if one is not None)


def finished_run(lake: Lake, published: Published | None) -> int:
    """The number of the last run that has decoded all it read: a table that is ahead of it was left
    by one that was killed.
    """
    last = published.run if published else 0
    try:
        return max(lake.run_number(RUNS.name), last)
    except Exception:
        return last  # what is wrong with that table is told with the others


def _damage(
    lake: Lake, spec: TableSpec, published: Published | None, finished: int, deep: bool, opens: bool
) -> Damage | None:
    name = spec.name
    version = published.versions.get(name) if published else None
    if not lake.exists(name):
        return None if version is None else Damage(spec, GONE, has_log=False)
    try:
        now = int(lake.open(name).version())
        files, is_ahead = lake.sizes(name), lake.run_number(name) > finished
    except Exception as error:
        # Whatever a reader of logs says of bytes that are no log.
        require_read(lake.path(name), error)
        words = _first_words(error)
        if words.startswith(_UNSUPPORTED):
            raise _foreign_format(lake, name, f"({words})") from error
        return Damage(spec, f"{UNREADABLE} ({words})", has_log=False)
    features = {*(lake.open(name).protocol().reader_features or ())} - SUPPORTED_READER_FEATURES
    if features:
        raise _foreign_format(lake, name, f"in version {now} ({', '.join(sorted(features))})")
    what = whole = changed = None
    if version is not None and now < version:
        what = "its log has lost its newest entries"
    elif version is not None and published is not None:
        try:
            then = len(files)
            if now != version:
                then = len(DeltaTable(lake.path(name), version=version).file_uris())
            whole = changed = _before_others(lake, spec, version, now)
            files = files if whole is None else lake.sizes(name, whole)
        except Exception as error:
            require_read(lake.path(name), error)
            what = f"its history since version {version} cannot be read ({_first_words(error)})"
        else:
            if then != published.files.get(name):
                what = "its log has lost entries"
    if what is None and is_ahead:
        try:
            whole = lake.version_of_run(name, finished, now if changed is None else changed)
            files = {} if whole is None else lake.sizes(name, whole)
        except Exception as error:
            require_read(lake.path(name), error)
            what = f"a killed run has left it, and its version before that cannot be read ({_first_words(error)})"
    lost = _lost_files(lake, name, files, deep, opens)
    if what is not None:
        return Damage(spec, what, frozenset(lost), is_log_whole=False)
    if changed is not None:
        of_it = "rows or files" if _has_its_columns(lake, spec) else "columns"
        what = f"another writer has changed its {of_it} after version {changed}"
        return Damage(spec, what, frozenset(lost), whole=whole)
    if not lost:
        return None
    kinds = ", ".join(sorted(set(lost.values())))
    what = f"{len(lost)} of its {len(files)} files: {kinds}"
    return Damage(spec, what, frozenset(lost), whole=whole)


def _before_others(lake: Lake, spec: TableSpec, published: int, now: int) -> int | None:
    """The version before the first commit since then by which another writer has changed rows, or
    columns that are now others than ours; one that only gathers files, or deletes old ones, changes
    none, but that of tables of which each file is replaced by itself none may be gathered. Before we
    change rows, we undo that.
    """
    name, whole = spec.name, None
    has_columns = now == published or _has_its_columns(lake, spec)
    for version in range(published + 1, now + 1):
        commit = actions_of(lake.path(name), version)
        has_changed = any(value.get("dataChange") for one in commit for value in one.values())
        has_changed |= not has_columns and any("metaData" in one for one in commit)
        if has_changed or (spec.is_by_file and any("remove" in one for one in commit)):
            is_ours = any(one["txn"]["appId"] == WRITER for one in commit if "txn" in one)
            whole = None if is_ours else version - 1 if whole is None else whole
    return whole


def _foreign_format(lake: Lake, name: str, what: str) -> UnwritableError:
    """The error of a table that another writer has given a format which we do not read, with rows or
    without: no later version is without it.
    """
    return UnwritableError(
        f"{lake.path(name)}: another writer has made its format {what} one that kraftlog does not read; nothing was changed: what is published stays readable, run into a new lake"
    )


def lost_to_readers(lake: Lake, published: Published | None) -> Iterator[str]:
    """The tables of which files are gone that the published version needs, though not the newest:
    another client has gathered them, and deleted those before.

    Raises LakeError where one cannot be read."""
    for name, version in published.versions.items() if published else ():
        moved = lake.open(name).version() != version
        if moved and _lost_files(lake, name, lake.sizes(name, version), deep=False, opens=False):
            yield name


def _has_its_columns(lake: Lake, spec: TableSpec) -> bool:
    return bool(pa.schema(lake.open(spec.name).schema()).equals(spec.schema))


def _lost_files(
    lake: Lake, name: str, files: Mapping[str, int], deep: bool, opens: bool
) -> dict[str, str]:
    """The files that are not there as they were written, and how each differs."""
    filesystem, folder = lake_filesystem(lake.path(name))
    sizes, found = lake.stored(name), {}
    for path, size in files.items():
        if path not in sizes:
            found[path] = "missing"
        elif sizes[path] != size:
            found[path] = "of another size"
        elif deep or opens:
            try:
                _read(filesystem, f"{folder}/{path}", deep)
            except (OSError, pa.ArrowException) as error:
                require_read(lake.path(name), error)
                found[path] = "with broken content"
    return found


def _read(filesystem: pafs.FileSystem, path: str, deep: bool) -> None:
    """Open a file, and, looked at deep, hold every page of it against the checksum that it was
    written with.

    Raises what Arrow raises where one is broken."""
    with pq.ParquetFile(path, filesystem=filesystem, page_checksum_verification=True) as file:
        for _ in file.iter_batches() if deep else ():
            pass


def _first_words(error: Exception) -> str:
    cause = error.__cause__ if isinstance(error, LakeError) else None
    return in_line(cause or error)[:120]
