"""What a replica answers to a consumer whose offset it may not have, and what the consumer does
then.

In: the offsets of one replica, and the offset that is asked for. Out: one of the four cases of
KIP-392, or none; then a decision. Pure. The truth table of OffsetForLeaderEpoch is in `epochs`.
Source: KIP-392 "Follower Fetching" and "Out of range handling".
"""

from dataclasses import dataclass
from enum import StrEnum

from kraftlog.errors import KraftlogError
from kraftlog.quorum.epochs import EpochEnd
from kraftlog.simulate.epochs import Decision, out_of_range
from kraftlog.simulate.fetch import Dialect


class NoOffsetForPolicy(KraftlogError):
    """auto.offset.reset is none: the application is told."""


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
    """One replica. `leader_high_watermark` is what the leader last told it, which may lie beyond
    its own log end.
    """

    log_start: int
    log_end: int
    leader_high_watermark: int

    @property
    def high_watermark(self) -> int:
        """What it holds and knows to be committed."""
        return min(self.leader_high_watermark, self.log_end)


def classify(replica: Offsets, offset: int) -> Case:
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
    case = classify(replica, offset)
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


def reset_offset(policy: Policy, replica_log_start: int, leader_log_end: int) -> int:
    """Where a consumer goes on: earliest is the log start of the very replica that refused, as the
    leader's may not be there; latest is the leader's log end.

    Raises NoOffsetForPolicy for none.
    """
    if policy == Policy.NONE:
        raise NoOffsetForPolicy("the offset is out of range, and no reset policy is set")
    return replica_log_start if policy == Policy.EARLIEST else leader_log_end


RETRY = "retry"


@dataclass(frozen=True, slots=True)
class Consumer:
    """What a consumer knows: the epoch of the record before its offset, where it knows one."""

    offset: int
    fetched_epoch: int | None
    policy: Policy


def next_step(
    consumer: Consumer, replica: Offsets, leader_log_end: int, epoch_end: EpochEnd | None
) -> tuple[str, int]:
    """What a consumer does after this replica's answer, and the offset it goes on from.

    `epoch_end` is the leader's answer to OffsetForLeaderEpoch, which is asked only where the offset
    is too large: what is too small goes by the reset policy at once. Raises NoOffsetForPolicy where
    a policy is needed and there is none.
    """
    offset, case = consumer.offset, classify(replica, consumer.offset)
    if case in (Case.COMMITTED, Case.AT_END):
        return Decision.CONTINUE, offset
    if case in (Case.UNCOMMITTED, Case.UNAVAILABLE):
        return RETRY, offset
    if case == Case.TOO_LARGE:
        has_policy = consumer.policy != Policy.NONE
        found, at = out_of_range(
            consumer.fetched_epoch, offset, epoch_end, has_reset_policy=has_policy
        )
        if at is not None:
            return found, at
    at = reset_offset(consumer.policy, replica.log_start, leader_log_end)
    return Decision.RESET_POLICY, at
