"""The page: `PageData` → one HTML file that needs nothing else, no script and no network.

In: `PageData`. Out: text. Every value is escaped; characters that neither HTML nor SVG can hold are
replaced. vl-convert and Jinja are slow to import: import this module late.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from kraftlog.audit.check import RANK
from kraftlog.audit.every_check import BY_NAME
from kraftlog.plain import counted, printable
from kraftlog.relations import Row
from kraftlog.report import churn_charts
from kraftlog.report.actions import Action, grouped
from kraftlog.report.answer import answer_of
from kraftlog.report.headline import check_outcomes, headline, outcome_words, worst_severities
from kraftlog.report.logs_chart import NARROW, logs_svg, wide
from kraftlog.report.marks import full_extent, zooms
from kraftlog.report.once import about_text, count_of, findings_once
from kraftlog.report.view import PageData, status_of

FINDINGS_SHOWN, UNFOLDED, EVIDENCE_SHOWN = 40, 3, 2000
"""Findings of one group; those of one check that are not folded; and characters of one finding's
evidence. The tables hold the rest.
"""
SNAPSHOTS_SHOWN = 4
_WIDE, _NARROW = 500, 340
_CODE = re.compile("`([^`]+)`")


def render_page(data: PageData) -> str:
    """The page as HTML."""
    data = replace(data, **{one.name: _printable(getattr(data, one.name)) for one in fields(data)})
    answer = answer_of(data.restart, data.verdict, data.findings)
    groups = [
        _group(action, found, data.names)
        for action, found in grouped(map(answer.beside, data.findings))
    ]
    return _environment().get_template("page.html").render(
        data=data,
        verdict=headline(data.verdict, data.findings, data.checks, data.names),
        answer=answer,
        anchors={one["action"].key for one in groups},
        snapshots_shown=SNAPSHOTS_SHOWN,
        state=_state(data),
        groups=groups,
        severities={
            severity: count_of(one for one in data.findings if one["severity"] == severity)
            for severity in RANK
        },
        logs=_logs(data),
        statuses={row["replica"]: status_of(data, row) for row in data.ordered},
        charts=_charts(data),
        outcomes=check_outcomes(data.checks, data.findings),
        outcome_words=outcome_words(data.checks, data.findings),
        worst=worst_severities(data.findings),
        contract_results=Counter(row["result"] for row in data.contracts),
    )  # fmt: skip


@cache
def _environment() -> Environment:
    """It keeps the templates, of which the first page makes Python."""
    found = Environment(
        loader=PackageLoader("kraftlog.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(
        number=_number, coded=_coded, counted=counted, words=lambda text: text.replace("_", " ")
    )
    return found


# --- text ----------------------------------------------------------------------------------------


def _printable(value: Any) -> Any:
    """The value without what breaks a page: control characters, halves of surrogate pairs."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {_printable(key): _printable(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_printable(one) for one in value)
    return value


def _number(value: Any) -> str:
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _coded(text: str) -> Markup:
    """Text in which `code` stands between backticks."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))


# --- parts ---------------------------------------------------------------------------------------


def _state(data: PageData) -> str:
    """What the verdict is coloured by: critical, warning, unknown or ok."""
    colours = {"critical": "critical", "attention": "warning", "incomplete": "unknown"}
    return colours.get(data.verdict["verdict"], "ok")


def _group(action: Action, findings: list[Row], names: Mapping[str, str]) -> dict[str, Any]:
    """A group of findings, check by check; of each the first few, then, folded, the rest. What a
    check means is told once.
    """
    told = findings[:FINDINGS_SHOWN]
    checks = list(dict.fromkeys(row["check"] for row in findings))
    by_check = {
        check: findings_once((r for r in told if r["check"] == check), names) for check in checks
    }
    return {
        "action": action,
        "count": len(findings),
        "alike": sum(len(row["same"]) for rows in by_check.values() for row in rows),
        "checks": [
            {
                "check": check,
                "shown": [_finding(row, names) for row in rows[:UNFOLDED]],
                "folded": [_finding(row, names) for row in rows[UNFOLDED:]],
                "count": sum(1 + len(row["same"]) for row in rows[UNFOLDED:]),
            }
            for check, rows in by_check.items()
            if rows
        ],
        "more": len(findings) - len(told),
        "guidance": [(check, BY_NAME.get(check)) for check in checks],
        "worst": findings[0]["severity"],
    }


def _finding(row: Row, names: Mapping[str, str]) -> Row:
    places = ("path", "position", "offset", "end_offset", "batch_leader_epoch", "other_replica")
    same = [one["replica"] for one in row["same"]]
    return {
        **row,
        "about": about_text(row, names) or "quorum",
        "places": [
            *((("equal findings of", ", ".join(map(str, same))),) if same else ()),
            *((name, row[name]) for name in places if row[name] is not None),
        ],
        "evidence": [(name, _told(value)) for name, value in row["evidence"].items()],
    }


def _told(value: Any) -> str:
    """A value of the evidence: text as it is, other things as JSON."""
    if not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False, indent=None, default=str)
    value = printable(value)
    rest = len(value) - EVIDENCE_SHOWN
    return value if rest <= 0 else f"{value[:EVIDENCE_SHOWN]} … ({rest:,} more characters)"


def _logs(data: PageData) -> list[dict[str, Any]]:
    """The whole axis, then what needs a closer look; each for wide and for narrow windows."""
    if not data.replicas:
        return []
    windows = {"All replicas on one axis of offsets": full_extent(data)} | {
        f"Closer: offsets {window.low:,} to {window.high:,}": window for window in zooms(data)
    }
    return [
        {
            "title": title,
            "wide": logs_svg(data, window, wide(data), title),
            "narrow": logs_svg(data, window, NARROW, title),
        }
        for title, window in windows.items()
    ]


def _charts(data: PageData) -> list[dict[str, Any]]:
    """Each chart at both widths, or what is said instead."""
    return [
        {
            "chart": chart,
            "wide": chart.svg(data, _WIDE),
            "narrow": chart.svg(data, _NARROW),
            "legend": chart.legend(data),
            "instead": chart.instead(data),
        }
        for chart in churn_charts.charts()
    ]
