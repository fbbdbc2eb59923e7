"""Record types on the command line."""

import difflib
import re

from kraftlog.errors import UsageError
from kraftlog.message.catalogue import CONTROL_MARKERS, control_specs, metadata_specs

_UNKNOWN = re.compile(r"(UNKNOWN|UNKNOWN_CONTROL|FRAME_VERSION)_\d+")
"""What records of types that we do not know are called."""


def record_types(given: list[str] | None) -> frozenset[str] | None:
    """The types that are asked for; None for all.

    Raises UsageError for one that no record has, with the nearest ones."""
    if not given:
        return None
    specs = (*metadata_specs().values(), *control_specs().values())
    known = [*(spec.type for spec in specs), *CONTROL_MARKERS.values()]
    for name in given:
        if name not in known and _UNKNOWN.fullmatch(name) is None:
            near = difflib.get_close_matches(name.upper(), known, n=3, cutoff=0.3) or known
            raise UsageError(f"there is no record type {name!r}; the nearest: {', '.join(near)}")
    return frozenset(given)
