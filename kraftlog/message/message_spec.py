"""Message specs: which fields a message has at a version, their types, nullability, tags and
defaults.

In: the parsed JSON of one file in `schemas/`. Out: frozen values; an illegal spec cannot be built.
Pickles. Specs are compared by identity: there is one of each in the catalogue, and a version of it
is resolved once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kraftlog.errors import KraftlogError

NUMBERS = {"int8", "int16", "uint16", "int32", "int64", "float64"}
SCALARS = NUMBERS | {"boolean", "string", "bytes", "records", "uuid"}
"""`records` are record batches inside a message: bytes with a length, as `bytes` are."""
ZERO_UUID = "A" * 22
API_VERSIONS = 18


class SpecError(KraftlogError):
    """A file in `schemas/` that contradicts itself."""


@dataclass(frozen=True, slots=True)
class Versions:
    """A closed range of message versions; empty when last < first."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


@dataclass(frozen=True, slots=True)
class Listed:
    """A list in `schemas/lists`: of some fields of a message, named by `fields` (a number, a text),
    which pairs of values it holds.
    """

    fields: tuple[str, str]
    values: Mapping[int, frozenset[str]]

    def __contains__(self, pair: object) -> bool:
        number, text = pair if isinstance(pair, tuple) else (None, None)
        return text in self.values.get(number, frozenset())


@dataclass(frozen=True, slots=True, eq=False)
class FieldSpec:
    """One field over all versions of its message.

    `name` is the column's name (snake case), `json` Kafka's own. `type` is a scalar, "struct", or
    "[scalar]" and "[struct]" for arrays, whose elements' type `element` is; `fields` are a struct's
    own. A value is secret where it is declared so, or where a list does not say that it is open.
    """

    name: str
    json: str
    type: str
    versions: Versions
    nullable: Versions
    tag: int | None
    default: Any
    fields: tuple["FieldSpec", ...] = ()
    secret: bool = False
    secret_unless: Listed | None = None
    element: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class VersionSpec:
    """A message or a struct in it, at one version: plain fields in wire order, tagged ones
    by tag.
    """

    version: int
    flexible: bool
    plain: tuple[FieldSpec, ...]
    tagged: Mapping[int, FieldSpec]


@dataclass(frozen=True, slots=True, eq=False)
class MessageSpec:
    """One metadata record, control record, request or response: `id` is its api key, or the
    control record type.
    """

    name: str
    kind: str
    type: str
    id: int
    versions: Versions
    flexible: Versions
    fields: tuple[FieldSpec, ...]

    def at(self, version: int) -> VersionSpec:
        """The message at one version.

        Raises SpecError for a version that the spec does not cover."""
        if version not in self.versions:
            raise SpecError(f"{self.name} has no version {version}")
        return _resolve(self.fields, version, version in self.flexible)

    def header_version(self, version: int) -> int:
        """The version of the header that goes before a request or a response of this version:
        flexible messages have flexible headers, but for the response of ApiVersions, which goes
        to peers of any age. Source: KIP-482, KIP-511.
        """
        if self.kind == "response" and self.id == API_VERSIONS:
            return 0
        return (version in self.flexible) + (self.kind == "request")

    @property
    def holds_secrets(self) -> bool:
        """True where any field is, or may be, secret: such a message's raw bytes are never
        shown.
        """
        return any(one.secret or one.secret_unless for one in self.fields)


@lru_cache(maxsize=4096)
def _resolve(fields: tuple[FieldSpec, ...], version: int, flexible: bool) -> VersionSpec:
    present = [one for one in fields if version in one.versions]
    tagged = {one.tag: one for one in present if one.tag is not None}
    return VersionSpec(version, flexible, tuple(one for one in present if one.tag is None), tagged)


def struct_at(spec: FieldSpec, version: VersionSpec) -> VersionSpec:
    """The struct of a field, at the version of the message that holds it."""
    return _resolve(spec.fields, version.version, version.flexible)


def camel_case(name: str) -> str:
    """Kafka's JSON name of a column: topic_id → topicId."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def _versions(raw: Any, otherwise: Versions) -> Versions:
    if raw is None or raw is True:
        return otherwise
    if raw is False:
        return Versions(0, -1)
    first, last = raw
    if not 0 <= first <= last:
        raise SpecError(f"versions {raw} are no range")
    return Versions(first, last)


def _default(raw: Mapping[str, Any], kind: str) -> Any:
    if "default" in raw:
        return raw["default"]
    if kind.startswith("["):
        return []
    zero = {"boolean": False, "string": "", "bytes": "", "uuid": ZERO_UUID, "float64": 0.0}
    return zero.get(kind, 0) if kind != "struct" else {}


def _field(raw: Mapping[str, Any], outer: Versions) -> FieldSpec:
    known = {"name", "json", "type", "versions", "nullable", "tag", "default", "struct", "fields"}
    surplus = set(raw) - known - {"secret", "secret_unless"}
    if surplus:
        raise SpecError(f"field {raw.get('name')}: unknown keys {sorted(surplus)}")
    kind = raw["type"]
    scalar = kind[1:-1] if kind.startswith("[") else kind
    if scalar not in SCALARS and scalar != "struct":
        raise SpecError(f"field {raw['name']}: no such type {kind}")
    if (scalar == "struct") != ("fields" in raw):
        raise SpecError(f"field {raw['name']}: a struct has fields, and nothing else has")
    versions = _versions(raw.get("versions"), outer)
    return FieldSpec(
        name=raw["name"],
        json=raw.get("json", camel_case(raw["name"])),
        type=kind,
        versions=versions,
        nullable=_versions(raw.get("nullable", False), versions),
        tag=raw.get("tag"),
        default=_default(raw, kind),
        fields=tuple(_field(one, versions) for one in raw.get("fields", ())),
        secret=bool(raw.get("secret")),
        secret_unless=_listed(raw["secret_unless"]) if "secret_unless" in raw else None,
        element=scalar if kind.startswith("[") else None,
    )


def _listed(raw: Mapping[str, Any]) -> Listed:
    number, text = raw["fields"]
    values = {int(one): frozenset(names) for one, names in raw["values"].items()}
    return Listed((number, text), values)


def parse_spec(raw: Mapping[str, Any]) -> MessageSpec:
    """Build a spec from its parsed JSON.

    Raises SpecError when it contradicts itself."""
    versions = _versions(raw["versions"], Versions(0, -1))
    fields = tuple(_field(one, versions) for one in raw["fields"])
    spec = MessageSpec(
        name=raw["name"],
        kind=raw["kind"],
        type=raw["type"],
        id=raw["id"],
        versions=versions,
        flexible=_versions(raw["flexible"], versions),
        fields=fields,
    )
    for version in range(versions.first, versions.last + 1):
        present = [one for one in fields if version in one.versions]
        names = [one.name for one in present]
        tags = [one.tag for one in present if one.tag is not None]
        if len(set(names)) != len(names) or len(set(tags)) != len(tags):
            raise SpecError(f"{spec.name} version {version}: a name or a tag stands twice")
        if tags and version not in spec.flexible:
            raise SpecError(f"{spec.name} version {version}: tags need a flexible version")
    return spec
