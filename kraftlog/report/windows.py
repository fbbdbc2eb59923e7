"""Windows of offsets: the whole axis of the logs, and what needs a closer look.

In: `PageData`. Out: windows. A log may hold millions of offsets and a tail of five.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from kraftlog.report.view import PageData

_UNSEEN = 400
"""Places nearer to each other than this part of the axis cannot be told apart on it."""
_NEAR = 0.05
_ZOOMED = 0.25
_LEAST_WINDOW = 24
ZOOM_LIMIT = 4


@dataclass(frozen=True, slots=True)
class OffsetWindow:
    """Offsets [low, high) of one drawing."""

    low: int
    high: int

    @property
    def size(self) -> int:
        return max(1, self.high - self.low)

    def holds(self, offset: int) -> bool:
        """Whether a mark at an offset can be drawn; the end of the last record counts."""
        return self.low <= offset <= self.high


def whole(data: PageData) -> OffsetWindow:
    """From the lowest log start to the furthest log end."""
    starts = [row["log_start_offset"] or 0 for row in data.replicas]
    ends = [row["log_end_offset"] or 0 for row in data.replicas]
    low, high = min(starts, default=0), max(ends, default=1)
    return OffsetWindow(low, max(high, low + 1))


def zooms(data: PageData) -> list[OffsetWindow]:
    """Windows around findings that the whole axis is too coarse for, with the ends and bounds near
    them.

    Places that lie near each other share a window. There is none where no finding is, where all can
    be told apart already, or where it would show much of the axis again."""
    axis = whole(data)
    bad = {place for place in _found(data) if axis.holds(place)}
    places = sorted({place for place in _places(data) if axis.holds(place)})
    clusters: list[list[int]] = []
    for place in places:
        if clusters and place - clusters[-1][-1] <= _NEAR * axis.size:
            clusters[-1].append(place)
        else:
            clusters.append([place])
    windows = [
        _around(cluster, axis)
        for cluster in clusters
        if bad.intersection(cluster) and _too_near(cluster, axis)
    ]
    return [one for one in windows if one.size <= _ZOOMED * axis.size][-ZOOM_LIMIT:]


def _too_near(places: list[int], axis: OffsetWindow) -> bool:
    return any((b - a) * _UNSEEN < axis.size for a, b in pairwise(places))


def _places(data: PageData) -> Iterator[int]:
    for row in data.replicas:
        yield row["log_end_offset"] or 0
    for bound in data.committed:
        if bound:
            yield bound
    yield from _found(data)


def _found(data: PageData) -> Iterator[int]:
    for finding in data.findings:
        if finding["severity"] != "info" and finding["replica"]:
            yield from (finding[name] for name in ("offset", "end_offset") if finding[name])


def _around(places: list[int], axis: OffsetWindow) -> OffsetWindow:
    spread = places[-1] - places[0]
    margin = max(_LEAST_WINDOW // 2, spread // 5)
    return OffsetWindow(max(axis.low, places[0] - margin), min(axis.high, places[-1] + margin))
