"""What elections would cost where a leader handed over before it takes a snapshot.

In: rates per day. Out: elections. Source: KIP-630's third rejected alternative.
"""


def handover_elections_per_day(snapshots_per_day: float, voters: int) -> float | None:
    """Elections per day if a leader handed over before each snapshot of its own; None for a single
    voter, which has nobody to hand over to.
    """
    return None if voters < 2 else snapshots_per_day
