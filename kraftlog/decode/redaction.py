"""Secrets are masked here, where they are decoded, before any row or column exists.

In: a decoded message and its spec. Out: the same message with its secret values replaced by a keyed
hash, so that replicas and versions still compare while nothing can be read back. Which fields are
secret is declared in `schemas/`. Source: Kafka's RecordRedactor (which fields), KIP-554, KIP-900.
"""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from blake3 import blake3

from kraftlog.message.spec import MessageSpec

MASK_PREFIX = "redacted:"


@dataclass(frozen=True, slots=True)
class Redactor:
    """Masks secret values under a key of 32 bytes; without a key nothing is masked
    (`--reveal-secrets`).
    """

    key: bytes | None

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
            if field.secret or _is_secret(field.secret_when, data):
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
            if column is None or not (field.secret or field.secret_when):
                continue
            mask = pc.greater(pc.binary_length(column), 0).fill_null(False)
            if not field.secret:
                mask = pc.and_(mask, _secret_rows(field.secret_when, columns))
            values = column.filter(mask).to_pylist()
            masked = pa.array([self.mask(value) for value in values], pa.string())
            columns[field.name] = pc.replace_with_mask(column, mask, masked)

    def raw(self, spec: MessageSpec | None, raw_hex: str) -> str:
        """Bytes that were not decoded: masked where the message may hold secrets."""
        return self.mask(raw_hex) if spec is not None and spec.holds_secrets else raw_hex


def _is_secret(when: Any, data: dict[str, Any]) -> bool:
    if when is None:
        return False
    other = data.get(when.field)
    return isinstance(other, str) and when.pattern.search(other) is not None


def _secret_rows(when: Any, columns: dict[str, pa.Array]) -> pa.Array:
    """Where the other field matches: asked once per distinct value, of which there are few."""
    names = columns[when.field].dictionary_encode()
    matches = [when.pattern.search(name) is not None for name in names.dictionary.to_pylist()]
    return pa.array(matches, pa.bool_()).take(names.indices).fill_null(False)
