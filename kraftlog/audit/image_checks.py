"""Checks of snapshots against the history, and of snapshots of one id against each other.

The history itself is gone through in `state_history`; here its comparisons become findings. After a
hole in a log its state is not known: what could not be judged is skipped with the reason. Source:
KIP-630 "Overview", "Snapshot Format", KAFKA-14894, KAFKA-14203, KAFKA-13357.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from kraftlog.audit import coverage
from kraftlog.audit.check import ActionKey, BadRow, check
from kraftlog.audit.grouping import (
    AGREE,
    EQUALS,
    KEEP_SCRAM,
    LEAVE_FILES,
    LEFT_CONFIGS,
    LEFT_OUT,
    LOST_SCRAM,
    SET_RIGHT,
    TAKEN_OVER,
    WRITTEN_SINCE,
    contradicted,
    found_apart,
    image_note,
    is_elr_left_out,
    is_left_config,
    is_set_right,
    nothing_decides,
    scram_lost,
)
from kraftlog.audit.triage import instead_of, replicas_text
from kraftlog.explain.words import scram_user_text
from kraftlog.plain import counted, natural, some
from kraftlog.quorum.evidence import ImageComparison
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.scram import User, written_since


def _rows(quorum: Quorum, name: str) -> Iterator[BadRow]:
    """What the history has shown for a check."""
    apart = found_apart(quorum, name)
    left = [one for one in apart if is_left_config(one)]
    left_out = [one for one in apart if is_elr_left_out(quorum, one)]
    others = contradicted(quorum, name)
    for first, *later in _grouped(others):
        yield _comparison_row(quorum, first, later, _alike(quorum, first, others))
    for told, row in ((left, _left_row), (left_out, _left_out_row)):
        if told and not (name == AGREE and _is_told(quorum, told)):
            yield row(told)


def _grouped(comparisons: list[ImageComparison]) -> list[list[ImageComparison]]:
    """What one replica's snapshots hold wrong, each with those after it that show nothing new."""
    groups: list[list[ImageComparison]] = []
    newest: dict[str, list[ImageComparison]] = {}
    for one in sorted(comparisons, key=lambda one: one.end_offset):
        before = newest.get(one.replica)
        if before is not None and _shows_no_more(before[0], one):
            before.append(one)
        else:
            newest[one.replica] = [one]
            groups.append(newest[one.replica])
    return groups


def _shows_no_more(first: ImageComparison, one: ImageComparison) -> bool:
    told, shown = (
        {(found.text, found.stale_config) for found in each.differences} for each in (first, one)
    )
    return one.difference_count == len(one.differences) and told >= shown


def _alike(quorum: Quorum, one: ImageComparison, apart: list[ImageComparison]) -> list[str]:
    """The other replicas whose snapshots differ from the replay in the same way, where no snapshot
    among these agrees with it: each node wrote its own, so the log may be what is wrong.
    """
    texts = [found.text for found in one.differences]
    alike = [
        other
        for other in apart
        if other.check == one.check == EQUALS
        and other.replica != one.replica
        and other.difference_count == one.difference_count
        and [found.text for found in other.differences] == texts
    ]
    ends = [other.end_offset for other in (one, *alike)]
    differing = {other.path for other in apart}
    agrees = any(
        min(ends) <= found.end_offset <= max(ends) and found.path not in differing
        for found in quorum.own_snapshots
        if found.is_complete
    )
    return [] if agrees else sorted({other.replica for other in alike}, key=natural)


def _is_told(quorum: Quorum, own: list[ImageComparison]) -> bool:
    """Whether the replay has told already of what is Kafka's own doing in these snapshots."""
    told = {one.path for one in quorum.state.comparisons if one.check == EQUALS}
    return all(one.path in told for one in own)


def _left_row(left: list[ImageComparison]) -> BadRow:
    """Leftover configs are Kafka's own doing: one info for all snapshots of the quorum."""
    holding = [one for one in left if any(each.change != "removed" for each in one.differences)]
    files = list(dict.fromkeys(f"{_file(one)} of {one.replica}" for one in holding))
    replicas = list(dict.fromkeys(one.replica if one in holding else one.other for one in left))
    which = f" The files are {some(files)}." if files else ""
    keys = dict.fromkeys(found.noun for one in left for found in one.differences)
    text = f"Snapshots of {replicas_text(replicas)} hold configs of topics that do not exist. Those are {some(list(keys), 3)}. {LEFT_CONFIGS}{which}"
    return _own_row(left, text, replicas)


def _left_out_row(left_out: list[ImageComparison]) -> BadRow:
    """ELRs that Kafka leaves out of snapshots: one info for all of the quorum."""
    replicas = list(dict.fromkeys(one.replica for one in left_out))
    first = left_out[0]
    listed = "; ".join(found.text for found in first.differences[:2])
    count = counted(first.difference_count, "place")
    text = f"Snapshots of {replicas_text(replicas)} differ from {first.basis} in ELRs alone, in {count}: {listed}. {LEFT_OUT}"
    return _own_row(left_out, text, replicas)


def _own_row(own: list[ImageComparison], text: str, replicas: list[str]) -> BadRow:
    first = own[0]
    return BadRow(
        first.replica,
        text,
        first.path,
        offset=first.end_offset,
        batch_leader_epoch=first.epoch,
        severity="info",
        evidence={
            "replicas": replicas,
            "snapshots": [{"replica": one.replica, "path": one.path} for one in own],
            "differences": _differences(first),
        },
    )


