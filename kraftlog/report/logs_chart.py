"""The drawing of the replicas' logs: one bar per replica on a common axis of offsets.

In: `PageData`, a window of offsets, a width in pixels. Out: an SVG element. Above a bar stand
findings, below it snapshots; the committed bounds are lines across all bars.
"""

from dataclasses import dataclass

from kraftlog.report.marks import (
    OffsetWindow,
    bound_marks,
    edge_marks,
    epoch_marks,
    finding_marks,
    replica_marks,
    snapshot_marks,
    start_marks,
)
from kraftlog.report.svg import COLOUR, LABEL, TEXT, Spec, channel, drawn, layer
from kraftlog.report.view import PageData

_BAR, _SPAN, _ABOVE, _BELOW = 16, 24, -19, 18
_NAMES_ROOM, _ENDS_ROOM = 230, 84
_LETTER, _BOLD_LETTER = 7.6, 8.4
"""Pixels that a letter takes, about; to leave out texts that would not fit."""


@dataclass(frozen=True, slots=True)
class Size:
    """Pixels of a drawing: its axis, the height of a replica's row, and the room for names left of
    the bars; without any they stand above.
    """

    axis: int
    row: int
    names: int


def wide(data: PageData) -> Size:
    """For windows of 700 pixels and more."""
    longest = max((len(name) for name in data.short_names.values()), default=0)
    names = min(_NAMES_ROOM, int(longest * _BOLD_LETTER) + 12)
    return Size(1030 - names - _ENDS_ROOM, 58, names)


NARROW = Size(270, 78, 0)


