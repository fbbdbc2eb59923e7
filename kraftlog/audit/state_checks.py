"""Checks of what the records say: the state at each offset, and snapshots against replays.

The history itself is gone through in `state_history`; here its results become findings. After a
hole in a log its state is not known: what could not be judged is skipped with the reason. Source:
KIP-630 "Overview", "Snapshot Format", KIP-631, KAFKA-14894, KAFKA-14203, KAFKA-13357, KAFKA-14616,
KAFKA-15552, strimzi#11262.
"""

from collections.abc import Iterator
from typing import Any, Unpack

from kraftlog.audit import coverage
from kraftlog.audit.check import BadRow, Check, Query, Scope, Severity, Words, check
from kraftlog.audit.grouping import LEFT_CONFIGS, image_note, is_left_config
from kraftlog.audit.triage import at_same_place, replicas_text
from kraftlog.plain import counted, some
from kraftlog.quorum.evidence import ImageComparison, StateEvidence, StateIssue
from kraftlog.quorum.model import Quorum

_STOPS_LOADERS = ("references_exist", "record_replays")
"""Checks of records that can stop Kafka's loader: who else holds the record says who stops."""


def _query(name: str) -> Query:
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
        if left and not (name == SNAPSHOTS_AGREE.name and _is_told(state, left)):
            yield _left_row(left)

    return query


def _issue_row(quorum: Quorum, issue: StateIssue) -> BadRow:
    log = quorum.by_label[issue.replica]
    columns = log.evidence.log
    severity: Any = issue.severity
    text, evidence = issue.text, dict(issue.evidence)
    if issue.check in _STOPS_LOADERS and len(quorum.peers) > 1:
        held, places = at_same_place(quorum, log, issue.row)
        text, evidence = f"{text} {held}", {**evidence, **places}
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
    told = {one.path for one in state.comparisons if one.check == SNAPSHOT_EQUALS_REPLAY.name}
    return all(one.path in told for one in left)


def _left_row(left: list[ImageComparison]) -> BadRow:
    """Leftover configs are Kafka's own doing: one info for all snapshots of the quorum."""
    replicas = list(dict.fromkeys(one.replica for one in left))
    files = list(dict.fromkeys(f"{_file(one)} of {one.replica}" for one in left))
    told = (found.text for one in left for found in one.differences)
    keys = dict.fromkeys(text.partition(" is there")[0] for text in told)
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


def _state_check(
    name: str,
    severity: Severity,
    scope: Scope,
    source: str,
    holds_when: str,
    **words: Unpack[Words],
) -> Check:
    """A check of which the history tells; its rules are in `state_rules`."""
    judged = coverage.state(name)
    return check(name, severity, scope, source, holds_when, over=judged, **words)(_query(name))


SNAPSHOT_EQUALS_REPLAY = _state_check(
    "snapshot_equals_replay", "critical", "snapshot", "KIP-630 Overview, KAFKA-14894, KAFKA-14203",
    "a snapshot's state is that of an earlier one, or of offset 0, and the log up to its end",
    action="snapshot", after="snapshot_too_large_to_fetch",
    meaning="""A snapshot's state is not what the log gives: an earlier snapshot, or nothing,
    with the records up to its end replayed on it. A node that loads it goes on with a wrong
    state, and its log may be cut so that nobody can tell any more. At level info, only configs
    of topics that do not exist differ: Kafka leaves them behind when a topic comes and goes
    within one step of its loader. That is harmless, and told once for all snapshots.""",
    advice="""Compare the keys and fields in the finding with the other replicas' snapshots. Set
    a wrong snapshot aside before the node restarts, and let it take a new one from the log, or
    fetch one.""",
)  # fmt: skip

SNAPSHOTS_AGREE = _state_check(
    "snapshots_agree", "critical", "replica", "KIP-630 Overview, KAFKA-13357",
    "the same snapshot id on two replicas holds equal state",
    action="snapshot",
    meaning="""Two replicas hold a snapshot of the same id with different states. Which one is
    right is told by snapshot_equals_replay where the log still reaches back. At level info, only
    configs of topics that do not exist differ, which is harmless.""",
    advice="""Set the wrong one aside before its node restarts. If none can be proven, compare
    the keys and fields in the finding with what the cluster says of itself.""",
)  # fmt: skip

