"""A run: the one value that walks through all steps.

In: options, and the lake that they name. Out: a `Run`; whatever several steps need to know of it is
looked up once, when the first of them asks. Runs on the driver.
"""

import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

import pyarrow.fs as pafs

from kraftlog import __version__
from kraftlog.config import Options
from kraftlog.decode.redaction import Redactor
from kraftlog.errors import LakeError, UsageError
from kraftlog.log.batch import content_hash
from kraftlog.log.directory import Replica, find_replicas
from kraftlog.log.segment import Limits
from kraftlog.log.storage import absolute
from kraftlog.log.stores import why
from kraftlog.pipeline.disk_changes import disk_changes
from kraftlog.pipeline.lake_evidence import recorded_quorum
from kraftlog.pipeline.lake_records import LakeRecords
from kraftlog.pipeline.remembered import with_memory
from kraftlog.plain import tell_once
from kraftlog.quorum.describe import described_of
from kraftlog.quorum.lineages import Lineage, lineages
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.record_windows import FileRecords
from kraftlog.relations import Row
from kraftlog.source.task_settings import KEY_SIZE, limits_of, redactor_of
from kraftlog.tables.lake import Lake
from kraftlog.tables.lake_names import KEY_FILE
from kraftlog.tables.parquet import lake_filesystem, make_folder_of
from kraftlog.tables.place import state_of

if TYPE_CHECKING:
    from kraftlog.pipeline.tasks import Spark


StartSpark = Callable[[], "Spark"]
READING_LIMITS = ("batch_limit_bytes", "decompress_limit_bytes")
"""Options that decide which record batches are read."""


@dataclass(frozen=True)
class Run:
    """One run over one lake. What `row` and all that follows from it say is the newest run's: the
    decode step, which makes it, does not ask.
    """

    options: Options
    lake: Lake
    start_spark: StartSpark

    @cached_property
    def replicas(self) -> list[Replica]:
        """The replicas as they lie on the disks."""
        roots = self.options.input or self.row["inputs"]
        return find_replicas([absolute(root) for root in roots])

    @cached_property
    def redactor(self) -> Redactor:
        """Masks secrets and names contents under the lake's key."""
        return redactor_of(self.options, lake_key(self.lake))

    @cached_property
    def limits(self) -> Limits:
        """How files are read."""
        return limits_of(self.options, self.redactor)

    @cached_property
    def goes_by(self) -> Row:
        """What answers follow from besides the files, as columns of `runs`: where one of these is
        another, unchanged input has a new run too.

        Raises InputError where the describe that is named cannot be read."""
        named = described_of(self.options, ())  # one beside a replica is among the files
        told = None if named is None else repr(replace(named, path=None)).encode()
        return {
            "kraftlog_version": __version__,
            **{name: getattr(self.options, name) for name in READING_LIMITS},
            "describe_hash": None if told is None else content_hash(told),
        }

    @cached_property
    def last(self) -> Row | None:
        """The row of the run that was the newest when this one began; None for the first."""
        number = self.lake.run_number("runs")
        return run_numbered(self.lake, number) if number else None

    @cached_property
    def row(self) -> Row:
        """The row of `runs`.

        Raises LakeError where nothing has been decoded yet."""
        return newest_run(self.lake)

    @property
    def number(self) -> int:
        """Which of the lake's runs it is; the first one is 1."""
        return int(self.row["number"])

    @property
    def run_id(self) -> str:
        return str(self.row["run_id"])

    @cached_property
    def quorum(self) -> Quorum:
        """What the copies hold, from the tables that the decode step wrote; side files and snapshots
        are read where they lie. It knows what earlier runs showed to be committed and no copy holds.

        Raises LakeError where the disks hold other files than the newest run has read."""
        if disk_changes(self.lake, self.replicas, self.row["replica_count"]):
            raise LakeError(
                f"{self.lake.root}: the input has changed since run {self.number} read it; run again over the input"
            )
        found = recorded_quorum(self.lake, self.replicas, self.limits, self.redactor, self.options)
        return with_memory(found, self.lake, self.number)

    @cached_property
    def lineages(self) -> list[Lineage]:
        """Along which batches states are told, the shared lineage first."""
        return lineages(self.quorum)

    @property
    def records(self) -> LakeRecords:
        """The decoded records that the lake holds.

        Raises LakeError where they are masked in another way than what is read now."""
        self.require_same_masks()
        return LakeRecords(self.lake, FileRecords(self.redactor, self.limits))

    def require_same_masks(self) -> None:
        """Raise LakeError where the lake's secrets are masked in another way: they would not compare,
        and some would be shown.
        """
        if self.last is not None and self.last["masks"] != self.redactor.masks:
            raise LakeError(
                f"{self.lake.root}: the secrets in this lake are masked in another way; use --reveal-secrets or --redaction-key as its runs before did, or name another lake"
            )

    def lacks(self, *tables: str) -> bool:
        """Whether some table does not tell this run yet."""
        return min(map(self.lake.run_number, tables)) < self.number


