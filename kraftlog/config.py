"""Every option of kraftlog as one frozen value.

What enters: `conf/kraftlog.toml` (defaults, with unit and reason), a file of the user, overrides
from the command line, a job or a call. What leaves: `Options`, which travels pickled to Spark's
executors, or a `UsageError` that names the option and where its value stands; `Thresholds` are those
of them that checks ask for. A new option is one line there and one field here.
"""

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple, NewType, get_args, get_origin, get_type_hints

from kraftlog.errors import UsageError
from kraftlog.message.catalogue import packaged
from kraftlog.plain import reason_of

Count = NewType("Count", int)
"""A number that may be 0; other numbers are above it."""

SECRETS = frozenset({"redaction_key"})
"""Options whose values are shown nowhere."""

KEY_LENGTH = 32
"""The least number of characters of a `redaction_key`."""

FailOn = Literal["critical", "warning", "info", "never"]


class ValueSource(StrEnum):
    """Where a value that a run goes by came from. Of an option an ARGUMENT (of the command line, a
    job or a call) wins over the OPTIONS_FILE, and that over the packaged DEFAULT; of a node's
    setting an argument over its SERVER_PROPERTIES, and these over KAFKA_DEFAULT. What is known of
    the quorum comes from RECORDS, a QUORUM_STATE, a server.properties, or a DESCRIBE.
    """

    ARGUMENT = "argument"
    OPTIONS_FILE = "options file"
    DEFAULT = "default"
    SERVER_PROPERTIES = "server.properties"
    KAFKA_DEFAULT = "Kafka's default"
    RECORDS = "records"
    QUORUM_STATE = "quorum-state"
    DESCRIBE = "describe"


class ValueOrigin(NamedTuple):
    """Where a value came from, and the file that it stands in, where it is one."""

    source: ValueSource
    path: str | None = None


@dataclass(frozen=True)
class Thresholds:
    """Limits of checks that are a matter of measure: those options that evidence carries, and no
    other, as a key may be among these.
    """

    elections_per_hour: int
    skipped_epochs: int
    copy_skew_ms: int
    lag_offsets: int
    idle_gap_ms: int
    mass_deletion_percent: int
    mass_deletion_minimum: int
    mass_deletion_minor_percent: int
    mass_deletion_minor_minimum: int
    mass_deletion_window_ms: int
    snapshot_usual_bytes: int
    retention_over_percent: Count
    snapshot_part_ms: int
    disk_days: int
    tenure_ms: int
    short_tenures: int
    rejoin_ms: int
    snapshot_stale_ms: int


THRESHOLDS = tuple(one.name for one in fields(Thresholds))
"""Their names, which are those of options."""


@dataclass(frozen=True)
class Options(Thresholds):
    """The options by the names they have in `conf/kraftlog.toml`, which says what each is for;
    `origins` says of each where its value came from.
    """

    input: tuple[str, ...]
    quorum_describe: str | None
    lake: str | None
    master: str
    lease_seconds: int
    wait_seconds: Count
    keep_runs: int
    keep_rows: int
    verify: bool
    fail_on: FailOn
    strict: bool
    metrics_file: str | None
    junit_file: str | None
    reveal_secrets: bool
    redaction_key: str | None = field(repr=False)
    disk_capacity_bytes: int | None
    load_bytes_per_second: int
    split_size_bytes: int
    window_size_bytes: int
    batch_limit_bytes: int
    decompress_limit_bytes: int
    origins: Mapping[str, ValueOrigin] = field(default_factory=dict, repr=False, compare=False)


def load_options(
    overrides: Mapping[str, object] | None = None, conf_file: Path | None = None
) -> Options:
    """Packaged defaults, then the file, then the overrides; an override of None is not given.

    Raises UsageError for an unknown option or a wrong value, with where it stands."""
    kinds, merged, origins = _kinds(), dict[str, object](), dict[str, ValueOrigin]()
    for origin, layer in (
        (ValueOrigin(ValueSource.DEFAULT), _packaged_options()),
        (ValueOrigin(ValueSource.OPTIONS_FILE, str(conf_file)), _file_options(conf_file)),
        (ValueOrigin(ValueSource.ARGUMENT), overrides or {}),
    ):
        given = {key: value for key, value in layer.items() if value is not None}
        for key in given:
            if key not in kinds:
                raise no_such_option(key, list(kinds), _where(origin))
        merged |= given
        origins |= dict.fromkeys(given, origin)
    values = {
        key: _typed(f"option {key!r}{_where(origins[key])}", value, kinds[key])
        for key, value in merged.items()
    }
    _require_key(values["redaction_key"], origins["redaction_key"])
    return Options(**values, origins=origins)  # type: ignore[arg-type]  # _typed has compared each with its field


def thresholds_of(options: Options) -> Thresholds:
    """The limits that the options set."""
    return Thresholds(**{one: getattr(options, one) for one in THRESHOLDS})


@cache
def default_thresholds() -> Thresholds:
    """The limits of the packaged options."""
    return thresholds_of(load_options())


def _require_key(key: object, origin: ValueOrigin) -> None:
    """A short key can be found: by trying words until one makes the masks that are in a table."""
    if key and len(str(key)) < KEY_LENGTH:
        raise UsageError(
            f"option 'redaction_key'{_where(origin)} is shorter than {KEY_LENGTH} characters, and could be guessed from the masks: take what `openssl rand -hex 32` prints"
        )


