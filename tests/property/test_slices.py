"""Slices of partitions' records: decoded, written and read share by share, nothing is lost, nothing
comes twice, and no partition is torn.
"""

from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog.decode.columnar import decode_window
from kraftlog.decode.slices import SLICED, SLICES, hash_of
from kraftlog.log.segment import Window
from kraftlog.message.catalogue import metadata_specs, spec_of
from kraftlog.pipeline import shares
from kraftlog.pipeline.shares import Source, shares_of
from kraftlog.state.encode import RawRecord, encode_batch
from kraftlog.tables.parquet import slices_of, write_file
from tests.property.engines import DECOMPRESSED_LIMIT, MASKED, assert_equal_slices, window_of
from tests.property.wild import Wild

PUT = "PARTITION_RECORD"
PAYLOAD = PUT.lower()


def partitions(seed: int, count: int) -> Window:
    """Batches of PARTITION_RECORDs of a few topics, one of which has many partitions."""
    chance = Random(seed)
    wild = Wild(chance, 0.0)
    spec = next(one for one in metadata_specs().values() if one.type == PUT)
    topics = [chance.randbytes(16) for _ in range(5)]
    records = []
    while len(records) < count:
        value = bytearray(wild.message(spec, 1))
        value[3:7] = chance.randrange(1000).to_bytes(4, "big")
        value[7:23] = chance.choice(topics)
        records.append(RawRecord(None, bytes(value)))
    batches = [encode_batch(records[at : at + 50], at, 1, 0) for at in range(0, count, 50)]
    return window_of(batches)


def key_and_offset(rows: pa.Table) -> list[tuple[str, int, int]]:
    """Partition and offset of each row."""
    return [
        (row[PAYLOAD]["topic_id"], row[PAYLOAD]["partition_id"], row["offset"])
        for row in rows.select(["offset", PAYLOAD]).to_pylist()
    ]


def test_the_ids_come_first_in_every_version() -> None:
    for name in SLICED:
        spec = spec_of(name)
        assert spec is not None
        for version in range(spec.versions.first, spec.versions.last + 1):
            first, second = spec.at(version).plain[:2]
            assert (first.name, first.type) == ("partition_id", "int32")
            assert (second.name, second.type) == ("topic_id", "uuid")


@given(seed=st.integers(0, 1 << 64), oddness=st.sampled_from([0.0, 0.01]))
@settings(max_examples=30, deadline=None)
def test_slices_of_wild_batches(seed: int, oddness: float) -> None:
    wild = Wild(Random(seed), oddness)
    window = window_of([wild.batch(record_count=40) for _ in range(4)])
    sliced = assert_equal_slices(window, 4)
    (plain,) = decode_window(window, None, MASKED, DECOMPRESSED_LIMIT)
    assert sliced.ends.keys() == SLICED & plain.records.keys()
    for name, rows in sliced.records.items():
        assert sorted(map(repr, rows.to_pylist())) == sorted(
            map(repr, plain.records[name].to_pylist())
        )


@given(seed=st.integers(0, 1 << 64))
@settings(max_examples=10, deadline=None)
def test_a_slice_has_its_partitions_in_file_order(seed: int) -> None:
    window = partitions(seed, 150)
    decoded = assert_equal_slices(window, SLICES)
    rows, starts = decoded.records[PUT], [0, *decoded.ends[PUT]]
    assert starts[-1] == rows.num_rows == 150
    for number in range(SLICES):
        part = rows.slice(starts[number], starts[number + 1] - starts[number])
        offsets = part.column("offset").to_pylist()
        assert offsets == sorted(offsets)
        for topic, partition, _ in key_and_offset(pa.Table.from_batches([part])):
            found = hash_of({"topicId": topic, "partitionId": partition})
            assert found & (SLICES - 1) == number


@pytest.mark.parametrize("by_slices", [True, False])
@pytest.mark.parametrize("count", [1, 2, SLICES, 4 * SLICES])
def test_shares_read_every_record_once(count: int, by_slices: bool, tmp_path: Path) -> None:
    window = partitions(7, 400)
    slices = SLICES if by_slices else 0
    (decoded,) = decode_window(window, None, MASKED, DECOMPRESSED_LIMIT, None, slices)
    ends = decoded.ends.get(PUT, [])
    table = pa.Table.from_batches([decoded.records[PUT]])
    added = write_file(str(tmp_path), table, {}, np.diff([0, *ends]).tolist())
    source = Source(PUT, f"{tmp_path}/{added.path}")
    parts = [shares._read_source(source, share, count) for share in range(count)]
    found = [key_and_offset(part) for part in parts]
    assert sorted(row for part in found for row in part) == sorted(key_and_offset(table))
    keys = [{row[:2] for row in part} for part in found]
    assert sum(map(len, keys)) == len(set().union(*keys))
    for part in found:
        assert [row[2] for row in part] == sorted(row[2] for row in part) or count < SLICES


def test_slices_without_rows_have_no_row_group(tmp_path: Path) -> None:
    table = pa.table({"offset": pa.array(range(5), pa.int64())})
    added = write_file(str(tmp_path), table, {}, [0, 3, 0, 2])
    with pa.parquet.ParquetFile(tmp_path / added.path) as file:
        assert slices_of(file.metadata) == (4, [1, 3])
        assert file.read_row_group(1).column("offset").to_pylist() == [3, 4]


def test_the_number_of_shares_is_a_power_of_two() -> None:
    assert [shares_of(rows, 10) for rows in (-1, 0, 9, 10, 39, 40, 160)] == [1, 1, 1, 2, 4, 8, 32]


@given(chunks=st.lists(st.lists(st.sampled_from("abcde"), max_size=6), max_size=4), data=st.data())
@settings(max_examples=40, deadline=None)
def test_a_slice_has_a_dictionary_of_its_own(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[list[str]], data: st.DataObject
) -> None:
    kind = pa.dictionary(pa.int32(), pa.string())
    texts = pa.chunked_array([pa.array(one, kind) for one in chunks], kind)
    gaps = pa.chunked_array(
        [pa.array([None if text == "a" else text for text in one], kind) for one in chunks], kind
    )
    table = pa.table({"text": texts, "gaps": gaps})
    first = data.draw(st.integers(0, len(texts)))
    counts = [first, len(texts) - first]
    folder = tmp_path_factory.mktemp("texts")
    path = folder / write_file(str(folder), table, slices=counts).path
    with pq.ParquetFile(path, read_dictionary=["text"]) as file:
        groups = [file.read_row_group(at) for at in range(file.num_row_groups)]
    expected = [table.slice(0, first), table.slice(first)]
    held = [one.to_pydict() for one in expected if one.num_rows]
    assert [one.to_pydict() for one in groups] == held
    for group, rows in zip(groups, held, strict=True):
        own = group.column("text").combine_chunks().dictionary
        assert sorted(own.to_pylist()) == sorted({*rows["text"]})
