"""What the findings of each check mean, and what to do about them, for people.

In: `guidance.toml` beside this module. Out: one `Guidance` per check, which the auditor's guide
and the page share. Read when it is first asked for: an audit itself needs none of it.
"""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Guidance:
    """Sentences in Markdown's plain subset: no markup but `code`."""

    meaning: str
    advice: str


@cache
def all_guidance() -> dict[str, Guidance]:
    """Guidance by the name of its check, in the order of the file."""
    text = (files("kraftlog.audit") / "guidance.toml").read_text(encoding="utf-8")
    return {name: Guidance(**fields) for name, fields in tomllib.loads(text).items()}


def guidance_of(check: str) -> Guidance:
    """What to say of a check; nothing for one that is not in the catalogue."""
    return all_guidance().get(check, Guidance("", ""))
