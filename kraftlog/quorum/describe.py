"""The text of `kafka-metadata-quorum describe` → what it says of the high watermark and the
voters.

In: the saved output of `--status`, and of `--replication` where it stands in the same file, which
options name or which lies beside a copy. Out: `Described`. Source: KIP-630 "Design", "exact if
known", KIP-836.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from kraftlog.config import Options
from kraftlog.errors import InputError
from kraftlog.log import names
from kraftlog.log.directory import Replica
from kraftlog.log.sidefiles import SIDE_FILE_LIMIT
from kraftlog.log.storage import open_file
from kraftlog.message.message_spec import ZERO_UUID
from kraftlog.quorum.evidence import Described, LastFetch, QuorumEvidence
from kraftlog.quorum.logview import LogView

UNKNOWN = "-1"
"""The HighWatermark of a leader that has just been elected, and does not know it yet."""

OBSERVER = "Observer"
"""The Status of a disk that does not vote; a voter's is Leader or Follower."""

MOMENT_MS = 3000
"""A follower asks at least twice a second; one that has not for so long is down, or is stuck."""
COLUMNS = {
    "NodeId": "node_id",
    "DirectoryId": "directory_id",
    "LogEndOffset": "log_end_offset",
    "Lag": "lag",
    "LastFetchTimestamp": "last_fetch_ms",
    "LastCaughtUpTimestamp": "last_caught_up_ms",
    "Status": "status",
}
"""Columns of the tool's table, and their names in our rows."""
_LINE = re.compile(r"^(\w+):[ \t]*(.*)$", re.MULTILINE)


def read_described(text: str, path: str | None = None) -> Described:
    """What the text of a file says; fields that it lacks are None.

    Raises ValueError where it is no output of the tool: nothing may be concluded from it."""
    found = {name: value.strip() for name, value in _LINE.findall(text)}
    mark = _number(found.get("HighWatermark"))
    if mark is None and found.get("HighWatermark") != UNKNOWN:
        raise ValueError(
            "it has no line HighWatermark with a number, so that it is not the output of kafka-metadata-quorum.sh describe --status"
        )
    return Described(
        mark,
        _number(found.get("LeaderId")),
        _number(found.get("LeaderEpoch")),
        _voters(found.get("CurrentVoters", "")),
        found.get("ClusterId"),
        path,
        tuple(_fetches(text.splitlines())),
    )


def told_ms(described: Described) -> int | None:
    """When the leader told it, by its own clock; None where the table of `--replication` is missing."""
    voters = (one for one in described.fetches if one.votes)
    return next((one.fetched_ms for one in voters if one.node_id == described.leader_id), None)


def keeping_up(described: Described) -> frozenset[int] | None:
    """The voters that had all that the leader had a moment before, itself among them; None where
    that is not told. Of two disks of a node the one counts that has fetched last: it runs with that
    one now. Source: KIP-836.
    """
    now = told_ms(described)
    if now is None:
        return None
    rows = sorted(described.fetches, key=lambda one: one.fetched_ms)
    newest = {one.node_id: one for one in rows}
    return frozenset(
        node for node, one in newest.items() if one.votes and now - one.caught_up_ms <= MOMENT_MS
    )


def vouches_for(described: Described, log: LogView) -> bool:
    """Whether what a log holds below the high watermark is what was committed there: its last batch
    below is of the leader's epoch, in which all logs are alike. A leader knows a high watermark only
    above the beginning of its own epoch. Source: Kafka's LeaderState, KIP-595.
    """
    index = int(np.searchsorted(log.base, described.high_watermark or 0)) - 1
    return index >= 0 and int(log.epochs[index]) == described.leader_epoch


def refuted_at(described: Described, log: LogView) -> int | None:
    """An offset below the high watermark from which on a log does not hold what was committed: a
    newer epoch than the leader's begins there, or an older one is not over; None where no batch
    tells.
    """
    mark, epoch = described.high_watermark, described.leader_epoch
    if mark is None or epoch is None:
        return None
    starts = (one.start_offset for one in log.epoch_starts if one.epoch > epoch)
    at = min(next(starts, mark), mark - 1)
    index = log.index_at(at)
    return at if index >= 0 and int(log.epochs[index]) != epoch else None


def described_beside(replicas: Iterable[Replica]) -> Described | None:
    """What the newest describe says that `kraftlog pull` has saved beside a log; None without one.

    Raises OSError where the file cannot be read."""
    files = [one for replica in replicas for one in replica.files]
    saved = [one for one in files if one.kind == names.QUORUM_DESCRIBE and one.problem is None]
    if not saved:
        return None
    newest = max(saved, key=lambda one: one.modified_ns)
    with open_file(newest.path) as handle:
        raw = handle.read(0, SIDE_FILE_LIMIT)
    return read_described(raw.decode("utf-8", "replace"), newest.path)


def described_of(options: Options, replicas: Sequence[Replica]) -> Described | None:
    """What a saved `kafka-metadata-quorum describe` says: the one that is named, else the one that
    `pull` has saved beside a replica.

    Raises InputError where the file cannot be read, or is none."""
    path = options.quorum_describe
    try:
        if path is None:
            return described_beside(replicas)
        return read_described(Path(path).read_text(encoding="utf-8"), path)
    except OSError as error:
        name = path or error.filename
        raise InputError(f"{name}: it cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise InputError(f"{path or 'the describe beside a copy'}: {error}") from error


def of_one_cluster(evidence: QuorumEvidence, options: Options) -> QuorumEvidence:
    """The evidence, where its describe is of the same cluster.

    Raises InputError where it is of another one: where the copies name only others."""
    described = evidence.described
    if described is None or not described.cluster_id:
        return evidence
    named = {one.meta("cluster.id") for one in evidence.replicas}
    named |= {one.state_file.cluster_id for one in evidence.replicas if one.state_file}
    known = {one for one in named if one}
    if known and described.cluster_id not in known:
        name = options.quorum_describe or "the describe beside a copy"
        raise InputError(
            f"{name}: it describes cluster {described.cluster_id}, which is not that of the copies"
        )
    return evidence


def _fetches(lines: Sequence[str]) -> Iterator[LastFetch]:
    """The rows of the table of `--replication`; none of one whose times are for human readers, or
    who has not fetched.
    """
    cells = [[one.strip() for one in line.split("\t")] for line in lines]
    needed = {*COLUMNS} - {"DirectoryId"}  # named since Kafka 3.9
    heads = [at for at, row in enumerate(cells) if needed <= {*row}]
    for row in cells[heads[0] + 1 :] if heads else ():
        told = dict(zip((COLUMNS.get(one) for one in cells[heads[0]]), row, strict=False))
        node, end, fetched_ms, caught_up_ms = (
            _number(told.get(name))
            for name in ("node_id", "log_end_offset", "last_fetch_ms", "last_caught_up_ms")
        )
        if node is not None and end is not None and fetched_ms is not None:
            directory = told.get("directory_id")
            own = None if directory == ZERO_UUID else directory
            votes = told.get("status") != OBSERVER
            yield LastFetch(node, end, fetched_ms, caught_up_ms or 0, own, votes)


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


def _voters(text: str) -> tuple[int, ...]:
    """`[1,2,3]` of older versions, or a list of objects with an id each."""
    try:
        value = json.loads(text)
    except ValueError:
        return ()
    if not isinstance(value, list):
        return ()
    ids = [one.get("id") if isinstance(one, dict) else one for one in value]
    return tuple(sorted(one for one in ids if isinstance(one, int)))
