"""Input roots → replicas: which `__cluster_metadata-0` folders lie below a root, and what files
each holds.

Runs on the driver. A symbolic link is followed once, and only as long as it stays inside the root;
folders that vanish while they are listed are left out. One that cannot be listed, or that is a
node's and lacks its log, is a replica of whose log nothing is known. An archive, and a folder that
is not followed, may be anything: it is a file that was left out, of the replica that it lies beside;
so is a log's folder of another name, or in another log's folder.
Source: KIP-631 (meta.properties beside the log).
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from pathlib import PurePosixPath

from kraftlog.errors import InputError
from kraftlog.log import names
from kraftlog.log.fault import Fault, FaultKind
from kraftlog.log.names import FileName, classify
from kraftlog.log.resync import Search
from kraftlog.log.segment import Limits, Window, walk
from kraftlog.log.sidefiles import SIDE_FILE_LIMIT, read_meta_properties
from kraftlog.log.storage import (
    FolderEntry,
    Lister,
    absolute,
    as_text,
    entry_of,
    is_inside,
    lister,
    open_file,
    real_path,
)
from kraftlog.log.stores import is_remote, require_store
from kraftlog.plain import reason_of, tell_once

BESIDE = frozenset(
    {
        names.META_PROPERTIES,
        names.BOOTSTRAP,
        names.SERVER_PROPERTIES,
        names.QUORUM_DESCRIBE,
        names.DISK_FREE,
    }
)
"""Kinds that lie beside the log's folder, not in it."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file of a replica: where it is, what its name says, how large it was when it was listed.

    `problem` says why it cannot be read; None for a readable-looking regular file.
    """

    replica: str
    path: str
    name: str
    parsed: FileName
    size_bytes: int
    modified_ns: int
    problem: str | None = None

    @property
    def kind(self) -> str:
        return self.parsed.kind


@dataclass(frozen=True, slots=True)
class Replica:
    """One copy of the metadata log: `label` tells it from the others of the same audit. Its `files`
    are those of its log, and of its node beside it; and what was left out below the root.
    """

    label: str
    root: str
    folder: str
    files: tuple[LogFile, ...]


def find_replicas(roots: Iterable[str]) -> list[Replica]:
    """Every replica below the roots, each once, with unique labels; in the order of their paths,
    however the roots are ordered.

    Raises InputError where a root is missing, or no metadata log lies below it."""
    found: list[Replica] = []
    without: list[Replica] = []
    for root in sorted(roots, key=lambda one: absolute(one).split("/")):
        if (shown := as_text(root)) != root:
            raise InputError(f"{shown}: its name is not UTF-8; give it another one")
        left_out: list[LogFile] = []
        below = list(_below(root, without, left_out))
        if not below:
            for one in _lost(without, found):
                tell_once(f"{_holder(one)}: {one.files[0].problem}")
            tell_left_out(left_out)
            raise InputError(
                f"{root}: no {names.LOG_FOLDER} folder lies below it; copy the metadata log folders there, or name another folder"
            )
        found += _with_left_out(below, left_out)
    found += _lost(without, found)
    return _with_unique_labels(list({one.folder: one for one in found}.values()))


def _with_unique_labels(replicas: list[Replica]) -> list[Replica]:
    """Labels are the paths below a root; where two roots give the same one, or it is the name of the
    history that all share, the root's own name goes before it.
    """
    count = Counter([names.MAIN, *(one.label for one in replicas)])
    taken: Counter[str] = Counter()
    result = []
    for one in replicas:
        label = one.label
        if count[label] > 1:
            label = f"{PurePosixPath(one.root).name}/{label}"
        taken[label] += 1
        if taken[label] > 1:
            label = f"{label}#{taken[label]}"
        files = tuple(replace(file, replica=label) for file in one.files)
        result.append(replace(one, label=label, files=files))
    return result


def _with_left_out(replicas: list[Replica], left_out: list[LogFile]) -> Iterator[Replica]:
    """The replicas below a root, with what lies in the folder of each, and nobody looked into; the
    first one has what lies in that of none.
    """
    first, holders = replicas[0].folder, {_holder(one): one.folder for one in replicas}
    beside: dict[str, list[LogFile]] = {}
    for file in sorted(left_out, key=lambda one: one.path):
        ways = accumulate(file.path.split("/"), "{}/{}".format)
        owner = next((holders[way] for way in ways if way in holders), first)
        beside.setdefault(owner, []).append(file)
    for one in replicas:
        yield replace(one, files=(*one.files, *beside.get(one.folder, ())))


def _below(root: str, without: list[Replica], left_out: list[LogFile]) -> Iterator[Replica]:
    """The replicas below a root; `without` gets the folders that may be a node's, and in which no
    metadata log is to be seen, `left_out` what may be one as well, and is not looked into.
    """
    if not is_remote(root) and PurePosixPath(root).name in ("", "..", names.LOG_FOLDER):
        root = absolute(root)  # such a root has no name of its own to label by
    if is_remote(root):
        require_store(root)
    entry = entry_of(root)
    if entry is None:
        raise InputError(f"{root}: there is no such folder or file")
    if entry.is_regular:
        yield _single_file(root, entry)
        return
    if not entry.is_folder:
        raise InputError(f"{root}: it is neither a folder nor a regular file")
    visited: set[tuple[int, int]] = set()
    # A log's folder, and what lies beside it, are asked for again soon.
    waiting, listed = [entry], lru_cache(8)(lister(root))
    while waiting:
        folder = waiting.pop()
        if folder.identity is not None:
            if folder.identity in visited:
                continue
            visited.add(folder.identity)
        if folder.name == names.LOG_FOLDER:
            copied, is_all = _copied_into(folder, listed)
            if is_all:
                waiting += copied
                continue
            left_out += [_left_out("", one, root, _INSIDE) for one in copied]
            yield _replica(root, folder, listed)
            continue
        try:
            inside = listed(folder.path)
        except FileNotFoundError:
            continue
        except OSError as error:
            if folder is entry:
                raise InputError(f"{root}: it cannot be listed ({reason_of(error)})") from error
            if folder.name != _OF_FILE_SYSTEM:
                without.append(_without_log(root, folder, f"{UNSEEN}: {reason_of(error)}", listed))
            continue
        held = {classify(one.name).kind for one in inside}
        if _holds_a_log(held):
            left_out.append(_left_out("", folder, root, _OTHER_NAME))
        elif names.META_PROPERTIES in held and all(one.name != names.LOG_FOLDER for one in inside):
            without.append(_without_log(root, folder, NO_SEGMENT, listed))
        for one in reversed(inside):
            if _is_left_out(one, root):
                left_out.append(_left_out("", one, root))
            elif one.is_folder:
                waiting.append(one)


def _copied_into(folder: FolderEntry, listed: Lister) -> tuple[list[FolderEntry], bool]:
    """The folder of the same name in a log's folder, as `cp -R` makes it where the folder is there
    already, and whether nothing else lies there.
    """
    with suppress(OSError):
        inside = listed(folder.path)
        copied = [one for one in inside if one.is_folder and one.name == names.LOG_FOLDER]
        return copied, len(copied) == len(inside) > 0
    return [], False


def _holds_a_log(kinds: set[str]) -> bool:
    """Whether the files of a folder are those of a metadata log: no other log has a vote, or both
    segments and checkpoints.
    """
    return names.QUORUM_STATE in kinds or {names.LOG, names.CHECKPOINT} <= kinds


def _without_log(root: str, folder: FolderEntry, why: str, listed: Lister) -> Replica:
    """A folder that may be a node's, and in which no metadata log is to be seen."""
    path = f"{folder.path}/{names.LOG_FOLDER}"
    label = _label(root, path)
    files = (_no_segment(label, path, why), *_beside(label, folder.path, listed))
    return Replica(label, root, path, files)


