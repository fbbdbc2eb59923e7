"""What a replica answers to a consumer whose offset it may not have, and what the consumer does
then.

In: the offsets of one replica, and the offset that is asked for. Out: one of the four cases of
KIP-392, or none; then a decision. Pure. The rule of epoch vectors is in `quorum.epochs`. Source:
KIP-392 "Follower Fetching", "Out of range handling" and "OffsetsForLeaderEpoch"; KIP-320.
"""

from dataclasses import dataclass
from enum import StrEnum

from kraftlog.quorum.epochs import EpochEnd, EpochVector, offset_for_leader_epoch
from kraftlog.simulate.fetch import Dialect


class Case(StrEnum):
    """Where an offset lies on one replica. The first two are in range."""

    COMMITTED = "committed"
    AT_END = "at_end"
    UNCOMMITTED = "case_1_uncommitted"
    UNAVAILABLE = "case_2_unavailable"
    TOO_SMALL = "case_3_too_small"
    TOO_LARGE = "case_4_too_large"


@dataclass(frozen=True, slots=True)
class Offsets:
    """One replica. `leader_high_watermark` is what the leader told it, perhaps beyond its own end."""

    log_start: int
    log_end: int
    leader_high_watermark: int

    @property
    def high_watermark(self) -> int:
        """What it holds and knows to be committed."""
        return min(self.leader_high_watermark, self.log_end)


def case_of(replica: Offsets, offset: int) -> Case:
    """The case of an offset: below the high watermark it may be read (the green part of the KIP's
    drawing), at the log's end there is nothing yet, all else is one of the four cases.
    """
    if offset < replica.log_start:
        return Case.TOO_SMALL
    if offset < replica.high_watermark:
        return Case.COMMITTED
    if offset < replica.log_end:
        return Case.UNCOMMITTED
    if offset < replica.leader_high_watermark:
        return Case.UNAVAILABLE
    return Case.AT_END if offset == replica.log_end else Case.TOO_LARGE


_KIP_ERRORS = {
    Case.UNCOMMITTED: "OFFSET_NOT_AVAILABLE",
    Case.UNAVAILABLE: "OFFSET_NOT_AVAILABLE",
    Case.TOO_SMALL: "OFFSET_OUT_OF_RANGE",
    Case.TOO_LARGE: "OFFSET_OUT_OF_RANGE",
}


def fetch_error(replica: Offsets, offset: int, dialect: Dialect = Dialect.SHIPPED) -> str | None:
    """The error of a consumer's fetch; None for records, or none yet.

    Kafka as shipped still answers an uncommitted offset with no records, and looks only at its own
    log end, so that a committed offset beyond it is out of range.
    """
    case = case_of(replica, offset)
    if dialect != Dialect.SHIPPED:
        return _KIP_ERRORS.get(case)
    if case == Case.UNAVAILABLE:
        return None if offset == replica.log_end else "OFFSET_OUT_OF_RANGE"
    return None if case == Case.UNCOMMITTED else _KIP_ERRORS.get(case)


class Policy(StrEnum):
    """auto.offset.reset."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


def consumer_epoch_end(vector: EpochVector, epoch: int, high_watermark: int) -> EpochEnd | None:
    """The leader's answer to a consumer: where a follower is told the log's end, a consumer is told
    nothing above the high watermark; None where the epoch is not known. Source: KIP-392.
    """
    end = offset_for_leader_epoch(vector, epoch)
    return None if end is None else EpochEnd(end.epoch, min(end.end_offset, high_watermark))


class Decision(StrEnum):
    """What a reader does after a replica's answer."""

    CONTINUE = "refresh_metadata_and_continue"
    RETRY = "retry"
    RESET_TO_DIVERGENCE = "reset_to_divergence"
    RAISE_TRUNCATION = "raise_log_truncation"
    RESET_POLICY = "reset_policy"
    TELL = "tells_the_application"


Step = tuple[Decision, int | None]
"""A decision, and the offset that the reader goes on from, where that is known."""


@dataclass(frozen=True, slots=True)
class Consumer:
    """What a consumer knows: the epoch of the record before its offset, where it knows one."""

    offset: int
    fetched_epoch: int | None
    policy: Policy


def next_step(
    consumer: Consumer, replica: Offsets, leader_log_end: int, epoch_end: EpochEnd | None
) -> Step:
    """What a consumer does after this replica's answer.

    `epoch_end` is the leader's answer to OffsetForLeaderEpoch, which is asked only where the offset
    is too large: what is too small goes by the reset policy at once.
    """
    offset, case = consumer.offset, case_of(replica, consumer.offset)
    if case in (Case.COMMITTED, Case.AT_END):
        return Decision.CONTINUE, offset
    if case in (Case.UNCOMMITTED, Case.UNAVAILABLE):
        return Decision.RETRY, offset
    told = out_of_range(consumer, epoch_end) if case == Case.TOO_LARGE else None
    return told or reset(consumer.policy, replica.log_start, leader_log_end)


def out_of_range(consumer: Consumer, end: EpochEnd | None) -> Step | None:
    """The truth table for an offset past a replica's end: the same epoch that ends at or after it
    leaves it valid; the same epoch that ends before it, or an older epoch, means that the log was
    truncated. KIP-320 then takes the consumer back to the point of divergence, or tells one that
    has no policy. None: only the policy is left.
    """
    epoch = consumer.fetched_epoch
    if epoch is None or end is None or end.epoch > epoch:
        return None
    if end.epoch == epoch and end.end_offset >= consumer.offset:
        return Decision.CONTINUE, consumer.offset
    is_told = consumer.policy == Policy.NONE
    return Decision.RAISE_TRUNCATION if is_told else Decision.RESET_TO_DIVERGENCE, end.end_offset


def reset(policy: Policy, replica_log_start: int, leader_log_end: int) -> Step:
    """Where a policy goes on: earliest is the log start of the very replica that refused, as the
    leader's may not be there; latest is the leader's log end; without one the application is told.
    """
    if policy == Policy.NONE:
        return Decision.TELL, None
    at = replica_log_start if policy == Policy.EARLIEST else leader_log_end
    return Decision.RESET_POLICY, at
