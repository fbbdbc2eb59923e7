"""What must hold for any message and any way of cutting a log: encode undoes decode, replay does
not care for cuts.
"""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from functools import cache
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog.decode.interpreter import read_message
from kraftlog.decode.records import Record, read_records
from kraftlog.decode.redaction import Redactor
from kraftlog.log.batch import crc_is_valid
from kraftlog.log.directory import find_replicas
from kraftlog.message.catalogue import control_specs, metadata_specs
from kraftlog.message.message_spec import FieldSpec, MessageSpec, VersionSpec, struct_at
from kraftlog.state.encode import encode_batch, encode_message, metadata_record
from kraftlog.state.replay import Origin, Replay
from tests.canonical import canonical_lines
from tests.definition import steps
from tests.golden.cases import Replica
from tests.golden.digest import Digest, digest_of
from tests.images import built
from tests.log_coverage import LogCoverage, scan
from tests.reading import decoded

CLEAR = Redactor(None)
SPECS = [*metadata_specs().values(), *control_specs().values()]


def int_of(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "int8": int_of(8),
    "int16": int_of(16),
    "uint16": st.integers(0, 65535),
    "int32": int_of(32),
    "int64": int_of(64),
    "float64": st.floats(allow_nan=False),
    "boolean": st.booleans(),
    "string": st.text(max_size=20),
    "bytes": st.binary(max_size=20).map(lambda raw: b64encode(raw).decode()),
    "uuid": st.binary(min_size=16, max_size=16).map(
        lambda raw: urlsafe_b64encode(raw).decode()[:22]
    ),
}


def of_message(spec: VersionSpec) -> st.SearchStrategy[dict[str, Any]]:
    fields = [*spec.plain, *spec.tagged.values()]
    return st.fixed_dictionaries({field.json: of_field(spec, field) for field in fields})


def of_field(spec: VersionSpec, field: FieldSpec) -> st.SearchStrategy[Any]:
    kind = field.element or field.type
    one = of_message(struct_at(field, spec)) if kind == "struct" else SCALARS[kind]
    value = one if field.element is None else st.lists(one, max_size=4)
    return st.none() | value if spec.version in field.nullable else value


def messages(
    specs: list[MessageSpec],
) -> st.SearchStrategy[tuple[MessageSpec, int, dict[str, Any]]]:
    versions = [
        (spec, version)
        for spec in specs
        for version in range(spec.versions.first, spec.versions.last + 1)
    ]
    return st.sampled_from(versions).flatmap(
        lambda one: st.tuples(st.just(one[0]), st.just(one[1]), of_message(one[0].at(one[1])))
    )


@given(messages(SPECS))
@settings(max_examples=150, deadline=None)
def test_decoding_undoes_encoding(message: tuple[MessageSpec, int, dict[str, Any]]) -> None:
    spec, version, data = message
    raw = encode_message(spec.at(version), data)
    assert read_message(spec.at(version), raw, 0, len(raw)) == (data, [], [], len(raw))


@given(
    st.lists(messages(list(metadata_specs().values())), min_size=1, max_size=8),
    st.integers(0, 1 << 40),
    st.integers(0, 1 << 20),
)
@settings(max_examples=50, deadline=None)
def test_a_batch_is_read_as_it_was_written(
    written: list[tuple[MessageSpec, int, dict[str, Any]]], base: int, epoch: int
) -> None:
    batch = encode_batch([metadata_record(*one) for one in written], base, epoch, 1234)
    assert crc_is_valid(batch)
    read = list(read_records(batch, 0, CLEAR, 1 << 20))
    assert all(isinstance(one, Record) for one in read)
    assert [
        (one.type, one.record_version, one.data) for one in read if isinstance(one, Record)
    ] == [(spec.type, version, data) for spec, version, data in written]
    assert [one.offset for one in read] == [base + index for index in range(len(written))]


def test_golden_batches_are_encoded_back_to_the_same_bytes() -> None:
    """Where Kafka wrote the batch itself, byte for byte."""
    coverage = covered("steady-live", "14")
    replay, count = Replay(), 0
    for step in steps(coverage, replay, 0, coverage.log_end_offset, CLEAR):
        batch = step.batch
        records = list(decoded(batch, CLEAR))
        if batch.is_control:
            continue
        raw = [
            metadata_record(spec, one.record_version or 0, one.data)
            for one in records
            if isinstance(one, Record)
            for spec in SPECS
            if spec.type == one.type
        ]
        again = encode_batch(raw, batch.base_offset, batch.batch_leader_epoch, batch.base_timestamp)
        assert again == batch.raw
        count += 1
    assert count > 100


@cache
def covered(case: str, node: str) -> LogCoverage:
    (found,) = find_replicas([str(Replica(case, node).folder)])
    return scan(found)


@cache
def history() -> list[tuple[Origin, Any]]:
    """The records of one golden log, decoded once."""
    coverage = covered("synthetic-fuzz-1", "0")
    found = []
    for step in steps(coverage, Replay(), 0, coverage.log_end_offset, CLEAR):
        for record in decoded(step.batch, CLEAR):
            if isinstance(record, Record) and not record.is_control:
                origin = Origin(record.offset, record.timestamp, 1, record.type)
                found.append((origin, record.data))
    return found


@given(st.lists(st.integers(0, 7000), max_size=12), st.integers(0, 7000))
@settings(max_examples=10, deadline=None)
def test_cutting_the_log_anywhere_gives_the_same_state(cuts: list[int], end: int) -> None:
    """Each run goes on from a fork of the state before it; the forks stay as they were."""
    records = history()[:end]
    whole = Replay()
    for origin, data in records:
        whole.apply(origin, data)
    pieces, digest, forks = Replay(), Digest(Replay().state), []
    bounds = [0, *sorted(cut for cut in cuts if cut < len(records)), len(records)]
    for start, stop in pairwise(bounds):
        forks.append((pieces.state, digest.hexdigest()))
        for origin, data in records[start:stop]:
            digest.update(pieces.state, [one.change for one in pieces.apply(origin, data)])
        if pieces.open_since is None:
            pieces = Replay(pieces.state.fork())
    assert pieces.state == whole.state
    assert digest.hexdigest() == digest_of(canonical_lines(whole.state))


@given(st.integers(0, 500))
@settings(max_examples=25, deadline=None)
def test_any_base_gives_the_same_image(offset: int) -> None:
    """The newest snapshot below an offset, an older one, or none: one state."""
    coverage = covered("synthetic-fuzz-1", "0")
    end = offset * coverage.log_end_offset // 500
    from_log = Replay()
    for _ in steps(coverage, from_log, 0, end, CLEAR):
        pass
    assert built(coverage.replica, end).state == from_log.state
