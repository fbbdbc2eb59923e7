"""Limits of checks that are a matter of measure. One frozen value, which pickles; each limit is an
option of `conf/kraftlog.toml`, where its reason stands.
"""

from dataclasses import dataclass, fields

from kraftlog.config import Options

FILE_LIMIT_BYTES = (1 << 31) - 1
"""Kafka opens no larger file of records (FileRecords), so it neither loads nor serves such a snapshot.
"""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What the audit may be told; the defaults are those of the packaged options."""

    elections_per_hour: int = 20
    skipped_epochs: int = 50
    copy_skew_ms: int = 60_000
    lag_offsets: int = 1_000
    idle_gap_ms: int = 60_000
    mass_deletion_percent: int = 50
    mass_deletion_minimum: int = 4
    mass_deletion_minor_percent: int = 80
    mass_deletion_minor_minimum: int = 20
    mass_deletion_window_ms: int = 60_000
    snapshot_usual_bytes: int = 10 << 20
    retention_over_percent: int = 50
    snapshot_part_ms: int = 600_000
    disk_days: int = 7
    tenure_ms: int = 60_000
    short_tenures: int = 8
    rejoin_ms: int = 60_000
    snapshot_stale_ms: int = 86_400_000


THRESHOLDS = tuple(one.name for one in fields(Thresholds))
"""Their names, which are those of options."""


def thresholds_of(options: Options) -> Thresholds:
    """The limits that the options set."""
    return Thresholds(**{one: getattr(options, one) for one in THRESHOLDS})
