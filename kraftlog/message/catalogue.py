"""The catalogue of message specs: `schemas/` read once, looked up by api key, control record type
or name.

The files travel inside the wheel as `kraftlog/schemas`; in a checkout they lie beside the package.
"""

import difflib
import json
import re
from collections.abc import Collection
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from kraftlog.errors import UsageError
from kraftlog.message.message_spec import MessageSpec, SpecError, parse_spec

CONTROL_MARKERS = {0: "ABORT", 1: "COMMIT"}
_UNKNOWN = re.compile(r"(UNKNOWN|UNKNOWN_CONTROL|FRAME_VERSION)_\d+")
"""What records of types that we do not know are called."""


def packaged(folder: str) -> Traversable:
    """A folder that is shipped with kraftlog (`schemas`, `conf`), in a checkout or in a wheel or
    zip.
    """
    inside = files("kraftlog") / folder
    return inside if inside.is_dir() else Path(__file__).parents[2] / folder


@cache
def _all() -> dict[str, MessageSpec]:
    specs = {}
    for entry in packaged("schemas").iterdir():
        if entry.name.endswith(".json"):
            spec = parse_spec(_with_lists(json.loads(entry.read_text(encoding="utf-8"))))
            specs[spec.type] = spec
    if not specs:
        raise SpecError(
            "no message specs were found beside the kraftlog package; reinstall kraftlog"
        )
    return dict(sorted(specs.items(), key=lambda item: (item[1].kind, item[1].id)))


def _with_lists(raw: dict[str, Any]) -> dict[str, Any]:
    """The message with the lists of `schemas/lists` in place of their names."""
    for field in raw["fields"]:
        if "secret_unless" in field:
            path = packaged("schemas") / "lists" / f"{field['secret_unless']}.json"
            field["secret_unless"] = json.loads(path.read_text(encoding="utf-8"))
    return raw


@cache
def metadata_specs() -> dict[int, MessageSpec]:
    """Metadata record specs by api key."""
    return {spec.id: spec for spec in _all().values() if spec.kind == "metadata"}


@cache
def control_specs() -> dict[int, MessageSpec]:
    """Control record specs by control record type."""
    return {spec.id: spec for spec in _all().values() if spec.kind == "control"}


@cache
def request_specs() -> dict[int, tuple[MessageSpec, MessageSpec]]:
    """Request and response specs of KRaft's own protocol, by api key."""
    answers = {spec.id: spec for spec in _all().values() if spec.kind == "response"}
    asked = [spec for spec in _all().values() if spec.kind == "request"]
    return {spec.id: (spec, answers[spec.id]) for spec in asked}


def spec_of(type_name: str) -> MessageSpec | None:
    """The spec behind a record's `type` as Kafka's dump tool prints it; None when unknown."""
    return _all().get(type_name)


def known_spec(type_name: str) -> MessageSpec:
    """The same of a type that our own code names."""
    return _all()[type_name]


def known_types() -> list[str]:
    """The types of all records that a log can hold."""
    specs = (*metadata_specs().values(), *control_specs().values())
    return [*(spec.type for spec in specs), *CONTROL_MARKERS.values()]


def record_types(given: Collection[str] | None) -> frozenset[str] | None:
    """The types that are asked for; None for all.

    Raises UsageError for one that no record has, with the nearest ones."""
    if not given:
        return None
    known = known_types()
    for name in given:
        if name not in known and _UNKNOWN.fullmatch(name) is None:
            near = difflib.get_close_matches(name.upper(), known, n=3, cutoff=0.3) or known
            raise UsageError(f"there is no record type {name!r}; the nearest: {', '.join(near)}")
    return frozenset(given)
