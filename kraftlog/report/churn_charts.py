"""State and churn in charts: partitions per broker, record types over time, snapshot sizes,
elections.

In: `PageData`, a width in pixels. Out: SVG elements, or a sentence where there is nothing to draw.
A new chart is one declaration above the function that draws it.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from kraftlog.plain import counted, listed, sentence
from kraftlog.relations import Row
from kraftlog.report.svg import COLOUR, LABEL, TEXT, Spec, channel, drawn, layer
from kraftlog.report.view import PageData

BROKER_LIMIT, EPOCH_LIMIT, TYPE_COLOURS = 40, 400, 6
OTHER = "other types"
LEAST_POINTS = 3
"""Two points are no course: a sentence says them better."""

_NEEDS_LAKE = "`kraftlog run` shows it: an audit without a lake decodes no state for it."

Draw = Callable[[PageData, int], Spec | None]
"""(data, width in pixels) → a chart, or None where there is nothing to draw."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of the page: its title, what to know when one looks at it, and what is said where
    there is nothing to draw. `words` says in a sentence what a chart of few points would show;
    `legend` names colours.
    """

    title: str
    note: str
    nothing: str
    draw: Draw
    needs_lake: bool
    words: Callable[[PageData], str | None]
    legend: Callable[[PageData], dict[str, str]]

    def svg(self, data: PageData, width: int) -> str | None:
        """The drawing; None where there is nothing to draw."""
        found = self.draw(data, width)
        return None if found is None else drawn(found, self.title)

    def instead(self, data: PageData) -> str:
        """What is said where nothing is drawn."""
        why = _NEEDS_LAKE if self.needs_lake and not data.has_lake else self.nothing
        return self.words(data) or why


def chart(
    title: str,
    note: str,
    nothing: str,
    *,
    needs_lake: bool = False,
    words: Callable[[PageData], str | None] = lambda data: None,
    legend: Callable[[PageData], dict[str, str]] = lambda data: {},
) -> Callable[[Draw], Chart]:
    """Declare the chart that the function which follows draws."""
    return lambda draw: Chart(title, note, nothing, draw, needs_lake, words, legend)


_BY_TIME = {"type": "utc"}
_CLOCK = {
    "year": "%Y", "quarter": "%Y-%m", "month": "%Y-%m", "week": "%m-%d", "date": "%m-%d",
    "day": "%m-%d", "hours": "%H:%M", "minutes": "%H:%M", "seconds": ":%S",
    "milliseconds": ".%L",
}  # fmt: skip
"""Times as findings write them: 24 hours."""


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")


def _time(column: str, width: int, first: datetime) -> Spec:
    axis = {
        "title": f"time (UTC), from {first:%Y-%m-%d} on", "grid": False,
        "tickCount": max(2, width // 120), "format": _CLOCK, "formatType": "time",
    }  # fmt: skip
    return channel(f"{column}:T", scale=_BY_TIME, axis=axis)


def _count(column: str, title: str, form: str = ",d") -> Spec:
    axis = {
        "title": title, "titlePadding": 14, "format": form, "tickMinStep": 1, "tickCount": 4,
        "domain": False, "labelExpr": "datum.value ? datum.label : '0'",
    }  # fmt: skip
    return channel(f"{column}:Q", axis=axis)


_HELD = {
    "leads": "var(--e0)",
    "follows": "var(--soft)",
    "holds without a leader": "var(--critical)",
}
"""What a broker does with a partition, and its colour."""


@chart(
    "Partitions per broker",
    "In the newest state: partitions that a broker leads, follows, and holds while nobody leads them.",
    "The state holds no partition.",
    needs_lake=True,
    legend=lambda data: _HELD,
)
def loads(data: PageData, width: int) -> Spec | None:
    """Partitions per broker: those that it leads, those that it follows, those without a leader."""
    shown = sorted(data.loads, key=lambda one: -(one.leads + one.follows))[:BROKER_LIMIT]
    if not shown:
        return None
    rows = []
    for one in sorted(shown, key=lambda load: load.broker_id):
        start = 0
        counts = (one.leads, one.follows, one.leaderless)
        for (kind, colour), count in zip(_HELD.items(), counts, strict=True):
            rows.append(
                {
                    "broker": f"broker {one.broker_id}", "start": start, "end": start + count,
                    "colour": colour,
                    "label": f"broker {one.broker_id} {kind} {counted(count, 'partition')}",
                }
            )  # fmt: skip
            start += count
    axis = {"title": "partitions", "format": ",d", "tickMinStep": 1, "tickCount": 5}
    names = {"title": None, "ticks": False, "domain": False, "labelPadding": 6}
    encoding = {
        "x": channel("start:Q", axis=axis), "x2": channel("end"),
        "y": channel("broker:N", sort=None, axis=names),
    }  # fmt: skip
    bars = layer(
        "bar", rows, encoding | COLOUR | LABEL,
        height=14, stroke="var(--card)", strokeWidth=1, ariaRoleDescription="partitions",
    )  # fmt: skip
    return bars | {"width": width - 70, "height": {"step": 24}}


def _all_at_once(data: PageData) -> str | None:
    total = sum(one.count for one in data.type_counts)
    return f"All {total:,} records have the same time." if total else None


def type_colours(data: PageData) -> dict[str, str]:
    """The colour of each type that is told apart, the most frequent first; the rest are one."""
    total: Counter[str] = Counter()
    for one in data.type_counts:
        total[one.type] += one.count
    named = [name for name, _ in total.most_common()]
    if len(named) > TYPE_COLOURS:
        named = [*named[: TYPE_COLOURS - 1], OTHER]
    return {
        name: "var(--many)" if name == OTHER else f"var(--e{rank})"
        for rank, name in enumerate(named)
    }


@chart(
    "Records over time, by type",
    "Records of the logs. A record that several replicas hold is counted once.",
    "No log holds a record with a time.",
    needs_lake=True,
    words=_all_at_once,
    legend=type_colours,
)
def types(data: PageData, width: int) -> Spec | None:
    """Records over time, stacked by type."""
    colours = type_colours(data)
    slices: dict[tuple[datetime, datetime], Counter[str]] = {}
    for one in data.type_counts:
        held = slices.setdefault((one.start, one.end), Counter())
        held[one.type if one.type in colours else OTHER] += one.count
    rows = []
    for (start, end), counts in sorted(slices.items()):
        base = 0
        for name in colours:
            if counts[name]:
                told = f"{counts[name]:,} {name} from {start:%Y-%m-%d %H:%M:%S} UTC on"
                rows.append(
                    {
                        "start": _iso(start), "end": _iso(end), "low": base,
                        "high": base + counts[name], "colour": colours[name], "label": told,
                    }
                )  # fmt: skip
                base += counts[name]
    if len(slices) < 2:
        return None
    encoding = {
        "x": _time("start", width, min(slices)[0]), "x2": channel("end"),
        "y": _count("low", "records"), "y2": channel("high"),
    }  # fmt: skip
    bars = layer(
        "rect", rows, encoding | COLOUR | LABEL,
        stroke="var(--card)", strokeWidth=0.5, ariaRoleDescription="records",
    )  # fmt: skip
    return bars | _size(width)


def _few_snapshots(data: PageData) -> str | None:
    sizes: dict[int, int] = {}
    for one in data.snapshots:
        end, size = one["end_offset"], one["size_bytes"]
        if end is not None and size is not None:
            sizes[end] = max(size, sizes.get(end, 0))
    told = "; ".join(f"{_below(end)}: {size:,} bytes" for end, size in sorted(sizes.items()))
    return f"{sentence(told)}." if told else None


def _below(end: int) -> str:
    return f"of the offsets below {end:,}" if end else "written by formatting, without records"


@chart(
    "Snapshot sizes",
    "By end offset. Equal files of several replicas are one mark.",
    "No snapshot was measured.",
    words=_few_snapshots,
)
def snapshots(data: PageData, width: int) -> Spec | None:
    """Sizes of the snapshots by their end offset; equal ones of several replicas are one mark."""
    found: dict[tuple[int, int], list[Row]] = {}
    for one in data.snapshots:
        if one["end_offset"] is not None and one["size_bytes"] is not None:
            found.setdefault((one["end_offset"], one["size_bytes"]), []).append(one)
    if len({end for end, _ in found}) < LEAST_POINTS:
        return None
    rows = []
    for (end, size), held in sorted(found.items()):
        names = ", ".join(sorted(data.names.get(one["replica"], "?") for one in held))
        records = held[0].get("record_count")
        told = "" if records is None else f", {records:,} records"
        label = f"snapshot of the offsets below {end:,}: {size:,} bytes{told}, on {names}"
        rows.append({"at": end, "size": size, "label": label})
    ticks = max(2, width // 110)
    axis = {"title": "end offset", "format": ",d", "tickMinStep": 1, "tickCount": ticks}
    encoding = {
        "x": channel("at:Q", axis=axis, scale={"zero": False}),
        "y": _count("size", "bytes", "~s"),
    }
    points = layer(
        "point", rows, encoding | LABEL,
        shape="diamond", filled=True, size=80, opacity=1, color="var(--e0)",
        ariaRoleDescription="snapshot size",
    )  # fmt: skip
    return points | _size(width)


def _epochs(data: PageData) -> list[Row]:
    """The first time at which each epoch is seen, and all that copies name as its leader: one of
    them, where nothing is wrong; the newest epochs only. Logs that begin amid their first epoch do
    not tell since when it was led.
    """
    first: dict[int, datetime] = {}
    begins = min((one["start_offset"] for one in data.epochs), default=0)
    leaders: defaultdict[int, set[int]] = defaultdict(set)
    begun = {one["batch_leader_epoch"] for one in data.epochs if one["has_leader_change"]}
    for one in data.epochs:
        epoch, when = one["batch_leader_epoch"], one["start_timestamp"]
        if when is not None:
            first[epoch] = min(first.get(epoch, when), when)
        if one["leader_id"] is not None:
            leaders[epoch].add(one["leader_id"])
    newest = sorted(first)[-EPOCH_LIMIT:]
    earlier = {min(first)} - begun if first and begins > 0 else set[int]()
    return [
        {
            "epoch": one,
            "when": first[one],
            "since": f"{'before ' * (one in earlier)}{first[one]:%Y-%m-%d %H:%M:%S} UTC",
            "leaders": sorted(leaders[one]),
        }
        for one in newest
    ]


def _few_epochs(data: PageData) -> str | None:
    told = "; ".join(
        f"epoch {one['epoch']} since {one['since']}, led by {_leader(one)}" for one in _epochs(data)
    )
    return f"{sentence(told)}." if told else None


def _leader(one: Row) -> str:
    return listed([f"node {leader}" for leader in one["leaders"]] or ["an unknown node"])


@chart(
    "Leader epochs over time",
    "Each point is an election; the number is the leader's node id.",
    "No log tells when an epoch began.",
    words=_few_epochs,
)
def elections(data: PageData, width: int) -> Spec | None:
    """Leader epochs over time, as steps; each point is an election."""
    found = _epochs(data)
    if len(found) < LEAST_POINTS:
        return None
    rows = [
        {
            "when": _iso(one["when"]), "epoch": one["epoch"],
            "text": "" if len(found) > 25 else ", ".join(map(str, one["leaders"])),
            "label": f"epoch {one['epoch']} since {one['since']}, led by {_leader(one)}",
        }
        for one in found
    ]  # fmt: skip
    low, high = rows[0]["epoch"], rows[-1]["epoch"]
    ticks = list(range(low, high + 1, max(1, -(-(high - low) // 5))))
    axis = {"title": "epoch", "values": ticks, "format": ",d", "domain": False}
    at = {
        "x": _time("when", width, found[0]["when"]),
        "y": channel("epoch:Q", axis=axis, scale={"zero": False, "nice": False}),
    }
    steps = layer("line", rows, at, interpolate="step-after", color="var(--e0)", aria=False)
    points = layer(
        "point", rows, at | LABEL,
        filled=True, size=60, opacity=1, color="var(--e0)", ariaRoleDescription="election",
    )  # fmt: skip
    texts = layer(
        "text", rows, at | TEXT,
        dy=-11, fontSize=11, color="var(--ink)", aria=False,
    )  # fmt: skip
    return {"layer": [steps, points, texts]} | _size(width)


def _size(width: int) -> Spec:
    """What is left of a width beside the labels of an axis of numbers."""
    return {"width": width - 60, "height": 180}


def charts() -> list[Chart]:
    """The charts, in the order of their declarations."""
    return [one for one in globals().values() if isinstance(one, Chart)]
