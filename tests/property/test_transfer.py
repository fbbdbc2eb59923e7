"""Transfers whatever the sizes: pieces make the same bytes again, a log goes in whole batches, and
the messages that carry them say the same in both directions.
"""

from __future__ import annotations

import tempfile
from base64 import b64encode
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog.decode.interpreter import absent_value, read_message
from kraftlog.errors import DecodeError
from kraftlog.message.catalogue import request_specs
from kraftlog.message.message_spec import FieldSpec, MessageSpec, VersionSpec, struct_at
from kraftlog.pull.puller import Assembler
from kraftlog.simulate.extent import SnapshotId
from kraftlog.simulate.fetch import Dialect, Span, log_chunks
from kraftlog.simulate.snapshot_server import Ask, Server, fetch_snapshot
from kraftlog.state.encode import encode_message
from kraftlog.wire import FIXED, uuid_text
from tests.golden.cases import Replica
from tests.leader_messages import Leader, Memory

LIVE = Replica("steady-live", "1").file("00000000000000001587-0000000004.checkpoint").read_bytes()
ID = SnapshotId(4, 1587)
BOTH = [spec for pair in request_specs().values() for spec in pair]


# --- Snapshots ----------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(
    limits=st.lists(st.integers(500, 40_000), min_size=1, max_size=40),
    dialect=st.sampled_from(Dialect),
    random=st.randoms(use_true_random=False),
)
def test_any_chunks_and_crashes_make_the_same_bytes(
    limits: list[int], dialect: Dialect, random: Random
) -> None:
    """Each request has another limit; after some, the node dies, and its file may have lost its
    last bytes. A node that names no more limits asks for what its last one was.
    """
    leader = Leader({ID: Memory(LIVE)})
    with tempfile.TemporaryDirectory() as folder:
        found = None
        asked = 0
        while found is None:
            one = Assembler(Path(folder), ID)
            if asked < len(limits) and one.position and random.random() < 0.3:
                with one.part.open("r+b") as file:
                    file.truncate(random.randrange(one.position))
            limit = limits[min(asked, len(limits) - 1)]
            found = one.take(leader.piece(Ask(ID, one.position, limit, 5), dialect))
            asked += 1
        assert found.read_bytes() == LIVE
        assert list(Path(folder).iterdir()) == [found]


@given(
    size=st.integers(1, 5000),
    limit=st.integers(1, 700),
    own_limit=st.integers(1, 700) | st.none(),
    dialect=st.sampled_from(Dialect),
)
def test_replies_cover_a_snapshot_once(
    size: int, limit: int, own_limit: int | None, dialect: Dialect
) -> None:
    """By the flag of version 19, or by the size: both end at the last byte."""
    server, spans = Server({ID: size}, own_limit), [Span(0, 0)]
    has_more = True
    while has_more:
        ask = Ask(ID, sum(spans[-1]), limit, 5)
        error, span, has_more = fetch_snapshot(server, ask, dialect)
        assert error is None
        assert span.position == sum(spans[-1])
        spans.append(span)
    assert sum(spans[-1]) == size
    most = min(limit, own_limit or limit) if dialect == Dialect.ADOPTED else limit
    assert all(span.size_bytes == most for span in spans[1:-1])
    assert 0 < spans[-1].size_bytes <= most


@given(st.lists(st.integers(1, 400), max_size=60), st.integers(1, 900))
def test_a_log_goes_in_whole_batches(sizes: list[int], limit: int) -> None:
    spans = list(log_chunks(np.array(sizes, np.int64), limit))
    borders = {0, *np.cumsum(sizes).tolist()}
    at = 0
    for span in spans:
        assert span.position == at
        at += span.size_bytes
        assert at in borders
        inside = [b for b in borders if span.position < b < at]
        assert span.size_bytes <= limit or not inside  # more than the limit: one batch only
    assert at == sum(sizes)
    for one, following in pairwise(spans):
        next_border = min(b for b in borders if b > following.position)
        assert one.size_bytes + next_border - following.position > limit  # nothing more fitted


# --- Messages -----------------------------------------------------------------------------------


def message(random: Random, spec: VersionSpec) -> dict[str, Any]:
    """A random message with every field of the version."""
    value = {field.json: field_value(random, spec, field) for field in spec.plain}
    for field in spec.tagged.values():
        absent = random.random() < 0.4
        value[field.json] = absent_value(field) if absent else field_value(random, spec, field)
    return value


def field_value(random: Random, spec: VersionSpec, field: FieldSpec) -> Any:
    if spec.version in field.nullable and random.random() < 0.2:
        return None
    if field.element is None:
        return scalar(random, spec, field, field.type)
    return [scalar(random, spec, field, field.element) for _ in range(random.randrange(4))]


def scalar(random: Random, spec: VersionSpec, field: FieldSpec, kind: str) -> Any:
    if kind == "struct":
        return message(random, struct_at(field, spec))
    if kind in FIXED:
        bits = FIXED[kind].size * 8
        low = 0 if kind == "uint16" else -(1 << bits - 1)
        return random.choice(
            [low, 0, 1, low + (1 << bits) - 1, random.randrange(low, low + (1 << bits))]
        )
    if kind == "boolean":
        return random.random() < 0.5
    if kind == "uuid":
        return uuid_text(random.randbytes(16))
    if kind == "string":
        return random.choice(["", "a", "Größe", "x" * 300, "\U0001f980"])
    return b64encode(random.randbytes(random.choice([0, 1, 127, 128, 400]))).decode()


@pytest.mark.parametrize("spec", BOTH, ids=lambda spec: spec.type)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_messages_go_there_and_back(spec: MessageSpec, seed: int) -> None:
    random = Random(seed)  # whose values are no entropy of hypothesis: there may be too many
    for version in range(spec.versions.first, spec.versions.last + 1):
        at = spec.at(version)
        value = message(random, at)
        raw = encode_message(at, value)
        assert read_message(at, raw, 0, len(raw)) == (value, [], [], len(raw))
        cuts = range(len(raw)) if len(raw) < 60 else random.sample(range(len(raw)), 20)
        for cut in cuts:
            with pytest.raises(DecodeError):
                read_message(at, raw[:cut], 0, cut)
