"""What the tests of the page share: made-up pages, and a reader of their HTML."""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Any

from kraftlog.audit.runner import audit_of
from kraftlog.config import load_options
from kraftlog.pipeline.input_audit import replayed
from kraftlog.report.judgement import judged_of
from kraftlog.report.view import PageData, page_of_audit

Row = dict[str, Any]
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
VOID = {"meta", "link", "br", "hr", "img", "input", "path", "line"}


@dataclass
class Element:
    """One element: its name, its attributes, its own text, and the figure that holds it."""

    name: str
    attributes: dict[str, str]
    figure: int
    width: str
    text: str = ""


@dataclass
class Reader(HTMLParser):
    """Reads a page into a flat list of elements."""

    elements: list[Element] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self._open: list[Element] = []
        self._figure, self._width = -1, ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = {name: value or "" for name, value in attrs}
        self._figure += tag == "figure"
        if tag == "div" and known.get("class") in ("wide", "narrow"):
            self._width = known["class"]
        found = Element(tag, known, self._figure, self._width)
        self.elements.append(found)
        if tag not in VOID:
            self._open.append(found)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop().name != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._open:
            self._open[-1].text += data

    def named(self, name: str) -> list[Element]:
        return [one for one in self.elements if one.name == name]

    def marks(self, kind: str, figure: int = 0, width: str = "wide") -> list[Element]:
        """The marks of one kind in one drawing."""
        return [
            one for one in self.elements
            if one.attributes.get("aria-roledescription") == kind
            and (one.figure, one.width) == (figure, width)
        ]  # fmt: skip


def read(html: str) -> Reader:
    """A page, read."""
    reader = Reader()
    reader.feed(html)
    reader.close()
    return reader


def span(mark: Element) -> tuple[float, float]:
    """Left edge and width of a bar, in pixels of its axis."""
    found = re.match(r"M([-\d.]+),[-\d.]+h([-\d.]+)v", mark.attributes["d"])
    assert found, mark.attributes["d"]
    return float(found[1]), float(found[2])


def place(mark: Element) -> float:
    """Where a point stands on its axis, in pixels."""
    found = re.match(r"translate\(([-\d.]+),", mark.attributes["transform"])
    assert found, mark.attributes["transform"]
    return float(found[1])


def audited(root: str) -> PageData:
    """The page's data of an audit without a lake."""
    options = load_options({})
    quorum = replayed([root], options)
    return page_of_audit(quorum, judged_of(quorum, audit_of(quorum), options), (root,), NOON)


def replica(label: str, node: int, end: int, **others: Any) -> Row:
    """A row of `replicas`."""
    row = {
        "replica": label, "node_id": node, "role": "voter", "cluster_id": "c",
        "log_start_offset": 0, "log_end_offset": end, "last_epoch": 1, "epochs": [[1, 0]],
        "snapshots": [], "committed_lower": end, "committed_upper": end,
    }  # fmt: skip
    return row | others


def epoch(label: str, number: int, start: int, end: int) -> Row:
    """A row of `epochs`."""
    return {
        "replica": label, "batch_leader_epoch": number, "start_offset": start, "end_offset": end,
        "start_timestamp": NOON + timedelta(seconds=number), "leader_id": 1,
        "has_leader_change": True,
    }  # fmt: skip


def finding(check: str, label: str | None, severity: str = "critical", **others: Any) -> Row:
    """A row of `findings`."""
    row = {
        "check": check, "severity": severity, "scope": "log", "result": "failed",
        "replica": label, "node_id": None, "path": "p", "position": 0, "offset": None,
        "end_offset": None, "batch_leader_epoch": None, "other_replica": None,
        "message": "it is broken", "evidence": {"a": 1},
    }  # fmt: skip
    return row | others


VERDICT: Row = {
    "verdict": "sound", "voters": [1, 2, 3], "missing_voters": [], "not_judged": [],
    "committed_lower": 12, "committed_upper": 12, "lagging": [],
}  # fmt: skip
"""The row of a verdict over a quorum without a finding."""


def page(replicas: list[Row], findings: list[Row] | None = None, **others: Any) -> PageData:
    """A made-up page: an epoch over each whole log where none are given."""
    epochs = tuple(epoch(one["replica"], 1, 0, one["log_end_offset"]) for one in replicas)
    first = replicas[0] if replicas else VERDICT
    verdict = VERDICT | {name: first[name] for name in ("committed_lower", "committed_upper")}
    worst = {one["severity"] for one in findings or ()}
    verdict["verdict"] = "critical" if "critical" in worst else "attention" if worst else "sound"
    given: dict[str, Any] = {
        "version": "1", "created": NOON, "inputs": ("in",), "scale": "made up",
        "replicas": tuple(replicas), "epochs": epochs, "findings": findings or [], "snapshots": (),
        "verdict": verdict,
    }  # fmt: skip
    return PageData(**(given | others))
