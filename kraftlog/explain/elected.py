"""The elections that the leader epochs of all copies tell of, each once, and in words.

In: a quorum, or rows of the table `epochs`. Out: `Elected`s by epoch. A new leader's first batch is
its LeaderChange: where it is at hand, the epoch begins there. Where it is not, a log that begins
amid an epoch tells only that the epoch had begun. Source: KIP-595, "Leader Change Message".
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kraftlog.quorum.model import Quorum
from kraftlog.relations import Row


@dataclass(frozen=True, slots=True)
class Elected:
    """A leader epoch, and its first offset at hand: where it begins, or a later one. `leader_id` is
    None where nothing at hand names the leader.
    """

    epoch: int
    start_offset: int
    leader_id: int | None
    begins_there: bool

    def as_row(self, change: str) -> Row:
        """A row of `changes`."""
        who = "nobody that the copies name" if self.leader_id is None else self.leader_id
        text = f"leader {who} in epoch {self.epoch}, from offset {self.start_offset} on"
        if not self.begins_there:
            text = (
                f"leader {who} in epoch {self.epoch}, which had begun by offset {self.start_offset}"
            )
        return {"kind": "election", "change": change, "name": str(self.epoch), "text": text}


def elected_in(quorum: Quorum) -> dict[int, Elected]:
    """What the logs of this cluster tell."""
    found = []
    for log in quorum.peers:
        for one in log.epoch_starts:
            leader = quorum.leaders.get(one.epoch)
            follows = one.certain and one != log.epoch_starts[0]
            begins = follows or one.epoch in log.leaders
            found.append(_elected(one.epoch, one.start_offset, leader, begins=begins))
    return _each_once(found)


def elected_by(epochs: Iterable[Row], replicas: Iterable[Row]) -> dict[int, Elected]:
    """The same from the rows of a run. They do not tell an epoch that follows another one from one
    behind a hole.
    """
    own = {one["replica"] for one in replicas if one["committed_lower"] is not None}
    return _each_once(
        _elected(
            one["batch_leader_epoch"],
            one["start_offset"],
            one["leader_id"],
            begins=one["has_leader_change"],
        )
        for one in epochs
        if one["replica"] in own
    )


def _elected(epoch: int, start: int, leader: int | None, *, begins: bool) -> Elected:
    return Elected(epoch, start, leader, start == 0 or begins)


def _each_once(found: Iterable[Elected]) -> dict[int, Elected]:
    """By the log that tells most of each epoch, in the order of epochs."""
    told: dict[int, Elected] = {}
    best = sorted(
        found, key=lambda one: (one.leader_id is None, not one.begins_there, one.start_offset)
    )
    for one in best:
        told.setdefault(one.epoch, one)
    return dict(sorted(told.items()))
