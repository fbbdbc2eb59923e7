"""A check of controllers that fetch and never arrive: all signs of one in one finding.

In: `quorum.joining`. Source: KAFKA-19541, KIP-1219.
"""

from collections.abc import Iterator

from kraftlog.audit.check import BadRow, check
from kraftlog.audit.coverage import Coverage
from kraftlog.audit.triage import called
from kraftlog.plain import counted, sentence
from kraftlog.quorum.joining import (
    FORMER_FETCH_BYTES,
    Joining,
    is_controller,
    stuck,
)
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.settings import FETCH_TIMEOUT, FETCHED_SNAPSHOT_BYTES, ROLES, number_of


def _over(quorum: Quorum) -> Coverage:
    labels = [log.label for log in quorum.peers if is_controller(quorum, log.evidence)]
    return Coverage(tuple(labels), (), "no copy at hand is of a controller")


@check(
    "controllers_catch_up", "warning", "replica", "KAFKA-19541, KIP-1219",
    "a controller that needs a snapshot gets it",
    action="watch", over=_over,
    goes_by=("snapshot_part_ms", FETCHED_SNAPSHOT_BYTES, FETCH_TIMEOUT, ROLES),
    meaning="""A controller needs a snapshot that the others have. It tries to get the snapshot,
    and does not get it. The finding has all signs of that. Over a slow link an answer does not
    arrive within controller.quorum.fetch.timeout.ms. The controller then stands for election,
    which can cost the others their leader, and begins again (KAFKA-19541). A controller that is
    only switched off knows no new epoch and is not told.""",
    advice="""Stop that controller while you help it. From Kafka 4.3 on, lower
    controller.quorum.fetch.snapshot.max.bytes there (KIP-1219); before 4.3, raise
    controller.quorum.fetch.timeout.ms there. Or copy the snapshot and the log of a healthy
    controller into its empty folder. See kraftlog plan join for each step that a joining
    controller takes, and for how long the steps take over your link.""",
)  # fmt: skip
def can_join(quorum: Quorum) -> Iterator[BadRow]:
    for one in stuck(quorum):
        wanted, own = one.wanted.evidence, one.log.evidence
        size = wanted.size_bytes
        timeout = number_of(own, FETCH_TIMEOUT).value
        chunk = min(size, number_of(own, FETCHED_SNAPSHOT_BYTES).value)
        rate, former = (
            int(part * 1000 / max(1, timeout)) for part in (chunk, min(size, FORMER_FETCH_BYTES))
        )
        yield BadRow(
            one.log.label,
            f"{sentence(called(quorum, one.log))} tries to join and does not arrive. "
            f"{' '.join(_signs(one))} As long as it tries, it can force elections on the others (KAFKA-19541). "
            f"Each answer must come within {timeout:,} ms ({FETCH_TIMEOUT}). "
            f"That takes a link of {rate:,} bytes/s, or of {former:,} bytes/s before Kafka 4.3, which asks for 8 MiB at once. "
            f"Stop this node. Then lower {FETCHED_SNAPSHOT_BYTES} (from Kafka 4.3 on), or raise the timeout. "
            f"Or put {wanted.name} of replica {one.wanted.replica} into its empty log folder by hand.",
            one.part.path if one.part else one.log.evidence.folder,
            offset=one.log.end_offset or 0,
            other_replica=one.wanted.replica,
            evidence={
                "end_offset": one.log.end_offset or 0,
                "snapshot": one.wanted.path,
                "snapshot_size_bytes": size,
                "elections_since": one.elections,
                "epochs_ahead": one.ahead,
                "part": one.part.path if one.part else None,
                "part_size_bytes": one.part.evidence.size_bytes if one.part else None,
                "part_stalled_ms": one.stalled_ms,
                "least_bytes_per_second": rate,
                "fetch_timeout_ms": timeout,
            },
        )


def _signs(one: Joining) -> Iterator[str]:
    end, wanted = one.log.end_offset or 0, one.wanted
    yield (
        f"Its log ends at offset {end}, and the leader would send it {wanted.evidence.name} of {counted(wanted.evidence.size_bytes, 'byte')}."
    )
    if one.part is not None:
        size = one.part.evidence.size_bytes
        age = f" and {one.stalled_ms / 1000:,.0f} s old" if one.stalled_ms else ""
        yield f"Its {one.part.evidence.name} is {counted(size, 'byte')} long{age}."
    if one.elections:
        yield f"The others have had {counted(one.elections, 'leader')} since its log ended."
    if one.ahead:
        yield f"Its quorum-state is {counted(one.ahead, 'epoch')} above every log at hand."
