"""A check of controllers that fetch and never arrive: all signs of one in one finding.

In: `quorum.joining`. Source: KAFKA-19541, KIP-1219.
"""

from collections.abc import Iterator

from kraftlog.audit.check import BadRow, check
from kraftlog.audit.coverage import Coverage
from kraftlog.audit.triage import called
from kraftlog.plain import counted, sentence
from kraftlog.quorum.joining import (
    DEFAULT_FETCH_BYTES,
    FETCH_TIMEOUT_MS,
    FORMER_FETCH_BYTES,
    Joining,
    is_controller,
    stuck,
)
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.settings import FETCH_TIMEOUT, FETCHED_SNAPSHOT_BYTES


def _over(quorum: Quorum) -> Coverage:
    labels = [log.label for log in quorum.peers if is_controller(quorum, log.evidence)]
    return Coverage(tuple(labels), (), "no copy at hand is of a controller")


@check(
    "controllers_catch_up", "warning", "replica", "KAFKA-19541, KIP-1219",
    "a controller that needs a snapshot gets it",
    action="watch", over=_over,
    meaning="""A controller needs a snapshot that the others have, tries to get it, and does not:
    all signs of it in one finding. Over a slow link an answer does not arrive within
    controller.quorum.fetch.timeout.ms; the controller then stands for election, which costs the
    others their leader, and begins again (KAFKA-19541). A controller that is only switched off
    knows no new epoch and is not told.""",
    advice="""Stop that controller while you help it: from Kafka 4.3 on lower
    controller.quorum.fetch.snapshot.max.bytes (KIP-1219), before that raise
    controller.quorum.fetch.timeout.ms on it, or copy the snapshot and the log of a healthy
    controller into its empty folder. See kraftlog plan join for each step that it takes, and
    for how long that takes over your link.""",
)  # fmt: skip
def can_join(quorum: Quorum) -> Iterator[BadRow]:
    for one in stuck(quorum):
        size = one.wanted.evidence.size_bytes
        signs = list(_signs(one))
        own = one.log.evidence
        timeout = max(1, own.whole_setting(FETCH_TIMEOUT) or FETCH_TIMEOUT_MS)
        chunk = min(size, own.whole_setting(FETCHED_SNAPSHOT_BYTES) or DEFAULT_FETCH_BYTES)
        rate, former = (
            int(part * 1000 / timeout) for part in (chunk, min(size, FORMER_FETCH_BYTES))
        )
        yield BadRow(
            one.log.label,
            f"{sentence(called(quorum, one.log))} tries to join and does not arrive: {'; '.join(signs)}. As long as it tries, it costs the others elections (KAFKA-19541). Each answer must come within {timeout:,} ms ({FETCH_TIMEOUT}), which takes a link of {rate:,} bytes/s ({former:,} before Kafka 4.3, which asks for 8 MiB at once). Stop this node. Then lower {FETCHED_SNAPSHOT_BYTES} (4.3), raise the timeout, or put {one.wanted.evidence.name} of {one.wanted.replica} into its empty folder by hand.",
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
        f"its log ends at offset {end}, and the leader would send it {wanted.evidence.name} of {wanted.evidence.size_bytes:,} bytes"
    )
    if one.part is not None:
        size = one.part.evidence.size_bytes
        age = f", and {one.stalled_ms / 1000:,.0f} s old" if one.stalled_ms else ""
        yield f"its {one.part.evidence.name} is {counted(size, 'byte')} long{age}"
    if one.elections:
        yield f"others had {counted(one.elections, 'leader')} since its log ended"
    if one.ahead:
        yield f"its quorum-state is {counted(one.ahead, 'epoch')} above every log"