def _comparison_row(
    quorum: Quorum, one: ImageComparison, later: Sequence[ImageComparison], alike: list[str]
) -> BadRow:
    listed = "; ".join(found.text for found in one.differences[:3])
    count = counted(one.difference_count, "place")
    places = [{"path": found.path, "offset": found.end_offset} for found in later]
    lost = scram_lost(quorum, one)
    over = _what_is_over(quorum, [one, *later], lost)
    is_open = nothing_decides(quorum, one)
    files = some(list(map(_file, later)))
    which = "snapshot" if len(later) == 1 else "snapshots"
    again = f"The same differs in its later {which} {files}. " if later else ""
    todo, asks = _to_do(quorum, [one, *later], lost, alike, is_open)
    return BadRow(
        one.replica,
        f"Snapshot {_file(one)} differs from {one.basis} in {count}: {listed}. "
        f"{again}{over or todo}",
        one.path,
        offset=one.end_offset,
        batch_leader_epoch=one.epoch,
        other_replica=one.other if one.other != one.replica else None,
        severity="info" if over else None,
        evidence={
            "basis": one.basis,
            "difference_count": one.difference_count,
            "differences": _differences(one),
            **({"later": places} if later else {}),
            **(
                {"set_again": [scram_user_text(*user) for user in lost]}
                if lost
                else {"alike": alike}
                if alike
                else {"either": True}
                if is_open
                else {}
            ),
            **asks,
        },
    )


def _what_is_over(
    quorum: Quorum, group: Sequence[ImageComparison], lost: Sequence[User]
) -> str | None:
    """Why nobody needs to do anything about the snapshots of one replica that hold the same wrong."""
    if any(one.difference_count > len(one.differences) for one in group):
        return None
    if lost:
        end = max(one.end_offset for one in group)
        return WRITTEN_SINCE if written_since(quorum, lost, end) else None
    is_over = image_note(quorum, group[0]) == TAKEN_OVER and is_set_right(quorum, group[0])
    return SET_RIGHT if is_over else None


def _to_do(
    quorum: Quorum,
    group: Sequence[ImageComparison],
    lost: Sequence[User],
    alike: list[str],
    is_open: bool,
) -> tuple[str, dict[str, ActionKey]]:
    """What to do about the snapshots of one replica that hold the same wrong, and what that asks for:
    it loads the last.
    """
    asks: dict[str, ActionKey] = {"asks": "stop"}
    wrong = "A node that loads it goes on with a wrong state. "
    if lost:
        return f"{wrong}{LOST_SCRAM} {KEEP_SCRAM}", {"asks": "watch"}
    note = image_note(quorum, group[0])
    if note == TAKEN_OVER and all(one.difference_count == len(one.differences) for one in group):
        return f"{wrong}{TAKEN_OVER} {LEAVE_FILES}", {"asks": "watch"}
    if alike:
        todo = (
            f"Snapshots of {replicas_text(alike)} differ from it in the same way, and none agrees with it: the log may have been changed, and not they. "
            "Keep all of these files, and compare the log with a backup before a node starts."
        )
    elif is_open:
        todo = (
            "Nothing tells which of the two is right, and a node that loads the other one goes on with a wrong state. "
            "Keep both files, and compare them with a backup before a node starts."
        )
    else:
        last = group[-1]
        newest = next(each for each in quorum.snapshots_of(last.replica) if each.path == last.path)
        others = " That is for the newest of them: set the others aside, too." if group[1:] else ""
        instead, asks = instead_of(quorum, newest)
        todo = f"{wrong}{instead}{others}"
    return f"{todo} {note}" if note else todo, asks


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
    with the records up to its end replayed on it. The voters and kraft.version belong to it: a node
    that loads none of them has no vote. A node that loads it goes on with a wrong
    state, and its log may be cut so that nobody can tell any more. At level info, only configs
    of topics that do not exist differ: Kafka leaves them behind when a topic comes and goes
    within one step of its loader, and loses none that a record has set. A topic that is created
    under such a name later has them unasked. Or ELRs alone, which snapshots leave out while their
    feature is off. It is told once for all snapshots. A node goes
    on with what it has loaded: its later snapshots that differ in nothing new are named with the
    first. At level info, too, only SCRAM users differ of whom later records say anew what they have,
    or configs that a topic took over and that the node's newest snapshot has right again.""",
    advice="""Compare the keys and fields in the finding with the other replicas' snapshots. Set
    a wrong snapshot aside before the node restarts, and let it take a new one from the log, or
    fetch one. Where those of several replicas differ in the same way, and none agrees with the log,
    keep them: the log itself may have been changed. Where only SCRAM users are missing that Kafka's own loader can lose, keep it: set them
    again with kafka-configs, and do not begin without the snapshot.""",
)  # fmt: skip
def snapshot_equals_replay(quorum: Quorum) -> Iterator[BadRow]:
    return _rows(quorum, EQUALS)


@check(
    AGREE, "critical", "replica", "KIP-630 Overview, KAFKA-13357",
    "the same snapshot id on two replicas holds equal state",
    over=coverage.state(AGREE, "no two replicas hold a snapshot of one id that ends above offset 0"),
    action="snapshot",
    meaning="""Two replicas hold a snapshot of the same id with different states. Which one is
    right is told by snapshot_equals_replay where the log still reaches back. At level info, only
    configs of topics that do not exist differ: one that is created under such a name later has them.""",
    advice="""Set the wrong one aside before its node restarts. If none can be proven, compare
    the keys and fields in the finding with what the cluster says of itself.""",
)  # fmt: skip
def snapshots_agree(quorum: Quorum) -> Iterator[BadRow]:
    return _rows(quorum, AGREE)
