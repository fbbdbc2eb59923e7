"""Reading files that may be on a local disk or in an object store, and may change or vanish while
they are read.

In: paths or URIs. Out: folder listings and ranges of bytes. Files are never mapped into memory: a
file that is cut while it is mapped kills the process. Nothing is ever opened for writing. Runs on
the driver and in executors, which are given paths and open them: no open file pickles.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Protocol, Self

from kraftlog.errors import UsageError
from kraftlog.log.names import LOG_FOLDER
from kraftlog.log.stores import filesystem_of, is_remote

if TYPE_CHECKING:
    import pyarrow.fs as pafs


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """One name in a folder. `identity` recognises the same file under another name (device and
    inode), `leads_to` is where a link ends. `problem` says why nothing can be read by this name.
    """

    name: str
    path: str
    is_folder: bool = False
    is_regular: bool = False
    size_bytes: int = 0
    modified_ns: int = 0
    identity: tuple[int, int] | None = None
    leads_to: str | None = None
    problem: str | None = None


Lister = Callable[[str], list[FolderEntry]]


class FileBytes(Protocol):
    """An open file: its size when it was opened, and any range of its bytes."""

    size_bytes: int

    def read(self, position: int, size_bytes: int) -> bytes:
        """The bytes at a position; fewer where the file has become shorter since it was opened."""

    def next_data(self, position: int) -> int:
        """The first position at or after this one that may hold anything but zeros."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...


class LocalBytes:
    """A file of the local disk."""

    def __init__(self, path: str) -> None:
        # O_NONBLOCK so that a pipe under a file's name cannot hang the reader.
        self._handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        status = os.fstat(self._handle)
        if not stat.S_ISREG(status.st_mode):
            os.close(self._handle)
            raise OSError(errno.EINVAL, "it is not a regular file", path)
        self.size_bytes = status.st_size

    def read(self, position: int, size_bytes: int) -> bytes:
        size_bytes = max(0, min(size_bytes, self.size_bytes - position))
        return os.pread(self._handle, size_bytes, position)

    def next_data(self, position: int) -> int:
        try:
            return os.lseek(self._handle, position, os.SEEK_DATA)
        except OSError as error:
            # ENXIO: nothing but a hole up to the end. Anything else: the file system knows no
            # holes.
            return self.size_bytes if error.errno == errno.ENXIO else position

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)


class RemoteBytes:
    """A file of any store that pyarrow.fs knows."""

    def __init__(self, filesystem: "pafs.FileSystem", path: str) -> None:
        self._file = filesystem.open_input_file(path)
        self.size_bytes = int(self._file.size())

    def read(self, position: int, size_bytes: int) -> bytes:
        size_bytes = max(0, min(size_bytes, self.size_bytes - position))
        return bytes(self._file.read_at(size_bytes, position))

    def next_data(self, position: int) -> int:
        return position

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def local_path(path: str) -> str:
    """A local path without its file:// scheme and without a trailing slash.

    Raises UsageError for an empty one: a variable without a value must not mean the whole disk."""
    if not path:
        raise UsageError("an empty path was given: name a folder or a file")
    if path.startswith("file://"):
        path = path.removeprefix("file://")
    return path.rstrip("/") or "/"


def absolute(path: str) -> str:
    """A path that means the same in every process: executors have working folders of their own."""
    return path if is_remote(path) else os.path.abspath(local_path(path))


def real_path(path: str) -> str:
    """Where a path leads when all links in it are followed, whether something is there or not."""
    return path.rstrip("/") if is_remote(path) else os.path.realpath(local_path(path))


def is_inside(path: str, folder: str) -> bool:
    """Whether a real path is a folder's, or lies below it."""
    return f"{path}/".startswith(f"{folder.rstrip('/')}/")


def folder_of_log(real: str) -> str | None:
    """The node's folder that holds the metadata log which a real path is, or lies in; the log
    itself where that is the root of a disk. None for any other path.
    """
    before, found, _ = f"{real}/".partition(f"/{LOG_FOLDER}/")
    return (before or f"/{LOG_FOLDER}") if found else None


def refuse_below_input(what: str, path: str, inputs: Iterable[str]) -> None:
    """Raise UsageError where something would be written below an input, by whatever name, into the
    folder of a node whose log or segment is one, or into any metadata log.
    """
    target = real_path(path)
    for root in inputs:
        real = real_path(root)
        if is_inside(target, real):
            raise UsageError(
                f"{what} {path} lies below the input {root}, where nothing is written: name another place"
            )
        if is_inside(target, folder_of_log(real) or real):
            raise UsageError(
                f"{what} {path} lies in the folder of the node whose log is the input {root}, where nothing is written: name another place"
            )
    if folder_of_log(target) is not None:
        raise UsageError(
            f"{what} {path} lies in a metadata log, where nothing is written: name another place"
        )


def open_file(path: str) -> FileBytes:
    """Open a file for reading.

    Raises OSError when it is missing, forbidden or not a regular file."""
    if is_remote(path):
        return RemoteBytes(*filesystem_of(path))
    return LocalBytes(local_path(path))


