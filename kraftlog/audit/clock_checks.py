"""Whether the leaders' clocks go forward: each step back once, however many replicas hold it, and
many of them as the pattern that they are.

In: a quorum. Out: rows of `timestamps_monotonic`. Source: R47.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from kraftlog.audit.check import BadRow, Check
from kraftlog.audit.triage import some
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.relations import moment

TOLD_ONE_BY_ONE = 3
"""More steps back than these are told together."""


@dataclass(slots=True)
class _StepBack:
    """A batch whose time lies before that of the batch in front of it, and who holds it."""

    log: LogView
    row: int
    offset: int
    at_ms: int
    back_ms: int
    new_leader: bool
    replicas: list[str] = field(default_factory=list)


def _steps_back(quorum: Quorum) -> list[_StepBack]:
    found: dict[str, _StepBack] = {}
    for log in quorum.logs:
        columns = log.evidence.log
        stamps = columns.max_timestamps[log.rows]
        for index in (np.flatnonzero(np.diff(stamps) < 0) + 1).tolist():
            row = int(log.rows[index])
            one = _StepBack(
                log,
                row,
                int(log.base[index]),
                int(stamps[index]),
                int(stamps[index - 1]) - int(stamps[index]),
                bool(log.epochs[index] != log.epochs[index - 1]),
            )
            found.setdefault(columns.id_text(row), one).replicas.append(log.label)
    return sorted(found.values(), key=lambda one: one.offset)


def timestamps(quorum: Quorum) -> Iterator[BadRow]:
    steps = _steps_back(quorum)
    if len(steps) <= TOLD_ONE_BY_ONE:
        for one in steps:
            whose = "the new leader's clock" if one.new_leader else "its leader's clock"
            yield _row(
                one,
                f"the batch at offset {one.offset} was appended {one.back_ms:,} ms before the one "
                f"in front of it, by {whose} (held by {some(one.replicas)}): compare the "
                "controllers' clocks if this recurs",
            )
        return
    yield _pattern(steps)


def _pattern(steps: list[_StepBack]) -> BadRow:
    backs = sorted(one.back_ms for one in steps)
    times = np.array([one.at_ms for one in steps])
    every = int(np.median(np.abs(np.diff(times)))) / 1000
    first, last = moment(int(times.min())), moment(int(times.max()))
    span = f" between {first:%Y-%m-%d %H:%M:%S} and {last:%Y-%m-%d %H:%M:%S} UTC" * bool(
        first and last
    )
    same = sum(not one.new_leader for one in steps)
    replicas = list(dict.fromkeys(label for one in steps for label in one.replicas))
    return _row(
        steps[0],
        f"the leaders' clocks go back {len(steps):,} times{span}, by {backs[0]:,} to "
        f"{backs[-1]:,} ms, usually {every:,.1f} s apart, {same:,} times under one and the same "
        f"leader (first at offset {steps[0].offset}, last at {steps[-1].offset}; held by "
        f"{some(replicas)}): look at the time service of the controllers",
        times=len(steps),
        replicas=replicas,
        offsets=[one.offset for one in steps[:100]],
        back_ms_least=backs[0],
        back_ms_most=backs[-1],
        under_one_leader=same,
    )


def _row(one: _StepBack, message: str, **evidence: object) -> BadRow:
    columns = one.log.evidence.log
    return BadRow(
        one.log.label,
        message,
        one.log.path(one.row),
        int(columns.positions[one.row]),
        one.offset,
        batch_leader_epoch=int(columns.epochs[one.row]),
        evidence={"back_ms": one.back_ms, "replicas": one.replicas} | evidence,
    )


CHECKS = (
    Check(
        "timestamps_monotonic", "info", "log", "R47",
        "append times do not go back", timestamps,
    ),
)  # fmt: skip
