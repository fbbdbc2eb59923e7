"""The lake on the driver: create tables, commit what executors wrote, undo what a killed run left.

In: a path, and `AddedFile`s or Arrow tables. Out: Delta commits. Every commit carries the run's
number as Delta's application transaction, so that a step that is run again writes nothing twice,
and the token of the lease that its writer holds, so that a writer whose lake another one has taken
over writes nothing at all. Tables of a decode step are committed in a fixed order, `runs` last: a
table that is ahead of `runs` was left by a killed run, and is taken back to where it was.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial, reduce
from math import inf
from operator import and_
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from kraftlog.errors import LakeError
from kraftlog.log.storage import entry_of
from kraftlog.log.stores import require_read, why
from kraftlog.plain import in_line
from kraftlog.relations import Row
from kraftlog.tables.lease import taken_over
from kraftlog.tables.parquet import AddedFile, lake_filesystem, unwritable, write_file
from kraftlog.tables.register import cut_broken_end
from kraftlog.tables.spec import TableSpec, decoded_tables

_APPLICATION = "kraftlog"
WRITER = "kraftlog.writer"
"""Who writes a table, in Delta's application transactions: every commit of ours has its number."""
_CONFIGURATION: Mapping[str, str | None] = {
    # Delta's own clients clean up by time; `upkeep` does by runs, and writes its checkpoints.
    "delta.logRetentionDuration": "interval 30 days",
    "delta.deletedFileRetentionDuration": "interval 1 days",
    "delta.checkpointInterval": "1000",
}
_APPEND_ONLY, _UNSUPPORTED = "delta.appendOnly", "Unsupported table features"
_NOTHING_AFTER = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
"""So a commit of ours does not list the log once more to see what could be done there."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A table's version, the number of the run that wrote it last, and how many files it has."""

    version: int
    run: int
    file_count: int


@dataclass(frozen=True, slots=True)
class Rewritten:
    """One file, or none where no row is left, in place of others (paths below the table)."""

    added: AddedFile | None
    removed: tuple[str, ...]


class LakeTable(DeltaTable):
    """One table of a lake, which remembers what its log says of those who have written it. A commit
    of ours names all; delta-rs reads the log for each such answer, commit by commit.
    """

    def __init__(self, table_uri: str, version: int | None = None) -> None:
        super().__init__(table_uri, version=version)
        self._root = table_uri
        self._told: dict[str, int | None] = {}
        self._told_at = -1

    @property
    def run(self) -> int:
        """The number of the last run that wrote it; 0 for none."""
        return self.transaction_version(_APPLICATION) or 0

    @property
    def token(self) -> int:
        """The token of who wrote it last; 0 for nobody's."""
        return self.transaction_version(WRITER) or 0

    def transaction_version(self, app_id: str) -> int | None:
        """The newest number that an application has committed, read once per version of the table."""
        if self._told_at != self.version():
            self.take_note(self._in_newest_commit())
        if app_id not in self._told:
            self._told[app_id] = super().transaction_version(app_id)
        return self._told[app_id]

    def _in_newest_commit(self) -> dict[str, int]:
        """The numbers that the newest commit names; none where it cannot be read by itself."""
        try:
            found = [one["txn"] for one in actions_of(self._root, self.version()) if "txn" in one]
            return {one["appId"]: int(one["version"]) for one in found}
        except (OSError, ValueError, LookupError, TypeError):
            return {}

    def take_note(self, numbers: Mapping[str, int]) -> None:
        """Know the numbers of some applications in the version that is open."""
        self._told_at, self._told = self.version(), dict(numbers)

    def take_in(self, numbers: Mapping[str, int]) -> None:
        """Go on to the commit that was just made onto this version, with the numbers of some
        applications.
        """
        version = self.version() + 1
        self.update_incremental()
        if self.version() == version:
            self.take_note(numbers)


