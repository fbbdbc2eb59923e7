"""Options → the values that tasks need: memory limits, and how secrets are masked. Pickles; imports
no Spark.
"""

import os

from blake3 import blake3

from kraftlog.config import Options
from kraftlog.decode.redaction import Redactor
from kraftlog.log.segment import Limits

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