def _lost(without: list[Replica], replicas: list[Replica]) -> Iterator[Replica]:
    """Of folders in which no metadata log is to be seen one for each node that lacks one, sooner what
    cannot be listed: a node keeps its log in one of its directories, and all else in the others.
    """
    known = {_owner(one) for one in replicas} if without else set()
    holders = {_holder(one) for one in replicas}
    for one in sorted(without, key=lambda lost: lost.files[0].problem == NO_SEGMENT):
        owner, ways = _owner(one), accumulate(_holder(one).split("/"), "{}/{}".format)
        if holders.isdisjoint(ways) if owner is None else owner not in known:
            known.add(owner)
            yield one


def _holder(replica: Replica) -> str:
    """The folder that holds a replica's log."""
    return replica.folder.rsplit("/", 1)[0]


def _owner(replica: Replica) -> tuple[str | None, ...] | None:
    """Node and cluster by a meta.properties; None where none can be read."""
    found: dict[str, str] = {}
    for file in replica.files:
        if file.kind == names.META_PROPERTIES and file.problem is None:
            with suppress(OSError, ValueError), open_file(file.path) as handle:
                found = read_meta_properties(handle.read(0, SIDE_FILE_LIMIT))
    node = found.get("node.id", found.get("broker.id"))
    return (node, found.get("cluster.id")) if found else None


