"""What elections cost against what they save: two designs that were weighed and not taken.

In: rates per day and a round trip. Out: milliseconds per day, or elections. Source: KAFKA-1211's
discussion, KIP-630's third rejected alternative.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FollowerCost:
    """Milliseconds of waiting per day: of one more request when a follower begins, or of one more
    round trip of each write.
    """

    request_ms_per_day: float
    round_trip_ms_per_day: float


def follower_cost(
    elections_per_day: float, followers: int, writes_per_day: float, rtt_ms: float
) -> FollowerCost:
    """Each follower asks once after each election; each write waits for one more round trip."""
    return FollowerCost(elections_per_day * followers * rtt_ms, writes_per_day * rtt_ms)


def handover_elections_per_day(snapshots_per_day: float, voters: int) -> float | None:
    """Elections per day if a leader handed over before each snapshot of its own; None for a single
    voter, which has nobody to hand over to.
    """
    return None if voters < 2 else snapshots_per_day
