"""The pulled folder: a replica's folder that only ever grows, and that is never a node's own.

In: `--out`, whole record batches, what the leader says of the quorum. Out: files as a node has
them: segments, checkpoints, `leader-epoch-checkpoint`, and beside the log `meta.properties` and
`quorum-describe`. Every side file is written under another name and renamed; segments grow by whole
batches, so that a crash leaves at most a torn end, which the next pull cuts. What a leader takes
back is moved to a `.deleted` file, not lost. One process at a time.

The identity is honest: node.id is -1, an observer that no quorum counts. No node starts there.
"""

import fcntl
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from kraftlog.errors import UsageError
from kraftlog.log import names
from kraftlog.log.directory import LogFile, find_replicas, walk_file
from kraftlog.log.segment import Limits, Window
from kraftlog.log.sidefiles import PULLED_ID, read_meta_properties
from kraftlog.log.storage import folder_of_log, open_file
from kraftlog.pull.address import PullError
from kraftlog.pull.batches import After, WholeBatches, run_of
from kraftlog.quorum.describe import read_described
from kraftlog.quorum.epochs import EpochVector
from kraftlog.simulate.extent import SnapshotId
from kraftlog.state.checkpoint import ONLY_READABLE_BY_OWNER
from kraftlog.wire import uuid_text

SEGMENT_BYTES = 1 << 30
"""Where a new segment begins, as Kafka does by default; the leader's own borders are not sent."""

META_PROPERTIES, DESCRIBE, LOCK = "meta.properties", "quorum-describe", ".lock"
BEFORE_THE_IDENTITY = frozenset({LOCK, f"{META_PROPERTIES}.part"})
"""What a pull leaves that is killed before its folder says what it is."""

IDENTITY = """\
# Pulled by kraftlog from the leader of a running quorum. It is no node's disk, and no node can
# start on it: node.id -1 is the observer that it was fetched as, which no quorum counts.
"""


_EMPTY = EpochVector((), 0)


@dataclass
class PulledFolder:
    """What the folder holds of the log: `vector` its epochs and its end; `committed` is the offset
    below which it is known to be committed; `last_batch` are the bytes of the last one that lay
    there when it was opened.
    """

    path: Path
    cluster_id: str | None = None
    committed: int = 0
    vector: EpochVector = _EMPTY
    segment: Path | None = None
    last_batch: bytes = b""

    @property
    def log(self) -> Path:
        return self.path / names.LOG_FOLDER

    @property
    def end_offset(self) -> int:
        return self.vector.end_offset

    @property
    def after(self) -> After:
        """The last epoch and the end; None where the log is empty."""
        return (self.vector.last_epoch, self.end_offset) if self.vector.entries else None

    def goes_on(self, starts: Iterable[tuple[int, int]], end_offset: int) -> None:
        """Batches have been added in which these epochs begin, and which end there."""
        self.vector = EpochVector((*self.vector.entries, *starts), end_offset)

    def files(self) -> list[Path]:
        """What lies in the log's folder, which is made when the first bytes have come: a folder in
        which nothing lies is no replica.
        """
        return list(self.log.iterdir()) if self.log.exists() else []

    def snapshots(self) -> list[SnapshotId]:
        """The whole snapshots, the oldest first."""
        parsed = [names.classify(path.name) for path in self.files()]
        return sorted(
            SnapshotId(one.epoch or 0, one.end_offset or 0)
            for one in parsed
            if one.kind == names.CHECKPOINT
        )

    def snapshot_path(self, one: SnapshotId) -> Path:
        """Where a whole snapshot lies."""
        return self.log / names.checkpoint_name(one.end_offset, one.epoch)

    def set_snapshot_aside(self, one: SnapshotId) -> None:
        """Move a snapshot to a `.deleted` file."""
        put_aside(self.snapshot_path(one))

    def forget_parts(self, but: SnapshotId | None = None) -> None:
        """Remove what was fetched of other snapshots: nobody will ask for the rest of them."""
        kept = None if but is None else f"{self.snapshot_path(but).name}.part"
        for path in self.files():
            if names.classify(path.name).kind == names.CHECKPOINT_PART and path.name != kept:
                path.unlink()

    def append(self, batches: WholeBatches) -> None:
        """Add batches that continue the log, or begin it."""
        if self.segment is None or self.segment.stat().st_size >= SEGMENT_BYTES:
            self.log.mkdir(exist_ok=True)
            self.segment = self.log / names.segment_name(batches.base_offset)
        with open_own(self.segment, os.O_APPEND) as handle:
            write_all(handle, batches.content)
        self.goes_on(batches.starts, batches.end_offset)

    def truncate(self, offset: int) -> None:
        """Move what lies at or above an offset, which the leader has taken back, to `.deleted`
        files.
        """
        if offset < self.committed:
            raise PullError(
                f"the leader wants offsets from {offset} on to be cut, but all below {self.committed} was committed. "
                f"Committed records are lost, or this is another quorum. {self.path} was left as it is."
            )
        for file in reversed(_segments(self.path)):
            base = file.parsed.base_offset or 0
            if base >= offset:
                put_aside(Path(file.path))
                continue
            _cut(file, offset)
            break
        kept = self.vector.truncated(offset)
        self.vector = kept if kept.entries else _EMPTY
        self.find_segment()

    def set_aside(self, log_start: int) -> None:
        """Move the whole log to `.deleted` files: the quorum has dropped what comes after it, below an
        offset. What the leader said of it goes with it, and so do snapshots that end before that, which
        no log leads up to or goes on from any more: first of all, as a pull that is killed here begins
        anew as long as the log is there.
        """
        (self.path / DESCRIBE).unlink(missing_ok=True)
        for one in self.snapshots():
            if one.end_offset < log_start:
                self.set_snapshot_aside(one)
        for file in _segments(self.path):
            put_aside(Path(file.path))
        self.vector, self.segment, self.committed = _EMPTY, None, 0

    def find_segment(self) -> None:
        """Notes which segment is the last one."""
        left = _segments(self.path)
        self.segment = Path(left[-1].path) if left else None

    def name_cluster(self, cluster_id: str | None) -> None:
        """Write the identity, once the cluster's id is known; without it as well."""
        path = self.path / META_PROPERTIES
        if path.exists() and (cluster_id is None or self.cluster_id is not None):
            return
        self.cluster_id = cluster_id
        lines = {
            "version": "1",
            "node.id": PULLED_ID,
            "directory.id": _directory_id(path),
            **({} if cluster_id is None else {"cluster.id": cluster_id}),
        }
        replace_file(path, IDENTITY + "".join(f"{key}={text}\n" for key, text in lines.items()))

    def save(self, described: str, high_watermark: int) -> None:
        """Make all that was appended last, then the epochs and what the leader said: the log ends
        where the leader's did when it said so.
        """
        if self.segment is not None:
            with open_own(self.segment, 0) as handle:
                os.fsync(handle)
        entries = self.vector.entries
        lines = ["0", str(len(entries)), *(f"{one} {start}" for one, start in entries)]
        replace_file(self.log / "leader-epoch-checkpoint", "\n".join(lines) + "\n")
        replace_file(self.path / DESCRIBE, described)
        self.knows_committed(high_watermark)

    def knows_committed(self, high_watermark: int) -> None:
        """The leader's high watermark, as far as our log reaches."""
        self.committed = max(self.committed, min(high_watermark, self.end_offset))