def read_whole(file: FileBytes, limit: int) -> bytes:
    """All bytes of a small file.

    Raises ValueError where it has more than so many."""
    if file.size_bytes > limit:
        raise ValueError(f"it is {file.size_bytes:,} bytes long")
    return file.read(0, file.size_bytes)


def list_folder(path: str) -> list[FolderEntry]:
    """The names in a folder, sorted; names that vanish meanwhile are left out.

    Raises OSError when the folder cannot be listed."""
    entries = _list_remote(path) if is_remote(path) else _list_local(local_path(path))
    return sorted(entries, key=lambda entry: entry.name)


def lister(root: str) -> Lister:
    """`list_folder` for many folders below a root: those of a store are listed all at once, as each
    answer of it takes long.
    """
    if not is_remote(root):
        return list_folder
    top = root.rstrip("/")
    below = cache(partial(_below_remote, root))

    def listed(path: str) -> list[FolderEntry]:
        path = path.rstrip("/")
        if path != top and not path.startswith(f"{top}/"):
            return list_folder(path)
        if path not in below():
            raise FileNotFoundError(path)
        return sorted(below()[path], key=lambda entry: entry.name)

    return listed


def entry_of(path: str) -> FolderEntry | None:
    """A path's own entry; None where there is nothing."""
    if is_remote(path):
        import pyarrow.fs as pafs

        filesystem, inner = filesystem_of(path)
        info = filesystem.get_file_info(inner)
        return None if info.type == pafs.FileType.NotFound else _remote_entry(info, path)
    path = local_path(path)
    try:
        return _local_entry(os.path.basename(path), path, os.stat(path))
    except FileNotFoundError:
        return None


def _list_local(path: str) -> Iterator[FolderEntry]:
    with os.scandir(path) as found:
        for one in found:
            if (entry := _scanned(one)) is not None:
                yield entry


def _scanned(one: "os.DirEntry[str]") -> FolderEntry | None:
    """None where the name has vanished since it was listed: that is normal in a live copy."""
    if (shown := as_text(one.name)) != one.name:
        return FolderEntry(shown, as_text(one.path), problem="its name is not UTF-8")
    leads_to = os.path.realpath(one.path) if one.is_symlink() else None
    try:
        return replace(_local_entry(one.name, one.path, os.stat(one.path)), leads_to=leads_to)
    except FileNotFoundError:
        if leads_to is None:
            return None
        problem = "it is a link that leads nowhere"  # which is worth a row
    except OSError as error:
        problem = error.strerror or str(error)
    return FolderEntry(one.name, one.path, problem=problem)


def as_text(name: str) -> str:
    """A name as every table can hold it: bytes that are no UTF-8 are written as escapes."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _local_entry(name: str, path: str, status: os.stat_result) -> FolderEntry:
    mode = status.st_mode
    return FolderEntry(
        name,
        path,
        stat.S_ISDIR(mode),
        stat.S_ISREG(mode),
        status.st_size,
        max(-_LAST_TIME_NS, min(status.st_mtime_ns, _LAST_TIME_NS)),
        (status.st_dev, status.st_ino),
    )


_LAST_TIME_NS = (1 << 63) - 1
"""Some file systems hold times that 64 bits of nanoseconds do not."""


def _list_remote(path: str) -> list[FolderEntry]:
    import pyarrow.fs as pafs

    # On GCS pyarrow lists a folder among others only where an object stands for it, which no tool
    # that copies makes; a listing of all that lies below shows it.
    is_gcs = isinstance(filesystem_of(path)[0], pafs.GcsFileSystem)
    return _below_remote(path, is_deep=is_gcs)[path.rstrip("/")]


def _below_remote(path: str, *, is_deep: bool = True) -> dict[str, list[FolderEntry]]:
    """What lies in a folder of a store and in each folder below it, by the folder's path."""
    import pyarrow.fs as pafs

    filesystem, inner = filesystem_of(path)
    found: dict[str, list[FolderEntry]] = {path.rstrip("/"): []}
    for info in filesystem.get_file_info(pafs.FileSelector(inner, recursive=is_deep)):
        folder, names = path.rstrip("/"), info.path[len(inner) :].strip("/").split("/")
        for name in names if info.type == pafs.FileType.Directory else names[:-1]:
            below = f"{folder}/{name}"
            if below not in found:
                found[below] = []
                found[folder].append(FolderEntry(name, below, is_folder=True))
            folder = below
        if info.type != pafs.FileType.Directory:
            found[folder].append(_remote_entry(info, f"{folder}/{names[-1]}"))
    return found


def _remote_entry(info: "pafs.FileInfo", path: str) -> FolderEntry:
    import pyarrow.fs as pafs

    return FolderEntry(
        info.base_name,
        path,
        info.type == pafs.FileType.Directory,
        info.type == pafs.FileType.File,
        int(info.size or 0),
        int(info.mtime_ns or 0),
    )
