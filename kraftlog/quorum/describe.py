"""The text of `kafka-metadata-quorum describe` → what it says of the high watermark and the
voters.

In: the saved output of `--status` (or `--replication`, whose leader's row knows less). Out:
`Described`. Source: R35, "exact if known".
"""

import json
import re

from kraftlog.quorum.evidence import Described

_LINE = re.compile(r"^(\w+):\s*(.*)$", re.MULTILINE)


def read_described(text: str) -> Described:
    """What the text says; fields that it lacks are None."""
    found = {name: value.strip() for name, value in _LINE.findall(text)}
    return Described(
        _number(found.get("HighWatermark")),
        _number(found.get("LeaderId")),
        _number(found.get("LeaderEpoch")),
        _voters(found.get("CurrentVoters", "")),
    )


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


def _voters(text: str) -> tuple[int, ...]:
    """`[1,2,3]` of older versions, or a list of objects with an id each."""
    try:
        value = json.loads(text)
    except ValueError:
        return ()
    if not isinstance(value, list):
        return ()
    ids = [one.get("id") if isinstance(one, dict) else one for one in value]
    return tuple(sorted(one for one in ids if isinstance(one, int)))
