"""Checks of what the records say: the state at each offset, and snapshots against replays.

The history itself is gone through in `state_history`; here its results become findings. After a
hole in a log its state is not known: what could not be judged is skipped with the reason. Source:
KIP-630 "Overview", "Snapshot Format", KIP-631, KAFKA-14894, KAFKA-14203, KAFKA-13357, KAFKA-14616,
KAFKA-15552, strimzi#11262.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kraftlog.audit import coverage
from kraftlog.audit.check import BadRow, Check
from kraftlog.audit.grouping import LEFT_CONFIGS, image_note, is_left_config
from kraftlog.audit.state_history import AGREE, EQUALS
from kraftlog.audit.triage import at_same_place, some
from kraftlog.quorum.evidence import ImageComparison, StateEvidence, StateIssue
from kraftlog.quorum.model import Quorum

_STOPS_LOADERS = ("references_exist", "record_replays")
"""Checks of records that can stop Kafka's loader: who else holds the record says who stops."""


def _query(name: str) -> Callable[[Quorum], Iterable[BadRow]]:
    """The query of a check whose findings the replay has told already."""

    def query(quorum: Quorum) -> Iterator[BadRow]:
        state = quorum.evidence.state or StateEvidence()
        for issue in state.issues:
            if issue.check == name:
                yield _issue_row(quorum, issue)
        left = []
        for one in state.comparisons:
            if one.check == name and one.difference_count:
                if is_left_config(one.differences):
                    left.append(one)
                else:
                    yield _comparison_row(quorum, one)
        if left and not (name == AGREE and _is_told(state, left)):
            yield _left_row(left)

    return query


def _issue_row(quorum: Quorum, issue: StateIssue) -> BadRow:
    log = quorum.by_label[issue.replica]
    columns = log.evidence.log
    severity: Any = issue.severity
    text, evidence = issue.text, dict(issue.evidence)
    if issue.check in _STOPS_LOADERS and len(quorum.peers) > 1:
        held, places = at_same_place(quorum, log, issue.row)
        text, evidence = f"{text}; {held}", {**evidence, **places}
    return BadRow(
        issue.replica,
        text,
        log.path(issue.row),
        int(columns.positions[issue.row]),
        int(columns.base_offsets[issue.row]) + issue.record_index,
        batch_leader_epoch=int(columns.epochs[issue.row]),
        severity=severity,
        evidence={"batch_id": columns.id_text(issue.row), **evidence},
    )


def _is_told(state: StateEvidence, left: list[ImageComparison]) -> bool:
    """Whether the replay has told of these snapshots' leftover configs already."""
    told = {one.path for one in state.comparisons if one.check == EQUALS}
    return all(one.path in told for one in left)


def _left_row(left: list[ImageComparison]) -> BadRow:
    """Leftover configs are Kafka's own doing: one info for all snapshots of the quorum."""
    replicas = list(dict.fromkeys(one.replica for one in left))
    files = list(dict.fromkeys(f"{_file(one)} of {one.replica}" for one in left))
    keys = dict.fromkeys(found.text for one in left for found in one.differences)
    first = left[0]
    return BadRow(
        first.replica,
        f"snapshots of {some(replicas)} hold configs of topics that do not exist: {LEFT_CONFIGS} "
        f"({some(files)}; {some(list(keys), 3)})",
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
    note = image_note(quorum, one.differences, one.end_offset)
    return BadRow(
        one.replica,
        f"{_file(one)} differs from {one.basis} in {one.difference_count} places: {listed}; a node "
        "that loads it goes on with a wrong state: set it aside and take another replica's "
        f"snapshot{'; ' + note if note else ''}",
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


_DECLARED = (
    ("snapshot_equals_replay", "critical", "snapshot", "KIP-630 Overview, KAFKA-14894, KAFKA-14203",
     "a snapshot's state is that of an earlier one, or of offset 0, and the log up to its end"),
    ("snapshots_agree", "critical", "replica", "KIP-630 Overview, KAFKA-13357",
     "the same snapshot id on two replicas holds equal state"),
    ("references_exist", "critical", "state", "KAFKA-15552",
     "a change or removal names an object that exists at that offset"),
    ("isr_within_replicas", "critical", "state", "KIP-631, KIP-966",
     "ISR, ELR, adding and removing replicas lie in the assignment, which has no duplicates"),
    ("leader_in_isr", "critical", "state", "KIP-631",
     "a partition's leader is none or in its ISR"),
    ("partition_epochs_step", "critical", "state", "KIP-631",
     "partition epoch and leader epoch of a partition never go back"),
    ("topic_identity_unique", "critical", "state", "KAFKA-14616",
     "one live topic per name, and one name per id"),
    ("broker_epoch_is_offset", "warning", "state", "KIP-631",
     "a broker's epoch is the offset of its registration"),
    ("producer_ids_increase", "critical", "state", "KAFKA-15552",
     "the next producer id never goes back"),
    ("record_replays", "warning", "state", "image facts of Kafka 4.3.1",
     "Kafka's replay takes every record that decodes"),
    ("mass_deletion", "warning", "state", "strimzi#11262",
     "no window removes more than the configured share of a kind of object"),
)  # fmt: skip

CHECKS = tuple(
    Check(
        name,
        severity,  # type: ignore[arg-type]
        scope,  # type: ignore[arg-type]
        source,
        holds_when,
        _query(name),
        coverage.state(name),
    )
    for name, severity, scope, source, holds_when in _DECLARED
)