def _is_left_out(entry: FolderEntry, root: str) -> bool:
    """Whether there may be a log in an entry, and nobody looks."""
    if entry.is_folder:
        return _is_outside(entry, root)
    return names.is_archive(entry.name) if entry.is_regular else entry.problem is not None


def _left_out(label: str, entry: FolderEntry, root: str, why: str = "") -> LogFile:
    """The file that stands for what is not looked into."""
    why = why or (_PACKED if entry.is_regular else entry.problem or _OUTSIDE)
    found = _log_file(label, entry, root)
    return replace(found, parsed=FileName(names.LEFT_OUT), problem=why)


IS_FOLDER = "it is a folder, not a file"
UNLISTED = "its folder cannot be listed"
UNSEEN = f"{UNLISTED} and may hold a log"
_OF_FILE_SYSTEM = "lost+found"
NO_SEGMENT = (
    "no segment lies in its folder: the log was not copied, is gone on the node, or was never begun"
)
_OF_AN_OPENED_LOG = frozenset(
    {
        names.INDEX,
        names.TIME_INDEX,
        names.PRODUCER_SNAPSHOT,
        names.QUORUM_STATE,
        names.PARTITION_METADATA,
    }
)
"""Kinds that Kafka writes beside a segment only: a folder that was formatted, into which a snapshot
was put, or into which nothing but a snapshot was pulled, has none of them."""
_OUTSIDE = "it is a link that leads out of the input"
_PACKED = "it is packed"
_INSIDE = "it lies in a folder of the same name"
_OTHER_NAME = f"it holds a metadata log and is not called {names.LOG_FOLDER}"


def _is_outside(entry: FolderEntry, folder: str) -> bool:
    """Whether an entry is a link that leads out of a folder."""
    return entry.leads_to is not None and not is_inside(entry.leads_to, real_path(folder))


def _single_file(root: str, entry: FolderEntry) -> Replica:
    if names.is_packed(entry.name):
        raise InputError(f"{root} is packed: unpack it first, and name what was in it")
    kind = classify(entry.name).kind
    if kind not in names.RECORD_KINDS and not (kind == names.UNKNOWN and _holds_batches(entry)):
        raise InputError(
            f"{root} is not a metadata log: it has no name of a segment or checkpoint, and no record batch is in it"
        )
    path = PurePosixPath(entry.path)
    holder = path.parent.parent.name if path.parent.name == names.LOG_FOLDER else path.parent.name
    label = holder or path.name
    return Replica(label, root, entry.path, (_log_file(label, entry, root),))


def _holds_batches(entry: FolderEntry) -> bool:
    """Whether a file whose name says nothing holds a record batch; one that cannot be read may."""
    try:
        with open_file(entry.path) as file:
            return Search(file, Limits().batch_size_bytes).next_batch(0) < file.size_bytes
    except OSError:
        return True


def _replica(root: str, folder: FolderEntry, listed: Lister) -> Replica:
    parent = folder.path.rsplit("/", 1)[0]
    label = _label(root, folder.path)
    try:
        inside = _as_opened([_in_log(label, one, root) for one in listed(folder.path)])
    except FileNotFoundError:
        inside = []
    except OSError as error:
        inside = [_no_segment(label, folder.path, f"{UNLISTED}: {reason_of(error)}")]
    kinds = {one.kind for one in inside}
    if names.LOG not in kinds and kinds & _OF_AN_OPENED_LOG:
        inside.append(_no_segment(label, folder.path, NO_SEGMENT))
    return Replica(label, root, folder.path, (*inside, *_beside(label, parent, listed)))


def tell_left_out(files: Iterable[LogFile]) -> None:
    """Name what nobody looks into, where an answer has no row for it."""
    for file in files:
        if file.kind == names.LEFT_OUT:
            tell_once(f"{file.path}: {file.problem}, and is left out")


def _in_log(label: str, entry: FolderEntry, root: str) -> LogFile:
    """A file of a log; one that is packed may have been any of them."""
    is_packed = entry.is_regular and names.is_packed(entry.name)
    return (_left_out if is_packed else _log_file)(label, entry, root)


