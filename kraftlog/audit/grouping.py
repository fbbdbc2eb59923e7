"""The known differences: histories whose result, in Kafka itself, depends on how its loader groups
batches into deltas, or on what it had read before its log was cut.

kraftlog's definition is one record after the other, each on the state before it (`state.replay`).
In: what an image comparison or a record's replay found. Out: the words that name such a history as
a possible cause, or nothing. Source: Kafka 4.3.1's MetadataBatchLoader, MetadataDelta and the
deltas below it; KRaftControlRecordStateMachine of 3.9.1, 4.3.1 and 4.4.0 (staged with 4.3.1).
"""

from collections.abc import Sequence

import numpy as np

from kraftlog.explain.words import scram_user_text
from kraftlog.plain import some
from kraftlog.quorum.evidence import ImageComparison, KeyDifference
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.scram import User, may_have_lost
from kraftlog.state.tables import ABORT, TOPIC_RESOURCE
from kraftlog.state.write import ELR_FEATURE

EQUALS, AGREE = "snapshot_equals_replay", "snapshots_agree"
CONTROL_TABLES = frozenset({"voters", "kraft_version"})
"""Where no record of a history tells of them, a quorum has them from the checkpoint with which it was
formatted.
"""
ELR_FIELDS = frozenset({"eligibleLeaderReplicas", "lastKnownElr"})

LEFT_CONFIGS = (
    "Kafka leaves them behind when a topic is created and removed in one step of its loader, and they stay in the snapshots that the node writes later. "
    "Nothing goes by them while there is no such topic. One that is created under such a name has them unasked: then set them on it, and delete them again."
)
LEFT_OUT = (
    "Kafka leaves them out of snapshots while eligible.leader.replicas.version is 0, and a node that has begun with one goes on without them. "
    "Nothing goes by them while min.insync.replicas are in sync: start the brokers that are missing there, and leave the files as they are."
)
TAKEN_OVER = (
    "Kafka itself can be the cause: it leaves configs behind when a topic is created and removed in one step of its loader. "
    "A topic that is created later under that name has them on such a node, and on the others not. "
    "Set them on the topic and delete them again, so that all nodes hold the same."
)
LEAVE_FILES = "Leave the files as they are: this is told as long as such a snapshot is there."
"""What is added where nothing else differs: whoever has changed them, new records set it right."""
SET_RIGHT = "Kafka itself can be the cause, and it is over: the node's newest snapshot agrees with the log again, and a start begins with that one."
"""What is said of configs that a topic took over, where a newer snapshot of the node has them right."""
LOST_SCRAM = (
    "Kafka's own loader can lose SCRAM users, where others of their mechanism were removed in the step in which they are set. "
    "Set what is missing again with kafka-configs, which writes new records."
)
KEEP_SCRAM = (
    "Keep this snapshot: a node that begins without it can lose them again. "
    "Where no node runs, start them first."
)
WRITTEN_SINCE = "Records behind it say anew what these users have, so that a node which begins with it goes on with a right state."
ABORTED = (
    "Kafka's loader itself shows records of an aborted transaction, where another record follows the abort in one step. "
    "Compare with what was aborted before the snapshot's end."
)
UNCLEARED = (
    "Kafka itself can be the cause, where eligible.leader.replicas.version was 0 for a time: snapshots of that time hold no ELR, and no last known one. "
    "A node that started from one goes on without them. A ClearElrRecord then counts no epoch there, where it does on the others."
)
FORGOTTEN = (
    "Kafka itself can be the cause: a running node that cuts back its log reads no voters and no kraft.version again at offsets that it had read before. "
    "A broker that starts with such a snapshot finds no controller to register with, and ends."
)
_DROPS_ALL = (
    "Kafka drops all records of that step of its loader, and the replay of kraftlog only this one."
)
_RECORDS = {
    ("REMOVE_ACCESS_CONTROL_ENTRY_RECORD", "unknown_acl"): (
        "If an ACL was removed twice in one step of Kafka's loader, it does not fail there."
    ),
    ("PARTITION_RECORD", "unknown_topic"): _DROPS_ALL,
    ("PARTITION_CHANGE_RECORD", "unknown_topic"): _DROPS_ALL,
}


def is_scram_user(one: KeyDifference) -> bool:
    """Whether one of two images lacks a SCRAM user."""
    return one.key.startswith("scram_credentials:") and one.change != "changed"


def is_left_config(found: ImageComparison) -> bool:
    """Whether nothing differs but configs of topics that do not exist. Kafka's loader leaves some
    behind in a snapshot, and loses none that a record has set.
    """
    told = found.differences
    return bool(told) and all(one.stale_config for one in told) and not found.logged


def is_elr_left_out(quorum: Quorum, found: ImageComparison) -> bool:
    """Whether nothing differs but ELRs that are missing, and left configs, where a record has turned
    the ELR feature off before: Kafka leaves them out of snapshots while it is.
    """
    health = quorum.state.health
    off = None if health is None else health.past.turned_off.get(ELR_FEATURE)
    if off is None or off.offset >= found.end_offset or found.logged:
        return False
    missing = [is_elr_missing(one) for one in found.differences if not one.stale_config]
    return bool(missing) and all(missing)


def is_elr_missing(one: KeyDifference) -> bool:
    """Whether one of two images has an empty ELR, or last known one, and the other does not."""
    return one.cleared and ELR_FIELDS.issuperset(one.fields)


