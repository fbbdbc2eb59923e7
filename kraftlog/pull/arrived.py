"""What has come of copies: enough to audit, or what is missing.

In: the folder that holds a folder per node. Out: a row for each, with what is wrong, in words. It
looks at names, sizes and the small files, and opens the others; whether the bytes are right is the audit's question.
"""

from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from kraftlog.errors import InputError
from kraftlog.log import names
from kraftlog.log.directory import NO_SEGMENT, LogFile, Replica, find_replicas, tell_left_out
from kraftlog.log.sidefiles import (
    PULLED_ID,
    SIDE_FILE_LIMIT,
    read_epoch_checkpoint,
    read_meta_properties,
)
from kraftlog.log.storage import open_file
from kraftlog.plain import reason_of


@dataclass(frozen=True, slots=True)
class Arrived:
    """One copy: `problem` is None where it can be audited; sizes are in bytes."""

    copy: str
    node_id: int | None
    cluster_id: str | None
    segment_count: int
    log_size_bytes: int
    newest_snapshot: str | None
    problem: str | None


def arrived(out: Path) -> list[Arrived]:
    """A row per folder below `out`, in order; what nobody looks into is told beside them.

    Raises InputError where there is no such folder, or nothing in it."""
    if not out.is_dir():
        raise InputError(f"{out}: there is no such folder")
    with suppress(InputError):  # no log has come: that is told below
        for replica in find_replicas([str(out)]):
            tell_left_out(replica.files)
    folders = sorted(one for one in out.iterdir() if one.is_dir())
    if not folders:
        raise InputError(f"{out}: nothing has come")
    found = [_arrived(one) for one in folders]
    clusters = Counter(one.cluster_id for one in found if one.cluster_id)
    nodes: dict[int | None, list[str]] = defaultdict(list)
    for one in found:
        if one.node_id is not None and one.node_id >= 0:
            nodes[one.node_id].append(one.copy)
    return [_compared(one, clusters, nodes) for one in found]


def _arrived(folder: Path) -> Arrived:
    if not (folder / names.LOG_FOLDER).is_dir():
        why = f"{names.LOG_FOLDER} has not come: is this the folder that holds it on the node?"
        return Arrived(folder.name, None, None, 0, 0, None, why)
    replica, *others = sorted(find_replicas([str(folder)]), key=lambda one: len(one.folder))
    replica = replace(
        replica,
        files=tuple(
            one for one in replica.files if one.problem != NO_SEGMENT and one.kind != names.LEFT_OUT
        ),
    )
    logs = [one for one in replica.files if one.kind == names.LOG]
    snapshots = [one.name for one in replica.files if one.kind == names.CHECKPOINT]
    node_id, cluster_id, problem = _identity(replica)
    if others:
        problem = f"{others[0].folder} is a second log below it: which one is the node's?"
    problem = problem or _missing(replica, node_id)
    size = sum(one.size_bytes for one in logs)
    newest = max(snapshots, default=None)
    return Arrived(folder.name, node_id, cluster_id, len(logs), size, newest, problem)


def _identity(replica: Replica) -> tuple[int | None, str | None, str | None]:
    files = [one for one in replica.files if one.kind == names.META_PROPERTIES]
    if not files:
        return None, None, "meta.properties has not come: whose copy this is cannot be told"
    try:
        with open_file(files[0].path) as handle:
            found = read_meta_properties(handle.read(0, SIDE_FILE_LIMIT))
    except (OSError, ValueError) as error:
        return None, None, f"meta.properties cannot be read ({error})"
    node = found.get("node.id", found.get("broker.id", PULLED_ID))
    return int(node), found.get("cluster.id"), None


def _unreadable(file: LogFile) -> str | None:
    """Why a file cannot be opened; None where it can be."""
    try:
        with open_file(file.path):
            return None
    except OSError as error:
        return reason_of(error)


def _missing(replica: Replica, node_id: int | None) -> str | None:
    kinds = Counter(one.kind for one in replica.files)
    for one in replica.files:
        if (problem := one.problem or _unreadable(one)) is not None:
            return f"{one.path.rsplit('/', 1)[-1]} cannot be read: {problem}"
    if not kinds[names.LOG] and not kinds[names.CHECKPOINT]:
        return "neither a segment nor a snapshot has come"
    if not kinds[names.LOG]:
        return "no segment has come"
    logs = [one for one in replica.files if one.kind == names.LOG]
    lowest = min(one.parsed.base_offset or 0 for one in logs)
    ends = [one.parsed.end_offset or 0 for one in replica.files if one.kind == names.CHECKPOINT]
    if lowest > max(ends, default=0):
        return f"its log begins at {lowest}, and no snapshot that reaches it has come"
    if node_id != int(PULLED_ID) and not kinds[names.QUORUM_STATE]:
        return "quorum-state has not come"
    if not any(one.size_bytes for one in logs) and not any(ends) and _has_held(replica):
        return "its log is empty, and leader-epoch-checkpoint tells of what it held: that has not come, or is lost on the node"
    return None


def _has_held(replica: Replica) -> bool:
    """Whether the file of epochs says that the log has held records."""
    for one in replica.files:
        if one.kind == names.EPOCH_CHECKPOINT:
            # What cannot be read tells nothing, which the audit names.
            with suppress(OSError, ValueError), open_file(one.path) as handle:
                return bool(read_epoch_checkpoint(handle.read(0, SIDE_FILE_LIMIT)))
    return False


def _compared(one: Arrived, clusters: Counter[str], nodes: dict[int | None, list[str]]) -> Arrived:
    """What only shows beside the other copies."""
    problem = one.problem or _other_cluster(one.cluster_id, clusters)
    others = [name for name in nodes.get(one.node_id, []) if name != one.copy]
    if problem is None and others:
        problem = f"{', '.join(others)} is of the same node {one.node_id}"
    return replace(one, problem=problem)


def _other_cluster(own: str | None, clusters: Counter[str]) -> str | None:
    """Whether copies of another cluster are as many as those of a copy's own, or more."""
    other, count = max(
        ((name, count) for name, count in clusters.items() if name != own),
        key=lambda one: one[1],
        default=("", 0),
    )
    if own is None or count < clusters[own]:
        return None
    many = "as many" if count == clusters[own] else "more"
    return f"it is of cluster {own}, {many} copies are of {other}"