@contextmanager
def pulled_folder(path: Path) -> Iterator[PulledFolder]:
    """Open a folder to pull into, or make it; nobody else may pull into it meanwhile.

    Raises UsageError for a folder that pull has not made, PullError for one that is damaged below
    what was committed.
    """
    try:
        refuse_foreign(path)
        path.mkdir(parents=True, exist_ok=True)
        with open_own(path / LOCK, 0) as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise UsageError(f"{path}: another pull is at work there") from error
            yield _read(path)
    except OSError as error:
        what = error.filename or path
        raise PullError(f"{what}: it cannot be written ({error.strerror or error})") from error


def refuse_foreign(path: Path) -> None:
    """A node's own folder is never touched, and nothing is written through a link.

    Raises UsageError for what is no folder of ours; looks only, and writes nothing."""
    real = path.resolve()
    if folder_of_log(str(real)) is not None:
        raise UsageError(f"{path}: it lies in a metadata log; name a new folder as --out")
    for one in (real, *real.parents):
        meta = one / META_PROPERTIES
        if not meta.exists() or (found := _identity(meta)).get("node.id") == PULLED_ID:
            continue
        if not found:
            raise UsageError(
                f"{meta}: it cannot be read, so nothing tells whose folder this is; name a new one as --out"
            )
        raise UsageError(f"{one}: it is a node's own folder; name a new one as --out")
    if not path.exists():
        return
    if not path.is_dir():
        raise UsageError(f"{path}: it is not a folder; name a new one as --out")
    inside = list(path.iterdir())
    if any(one.is_symlink() for one in (path, *inside, *(path / names.LOG_FOLDER).glob("*"))):
        raise UsageError(f"{path}: it is, or holds, a symbolic link; name a new folder as --out")
    is_ours = (path / META_PROPERTIES).exists()
    if not is_ours and {one.name for one in inside} - BEFORE_THE_IDENTITY:
        raise UsageError(f"{path}: it holds other things; name a new folder as --out")


def _identity(meta: Path) -> dict[str, str]:
    """What meta.properties says; nothing where it is none."""
    try:
        return read_meta_properties(meta.read_bytes())
    except (OSError, ValueError):
        return {}