def _no_segment(label: str, folder: str, why: str) -> LogFile:
    """A log that cannot be read, as far as anybody can say: silence would be worse, and it is no
    empty one. Kafka makes a segment before it writes any other file of a log. Its place is the
    log's folder: nobody knows what is in there.
    """
    name = names.segment_name(0)
    return LogFile(label, folder, name, classify(name), 0, 0, why)


def _as_opened(files: list[LogFile]) -> list[LogFile]:
    """Files by what they are once Kafka has opened their folder: a `.log.swap` takes the place of
    the segment of its name, which is deleted, unless a `.cleaned` file begins no later. Source:
    LogLoader.load, removeTempFilesAndCollectSwapFiles.
    """
    cleaned = [one.parsed.base_offset for one in files if one.name.endswith(names.CLEANED_ENDING)]
    before = min((one for one in cleaned if one is not None), default=names.LAST_OFFSET)
    swapped = {
        base
        for one in files
        if one.kind == names.LOG_SWAP and one.problem != IS_FOLDER
        if (base := one.parsed.base_offset or 0) < before
    }
    becomes = {names.LOG_SWAP: names.LOG, names.LOG: names.LOG_DELETED}
    return [
        replace(one, parsed=replace(one.parsed, kind=becomes[one.kind]))
        if one.kind in becomes and (one.parsed.base_offset or 0) in swapped
        else one
        for one in files
    ]


def _label(root: str, folder: str) -> str:
    root_path, holder = root.removeprefix("file://").rstrip("/"), folder.rsplit("/", 1)[0]
    holder = holder.removesuffix(f"/{names.LOG_FOLDER}")
    if holder == root_path or not holder.startswith(root_path):
        return holder.rsplit("/", 1)[-1] or "."
    return holder[len(root_path) :].strip("/")


def _beside(label: str, parent: str, listed: Lister) -> Iterator[LogFile]:
    """The files of the node itself, beside the log's folder; meta.properties may lie one
    level up.
    """
    kinds = set()
    for entry in _seen(parent, listed):
        if classify(entry.name).kind in BESIDE:
            kinds.add(classify(entry.name).kind)
            yield _log_file(label, entry, parent)
    if names.META_PROPERTIES not in kinds:
        above = parent.rsplit("/", 1)[0]
        for entry in _seen(above, listed):
            if classify(entry.name).kind == names.META_PROPERTIES:
                yield _log_file(label, entry, above)


def _seen(folder: str, listed: Lister) -> list[FolderEntry]:
    """What lies in a folder. One that cannot be listed is told of, and passed over."""
    try:
        return listed(folder or "/")
    except FileNotFoundError:
        return []
    except OSError as error:
        tell_once(
            f"{folder}: it cannot be listed ({reason_of(error)}); what lies in it is left out"
        )
        return []


def _log_file(label: str, entry: FolderEntry, root: str) -> LogFile:
    problem = entry.problem
    if entry.is_folder:
        problem = IS_FOLDER
    elif _is_outside(entry, root):
        problem = _OUTSIDE
    elif problem is None and not entry.is_regular:
        problem = "it is not a regular file"
    return LogFile(
        label,
        entry.path,
        entry.name,
        classify(entry.name),
        entry.size_bytes,
        entry.modified_ns,
        problem,
    )


def record_files(replicas: Iterable[Replica]) -> list[LogFile]:
    """The files of replicas that hold record batches, or may; a file that was named by itself always
    counts.
    """
    return [
        file
        for replica in replicas
        for file in replica.files
        if file.kind in names.RECORD_KINDS
        or file.kind == names.LEFT_OUT
        or (file.kind == names.UNKNOWN and len(replica.files) == 1)
    ]


def walk_file(
    file: LogFile, limits: Limits, start: int = 0, end: int | None = None
) -> Iterator[Window | Fault]:
    """The batches that begin in [start, end) of a file, and its faults there: what cannot be opened
    or read is one, never an exception.
    """
    if file.problem is not None:
        yield Fault(FaultKind.UNREADABLE, 0, file.size_bytes, file.problem)
        return
    try:
        with open_file(file.path) as handle:
            yield from walk(handle, start, end, limits)
    except FileNotFoundError:
        yield Fault(FaultKind.VANISHED, 0, file.size_bytes, "the file is gone")
    except OSError as error:
        yield Fault(FaultKind.UNREADABLE, 0, file.size_bytes, reason_of(error))
