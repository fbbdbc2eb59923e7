"""What consumers of each rack read of each partition, and what it costs to carry it between zones.

In: partitions, racks, and one of three ways to weigh them. Out: bytes per day. Pure, but for the
file that a reader names. Clouds ask for each byte that leaves a zone and for each that comes into
another, which is the case for KIP-392 ("Motivation").
"""

import csv
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kraftlog.errors import UsageError

EVEN, BY_TOPIC = "even", "by-topic"
GB = 1_000_000_000
PRICE_PER_GB = 0.02
"""What large clouds ask for a gigabyte from zone to zone: a cent on either side."""
DAYS_OF_MONTH = 30
MOST = 1e24
"""More bytes, or money, than there are: sums and products of such numbers are still numbers."""

Place = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes per day that the consumers of each rack read, by place, in the order of `racks`.
    `has_bytes` is False where the numbers are weights only.
    """

    racks: Sequence[str]
    read: Mapping[Place, Sequence[float]]
    has_bytes: bool

    def of(self, topic: str, partition: int) -> Sequence[float]:
        """What each rack reads of one partition."""
        return self.read.get((topic, partition), (0.0,) * len(self.racks))


def evenly(
    places: Iterable[Place], racks: Sequence[str], total: float | None, *, by_topic: bool = False
) -> Traffic:
    """Each partition, or topic whatever its number of partitions, is read alike by each rack."""
    every = list(places)
    sizes = Counter(topic for topic, _ in every)
    count = len(sizes) if by_topic else len(every)
    each = 1.0 if total is None else total / max(1, count * len(racks))
    read = {
        (topic, at): (each / (sizes[topic] if by_topic else 1),) * len(racks) for topic, at in every
    }
    return Traffic(racks, read, total is not None)


def from_file(
    path: str, places: Iterable[Place], racks: Sequence[str]
) -> tuple[Traffic, list[str]]:
    """By a CSV with the columns topic, bytes_per_day and, where they are known, partition and rack:
    what names no partition is spread over all of the topic, and no rack over all racks. Also what
    it names that is not there.

    Raises UsageError where it cannot be read so.
    """
    known: dict[str, list[int]] = {}
    for topic, at in places:
        known.setdefault(topic, []).append(at)
    read: dict[Place, list[float]] = {}
    unknown = []
    for number, row in enumerate(_rows(path), 2):
        size = _size(path, number, row["bytes_per_day"])
        held, only = known.get(row["topic"], []), _whole(path, number, row.get("partition"))
        wanted = held if only is None else [only] if only in held else []
        in_racks = [one for one in racks if row.get("rack") in ("", None, one)]
        if not wanted or not in_racks:
            unknown.append(", ".join(value for value in row.values() if value))
            continue
        share = size / len(wanted) / len(in_racks)
        for partition in wanted:
            of = read.setdefault((row["topic"], partition), [0.0] * len(racks))
            for rack in in_racks:
                of[racks.index(rack)] += share
    return Traffic(racks, read, True), unknown


def _rows(path: str) -> list[dict[str, str]]:
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, skipinitialspace=True)
            columns, rows = reader.fieldnames, list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"the traffic file {path} cannot be read: {error}") from error
    missing = {"topic", "bytes_per_day"} - set(columns or ())
    if missing:
        raise UsageError(
            f"the traffic file {path} has no column {' and no column '.join(sorted(missing))}; its first line must name topic and bytes_per_day, and may name partition and rack"
        )
    for number, row in enumerate(rows, 2):
        if None in row:  # where csv.DictReader puts what no column names
            raise UsageError(
                f"{path}, line {number} has more cells than the first line names columns: a cell with a comma in it stands in quotes"
            )
    return rows


def _size(path: str, number: int, text: str | None) -> float:
    try:
        size = float(text or "")
    except ValueError:
        size = -1
    if not 0 <= size < MOST:
        raise UsageError(f"{path}, line {number}: bytes_per_day {text!r} is not a number of bytes")
    return size


def _whole(path: str, number: int, text: str | None) -> int | None:
    if not text:
        return None
    if not text.isdecimal():
        raise UsageError(f"{path}, line {number}: partition {text!r} is not a number")
    return int(text)


def cost_per_month(bytes_per_day: float, price_per_gb: float) -> float:
    """What bytes across zones cost in thirty days."""
    return bytes_per_day * DAYS_OF_MONTH / GB * price_per_gb
