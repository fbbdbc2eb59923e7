"""Limits of checks that are a matter of measure, with their reasons. One frozen value, which
pickles.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What the audit may be told; the defaults suit a quorum that is left alone."""

    elections_per_hour: int = 20
    """A rolling restart of five controllers costs five elections; a storm has hundreds."""
    skipped_epochs: int = 50
    """Epochs without a leader between two leaders: each is an election that nobody won."""
    copy_skew_ms: int = 60_000
    """How long copying one replica after the other may take before missing data needs another
    explanation.
    """
    lag_offsets: int = 1_000
    """A running follower is a few records behind; a thousand are eight minutes of an idle quorum.
    """
    mass_deletion_share: float = 0.5
    """Share of all topics, or brokers, that one window may remove."""
    mass_deletion_minor_share: float = 0.8
    """The same for users' things (ACLs, quotas, credentials), of which few are often removed
    together.
    """
    mass_deletion_minimum: int = 4
    """Fewer removals of topics or brokers than this are never called a mass deletion."""
    mass_deletion_minor_minimum: int = 20
    """The same for users' things: a script that cleans up after itself removes a handful."""
    mass_deletion_window_ms: int = 60_000
    """Length of the window."""
    snapshot_fetch_limit_bytes: int = (1 << 31) - 1
    """FetchSnapshot's position is 32 bits wide in effect: a larger file never reaches a follower
    whole (R152).
    """
    snapshot_usual_bytes: int = 10 << 20
    """Metadata snapshots are usually smaller (R152)."""
