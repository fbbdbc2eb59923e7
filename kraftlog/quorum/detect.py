"""Which batches of a window are remarkable, found by columns.

In: a window, and what was decoded of it. Out: the ids of batches whose records a check may ask for
(control records, transactions, faults, records that break a rule), the level that metadata.version
is set to, and how many records of each type there are. What is remarkable is then decoded by the
definition.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.decode.rows import Decoded
from kraftlog.log.batch import CODEC_MASK, PREFIX_SIZE
from kraftlog.log.segment import Window
from kraftlog.quorum.content import FEATURE, LZ4, odd_headers
from kraftlog.state.shapes import METADATA_VERSION, newer_level
from kraftlog.state.tables import TRANSACTION_TYPES

JUDGED_BODIES = frozenset({FEATURE})
"""Of these types the fields are looked at; of the others it is enough that they decode."""


def remarkable(window: Window, decoded: Decoded) -> frozenset[str]:
    """Ids of the batches of a window whose records a check may ask for."""
    batches = window.batches
    ids_at = dict(zip(batches.positions.tolist(), batches.batch_ids, strict=True))
    found = {
        ids_at[fault.batch_position] for fault in decoded.faults if fault.batch_position in ids_at
    }
    for name, rows in (*decoded.control.items(), *decoded.records.items()):
        ids = rows.column("batch_id")
        if name not in decoded.control and name not in TRANSACTION_TYPES:
            broken = _breaks_a_rule(rows, name)
            if not broken.any():
                continue
            ids = ids.filter(pa.array(broken))
        found |= set(pc.unique(ids.cast(pa.string())).to_pylist())
    odd = np.flatnonzero(batches.crc_valid & odd_headers(batches.headers))
    rows = (*odd.tolist(), *decoded.odd, *_may_be_refused(window, decoded).tolist())
    return frozenset(found | {batches.batch_ids[row] for row in rows})


def metadata_versions(decoded: Decoded) -> dict[str, int]:
    """The level that metadata.version is set to, by the ids of the batches that set it. A first batch
    of a snapshot has one such record, and thousands of others.
    """
    rows = decoded.records.get(FEATURE)
    if rows is None:
        return {}
    batch_ids = rows.column("batch_id").cast(pa.string()).to_pylist()
    return {
        batch_id: one["featureLevel"]
        for batch_id, one in zip(batch_ids, _features(rows), strict=True)
        if one is not None and one["name"] == METADATA_VERSION
    }


def _features(rows: pa.RecordBatch) -> list[dict[str, Any] | None]:
    """The bodies of FeatureLevelRecords, None where that is not known; there are few of them."""
    given = rows.column(FEATURE.lower()).to_pylist()
    return [one and {"name": one["name"], "featureLevel": one["feature_level"]} for one in given]


def _may_be_refused(window: Window, decoded: Decoded) -> npt.NDArray[np.int64]:
    """The compressed batches of a window that Kafka's reader may refuse for what is in them: those
    with blocks of LZ4, and those with a record of about their own size or more.
    """
    batches = window.batches
    codecs = batches.headers["attributes"] & CODEC_MASK
    packed = batches.crc_valid & (codecs != 0)
    if not packed.any():
        return np.empty(0, np.int64)
    sizes = dict(
        zip(batches.batch_ids, (batches.headers["length"] + PREFIX_SIZE).tolist(), strict=True)
    )
    largest = dict.fromkeys(batches.batch_ids, 0)
    for rows in (*decoded.control.values(), *decoded.records.values()):
        held = pa.table(
            {"id": rows["batch_id"].cast(pa.string()), "size": rows["value_size_bytes"]}
        )
        for one in held.group_by("id").aggregate([("size", "max")]).to_pylist():
            largest[one["id"]] = max(largest[one["id"]], one["size_max"] or 0)
    long = [largest[one] + _AROUND_A_VALUE > sizes[one] for one in batches.batch_ids]
    return np.flatnonzero(packed & ((codecs == LZ4) | np.array(long, np.bool_)))


_AROUND_A_VALUE = 64
"""More bytes than a record has beside its value."""


TYPE_COUNTS = pa.list_(
    pa.struct(
        [("type", pa.string()), ("record_count", pa.int32()), ("first_record_index", pa.int32())]
    )
)
"""Of one batch: its record types, how many records each has, and where the first one is."""


def type_counts(window: Window, decoded: Decoded, chosen: Sequence[int]) -> pa.ListArray:
    """TYPE_COUNTS of the batches at the chosen indexes of a window, without a loop over batches."""
    names = [*decoded.control, *decoded.records]
    batches, types, counts, firsts = [], [], [], []
    places = pa.array(window.batches.batch_ids, pa.string())
    for code, rows in enumerate([*decoded.control.values(), *decoded.records.values()]):
        column = rows.column("batch_id")
        place = pc.index_in(column.dictionary, places).to_numpy(zero_copy_only=False)
        place = place[column.indices.to_numpy()]
        count = np.bincount(place, minlength=len(places))
        first = np.full(len(places), np.iinfo(np.int64).max)
        np.minimum.at(first, place, rows.column("record_index").to_numpy().astype(np.int64))
        held = np.flatnonzero(count)
        batches.append(held)
        types.append(np.full(len(held), code, np.int32))
        counts.append(count[held])
        firsts.append(first[held])
    nothing = [np.empty(0, np.int64)]
    batch = np.concatenate([*batches, *nothing])
    order = np.argsort(batch, kind="stable")
    ends = np.searchsorted(batch[order], np.asarray(chosen), "right")
    kind = pa.DictionaryArray.from_arrays(
        pa.array(np.concatenate([*types, *nothing])[order].astype(np.int32)),
        pa.array(names, pa.string()),
    )
    fields = [
        kind.cast(pa.string()),
        pa.array(np.concatenate([*counts, *nothing])[order], pa.int32()),
        pa.array(np.concatenate([*firsts, *nothing])[order], pa.int32()),
    ]
    cells = pa.StructArray.from_arrays(fields, fields=list(TYPE_COUNTS.value_type))
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), cells).cast(TYPE_COUNTS)


def _breaks_a_rule(rows: pa.RecordBatch, name: str) -> npt.NDArray[np.bool_]:
    """The rules of `content`, as one mask over many records."""
    index, deltas, times, headers = (
        rows.column(one).to_numpy()
        for one in ("record_index", "offset_delta", "timestamp_delta", "header_count")
    )
    broken: npt.NDArray[np.bool_] = (deltas != index) | (times != 0) | (headers > 0)
    for absent in ("key_size_bytes", "raw", "unknown_tagged_fields"):
        column = rows.column(absent)
        if column.null_count < len(column):
            broken |= column.is_valid().to_numpy(zero_copy_only=False)
    if name == FEATURE:
        newer = [one is not None and newer_level(one) is not None for one in _features(rows)]
        broken |= np.array(newer, np.bool_)
    return broken