def lake_of(options: Options) -> Lake:
    """The lake that the options name.

    Raises UsageError where they name none."""
    if not options.lake:
        raise UsageError("no lake is named: say --lake FOLDER, where the Delta tables go")
    return Lake(absolute(options.lake))


def inputs_of(options: Options) -> Sequence[str]:
    """The inputs that options name, or else those that the newest run of their lake has read; none
    where nothing tells them.
    """
    if options.input:
        return options.input
    lake = lake_of(options)
    try:
        state_of(lake.root)
        inputs: list[str] = newest_run(lake)["inputs"]
    except Exception:
        # Of a lake that is none, or broken: whoever reads more of it says so.
        return ()
    return inputs


def lake_key(lake: Lake) -> bytes:
    """32 random bytes, made once per lake: under them secrets are masked and contents named, which
    so compare from run to run.

    Whoever may read both the key and the tables can test guesses of a secret: share the tables'
    folders, not this file. Raises LakeError where it is broken or unreadable, or missing though a
    run has finished: a first run that was killed leaves nothing that is kept."""
    filesystem, path = lake_filesystem(f"{lake.root.rstrip('/')}/{KEY_FILE}")
    try:
        found = filesystem.get_file_info(path)
        if found.type == pafs.FileType.Directory:
            way = _BACK if lake.run_number("runs") else "the next run makes the key"
            raise LakeError(
                f"{path}, the key of the lake's masks and names, is a folder, not a file: set the folder aside; then {way}"
            )
        if not found.is_file:
            if lake.run_number("runs"):
                raise LakeError(
                    f"{path}, the key of the lake's masks and names, is missing: {_BACK}"
                )
            _make_key(filesystem, path)
    except OSError as error:
        raise LakeError(
            f"{lake.root}: the lake cannot be written ({why(lake.root, error)})"
        ) from error
    try:
        with filesystem.open_input_stream(path) as stream:
            key = bytes(stream.read())
    except OSError as error:
        raise LakeError(
            f"{path}, the key of the lake's masks, cannot be read ({why(lake.root, error)}): run as its owner, or {_BACK}"
        ) from error
    if len(key) != KEY_SIZE:
        raise LakeError(f"{path}, the key of the lake's masks, is broken: {_BACK}")
    if isinstance(filesystem, pafs.LocalFileSystem) and Path(path).stat().st_mode & stat.S_IROTH:
        tell_once(
            f"{path}, the key of the lake's masks, may be read by everybody, who can test guesses of a secret by it: let nobody but its owner read it (chmod 600)"
        )
    return key


_BACK = "put its backup back, or name another lake"


def _make_key(filesystem: pafs.FileSystem, path: str) -> None:
    """Write a new key in one step: nobody sees a part of it, or may read what others may not. Where
    another run is first, its key stays.
    """
    make_folder_of(filesystem, path)
    key = os.urandom(KEY_SIZE)
    if not isinstance(filesystem, pafs.LocalFileSystem):
        # An object store shows an object when it is whole.
        with filesystem.open_output_stream(path) as stream:
            stream.write(key)
        return
    with NamedTemporaryFile(dir=path.rpartition("/")[0], prefix=KEY_FILE) as unfinished:
        unfinished.write(key)
        unfinished.flush()
        os.fsync(unfinished.fileno())
        with suppress(FileExistsError):
            os.link(unfinished.name, path)


def newest_run(lake: Lake) -> Row:
    """The row of the lake's newest run.

    Raises LakeError where nothing has been decoded yet."""
    runs: list[Row] = lake.rows("runs").sort_by("number").to_pylist()
    if not runs:
        raise LakeError(
            f"{lake.root}: no run has finished yet; kraftlog run, or the decode job, comes first"
        )
    return runs[-1]


def last_writer(lake: Lake, *tables: str) -> Row | None:
    """The row of the run that has written some tables last, all of them; None where there is none,
    or another version of kraftlog wrote them: what it kept may have been told by other rules.
    """
    numbers = {lake.run_number(name) for name in tables}
    if len(numbers) > 1:
        return None
    writer = run_numbered(lake, *numbers)
    return writer if writer and writer["kraftlog_version"] == __version__ else None


def run_numbered(lake: Lake, number: int) -> Row | None:
    """The row of a run by its number; None where the lake has none, or none any more."""
    rows: list[Row] = lake.rows("runs").to_pylist()
    return next((one for one in rows if one["number"] == number), None)