@dataclass(frozen=True, slots=True)
class Lake:
    """A folder of Delta tables. Pickles; executors only ask it for paths. `token` is that of the
    lease under which it is written; 0: by one that nobody else knows of.

    `opened` holds the tables that have been opened under that lease, and None for those that are not
    there. While it lasts nobody else writes, and each opening reads a table's log, which on an
    object store takes longer than all else. A commit onto what is not the newest version after all
    fails. Who only looks at a lake once may hold its tables open as well.

    `versions` are those of its tables that are seen, and then there are no others; none: the newest
    ones. Who reads a lake sees what a whole run has published (`kraftlog.tables.place.lake_at`).
    """

    root: str
    token: int = 0
    opened: dict[str, LakeTable | None] | None = field(default=None, compare=False, repr=False)
    versions: Mapping[str, int] = field(default_factory=dict, hash=False)

    def __reduce__(self) -> tuple[type["Lake"], tuple[Any, ...]]:
        return Lake, (self.root, self.token, None, self.versions)

    def path(self, name: str) -> str:
        """The folder of one table."""
        return f"{self.root.rstrip('/')}/{name}"

    def exists(self, name: str) -> bool:
        """Whether a table has been written.

        Raises LakeError where something else is in its place."""
        if self.versions:
            return name in self.versions
        if self.opened and name in self.opened:
            return self.opened[name] is not None
        try:
            is_there = DeltaTable.is_deltatable(self.path(name))
        except OSError as error:
            found = entry_of(self.path(name))
            if found is not None and not found.is_folder:
                raise LakeError(
                    f"{self.path(name)} is a file where a table should be; move it away"
                ) from error
            raise LakeError(
                f"{self.path(name)}: it cannot be read ({why(self.path(name), error)})"
            ) from error
        if not is_there and self.opened is not None:
            self.opened.setdefault(name, None)  # another thread may have created it by now
        return is_there

    def open(self, name: str, version: int | None = None) -> LakeTable:
        """One table, at the version that is seen of it or at another one.

        Raises LakeError where it is missing or unreadable."""
        known = self.opened.get(name) if version is None and self.opened else None
        if known is not None:
            return known
        try:
            table = LakeTable(self.path(name), version=self._seen(name, version))
        except TableNotFoundError as error:
            jobs = "decode job, comes" if name in decoded_tables() else "jobs before this one, come"
            raise LakeError(
                f"{self.root}: there is no table '{name}'; kraftlog run, or the {jobs} first"
            ) from error
        except (DeltaError, OSError) as error:
            require_read(self.path(name), error)
            raise LakeError(
                f"{self.path(name)}: it cannot be read as a Delta table ({in_line(error)}); run over the input to build it anew"
            ) from error
        if version is None and self.opened is not None:
            self.opened[name] = table
        return table

    def _seen(self, name: str, version: int | None) -> int | None:
        if version is not None or not self.versions:
            return version
        if name not in self.versions:
            raise TableNotFoundError(name)
        return self.versions[name]

    def _forget(self, name: str) -> None:
        if self.opened is not None:
            self.opened.pop(name, None)

    def rows(
        self,
        name: str,
        columns: Sequence[str] | None = None,
        chosen: ds.Expression | None = None,
        version: int | None = None,
    ) -> pa.Table:
        """The rows of a table that are chosen, else all of them, as Arrow.

        Raises LakeError where a file of it is gone or broken."""
        try:
            found = self.dataset(name, version)
            return found.to_table(columns=list(columns) if columns else None, filter=chosen)
        except (OSError, pa.ArrowInvalid) as error:
            require_read(self.path(name), error)
            told = why(self.path(name), error) if isinstance(error, OSError) else "it is broken"
            # A run sees by itself what is not there in its full size.
            again = "" if isinstance(error, FileNotFoundError) else " with --verify"
            raise LakeError(
                f"{self.path(name)}: a file of this table cannot be read ({told}); run over the input{again}, which rebuilds what the input still holds"
            ) from error

    def dataset(self, name: str, version: int | None = None) -> ds.Dataset:
        """One table for Arrow to scan.

        Through Arrow's own file system: delta-rs' one is Python, and an Arrow thread that still
        lets go of it while the interpreter ends aborts the process.
        """
        filesystem, folder = lake_filesystem(self.path(name))
        files = pafs.SubTreeFileSystem(folder, filesystem)
        table = self.open(name, version)
        found, sizes = table.to_pyarrow_dataset(filesystem=files), _sizes(table)
        # A store is not asked for the sizes that the log knows.
        fragments = [
            found.format.make_fragment(
                one.path, files, one.partition_expression, file_size=sizes.get(one.path)
            )
            for one in found.get_fragments()
        ]
        return ds.FileSystemDataset(fragments, found.schema, found.format, files)

    def bare_dataset(self, name: str, texts_as_dictionaries: bool = False) -> ds.Dataset:
        """The same without Delta's own statistics of its files: making expressions of them costs a
        second for hundreds of files. For who wants all rows, or knows which files hold them.
        """
        filesystem, folder = lake_filesystem(self.path(name))
        files = pafs.SubTreeFileSystem(folder, filesystem)
        schema = pa.schema(self.open(name).schema().to_arrow())
        texts = [one.name for one in schema if texts_as_dictionaries and one.type == pa.string()]
        form = ds.ParquetFileFormat(read_options=ds.ParquetReadOptions(dictionary_columns=texts))
        fragments = [
            form.make_fragment(file["path"], files, _holds(values), file_size=file["size_bytes"])
            for file, values in self.files(name)
        ]
        coded = pa.dictionary(pa.int32(), pa.string())
        kinds = [one.with_type(coded) if one.name in texts else one for one in schema]
        return ds.FileSystemDataset(fragments, pa.schema(kinds), form, files)

    def files(self, name: str) -> list[tuple[Row, Row]]:
        """The files of a table: what Delta says of each (`path` below the table's folder,
        `size_bytes`, `min.…`, `max.…`), and its partition values.
        """
        return list(_files(self.open(name)))

    def sizes(self, name: str, version: int | None = None) -> dict[str, int]:
        """The files of a table, each with its size in bytes."""
        return _sizes(self.open(name, version))

    def stored(self, name: str) -> dict[str, int]:
        """All files that lie below a table's folder, those of its log and of nobody too, each with its
        size in bytes.
        """
        filesystem, folder = lake_filesystem(self.path(name))
        listed = filesystem.get_file_info(pafs.FileSelector(folder, recursive=True))
        return {one.path.removeprefix(f"{folder}/"): one.size for one in listed if one.is_file}

    def rows_of_run(
        self, name: str, run_id: str, columns: Sequence[str] | None = None
    ) -> list[dict[str, Any]]:
        """The rows of one run; none where the table is not there yet."""
        if not self.exists(name):
            return []
        found = self.rows(name, columns, ds.field("run_id") == run_id)
        rows: list[dict[str, Any]] = found.to_pylist()
        return rows

    def told_rows(
        self, spec: TableSpec, run_id: str, columns: Sequence[str] | None = None
    ) -> list[Row]:
        """The same as the run has told them: without its id, and what is JSON as values."""
        return [spec.as_values(row) for row in self.rows_of_run(spec.name, run_id, columns)]

    def run_number(self, name: str) -> int:
        """The number of the last run that wrote a table; 0 for none."""
        return self.open(name).run if self.exists(name) else 0

    def newest_token(self, names: Iterable[str]) -> int:
        """The highest token of those who have written some tables; 0 for nobody's."""
        return max((self.open(name).token for name in names if self.exists(name)), default=0)

    def cut_broken_end(self, name: str) -> bool:
        """Cut the log of a table back to its last whole commit; whether more was there."""
        self._forget(name)
        return cut_broken_end(self.path(name))

    def marks(self, names: Iterable[str]) -> dict[str, Mark]:
        """How far each table has come; those that are not there are left out."""
        found = {}
        for name in names:
            if self.exists(name):
                table = self.open(name)
                found[name] = Mark(int(table.version()), table.run, len(table.file_uris()))
        return found

    def written_ms(self, name: str) -> int:
        """When a table was last written, in ms since 1970; 0 where it is not there."""
        if not self.exists(name):
            return 0
        (last,) = self.open(name).history(1)
        return int(last["timestamp"])

    def ensure(self, spec: TableSpec) -> LakeTable:
        """The table, created empty where it is missing."""
        return self._known(spec) or self._created(spec, [], 0)

    def _known(self, spec: TableSpec) -> LakeTable | None:
        """The table, where it is there.

        Raises LakeError where it has other columns."""
        if not self.exists(spec.name):
            return None
        table = self.open(spec.name)
        if not pa.schema(table.schema()).equals(spec.schema):
            raise LakeError(
                f"{self.path(spec.name)}: its columns are those of another version of kraftlog; name an empty folder with --lake, where a run builds everything anew from the input"
            )
        return table

    def _created(self, spec: TableSpec, added: Iterable[AddedFile], run_number: int) -> LakeTable:
        """A table with its comments and its first files, by one commit."""
        path = self.path(spec.name)
        if "://" not in path:
            try:
                Path(path).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise LakeError(f"{path}: it cannot be created ({error.strerror})") from error
        try:
            create_table_with_add_actions(
                path,
                Schema.from_arrow(spec.schema),
                [_add(one) for one in added],
                partition_by=list(spec.partition_by),
                name=spec.name,
                description=spec.grain,
                configuration=_CONFIGURATION,
                commit_properties=self._properties(run_number),
                post_commithook_properties=_NOTHING_AFTER,
            )
        except DeltaError as error:
            raise self._refused(path, None, error) from error
        except OSError as error:
            raise unwritable(path, error) from error
        table = LakeTable(path)
        table.take_note(self._numbers(run_number))
        if self.opened is not None:
            self.opened[spec.name] = table
        return table

    def commit(
        self,
        spec: TableSpec,
        added: Iterable[AddedFile],
        run_number: int,
        replaces: Callable[[Row], bool] | None = None,
        *,
        overwrite: bool = False,
    ) -> int:
        """One commit: the added files, in place of those that it `replaces` by the values which all
        of their rows have (or, overwriting, of all). Returns the table's version.

        A table that this run, or a later one, has already written is left as it is.
        """
        table = self._known(spec)
        if table is None:
            return int(self._created(spec, added, run_number).version())
        if table.run >= run_number:
            return int(table.version())
        actions: list[AddAction | RemoveAction] = [_add(one) for one in added]
        if replaces is not None and not overwrite:
            actions += _removals(table, lambda _, held: replaces(held))
        return self._write(spec, table, actions, run_number, overwrite=overwrite)

    def _write(
        self,
        spec: TableSpec,
        table: LakeTable,
        actions: list[AddAction | RemoveAction],
        run_number: int,
        *,
        overwrite: bool = False,
    ) -> int:
        """Commit right after the version that was opened, and at no later one."""
        with self._alone(spec.name, table):
            table.create_write_transaction(
                actions,
                mode="overwrite" if overwrite else "append",
                schema=spec.schema,
                partition_by=list(spec.partition_by) or None,
                commit_properties=self._properties(run_number),
                post_commithook_properties=_NOTHING_AFTER,
            )
            table.take_in(self._numbers(run_number))  # a commit leaves the table as it was
        return int(table.version())

    @contextmanager
    def _alone(self, name: str, table: LakeTable) -> Iterator[None]:
        """Raise LakeError where the lake has been taken over: before, or within the commit."""
        if table.token > self.token:
            raise taken_over(self.root)
        try:
            yield
        except CommitFailedError as error:
            raise self._refused(self.path(name), int(table.version()), error) from error
        except OSError as error:
            raise unwritable(self.path(name), error) from error

    def _refused(self, path: str, version: int | None, error: DeltaError) -> LakeError:
        """The error of a commit onto a version of a table, or of its first one."""
        if self.opened is not None:
            self.opened.clear()
        now = LakeTable(path) if DeltaTable.is_deltatable(path) else None
        if now is not None and now.token > self.token:
            return taken_over(self.root)
        if now is None or now.version() == version:
            said = in_line(error)
            return LakeError(f"{path}: Delta refuses this commit ({said}){_advice(now, said)}")
        return LakeError(
            f"{path}: another writer has committed to this table while this run was about to; run again, and let only kraftlog write there"
        )

    def _properties(self, run_number: int) -> CommitProperties:
        marks = [Transaction(*one) for one in self._numbers(run_number).items()]
        return CommitProperties(app_transactions=marks, max_commit_retries=0)

    def _numbers(self, run_number: int) -> dict[str, int]:
        """What a commit tells of who made it."""
        return {_APPLICATION: run_number, WRITER: self.token}

    def replace(self, spec: TableSpec, done: Iterable[Rewritten], *, is_data: bool = False) -> None:
        """Put files in place of others, in one commit that counts for the run before; `is_data`
        where rows are lost or gained.
        """
        table = self.open(spec.name)
        gone: set[str] = set()
        actions: list[AddAction | RemoveAction] = []
        for one in done:
            gone.update(one.removed)
            if one.added is not None:
                actions.append(_add(one.added, is_data))
        actions += _removals(table, lambda path, _: path in gone, is_data)
        self._write(spec, table, actions, table.run)

    def empty(self, spec: TableSpec, run_number: int = 0, added: Iterable[AddedFile] = ()) -> None:
        """Put some files, or none, in place of all others, as if a run had written nothing else."""
        table = self.open(spec.name)
        self._write(spec, table, [_add(one) for one in added], run_number, overwrite=True)

    def mark(self, spec: TableSpec, run_number: int) -> None:
        """Let a table count as written by a run."""
        if table := self._known(spec):
            self._write(spec, table, [], run_number)
        else:
            self._created(spec, [], run_number)

    def begin_again(self, spec: TableSpec, run_number: int) -> None:
        """Begin the log of a table anew, without any file; what lies beside it is left to
        `upkeep`.
        """
        filesystem, folder = lake_filesystem(self.path(spec.name))
        if filesystem.get_file_info(f"{folder}/_delta_log").type != pafs.FileType.NotFound:
            filesystem.delete_dir(f"{folder}/_delta_log")
        self._forget(spec.name)
        self.mark(spec, run_number)

    def fence(self, specs: Iterable[TableSpec]) -> None:
        """Put our token into every table, so that commits of earlier owners of the lake fail."""
        for spec in specs:
            self.mark(spec, self.run_number(spec.name))

    def write(
        self, spec: TableSpec, rows: pa.Table, run_number: int, *, overwrite: bool = False
    ) -> int:
        """Append Arrow rows from the driver (or put them in place of all others), once per run."""
        shaped = _shaped(rows, spec.schema)
        # Lazily: a table that this run has written already gets no file.
        files = map(partial(write_file, self.path(spec.name)), [shaped] if rows.num_rows else [])
        return self.commit(spec, files, run_number, overwrite=overwrite)

    def recover(self, specs: Iterable[TableSpec], finished_run: int) -> list[str]:
        """Take tables back that a run after `finished_run` wrote before it was killed; returns
        their names.
        """
        undone = [one for one in specs if self.run_number(one.name) > finished_run]
        for spec in undone:
            newest = int(self.open(spec.name).version())
            before = self.version_of_run(spec.name, finished_run, newest)
            if before is None:
                self.empty(spec, finished_run)
            else:
                self.set_back(spec.name, before)
        return [one.name for one in undone]

    def version_of_run(self, name: str, run_number: int, newest: int) -> int | None:
        """The newest version of a table, up to one, that a run or an earlier one has written; None
        where a later run has created it.

        Raises LakeError where its log does not reach back so far."""
        for version in range(newest, -1, -1):
            if self.open(name, version).run <= run_number:
                return version
        return None

    def set_back(self, name: str, version: int) -> None:
        """Back to a version of ours that a killed run, or another writer, has gone on from; without
        those of its files that are gone.
        """
        run_number = self.open(name, version).run
        self._forget(name)
        table = LakeTable(self.path(name))
        with self._alone(name, table):
            properties = self._properties(run_number)
            table.restore(version, ignore_missing_files=True, commit_properties=properties)


