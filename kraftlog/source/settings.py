"""Options → the values that tasks need: what is read, memory limits, and how secrets are masked.
Pickles; imports no Spark.
"""

import os
from collections.abc import Mapping

import pyarrow as pa
from blake3 import blake3

from kraftlog import relations
from kraftlog.config import Options, load_options, option_names
from kraftlog.decode.redaction import Redactor
from kraftlog.errors import UsageError
from kraftlog.log.segment import Limits
from kraftlog.log.storage import absolute

KEY_SIZE = 32


def limits_of(options: Options) -> Limits:
    """The memory limits of the options."""
    return Limits(
        options.window_size_bytes, options.batch_limit_bytes, options.decompress_limit_bytes
    )


def redactor_of(options: Options, key: bytes | None = None) -> Redactor:
    """Masks under the option's key, else the given one, else a random one; masks nothing where
    secrets are revealed.
    """
    if options.reveal_secrets:
        return Redactor(None)
    if options.redaction_key:
        return Redactor(blake3(options.redaction_key.encode()).digest(KEY_SIZE))
    return Redactor(key or os.urandom(KEY_SIZE))


def relation_of(options: Mapping[str, str]) -> str:
    """The relation that is asked for."""
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
    wanted = [one.strip() for one in options["columns"].split(",")]
    for one in wanted:
        if one not in schema.names:
            raise UsageError(f"relation {name!r} has no column {one!r}")
    return pa.schema([schema.field(one) for one in wanted])


def roots_of(options: Mapping[str, str]) -> list[str]:
    """The input folders, as every process finds them.

    Raises UsageError where none is named."""
    roots = options.get("path") or options.get("input")
    if not roots:
        raise UsageError("no input is named: say .load(FOLDER)")
    return [absolute(one.strip()) for one in roots.split(",")]


def settings_of(options: Mapping[str, str]) -> Options:
    """The options of `conf/kraftlog.toml` among those of a read."""
    known = set(option_names()) - {"input"}
    return load_options({key: value for key, value in options.items() if key in known})
