"""Options → the values that tasks need: what is read, memory limits, and how secrets are masked.
Pickles; imports no Spark.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
from blake3 import blake3

from kraftlog import relations
from kraftlog.config import (
    Options,
    load_options,
    no_such_option,
    option_names,
    require_of_reading,
    whole_number,
)
from kraftlog.decode.redaction import Redactor
from kraftlog.errors import UsageError
from kraftlog.log.segment import Limits
from kraftlog.log.storage import absolute

KEY_SIZE = 32
_FOLDERS = ("path", "paths", "input")
"""Options of a read that name folders: `.load` gives one as `path`, several as `paths`."""
_OF_A_READ = ("relation", "columns", "tasks", "pushdown")
_TASKS = 8
"""Tasks that a read is spread over, unless option `tasks` says otherwise; never more than there are
splits.
"""


def limits_of(options: Options, redactor: Redactor) -> Limits:
    """How files are read by the options; batches are named under the redactor's key."""
    return Limits(
        options.window_size_bytes,
        options.batch_limit_bytes,
        options.decompress_limit_bytes,
        redactor.id_key,
        options.verify,
    )


def redactor_of(options: Options, key: bytes | None = None) -> Redactor:
    """Masks under the option's key, else the given one (a lake's), else a random one; masks nothing
    where secrets are revealed. Contents are named under a key too, as they may hold secrets: under
    a lake's own always, so that they keep their names from run to run.
    """
    named = None
    if options.redaction_key:
        named = blake3(options.redaction_key.encode()).digest(KEY_SIZE)
    drawn = None if options.reveal_secrets else os.urandom(KEY_SIZE)
    id_key = key or named or drawn
    mask_key = None if options.reveal_secrets else named or key or drawn
    return Redactor(mask_key, None if id_key is None else blake3(_IDS, key=id_key).digest(KEY_SIZE))


def source_redactor(options: Mapping[str, str]) -> Redactor:
    """The same for a read of the Spark source. There `batch_id` stays from query to query and leads
    from one relation to another: it is made without a key, unless an option gives one.
    """
    settings = settings_of(options)
    redactor = redactor_of(settings)
    if settings.redaction_key or relation_of(options) in ("faults", "files"):  # without batch_id
        return redactor
    return replace(redactor, id_key=None)


_IDS = b"names of contents"


def relation_of(options: Mapping[str, str]) -> str:
    return options.get("relation", "records")


def arrow_schema(options: Mapping[str, str]) -> pa.Schema:
    """The columns of the relation that the options ask for.

    Raises UsageError for a relation or column that does not exist."""
    name = relation_of(options)
    every = relations.all_relations()
    if name not in every:
        raise UsageError(f"there is no relation {name!r}; there are {', '.join(every)}")
    schema = every[name].schema
    if "columns" not in options:
        return schema
    wanted = dict.fromkeys(one.strip() for one in options["columns"].split(","))
    for one in wanted:
        if one not in schema.names:
            raise UsageError(f"relation {name!r} has no column {one!r}")
    return pa.schema([schema.field(one) for one in wanted])


def roots_of(options: Mapping[str, str]) -> list[str]:
    """The input folders, as every process finds them.

    Raises UsageError where none is named."""
    named = options.get("path") or options.get("input")
    roots = [one.strip() for one in named.split(",")] if named else []
    try:
        roots += json.loads(options.get("paths", "[]"))
    except (ValueError, TypeError) as error:
        raise UsageError("option 'paths' is no list: say .load([FOLDER, …])") from error
    if not roots:
        raise UsageError("no input is named: say .load(FOLDER)")
    return [absolute(one) for one in roots]


def settings_of(options: Mapping[str, str]) -> Options:
    """The options of `conf/kraftlog.toml` among those of a read.

    Raises UsageError for an option that does not exist or would do nothing, or a wrong value."""
    own = {key: value for key, value in options.items() if key not in (*_FOLDERS, *_OF_A_READ)}
    for key in own:
        if key not in option_names():
            raise no_such_option(key, [*_OF_A_READ, *option_names()])
    require_of_reading(own)
    return load_options(own)


def pushes_filters(options: Mapping[str, str]) -> bool:
    """Whether what the filters of one query rule out is left unread.

    Raises UsageError where that is neither true nor false."""
    named = options.get("pushdown", "false").lower()
    if named not in ("true", "false"):
        raise UsageError(f"option 'pushdown' must be true or false, not {named!r}")
    return named == "true"


def tasks_of(options: Mapping[str, str]) -> int:
    """How many tasks a read is spread over at most.

    Raises UsageError where that is no number above 0."""
    return whole_number("option 'tasks'", options.get("tasks", _TASKS))
