"""Charts are drawn once per process: hundreds of runs over the same quorums would have Vega draw those
of their pages again, a seventh of their time. That it draws alike each time is a test of its own
(`test_report`).
"""

import json
from typing import Any

import vl_convert

VEGA: Any = vl_convert
draw = vl_convert.vegalite_to_svg
"""Vega itself."""
_DRAWN: dict[str, str] = {}


def once(chart: dict[str, Any], **how: Any) -> str:
    """The same, which draws charts of one content once."""
    asked = json.dumps([chart, how])
    if asked not in _DRAWN:
        _DRAWN[asked] = draw(chart, **how)
    return _DRAWN[asked]
