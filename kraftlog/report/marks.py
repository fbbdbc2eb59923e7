"""The replicas' logs as marks on an axis of offsets: what is drawn, before anything draws it; and the
windows of that axis that need a closer look: a log may hold millions of offsets and a tail of five.

In: `PageData`, a window of offsets. Out: windows; and rows with the label that a reader of the drawing
hears or points at. Nothing here knows a chart library. Source: KIP-630 "Design", the KIP's drawing of
log start, high watermark and log end over offsets and epochs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from kraftlog.audit.check import RANK
from kraftlog.relations import Row
from kraftlog.report.view import PageData, status_of

_UNSEEN = 400
"""Places nearer to each other than this part of the axis cannot be told apart on it."""
_NEAR = 0.05
_ZOOMED = 0.25
_LEAST_WINDOW = 24
ZOOM_LIMIT = 4
EPOCH_COLOURS = 6
"""So many epochs have colours of their own choice; of more, each gets one by its number."""
_GOLDEN_ANGLE = 137.508
_RESOLUTION = 600
"""Epochs shorter than this part of a window are drawn together."""


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


def full_extent(data: PageData) -> OffsetWindow:
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
    axis = full_extent(data)
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
        if bad.intersection(cluster)
        and any((b - a) * _UNSEEN < axis.size for a, b in pairwise(cluster))
    ]
    return [one for one in windows if one.size <= _ZOOMED * axis.size][-ZOOM_LIMIT:]


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


def replica_marks(data: PageData) -> list[Row]:
    """One row per replica: everything about it in one sentence."""
    return [
        {"row": index, "name": data.short_names[row["replica"]], "label": _sentence(data, row)}
        for index, row in enumerate(data.ordered)
    ]


def _sentence(data: PageData, row: Row) -> str:
    epochs = [one[0] for one in row["epochs"] or []]
    ends = [f"{one[0]:,}" for one in row["snapshots"] or []]
    where = f"snapshots at offsets {', '.join(ends)}" if len(ends) > 1 else "no snapshot"
    where = f"snapshot at offset {ends[0]}" if len(ends) == 1 else where
    told = f"epochs {epochs[0]} to {epochs[-1]}" if epochs else "no epoch"
    log = (
        "log not read"
        if row["log_end_offset"] is None
        else f"log from offset {row['log_start_offset'] or 0:,} to {row['log_end_offset']:,}"
    )
    return f"{data.names[row['replica']]}: {log}, {told}, {where}; {status_of(data, row)[1]}"


def epoch_marks(data: PageData, window: OffsetWindow) -> list[Row]:
    """One row per epoch and replica inside the window; runs of very short epochs are one row."""
    ranks = {
        epoch: rank
        for rank, epoch in enumerate(sorted({one["batch_leader_epoch"] for one in data.epochs}))
    }
    found = []
    for index, row in enumerate(data.ordered):
        pieces = sorted(
            (
                (max(one["start_offset"], window.low), min(one["end_offset"], window.high), one)
                for one in data.epochs
                if one["replica"] == row["replica"]
            ),
            key=lambda piece: piece[0],
        )
        for group in _joined([one for one in pieces if one[0] < one[1]], window):
            found.append(_epoch_mark(index, data.names[row["replica"]], group, ranks))
    return found


Piece = tuple[int, int, Row]


def _joined(pieces: list[Piece], window: OffsetWindow) -> Iterator[list[Piece]]:
    group: list[Piece] = []
    for piece in pieces:
        short = (piece[1] - piece[0]) * _RESOLUTION < window.size
        if group and not (short and (group[0][1] - group[0][0]) * _RESOLUTION < window.size):
            yield group
            group = []
        group.append(piece)
    if group:
        yield group


def _epoch_mark(index: int, name: str, group: list[Piece], ranks: dict[int, int]) -> Row:
    first, last = group[0][2], group[-1][2]
    start, end = group[0][0], group[-1][1]
    extent = f"offsets {first['start_offset']:,} to {last['end_offset'] - 1:,}"
    epoch = first["batch_leader_epoch"]
    if len(group) > 1:
        text = f"{epoch}–{last['batch_leader_epoch']}"
        colour, told = "var(--many)", f"{len(group)} epochs, {text}"
    else:
        text, told = f"epoch {epoch}", f"epoch {epoch}"
        colour = _colour(ranks[epoch], len(ranks))
        if first["leader_id"] is not None:
            told += f", leader {first['leader_id']}"
    return {
        "row": index, "start": start, "end": end, "colour": colour, "text": text,
        "label": f"{name}: {told}, {extent}",
    }  # fmt: skip


def _colour(rank: int, count: int) -> str:
    """No two epochs share one, and neighbours are far apart."""
    if count <= EPOCH_COLOURS:
        return f"var(--e{rank})"
    return f"hsl({rank * _GOLDEN_ANGLE % 360:.1f} 45% var(--epoch-light-{rank % 2}))"


def finding_marks(data: PageData, window: OffsetWindow) -> list[Row]:
    """One row per place that findings name, the worst of them first in its label."""
    places: dict[tuple[int, int], list[Row]] = {}
    rows = {row["replica"]: index for index, row in enumerate(data.ordered)}
    for one in data.findings:
        if one["severity"] == "info" or one["scope"] == "snapshot" or one["replica"] not in rows:
            continue
        start, end = one["offset"], one["end_offset"]
        if start is None or start > window.high or (end or start + 1) <= window.low:
            continue
        places.setdefault((rows[one["replica"]], start), []).append(one)
    return [_finding_mark(data, window, row, found) for (row, _), found in sorted(places.items())]


def _finding_mark(data: PageData, window: OffsetWindow, row: int, found: list[Row]) -> Row:
    found = sorted(found, key=lambda one: RANK[one["severity"]])
    start = found[0]["offset"]
    ends = [one["end_offset"] for one in found if one["end_offset"]]
    end = max(ends, default=start + 1)
    told = "; ".join(dict.fromkeys(f"{one['severity']} finding of {one['check']}" for one in found))
    extent = f"offset {start:,}" if end <= start + 1 else f"offsets {start:,} to {end - 1:,}"
    differs = any(one["other_replica"] or "tail" in one["check"] for one in found)
    return {
        "row": row, "start": max(start, window.low), "end": min(end, window.high),
        "at": start, "shape": "triangle-down" if differs else "cross",
        "rank": RANK[found[0]["severity"]],
        "colour": f"var(--{found[0]['severity']})", "text": f"{start:,}",
        # What is damaged or missing shows no epoch through; what differs does.
        "fill": f"var(--{found[0]['severity']})" if differs else "var(--card)",
        "cover": 0.22 if differs else 0.8,
        "label": f"{data.names[found[0]['replica']]}: {told} at {extent}",
    }  # fmt: skip


def start_marks(marks: list[Row], window: OffsetWindow, room: int) -> list[Row]:
    """The marks above the bars: where findings start inside the window. Those that would cover
    their left neighbour, over less than a `room`-th of the window, are told by it.
    """
    found: list[Row] = []
    for one in marks:
        last = found[-1] if found else None
        if one["at"] < window.low:
            continue
        if last and last["row"] == one["row"] and (one["at"] - last["at"]) * room < window.size:
            worse = one if one["rank"] < last["rank"] else last
            found[-1] = {
                **last, "colour": worse["colour"], "shape": worse["shape"], "rank": worse["rank"],
                "more": last["more"] + 1, "label": f"{last['label']}; {one['label']}",
            }  # fmt: skip
        else:
            found.append({**one, "more": 0})
    return [
        {**one, "text": f"{one['text']} +{one['more']}"} if one["more"] else one for one in found
    ]


def snapshot_marks(data: PageData, window: OffsetWindow) -> list[Row]:
    """One row per snapshot that ends inside the window."""
    rows = {row["replica"]: index for index, row in enumerate(data.ordered)}
    bad = {
        one["path"]: one for one in reversed(data.findings)
        if one["scope"] == "snapshot" and one["severity"] != "info"
    }  # fmt: skip
    found = []
    for one in data.snapshots:
        end = one["end_offset"]
        if one["replica"] not in rows or end is None or not window.holds(end):
            continue
        fault = bad.get(one["path"])
        colour = "var(--ink)" if fault is None else f"var(--{fault['severity']})"
        told = "" if one["complete"] else ", incomplete"
        told += "" if fault is None else f"; {fault['severity']}: {fault['check']}"
        found.append(
            {
                "row": rows[one["replica"]], "at": end, "colour": colour,
                "fill": colour if one["complete"] else "var(--card)",
                "label": f"{data.names[one['replica']]}: snapshot of the offsets below {end:,}, epoch {one['epoch']}, {one['size_bytes'] or 0:,} bytes{told}",
            }
        )  # fmt: skip
    return found


def edge_marks(data: PageData, window: OffsetWindow) -> list[Row]:
    """One row per log start and log end inside the window."""
    found = []
    for index, row in enumerate(data.ordered):
        name = data.names[row["replica"]]
        for kind, key in (("log start", "log_start_offset"), ("log end", "log_end_offset")):
            at = row[key]
            if at is not None and window.holds(at):
                text = f"{at:,}" if kind == "log end" else ""
                label = f"{name}: {kind} offset {at:,}"
                found.append({"row": index, "at": at, "kind": kind, "text": text, "label": label})
    return found


def bound_marks(data: PageData, window: OffsetWindow) -> list[Row]:
    """The committed bounds inside the window; one mark where both are the same."""
    lower, upper = data.committed
    same = lower == upper
    found = [
        (lower, "committed exactly below" if same else "committed below", "solid"),
        (None if same else upper, "not committed from", "dashed"),
    ]
    return [
        {"at": at, "text": f"{words} {at:,}", "label": f"{words} {at:,}", "line": line}
        for at, words, line in found
        if at and window.holds(at)
    ]
