"""Charts as SVG that needs no script: drawn by Vega when the page is written, and made readable for
keyboards and screen readers.

In: a specification of Vega-Lite. Out: one `<svg>` element as text, safe to put into HTML. Colours
are CSS variables of the page, so that one drawing serves light, dark and print. Nothing is fetched.
"""

import re
from collections.abc import Iterable
from typing import Any
from xml.etree import ElementTree

import vl_convert

Spec = dict[str, Any]
"""A Vega-Lite specification, or a part of one."""

_SVG = "http://www.w3.org/2000/svg"
_LONG_NUMBER = re.compile(r"(\.\d\d)\d+")
_FOCUSED = frozenset({"replica"})
"""What the Tab key stops at: one stop per replica; its parts have labels, and titles to point at.
"""

_KINDS = {"N": "nominal", "O": "ordinal", "Q": "quantitative", "T": "temporal"}
_TEXT = {"labelColor": "var(--muted)", "titleColor": "var(--muted)", "labelFontSize": 12}
_CONFIG: Spec = {
    "background": "transparent",
    "font": "sans-serif",
    "view": {"stroke": None},
    "axis": {
        **_TEXT,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "gridColor": "var(--grid)",
        "domainColor": "var(--line)",
        "tickColor": "var(--line)",
        "labelOverlap": True,
    },
}


def layer(kind: str, rows: Iterable[Spec], encoding: Spec, **looks: Any) -> Spec:
    """A mark of a kind for each row: which channels the rows' values go to, and how all look."""
    return {
        "data": {"values": [*rows]},
        "mark": {"type": kind, **looks},
        "encoding": encoding,
    }


def channel(column: str, **more: Any) -> Spec:
    """A channel that shows a column of the rows: `start:Q`, by its name and the letter of its kind,
    which the second end of a mark goes without.
    """
    name, _, kind = column.partition(":")
    return {"field": name, **({"type": _KINDS[kind]} if kind else {}), **more}


LABEL = {"description": channel("label:N")}
COLOUR = {"color": channel("colour:N", scale=None)}
TEXT = {"text": channel("text:N")}
"""Channels that have a column of their own in the rows of most layers."""


def get_ready() -> None:
    """Load what the first drawing needs, some of it in a thread of its own: half of a page's time."""
    drawn(layer("point", [{}], {}), "")


def drawn(chart: Spec, title: str) -> str:
    """The chart as an SVG element; `title` names it for those who cannot see it."""
    text = vl_convert.vegalite_to_svg(chart | {"config": _CONFIG}, allowed_base_urls=[])
    root = ElementTree.fromstring(text)
    root.attrib.pop("height", None)
    width = root.attrib.pop("width", "600")
    root.set("style", f"max-width:{width}px")
    root.set("role", "group")
    root.set("aria-label", title)
    _tidy(root)
    ElementTree.register_namespace("", _SVG)
    return ElementTree.tostring(root, encoding="unicode")


def _tidy(parent: ElementTree.Element) -> None:
    for child in list(parent):
        if child.get("display") == "none":
            parent.remove(child)
            continue
        _describe(child)
        for name in ("d", "transform"):
            if name in child.attrib:
                child.set(name, _LONG_NUMBER.sub(r"\1", child.attrib[name]))
        _tidy(child)


def _describe(mark: ElementTree.Element) -> None:
    """A title for the pointer, a stop for the keyboard."""
    kind, label = mark.get("aria-roledescription"), mark.get("aria-label")
    if mark.get("role") != "graphics-symbol" or label is None or mark.tag == f"{{{_SVG}}}g":
        return
    mark.set("role", "img")
    title = ElementTree.Element(f"{{{_SVG}}}title")
    title.text = label
    mark.insert(0, title)
    if kind in _FOCUSED:
        mark.set("tabindex", "0")