def _directory_id(meta: Path) -> str:
    """The folder's own id, which it keeps."""
    found = _identity(meta).get("directory.id")
    if found:
        return found
    while True:
        made = uuid_text(secrets.token_bytes(16))
        if not made.startswith("-"):
            return made


def _segments(path: Path) -> list[LogFile]:
    if not (path / names.LOG_FOLDER).exists():
        return []
    (replica,) = find_replicas([str(path / names.LOG_FOLDER)])
    found = [one for one in replica.files if one.kind == names.LOG]
    return sorted(found, key=lambda one: one.parsed.base_offset or 0)


def _read(path: Path) -> PulledFolder:
    """What lies there; a torn end is cut."""
    folder = PulledFolder(path)
    meta = path / META_PROPERTIES
    if meta.exists():
        folder.cluster_id = _identity(meta).get("cluster.id")
    folder.committed = _described_high_watermark(path)
    torn: tuple[Path, int] | None = None
    for file in _segments(path):
        if torn or (folder.vector.entries and file.parsed.base_offset != folder.end_offset):
            end = folder.end_offset
            raise PullError(f"{file.path}: offset {end} is missing before it; {_ANEW}")
        position = _read_segment(folder, file)
        folder.segment = Path(file.path)
        if position < file.size_bytes:
            torn = folder.segment, position
    if folder.end_offset < folder.committed:
        raise PullError(
            f"{path}: its log is whole up to offset {folder.end_offset} only, and all below {folder.committed} was committed; {_ANEW}"
        )
    if torn is not None:
        os.truncate(*torn)
    if folder.segment is not None and folder.segment.stat().st_size == 0:
        folder.segment.unlink()
        folder.find_segment()
    return folder


_ANEW = "name a new folder as --out"


def _read_segment(folder: PulledFolder, file: LogFile) -> int:
    """Take in a segment's batches; the position after the last good one."""
    position = last = 0
    for found in walk_file(file, Limits()):
        if not isinstance(found, Window):
            break
        first = int(found.batches.headers["base_offset"][0])
        if not folder.vector.entries and first != file.parsed.base_offset:
            break
        run = run_of(found.batches, folder.after)
        last = run.last_position if run.count else last
        folder.goes_on(run.starts, run.end_offset)
        position = run.end_position
        if run.problem is not None:
            break
    if position:
        with open_file(file.path) as handle:
            folder.last_batch = handle.read(last, position - last)
    return position


def _described_high_watermark(path: Path) -> int:
    """What the saved describe says to be committed; 0 without one."""
    try:
        text = (path / DESCRIBE).read_text(encoding="utf-8")
        return read_described(text).high_watermark or 0
    except FileNotFoundError:
        return 0
    except ValueError as error:
        raise PullError(f"{path / DESCRIBE}: {error}; {_ANEW}") from error


def _cut(file: LogFile, offset: int) -> None:
    """Move the end of a segment, from the batch that begins at an offset, to a `.deleted` file."""
    for found in walk_file(file, Limits()):
        if not isinstance(found, Window):
            break
        for place, base in zip(
            found.batches.positions.tolist(), found.batches.headers["base_offset"], strict=True
        ):
            if int(base) >= offset:
                source = Path(file.path)
                target = source.with_name(names.segment_name(int(base)) + ".deleted")
                with source.open("rb") as log, open_own(free_name(target), os.O_EXCL) as handle:
                    log.seek(int(place))
                    while content := log.read(1 << 20):
                        write_all(handle, content)
                    os.fsync(handle)
                os.truncate(source, int(place))
                return


# --- files of our own: never through a link, whole or not at all, for their owner only ------------


def put_aside(path: Path) -> None:
    """Move a file to a `.deleted` one."""
    rename(path, free_name(path.with_name(f"{path.name}.deleted")))


def free_name(path: Path) -> Path:
    """A name that nothing has yet: Kafka's own suffix, as often as it takes."""
    while path.exists():
        path = path.with_name(path.name + ".deleted")
    return path


def replace_file(path: Path, text: str) -> None:
    """All or nothing: a reader sees the old file or the new one."""
    part = path.with_name(path.name + ".part")
    with open_own(part, os.O_TRUNC) as handle:
        write_all(handle, text.encode())
        os.fsync(handle)
    rename(part, path)


def rename(source: Path, target: Path) -> None:
    source.replace(target)
    with suppress(OSError):  # some file systems cannot sync a folder
        handle = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def open_own(path: Path, flags: int) -> Iterator[int]:
    """A file of ours to write, never through a link; only its owner may read it, as the log holds
    secrets in clear.
    """
    flags |= os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(path, flags, ONLY_READABLE_BY_OWNER)
    try:
        yield handle
    finally:
        os.close(handle)


def write_all(handle: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(handle, left) :]
