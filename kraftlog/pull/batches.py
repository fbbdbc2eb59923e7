"""Record batches that continue a log: of a leader's answer, and of our own files.

In: batches, and where the log ends. Out: how many of them continue it, and why the next one does
not. What a follower checks, and what it trusts: CRC, offsets without a hole, epochs that never go
back and are not newer than the leader's. Source: KafkaRaftClient.appendAsFollower,
UnifiedLog.analyzeAndValidateRecords.
"""

from dataclasses import dataclass

import numpy as np

from kraftlog.log.batch import PREFIX_SIZE, Batches, read_batches
from kraftlog.pull.address import PullError

After = tuple[int, int] | None
"""The last epoch and the end offset of a log; None for one that is empty."""


@dataclass(frozen=True, slots=True)
class Continuation:
    """The first `count` batches continue the log; `problem` says what is wrong with the next one.

    `starts` are (epoch, offset) where an epoch begins; `last_position` is where the last batch of
    the run begins, `end_position` where it ends.
    """

    count: int
    base_offset: int
    end_offset: int
    last_position: int
    end_position: int
    starts: tuple[tuple[int, int], ...]
    problem: str | None


@dataclass(frozen=True, slots=True)
class WholeBatches:
    """Bytes of whole batches, which continue a log."""

    content: bytes
    base_offset: int
    end_offset: int
    starts: tuple[tuple[int, int], ...]


def run_of(batches: Batches, after: After, below: int | None = None) -> Continuation:
    """The batches, one or more, that continue a log, and that end at or below an offset."""
    headers = batches.headers
    base = headers["base_offset"].astype(np.int64)
    ends = base + headers["last_offset_delta"] + 1
    epochs = headers["batch_leader_epoch"].astype(np.int64)
    last_epoch, due = after if after else (int(epochs[0]), int(base[0]))
    problems = {
        "a record batch whose CRC is wrong": ~batches.crc_valid,
        "a record batch without an offset": (ends <= base) | (base < 0),
        "other offsets than those that are due": base != np.concatenate(([due], ends[:-1])),
        "an epoch that goes back": np.diff(epochs, prepend=last_epoch) < 0,
    }
    firsts = {name: int(bad.argmax()) for name, bad in problems.items() if bad.any()}
    problem = min(firsts, key=lambda name: firsts[name], default=None)
    count = len(batches) if problem is None else firsts[problem]
    if below is not None:
        count = min(count, int(np.searchsorted(ends[:count], below, "right")))
    before = after[0] if after else -1
    first = np.flatnonzero(np.diff(epochs[:count], prepend=before))
    starts = tuple((int(epochs[at]), int(base[at])) for at in first.tolist())
    last = count - 1
    size = int(headers["length"][last]) + PREFIX_SIZE if count else 0
    at = int(batches.positions[max(last, 0)])
    end = int(ends[last]) if count else due
    return Continuation(count, int(base[0]), end, at, at + size, starts, problem)


def whole_batches(
    records: bytes, leader_epoch: int, after: After, below: int
) -> WholeBatches | None:
    """The batches of an answer that end at or below an offset; None where there are none.

    The last one of an answer may be cut off: it comes again. Raises PullError where the leader
    sends what cannot continue the log.
    """
    size = len(records)
    batches, _ = read_batches(records, 0, size, 0, size, lambda *_: True)
    if not len(batches):
        if records:
            raise PullError("the leader's answer holds no whole record batch; nothing was written")
        return None
    run = run_of(batches, after, below)
    problem = run.problem
    if problem is None and run.starts and run.starts[-1][0] > leader_epoch:
        problem = "an epoch that is newer than the leader's"
    if problem is not None:
        raise PullError(f"the leader's answer holds {problem}; nothing of it was written")
    if run.count == 0:
        return None
    return WholeBatches(records[: run.end_position], run.base_offset, run.end_offset, run.starts)
