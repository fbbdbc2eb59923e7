"""What a reader makes of an OffsetForLeaderEpoch answer: the truth table of KIP-392, and the answer
as a consumer gets it.

In: a log's epoch vector, and what a reader knows of its last record. Out: an answer, and a
decision. Pure. The rule of the vectors itself is in `quorum.epochs`. Source: KIP-392 "Out of range"
and "OffsetsForLeaderEpoch"; KIP-320.
"""

from enum import StrEnum

from kraftlog.quorum.epochs import EpochEnd, EpochVector, offset_for_leader_epoch


def consumer_epoch_end(vector: EpochVector, epoch: int, high_watermark: int) -> EpochEnd | None:
    """The leader's answer to a consumer: where a follower is told the log's end, a consumer is told
    nothing above the high watermark; None where the epoch is not known. Source: KIP-392.
    """
    end = offset_for_leader_epoch(vector, epoch)
    return None if end is None else EpochEnd(end.epoch, min(end.end_offset, high_watermark))


class OffsetVerdict(StrEnum):
    """What an answer says of the offset that a reader holds."""

    VALID = "valid"
    TRUNCATED = "truncated"
    UNKNOWN = "unknown"


def verdict(fetched_epoch: int, offset: int, end: EpochEnd | None) -> OffsetVerdict:
    """The truth table: the same epoch that ends at or after the offset leaves it valid; the same
    epoch that ends before it, or an older epoch, means that the log was truncated.
    """
    if end is None:
        return OffsetVerdict.UNKNOWN
    if end.epoch < fetched_epoch or (end.epoch == fetched_epoch and end.end_offset < offset):
        return OffsetVerdict.TRUNCATED
    return OffsetVerdict.VALID if end.epoch == fetched_epoch else OffsetVerdict.UNKNOWN


class Decision(StrEnum):
    """What a reader does after OFFSET_OUT_OF_RANGE from a replica."""

    CONTINUE = "refresh_metadata_and_continue"
    RESET_TO_DIVERGENCE = "reset_to_divergence"
    RAISE_TRUNCATION = "raise_log_truncation"
    RESET_POLICY = "reset_policy"


def out_of_range(
    fetched_epoch: int | None, offset: int, end: EpochEnd | None, *, has_reset_policy: bool
) -> tuple[Decision, int | None]:
    """What a consumer whose offset is past a replica's end does, and the offset it goes on from
    where that is known.

    Without an epoch it can only follow its reset policy. Where the leader's log was truncated,
    KIP-320 takes it back to the point of divergence, or tells a consumer that has no policy.
    """
    if fetched_epoch is None:
        return Decision.RESET_POLICY, None
    found = verdict(fetched_epoch, offset, end)
    if found == OffsetVerdict.VALID:
        return Decision.CONTINUE, offset
    if found == OffsetVerdict.TRUNCATED and end is not None:
        kind = Decision.RESET_TO_DIVERGENCE if has_reset_policy else Decision.RAISE_TRUNCATION
        return kind, end.end_offset
    return Decision.RESET_POLICY, None