def found_apart(quorum: Quorum, name: str) -> list[ImageComparison]:
    """The snapshots that differ by a check."""
    return [one for one in quorum.state.comparisons if one.check == name and one.difference_count]


def contradicted(quorum: Quorum, name: str) -> list[ImageComparison]:
    """The same, but for what Kafka itself leaves behind, or out."""
    found = found_apart(quorum, name)
    return [one for one in found if not (is_left_config(one) or is_elr_left_out(quorum, one))]


def nothing_decides(quorum: Quorum, one: ImageComparison) -> bool:
    """Whether of two snapshots of one id either may be the wrong one: no log tells, and no more copies
    hold the one than the other.
    """
    if one.check != AGREE or one.path in {each.path for each in contradicted(quorum, EQUALS)}:
        return False
    odd = [each for each in contradicted(quorum, AGREE) if _id_of(each) == _id_of(one)]
    texts = [found.text for found in one.differences]
    alike = [each for each in odd if [found.text for found in each.differences] == texts]
    held = [each for each in quorum.own_snapshots if each.is_complete and each.id == _id_of(one)]
    return len(held) - len(odd) <= len(alike)


def opposed_snapshots(quorum: Quorum) -> list[ImageComparison]:
    """The snapshots that the history or other snapshots contradict. Users that Kafka's own loader has
    lost can be set again.
    """
    every = (one for name in (EQUALS, AGREE) for one in contradicted(quorum, name))
    return [one for one in every if not scram_lost(quorum, one)]


def is_set_right(quorum: Quorum, found: ImageComparison) -> bool:
    """Whether the snapshot that the node begins with was compared with the history, and agrees."""
    state, begun = quorum.state, quorum.loaded_snapshot(found.replica)
    apart = {one.path for one in state.comparisons if one.difference_count}
    is_open = any(told[:2] == (EQUALS, found.replica) for told in state.skipped)
    return begun is not None and begun.is_complete and begun.path not in apart and not is_open


def unfit_snapshots(quorum: Quorum) -> frozenset[str]:
    """The paths of snapshots that no node should begin with, by the history and by each other."""
    apart = opposed_snapshots(quorum)
    doubted = {_id_of(one) for one in apart if nothing_decides(quorum, one)}
    either = (one.path for each in doubted for one in quorum.snapshots_by_id.get(each, ()))
    return frozenset([*quorum.state.refusals, *(one.path for one in apart), *either])


def _id_of(one: ImageComparison) -> tuple[int, int]:
    return one.epoch, one.end_offset


def scram_lost(quorum: Quorum, found: ImageComparison) -> list[User]:
    """The users whom Kafka's loader may have lost, where nothing else differs but left configs."""
    others = (one for one in found.differences if not one.stale_config)
    lost = [_scram_lost(quorum, one, found) for one in others]
    return [one for one in lost if one is not None] if all(lost) else []


def _scram_lost(quorum: Quorum, one: KeyDifference, found: ImageComparison) -> User | None:
    """The user whom one image lacks, where another one of its mechanism may have been removed."""
    if not is_scram_user(one) or not (found.has_base or one.change == "removed"):
        return None
    mechanism, name = one.key_parts
    is_told = found.has_base or may_have_lost(quorum, mechanism, found.end_offset)
    return (mechanism, name) if is_told else None


def image_note(quorum: Quorum, found: ImageComparison) -> str | None:
    """What of Kafka's own could have made two images differ, by more than left configs."""
    causes = [_cause(quorum, one, found) for one in found.differences if not one.stale_config]
    if causes and all(causes):
        return " ".join(dict.fromkeys(filter(None, causes)))
    return ABORTED if causes and aborts_before(quorum, found.end_offset) else None


def _cause(quorum: Quorum, one: KeyDifference, found: ImageComparison) -> str | None:
    """What of Kafka's own may have made one object differ, in its snapshot or the replay's base."""
    if _scram_lost(quorum, one, found) is not None:
        return LOST_SCRAM
    if one.key.startswith(f"configs:[{TOPIC_RESOURCE},"):
        is_left = one.change == "added" or (found.has_base and one.change == "removed")
        return TAKEN_OVER if is_left else None
    if one.key.split(":")[0] in CONTROL_TABLES:
        return FORGOTTEN if one.change == "removed" else None
    is_uncleared = one.fields == ("partitionEpoch",) or is_elr_missing(one)
    return UNCLEARED if is_uncleared else None


def aborts_before(quorum: Quorum, end_offset: int) -> bool:
    """Whether a log at hand holds an aborted transaction below an offset."""
    contents = quorum.evidence.contents
    aborting = [
        index
        for index, content in enumerate(contents)
        if any(one.type == ABORT for one in content.transactions)
    ]
    if not aborting:
        return False
    return any(
        bool(np.isin(log.evidence.log.content[log.rows[log.base < end_offset]], aborting).any())
        for log in quorum.peers
    )


def record_note(record_type: str, kind: str) -> str:
    """The same of a record that could not be applied: a sentence to be added, or nothing."""
    note = _RECORDS.get((record_type, kind))
    return f" {note}" if note else ""


def users_text(users: Sequence[User]) -> str:
    """SCRAM users in a sentence."""
    names = [scram_user_text(*one) for one in users]
    return f"SCRAM {'user' if len(names) == 1 else 'users'} {some(names)}"