def option_names() -> list[str]:
    """The names of all options, in the order in which the TOML explains them."""
    return list(_kinds())


def _kinds() -> dict[str, object]:
    """The type of each option, by name, in the order of the TOML."""
    hints = get_type_hints(Options)
    return {key: hints[key] for key in _packaged_options()}


def _where(origin: ValueOrigin) -> str:
    """Where a value stands, as a part of a sentence."""
    return f" of {origin.path}" if origin.path is not None else f" ({origin.source})"


def option_texts() -> dict[str, str]:
    """What the comments of the packaged TOML say of each option: help and documents take it from
    there.
    """
    commented = re.findall(r"((?:^# .*\n)+)^(\w+) = ", packaged_text(), re.MULTILINE)
    return {
        name: " ".join(line.removeprefix("# ") for line in comment.splitlines())
        for comment, name in commented
    }


def packaged_text() -> str:
    return (packaged("conf") / "kraftlog.toml").read_text(encoding="utf-8")


@cache
def _packaged_options() -> Mapping[str, object]:
    return tomllib.loads(packaged_text())


def _file_options(conf_file: Path | None) -> dict[str, object]:
    if conf_file is None:
        return {}
    try:
        return tomllib.loads(conf_file.read_text(encoding="utf-8"))
    except OSError as error:
        why = reason_of(error)
        raise UsageError(f"the options file {conf_file} cannot be read: {why}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"the options file {conf_file} cannot be read: it is not UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"the options file {conf_file} is not TOML: {error}") from error


def no_such_option(key: str, known: list[str], where: str = "") -> UsageError:
    """The error of an option that is not among those that are known; `where` it stands."""
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.0)
    return UsageError(f"there is no option {key!r}{where}; the nearest one is {near[0]!r}")


def _typed(option: str, value: object, kind: object) -> object:
    """The value in its field's type; texts are understood too, as jobs get all options as text."""
    if get_origin(kind) is Literal:
        return one_of(option, value, get_args(kind))
    if kind is bool:
        return _switch(option, value)
    if kind == int | None and value == "":
        return None
    if kind in (int, int | None, Count):
        return whole_number(option, value, 0 if kind is Count else 1)
    if get_origin(kind) is tuple:
        return _texts(option, value)
    if not isinstance(value, str | Path):
        # Not the value itself: it may be a key.
        raise UsageError(f"{option} must be a text, not of type {type(value).__name__}")
    # TOML has no null: an empty text stands for an option that is not given.
    return _whole_text(option, value) or (None if type(None) in get_args(kind) else "")


def one_of(option: str, value: object, allowed: tuple[object, ...]) -> object:
    """The value that an option is given.

    Raises UsageError where it is none of those that are allowed."""
    if value not in allowed:
        raise UsageError(f"{option} must be one of {', '.join(map(str, allowed))}")
    return value


def _switch(option: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return value == "true"
    raise UsageError(f"{option} must be true or false, not {value!r}")


def whole_number(option: str, value: object, least: int = 1) -> int:
    """The number that an option is given, or a text of it.

    Raises UsageError for another value, and for a number below the least, or over 64 bits."""
    if isinstance(value, str) and value.isdecimal():
        value = int(value[:_ENOUGH_DIGITS])
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        what = "above 0" if least else "of at least 0"
        raise UsageError(f"{option} must be a whole number {what}, not {value!r}")
    if value >= 1 << 63:
        raise UsageError(f"{option} must be below 2^63: no column holds more")
    return value


_ENOUGH_DIGITS = 20
"""A text of so many is too large, whatever comes behind them."""


def _texts(option: str, value: object) -> tuple[str, ...]:
    items = [value] if isinstance(value, str | Path) else value
    if not isinstance(items, list | tuple) or not all(isinstance(i, str | Path) for i in items):
        raise UsageError(f"{option} must be a list of texts, not {value!r}")
    return tuple(_whole_text(option, item) for item in items)


def _whole_text(option: str, value: str | Path) -> str:
    """A text which no system would end before its end."""
    if "\0" in str(value):
        raise UsageError(f"{option} holds a NUL character, which no path or key may")
    return str(value)


def require_of_reading(names: Iterable[str]) -> None:
    """Raise UsageError for an option that says nothing of how copies are read and judged."""
    for name in names:
        if name in _OF_COMMANDS:
            raise UsageError(
                f"option {name!r} would do nothing here: it says what a command writes, and how it ends"
            )


_OF_COMMANDS = frozenset(
    {
        "lake",
        "master",
        "lease_seconds",
        "wait_seconds",
        "keep_runs",
        "keep_rows",
        "fail_on",
        "strict",
        "metrics_file",
        "junit_file",
    }
)


def words_of(option: str) -> tuple[str, ...]:
    """The words that an option takes; none where it takes other values, or there is no such option."""
    kind = _kinds().get(option)
    return get_args(kind) if get_origin(kind) is Literal else ()


def switches() -> frozenset[str]:
    """The options that are off unless they are named: the command line takes them without a
    value.
    """
    defaults, kinds = _packaged_options(), _kinds()
    return frozenset(one for one in kinds if kinds[one] is bool and defaults[one] is False)