def logs_svg(data: PageData, window: OffsetWindow, size: Size, title: str) -> str:
    """Draw one window of the logs."""
    layers = [
        *_rows(data, size),
        _epochs(data, window),
        _epoch_names(data, window, size),
        *_edges(data, window),
        *_findings(data, window, size),
        _ends(data, window),
        _snapshots(data, window),
        *_bounds(data, window),
    ]
    zero = window.low if window.high > _EXACT else 0
    for one in layers:
        one["data"] = {"values": [_from(zero, row) for row in one["data"]["values"]]}
    low, high = window.low - zero, window.high - zero
    rows = max(1, len(data.replicas))
    ticks = max(2, size.axis // 110)
    title_of_axis = f"offset, counted from {zero:,} on" if zero else "offset"
    axis = {"title": title_of_axis, "format": ",d", "tickMinStep": 1, "tickCount": ticks}
    scale = {"domain": [low, high], "nice": False, "zero": False, "clamp": True}
    frame = {
        "x": channel("low:Q", scale=scale, axis=axis),
        "y": channel("row:O", axis=None, scale={"domain": [*range(rows)], "padding": 0}),
    }
    first = layer("point", [{"low": low, "row": 0}], frame, opacity=0, aria=False)
    chart = {
        "layer": [first, *layers], "width": size.axis, "height": rows * size.row,
        "padding": {"left": 14, "right": 14, "top": 8, "bottom": 4},
    }  # fmt: skip
    return drawn(chart, title)


_EXACT = 1 << 53
"""Beyond this a drawing knows no single number."""


def _from(zero: int, row: Spec) -> Spec:
    """A row with its places on the axis counted from an offset on."""
    places = ("at", "start", "end")
    return {name: one - zero if name in places else one for name, one in row.items()}


def _fixed(pixels: int) -> Spec:
    """A place that no row of data names."""
    return {"value": pixels}


_ROW = {"y": channel("row:O")}
_AT = {"x": channel("at:Q")} | _ROW
_SPREAD = {"x": channel("start:Q"), "x2": channel("end")} | _ROW
_STROKE = {"stroke": channel("colour:N", scale=None)}
_FILL = {"fill": channel("fill:N", scale=None)}


def _rows(data: PageData, size: Size) -> list[Spec]:
    """Names, and a field over the whole row that the keyboard reaches."""
    rows = replica_marks(data)
    room = int((size.names or size.axis) / _BOLD_LETTER)
    for one in rows:
        one["name"] = _shortened(one["name"], room)
    across = {"x": _fixed(0), "x2": _fixed(size.axis)} | _ROW | LABEL
    fields = layer(
        "rect", rows, across,
        fill="var(--row)", fillOpacity=0, ariaRoleDescription="replica", cornerRadius=4,
    )  # fmt: skip
    names = layer(
        "text", rows, {"x": _fixed(-12 if size.names else 0), "text": channel("name:N")} | _ROW,
        align="right" if size.names else "left",
        baseline="middle", fontSize=13, fontWeight=600, color="var(--ink)", aria=False,
        yOffset=0 if size.names else -size.row // 2 + 8,
    )  # fmt: skip
    return [fields, names]


def _shortened(text: str, room: int) -> str:
    """The end of a long path tells replicas apart."""
    return text if len(text) <= room else f"…{text[1 - room :]}"


def _epochs(data: PageData, window: OffsetWindow) -> Spec:
    return layer(
        "bar", epoch_marks(data, window), _SPREAD | COLOUR | LABEL,
        height=_BAR, stroke="var(--card)", strokeWidth=1, ariaRoleDescription="epoch",
    )  # fmt: skip


def _epoch_names(data: PageData, window: OffsetWindow, size: Size) -> Spec:
    """At the left of their bars, where there is room."""
    named = [
        one for one in epoch_marks(data, window)
        if (one["end"] - one["start"]) / window.size * size.axis > len(one["text"]) * _LETTER + 8
    ]  # fmt: skip
    return layer(
        "text", named, {"x": channel("start:Q")} | _ROW | TEXT,
        align="left", dx=6, baseline="middle", fontSize=11, color="var(--on-bar)", aria=False,
    )  # fmt: skip


def _edges(data: PageData, window: OffsetWindow) -> list[Spec]:
    edges = edge_marks(data, window)
    return [
        layer(
            "tick", [one for one in edges if one["kind"] == kind], _AT | LABEL,
            orient="vertical", size=_SPAN, thickness=2, color="var(--ink)",
            ariaRoleDescription=kind,
        )
        for kind in ("log start", "log end")
    ]  # fmt: skip


def _ends(data: PageData, window: OffsetWindow) -> Spec:
    """The offsets of the edges, above the frames of findings."""
    return layer(
        "text", edge_marks(data, window), _AT | TEXT,
        align="left", baseline="middle", dx=6, fontSize=12, color="var(--ink)", aria=False,
    )  # fmt: skip


def _findings(data: PageData, window: OffsetWindow, size: Size) -> list[Spec]:
    """What is wrong where: a frame over the offsets, a mark and its offset above their start."""
    found = finding_marks(data, window)
    starts = start_marks(found, window, size.axis // 70)
    cover = {"fillOpacity": channel("cover:Q", scale=None)}
    spans = layer(
        "bar", found, _SPREAD | _FILL | cover | _STROKE | LABEL,
        height=_SPAN, strokeWidth=2, ariaRoleDescription="finding",
    )  # fmt: skip
    shapes = layer(
        "point", starts, _AT | COLOUR | {"shape": channel("shape:N", scale=None)} | LABEL,
        size=90, yOffset=_ABOVE, filled=True, opacity=1, ariaRoleDescription="finding start",
        stroke="var(--card)", strokeWidth=1,
    )  # fmt: skip
    texts = layer(
        "text", starts, _AT | COLOUR | TEXT,
        align="left", baseline="middle", dx=9, yOffset=_ABOVE, fontSize=12, fontWeight=600,
        aria=False,
    )  # fmt: skip
    return [spans, shapes, texts]


def _snapshots(data: PageData, window: OffsetWindow) -> Spec:
    return layer(
        "point", snapshot_marks(data, window), _AT | _FILL | _STROKE | LABEL,
        shape="diamond", size=70, yOffset=_BELOW, opacity=1, strokeWidth=1.5,
        ariaRoleDescription="snapshot",
    )  # fmt: skip


def _bounds(data: PageData, window: OffsetWindow) -> list[Spec]:
    found = []
    bounds = bound_marks(data, window)
    for place, one in enumerate(bounds):
        right = one["at"] - window.low > window.size / 2
        x, above = {"x": channel("at:Q")}, {"y": _fixed(-4 - 15 * (len(bounds) - 1 - place))}
        rule = layer(
            "rule", [one], x | LABEL,
            strokeWidth=2, strokeDash=[6, 4] if one["line"] == "dashed" else [1, 0],
            color="var(--ok)", ariaRoleDescription="committed bound",
        )  # fmt: skip
        text = layer(
            "text", [one], x | above | TEXT,
            align="right" if right else "left", baseline="bottom", dx=-4 if right else 4,
            fontSize=12, fontWeight=600, color="var(--ok)", aria=False,
        )  # fmt: skip
        found += [rule, text]
    return found
