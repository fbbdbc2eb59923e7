"""The drawing of the replicas' logs: one bar per replica on a common axis of offsets.

In: `PageData`, a window of offsets, a width in pixels. Out: an SVG element. Above a bar stand
findings, below it snapshots; the committed bounds are lines across all bars.
"""

from dataclasses import dataclass
from typing import Any

import altair as alt

from kraftlog.report.marks import (
    bound_marks,
    edge_marks,
    epoch_marks,
    finding_marks,
    replica_marks,
    snapshot_marks,
    start_marks,
)
from kraftlog.report.svg import drawn, layer
from kraftlog.report.view import PageData
from kraftlog.report.windows import OffsetWindow

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
        *_epochs(data, window),
        _epoch_names(data, window, size),
        *_edges(data, window),
        *_findings(data, window, size),
        _ends(data, window),
        *_snapshots(data, window),
        *_bounds(data, window),
    ]
    low, high = window.low, window.high
    x = alt.X(
        "low:Q",
        scale=alt.Scale(domain=[low, high], nice=False, zero=False, clamp=True),
        axis=alt.Axis(
            title="offset", format=",d", tickMinStep=1, tickCount=max(2, size.axis // 110)
        ),
    )
    frame = layer([{"low": low, "row": 0, "name": ""}]).mark_point(opacity=0, aria=False)
    chart = alt.layer(frame.encode(x=x, y=_y(data)), *layers)
    rows = max(1, len(data.replicas))
    padding = {"left": 14, "right": 14, "top": 8, "bottom": 4}
    return drawn(chart.properties(width=size.axis, height=rows * size.row, padding=padding), title)


def _y(data: PageData) -> Any:
    domain = list(range(max(1, len(data.replicas))))
    return alt.Y("row:O", axis=None, scale=alt.Scale(domain=domain, padding=0))


def _x(field: str) -> Any:
    return alt.X(f"{field}:Q")


def _fixed(channel: Any, pixels: int) -> Any:
    """A place that no row of data names."""
    return channel(pixels)


_ROW, _LABEL = alt.Y("row:O"), alt.Description("label:N")
# Altair looks all its classes through for a channel that is given as a text, or as a value.
_TEXT = alt.Text("text:N")
_COLOUR = alt.Color("colour:N", scale=None)


def _rows(data: PageData, size: Size) -> list[Any]:
    """Names, and a field over the whole row that the keyboard reaches."""
    marks = replica_marks(data)
    room = int((size.names or size.axis) / _BOLD_LETTER)
    for one in marks:
        one["name"] = _shortened(one["name"], room)
    names = layer(marks).mark_text(
        align="right" if size.names else "left",
        baseline="middle", fontSize=13, fontWeight=600, color="var(--ink)", aria=False,
        yOffset=0 if size.names else -size.row // 2 + 8,
    )  # fmt: skip
    fields = layer(marks).mark_rect(
        fill="var(--row)", fillOpacity=0, ariaRoleDescription="replica", cornerRadius=4
    )
    at = _fixed(alt.XValue, -12 if size.names else 0)
    return [
        fields.encode(
            x=_fixed(alt.XValue, 0), x2=_fixed(alt.X2Value, size.axis), y=_ROW, description=_LABEL
        ),
        names.encode(x=at, y=_ROW, text=alt.Text("name:N")),
    ]


def _shortened(text: str, room: int) -> str:
    """The end of a long path tells replicas apart."""
    return text if len(text) <= room else f"…{text[1 - room :]}"


def _epochs(data: PageData, window: OffsetWindow) -> list[Any]:
    bars = layer(epoch_marks(data, window)).mark_bar(
        height=_BAR, stroke="var(--card)", strokeWidth=1, ariaRoleDescription="epoch"
    )
    return [bars.encode(x=_x("start"), x2="end:Q", y=_ROW, color=_COLOUR, description=_LABEL)]


def _epoch_names(data: PageData, window: OffsetWindow, size: Size) -> Any:
    """At the left of their bars, where there is room."""
    marks = [
        one for one in epoch_marks(data, window)
        if (one["end"] - one["start"]) / window.size * size.axis > len(one["text"]) * _LETTER + 8
    ]  # fmt: skip
    texts = layer(marks).mark_text(
        align="left", dx=6, baseline="middle", fontSize=11, color="var(--on-bar)", aria=False
    )
    return texts.encode(x=_x("start"), y=_ROW, text=_TEXT)


def _edges(data: PageData, window: OffsetWindow) -> list[Any]:
    marks = edge_marks(data, window)
    ticks = []
    for kind in ("log start", "log end"):
        held = [one for one in marks if one["kind"] == kind]
        tick = layer(held).mark_tick(
            orient="vertical", size=_SPAN, thickness=2, color="var(--ink)", ariaRoleDescription=kind
        )
        ticks.append(tick.encode(x=_x("at"), y=_ROW, description=_LABEL))
    return ticks


def _ends(data: PageData, window: OffsetWindow) -> Any:
    """The offsets of the edges, above the frames of findings."""
    label = layer(edge_marks(data, window)).mark_text(
        align="left", baseline="middle", dx=6, fontSize=12, color="var(--ink)", aria=False
    )
    return label.encode(x=_x("at"), y=_ROW, text=_TEXT)


def _findings(data: PageData, window: OffsetWindow, size: Size) -> list[Any]:
    """What is wrong where: a frame over the offsets, a mark and its offset above their start."""
    marks = finding_marks(data, window)
    starts = start_marks(marks, window, size.axis // 70)
    spans = layer(marks).mark_bar(height=_SPAN, strokeWidth=2, ariaRoleDescription="finding")
    shapes = layer(starts).mark_point(
        size=90, yOffset=_ABOVE, filled=True, opacity=1, ariaRoleDescription="finding start",
        stroke="var(--card)", strokeWidth=1,
    )  # fmt: skip
    texts = layer(starts).mark_text(
        align="left", baseline="middle", dx=9, yOffset=_ABOVE, fontSize=12, fontWeight=600,
        aria=False,
    )  # fmt: skip
    stroke = alt.Stroke("colour:N", scale=None)
    fill, cover = alt.Fill("fill:N", scale=None), alt.FillOpacity("cover:Q", scale=None)
    shape = alt.Shape("shape:N", scale=None)
    return [
        spans.encode(
            x=_x("start"),
            x2="end:Q",
            y=_ROW,
            fill=fill,
            fillOpacity=cover,
            stroke=stroke,
            description=_LABEL,
        ),
        shapes.encode(x=_x("at"), y=_ROW, color=_COLOUR, shape=shape, description=_LABEL),
        texts.encode(x=_x("at"), y=_ROW, color=_COLOUR, text=_TEXT),
    ]


def _snapshots(data: PageData, window: OffsetWindow) -> list[Any]:
    diamonds = layer(snapshot_marks(data, window)).mark_point(
        shape="diamond", size=70, yOffset=_BELOW, opacity=1, strokeWidth=1.5,
        ariaRoleDescription="snapshot",
    )  # fmt: skip
    fill, stroke = alt.Fill("fill:N", scale=None), alt.Stroke("colour:N", scale=None)
    return [diamonds.encode(x=_x("at"), y=_ROW, fill=fill, stroke=stroke, description=_LABEL)]


def _bounds(data: PageData, window: OffsetWindow) -> list[Any]:
    found = []
    marks = bound_marks(data, window)
    for place, one in enumerate(marks):
        right = one["at"] - window.low > window.size / 2
        rule = layer([one]).mark_rule(
            strokeWidth=2, strokeDash=[6, 4] if one["line"] == "dashed" else [1, 0],
            color="var(--ok)", ariaRoleDescription="committed bound",
        )  # fmt: skip
        text = layer([one]).mark_text(
            align="right" if right else "left", baseline="bottom", dx=-4 if right else 4,
            fontSize=12, fontWeight=600, color="var(--ok)", aria=False,
        )  # fmt: skip
        above = _fixed(alt.YValue, -4 - 15 * (len(marks) - 1 - place))
        found += [
            rule.encode(x=_x("at"), description=_LABEL),
            text.encode(x=_x("at"), y=above, text=_TEXT),
        ]
    return found