def _advice(table: DeltaTable | None, said: str) -> str:
    """What to do about what another client has set and forbids our commits."""
    if _UNSUPPORTED in said:
        return "; another client has turned these on, and kraftlog cannot write them: drop them from this table (ALTER TABLE … DROP FEATURE), or run into a new lake"
    if table is None or table.metadata().configuration.get(_APPEND_ONLY) != "true":
        return ""
    return f"; another client has made this table append-only: set its property {_APPEND_ONLY} to false, and run again"


def actions_of(path: str, version: int) -> list[Row]:
    """What one commit of the table at a path says.

    Raises FileNotFoundError where it is not there."""
    filesystem, folder = lake_filesystem(path)
    with filesystem.open_input_stream(f"{folder}/_delta_log/{version:020d}.json") as stream:
        return [json.loads(line) for line in stream.read().splitlines()]


def _add(file: AddedFile, is_data: bool = True) -> AddAction:
    return AddAction(
        file.path, file.size_bytes, file.partition_values, file.modified_ms, is_data, file.stats
    )


def _shaped(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with a table's columns. Texts that are codes of a dictionary stay so: Parquet writes them
    as such, and millions of rows with the same text take no room.
    """
    held = [rows.schema.field(one.name).type for one in schema]
    kinds = [
        kind if pa.types.is_dictionary(kind) and kind.value_type == one.type else one.type
        for kind, one in zip(held, schema, strict=True)
    ]
    shape = [one.with_type(kind) for one, kind in zip(schema, kinds, strict=True)]
    return rows.select(schema.names).cast(pa.schema(shape))


def _sizes(table: DeltaTable) -> dict[str, int]:
    found = pa.table(table.get_add_actions(flatten=True))
    paths = map(unquote, found.column("path").to_pylist())
    return dict(zip(paths, found.column("size_bytes").to_pylist(), strict=True))


def _removals(
    table: DeltaTable, chosen: Callable[[str, Row], bool], is_data: bool = True
) -> list[RemoveAction]:
    """The files that are chosen by their path, or by what holds of all of their rows."""
    now = int(time.time() * 1000)
    return [
        RemoveAction(file["path"], is_data, now, file["size_bytes"], partition_texts(values))
        for file, values in _files(table)
        if chosen(file["path"], held_by_all(file, values))
    ]


def _files(table: DeltaTable) -> Iterator[tuple[Row, Row]]:
    """What Delta knows of each file, and its partition values."""
    for row in pa.table(table.get_add_actions(flatten=True)).to_pylist():
        values = {
            name.removeprefix(_PARTITION): value
            for name, value in row.items()
            if name.startswith(_PARTITION)
        }
        # Delta's log holds paths as URLs do; those of other writers have folders with odd names.
        yield row | {"path": unquote(row["path"])}, values


def _holds(values: Row) -> ds.Expression | None:
    """What the values of its partition columns say of all rows of a file."""
    each = [
        ds.field(name).is_null() if value is None else ds.field(name) == value
        for name, value in values.items()
    ]
    return reduce(and_, each) if each else None


def offset_bounds(file: Row) -> tuple[float, float]:
    """Between which offsets the rows of a file lie, as far as Delta knows."""
    least, most = file.get("min.offset"), file.get("max.offset")
    return -inf if least is None else least, inf if most is None else most


def held_by_all(file: Row, values: Row) -> Row:
    """What holds of all rows of a file: its partition values, and columns of one value."""
    known = {
        name.removeprefix(_MINIMUM): least
        for name, least in file.items()
        if name.startswith(_MINIMUM)
        and least is not None
        and least == file.get(f"max.{name.removeprefix(_MINIMUM)}")
        and not file.get(f"null_count.{name.removeprefix(_MINIMUM)}")
    }
    return known | values


_PARTITION, _MINIMUM = "partition.", "min."


def partition_texts(values: Row) -> dict[str, str | None]:
    """Partition values as Delta's log writes them."""
    texts = {True: "true", False: "false"}
    return {
        name: texts[value] if isinstance(value, bool) else value for name, value in values.items()
    }
