"""What Kafka reads of a bootstrap.checkpoint, which it does at every start.

In: the file's bytes. Out: the level of metadata.version that it sets, or `ValueError` with a
sentence where Kafka throws. Unlike a snapshot it is read without a look at any CRC, and its end is
where no whole batch follows. Source: Kafka's BootstrapDirectory, BootstrapMetadata, BatchFileReader
and FileLogInputStream, 3.3 to 4.4.
"""

from kraftlog.decode.records import records_in, section_of
from kraftlog.decode.redaction import Redactor
from kraftlog.log.batch import (
    HEADER_SIZE,
    INT32_AT,
    LAST_MAGIC,
    LENGTH_POSITION,
    MAGIC,
    MAGIC_POSITION,
    PREFIX_SIZE,
)
from kraftlog.log.fault import Fault
from kraftlog.quorum.content import FEATURE
from kraftlog.state.shapes import METADATA_VERSION

LEAST_LENGTH = 14
"""That of a batch without a record, in the oldest format: Kafka throws at less."""


def read_bootstrap(raw: bytes, redactor: Redactor, limit: int) -> int:
    """The level of metadata.version; a batch is unpacked to `limit` bytes at most."""
    level: int | None = None
    position = 0
    while len(raw) - position > MAGIC_POSITION + 1:
        (length,) = INT32_AT.unpack_from(raw, position + LENGTH_POSITION)
        end = position + PREFIX_SIZE + length
        if length >= LEAST_LENGTH and end > len(raw):
            break
        is_batch = MAGIC <= raw[position + MAGIC_POSITION] <= LAST_MAGIC
        if not is_batch or end - position < HEADER_SIZE:
            raise ValueError(f"there is no record batch at byte {position:,}")
        section = section_of(raw[position:end], position, limit)
        for found in [section] if isinstance(section, Fault) else records_in(section, redactor):
            if isinstance(found, Fault):
                raise ValueError(f"in the batch at byte {position:,}: {found.detail}")
            if found.type == FEATURE and found.data and found.data["name"] == METADATA_VERSION:
                level = found.data["featureLevel"]
        position = end
    if level is None:
        raise ValueError(f"it holds no record that sets {METADATA_VERSION}")
    return level
