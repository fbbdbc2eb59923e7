"""Checks of snapshots against the history, and of snapshots of one id against each other.

The history itself is gone through in `state_history`; here its comparisons become findings. After a
hole in a log its state is not known: what could not be judged is skipped with the reason. Source:
KIP-630 "Overview", "Snapshot Format", KAFKA-14894, KAFKA-14203, KAFKA-13357.
"""

from collections.abc import Iterator
from typing import Any

from kraftlog.audit import coverage
from kraftlog.audit.check import BadRow, check
from kraftlog.audit.grouping import LEFT_CONFIGS, image_note, is_left_config
from kraftlog.audit.images import TOO_MANY
from kraftlog.audit.triage import replicas_text
from kraftlog.plain import counted, some
from kraftlog.quorum.evidence import ImageComparison, StateEvidence
from kraftlog.quorum.model import Quorum

EQUALS, AGREE = "snapshot_equals_replay", "snapshots_agree"


def _rows(quorum: Quorum, name: str) -> Iterator[BadRow]:
    """What the history has shown for a check."""
    state = quorum.evidence.state or StateEvidence()
    left = []
    for one in state.comparisons:
        if one.check == name and one.difference_count:
            if is_left_config(one.differences):
                left.append(one)
            else:
                yield _comparison_row(quorum, one)
    if left and not (name == AGREE and _is_told(state, left)):
        yield _left_row(left)


def _is_told(state: StateEvidence, left: list[ImageComparison]) -> bool:
    """Whether the replay has told of these snapshots' leftover configs already."""
    told = {one.path for one in state.comparisons if one.check == EQUALS}
    return all(one.path in told for one in left)


def _left_row(left: list[ImageComparison]) -> BadRow:
    """Leftover configs are Kafka's own doing: one info for all snapshots of the quorum."""
    replicas = list(dict.fromkeys(one.replica for one in left))
    files = list(dict.fromkeys(f"{_file(one)} of {one.replica}" for one in left))
    told = (found.text for one in left for found in one.differences)
    keys = dict.fromkeys(text.partition(TOO_MANY)[0] for text in told)
    first = left[0]
    return BadRow(
        first.replica,
        f"Snapshots of {replicas_text(replicas)} hold configs of topics that do not exist. Those are {some(list(keys), 3)}. {LEFT_CONFIGS} The files are {some(files)}.",
        first.path,
        offset=first.end_offset,
        batch_leader_epoch=first.epoch,
        severity="info",
        evidence={
            "replicas": replicas,
            "snapshots": [{"replica": one.replica, "path": one.path} for one in left],
            "differences": _differences(first),
        },
    )


def _comparison_row(quorum: Quorum, one: ImageComparison) -> BadRow:
    listed = "; ".join(found.text for found in one.differences[:3])
    places = counted(one.difference_count, "place")
    note = image_note(quorum, one.differences, one.end_offset)
    return BadRow(
        one.replica,
        f"Snapshot {_file(one)} differs from {one.basis} in {places}: {listed}. "
        "A node that loads it goes on with a wrong state. "
        f"Set it aside and take another replica's snapshot.{' ' + note if note else ''}",
        one.path,
        offset=one.end_offset,
        batch_leader_epoch=one.epoch,
        other_replica=one.other if one.other != one.replica else None,
        evidence={
            "basis": one.basis,
            "difference_count": one.difference_count,
            "differences": _differences(one),
        },
    )


def _file(one: ImageComparison) -> str:
    return one.path.rsplit("/", 1)[-1]


def _differences(one: ImageComparison) -> list[dict[str, Any]]:
    return [
        {"key": found.key, "text": found.text, "fields": list(found.fields)}
        for found in one.differences
    ]


@check(
    EQUALS, "critical", "snapshot", "KIP-630 Overview, KAFKA-14894, KAFKA-14203",
    "a snapshot's state is that of an earlier one, or of offset 0, and the log up to its end",
    over=coverage.state(EQUALS), action="snapshot", after="snapshot_too_large_to_fetch",
    meaning="""A snapshot's state is not what the log gives: an earlier snapshot, or nothing,
    with the records up to its end replayed on it. A node that loads it goes on with a wrong
    state, and its log may be cut so that nobody can tell any more. At level info, only configs
    of topics that do not exist differ: Kafka leaves them behind when a topic comes and goes
    within one step of its loader. That is harmless, and told once for all snapshots.""",
    advice="""Compare the keys and fields in the finding with the other replicas' snapshots. Set
    a wrong snapshot aside before the node restarts, and let it take a new one from the log, or
    fetch one.""",
)  # fmt: skip
def snapshot_equals_replay(quorum: Quorum) -> Iterator[BadRow]:
    return _rows(quorum, EQUALS)


@check(
    AGREE, "critical", "replica", "KIP-630 Overview, KAFKA-13357",
    "the same snapshot id on two replicas holds equal state",
    over=coverage.state(AGREE), action="snapshot",
    meaning="""Two replicas hold a snapshot of the same id with different states. Which one is
    right is told by snapshot_equals_replay where the log still reaches back. At level info, only
    configs of topics that do not exist differ, which is harmless.""",
    advice="""Set the wrong one aside before its node restarts. If none can be proven, compare
    the keys and fields in the finding with what the cluster says of itself.""",
)  # fmt: skip
def snapshots_agree(quorum: Quorum) -> Iterator[BadRow]:
    return _rows(quorum, AGREE)
