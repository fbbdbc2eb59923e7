"""Secrets are masked here, where they are decoded, before any row or column exists.

In: a decoded message and its spec. Out: the same message with its secret values replaced by a keyed
hash, so that replicas and versions still compare while nothing can be read back. Which fields are
secret is declared in `schemas/`: of configs, all but those that Kafka's own definitions declare not
to be sensitive. Bytes that nobody can interpret count as secret. Source: Kafka's RecordRedactor and
KafkaConfigSchema (which fields), KIP-554, KIP-900.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from blake3 import blake3

from kraftlog.message.message_spec import Listed, MessageSpec, camel_case

MASK_PREFIX = "redacted:"


@dataclass(frozen=True, slots=True)
class Redactor:
    """Masks secret values under a key of 32 bytes; without a key nothing is masked
    (`--reveal-secrets`). Contents are named under `id_key`.
    """

    key: bytes | None = dataclasses.field(repr=False)
    id_key: bytes | None = dataclasses.field(default=None, repr=False)

    @property
    def masks(self) -> str:
        """A word for the key of the masks, or none. It is made under the key that names contents:
        to others it tells nothing of either, not even whether a guess is right.
        """
        if self.key is None:
            return "none"
        assert self.id_key is not None
        return blake3(self.key, key=self.id_key).hexdigest(8)

    def mask(self, value: str) -> str:
        """A stand-in that is equal for equal values under one key."""
        if self.key is None:
            return value
        return MASK_PREFIX + blake3(value.encode("utf-8", "surrogatepass"), key=self.key).hexdigest(
            8
        )

    def message(self, spec: MessageSpec, data: dict[str, Any]) -> dict[str, Any]:
        """The message with its secret values masked; the dict is changed in place."""
        if self.key is None or not spec.holds_secrets:
            return data
        for field in spec.fields:
            value = data.get(field.json)
            if not value:  # null and empty hide nothing
                continue
            if field.secret or _is_secret(field.secret_unless, data):
                data[field.json] = self.mask(str(value))
        return data

    def columns(self, spec: MessageSpec, columns: dict[str, pa.Array]) -> None:
        """The same for many messages at once, given as columns by name; the dict is changed in
        place.
        """
        if self.key is None or not spec.holds_secrets:
            return
        for field in spec.fields:
            column = columns.get(field.name)
            if column is None or not (field.secret or field.secret_unless):
                continue
            is_open = _open_rows(field.secret_unless, columns, len(column))
            texts = [
                # null and empty hide nothing
                text if not text or open_ else self.mask(text)
                for text, open_ in zip(column.to_pylist(), is_open, strict=True)
            ]
            columns[field.name] = pa.array(texts, pa.string())


def _is_secret(unless: Listed | None, data: dict[str, Any]) -> bool:
    if unless is None:
        return False
    number, text = (data.get(camel_case(name)) for name in unless.fields)
    return (number, text) not in unless


def _open_rows(listed: Listed | None, columns: dict[str, pa.Array], count: int) -> list[bool]:
    """Of each row, whether a list says that its value is open."""
    if listed is None:
        return [False] * count
    numbers, texts = (columns[name].to_pylist() for name in listed.fields)
    return [one in listed for one in zip(numbers, texts, strict=True)]