REFERENCES_EXIST = _state_check(
    "references_exist", "critical", "state", "KAFKA-15552",
    "a change or removal names an object that exists at that offset",
    action="origin",
    meaning="""A record changes or removes a topic, partition, broker or ACL that does not exist
    at that offset. Kafka's loader fails there, or drops the record: replicas may then hold
    different states of the same log.""",
    advice="""Find the controller and the version that wrote it, by the leader of that epoch.
    Restart no node before you know what its loader does with the record.""",
)  # fmt: skip

ISR_WITHIN_REPLICAS = _state_check(
    "isr_within_replicas", "critical", "state", "KIP-631, KIP-966",
    "ISR, ELR, adding and removing replicas lie in the assignment, which has no duplicates",
    action="origin",
    meaning="""A partition's ISR, ELR, adding or removing replicas name a broker outside its
    assignment, or the assignment is empty, names a broker twice, or has not as many directories
    as replicas.""",
    advice="""Correct the partition with a reassignment, and find out which controller wrote the
    record.""",
)  # fmt: skip

LEADER_IN_ISR = _state_check(
    "leader_in_isr", "critical", "state", "KIP-631",
    "a partition's leader is none or in its ISR",
    action="origin",
    meaning="""A partition is led by a replica that is not in its ISR and is not recovering from
    an unclean election. Acknowledged messages may be missing there.""",
    advice="""Elect another leader for the partition, and find out which controller wrote the
    record.""",
)  # fmt: skip

PARTITION_EPOCHS_STEP = _state_check(
    "partition_epochs_step", "critical", "state", "KIP-631",
    "partition epoch and leader epoch of a partition never go back",
    action="origin",
    meaning="""The partition epoch or leader epoch of a partition goes back. Brokers refuse
    requests of an older epoch, and may ignore the newer state.""",
    advice="""Compare the records of the partition on all replicas from the last good offset on
    (`kraftlog records PATH --key TOPIC_ID`). A reassignment raises both epochs again.""",
)  # fmt: skip

TOPIC_IDENTITY_UNIQUE = _state_check(
    "topic_identity_unique", "critical", "state", "KAFKA-14616",
    "one live topic per name, and one name per id",
    action="origin",
    meaning="""Two living topics share a name, or two names share an id. Clients and brokers
    would mix their data up.""",
    advice="""Stop producers of these topics, find out which controller wrote the record, and
    delete one of the two.""",
)  # fmt: skip

BROKER_EPOCH_IS_OFFSET = _state_check(
    "broker_epoch_is_offset", "warning", "state", "KIP-631",
    "a broker's epoch is the offset of its registration",
    action="origin",
    meaning="""A broker's epoch is not the offset at which it was registered. (Controllers before
    Kafka 3.6 gave smaller ones, which is no finding below metadata.version 3.6.) Requests of the
    broker could be fenced, or those of its predecessor accepted.""",
    advice="""Restart the broker, so it registers again.""",
)  # fmt: skip

PRODUCER_IDS_INCREASE = _state_check(
    "producer_ids_increase", "critical", "state", "KAFKA-15552",
    "the next producer id never goes back",
    action="origin",
    meaning="""The next producer id goes back. Producers are given ids that others use, and
    brokers may drop their records as duplicates.""",
    advice="""Stop new producers until a block above the former value has been allocated. Find out
    which controller wrote the record.""",
)  # fmt: skip

MASS_DELETION = _state_check(
    "mass_deletion", "warning", "state", "strimzi#11262",
    "no window removes more than the configured share of a kind of object",
    action="deleted",
    meaning="""A large share of all topics, brokers, ACLs, credentials or quotas was removed
    within a minute. A script that ran on the wrong cluster looks like this, and so does the end
    of a test.""",
    advice="""Ask whoever was at work at that time. The state right before it is still there:
    `kraftlog state PATH --at OFFSET` shows it, `kraftlog diff` what went.""",
)  # fmt: skip

RECORD_REPLAYS = _state_check(
    "record_replays", "warning", "state", "image facts of Kafka 4.3.1",
    "Kafka's replay takes every record that decodes",
    action="origin",
    meaning="""A record decodes, but Kafka's own replay would stop there with an exception, for a
    value or a feature level that its version does not take.""",
    advice="""Look for the version that wrote it before a node of another version starts.""",
)  # fmt: skip
