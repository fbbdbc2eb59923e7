"""Rules by which a follower cuts its log when another leads, and what their remedies cost a day.

In: rates per day and a round trip. Out: ms of waiting. Source: KAFKA-1211.
"""

from enum import StrEnum
from typing import NamedTuple


class TruncationRule(StrEnum):
    """How a follower decides what of its log to keep before it fetches from a new leader.

    Acknowledgements that are held cut to the high watermark as well, and tell a producer that a
    record is committed only when every replica has heard so: a round trip more for each write.
    """

    HIGH_WATERMARK = "high_watermark"
    HELD_ACKNOWLEDGEMENTS = "held_acknowledgements"
    LEADER_EPOCH = "leader_epoch"


class Cost(NamedTuple):
    """What two remedies add per day, in ms of waiting: a question for the leader's vector by each
    follower at each election, and one more round trip for each write.
    """

    vector_ms: float
    held_acknowledgement_ms: float


def remedy_cost(
    elections_per_day: float, followers: int, writes_per_day: float, round_trip_ms: float
) -> Cost:
    """Both costs for one cluster's rates."""
    return Cost(
        elections_per_day * followers * round_trip_ms,
        writes_per_day * round_trip_ms,
    )
