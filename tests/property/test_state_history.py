"""Histories: the filter at an offset is the state there, and the fold of columns is the definition.

Random logs of few topics and partitions, with everything that is abnormal: faults, aborted and open
transactions, directories that do not fit, topics that come again.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kraftlog.decode.columnar import decode_window
from kraftlog.decode.redaction import Redactor
from kraftlog.decode.rows import row_schema
from kraftlog.log.directory import find_replicas
from kraftlog.message.catalogue import spec_of
from kraftlog.message.message_spec import MessageSpec
from kraftlog.pipeline.histories import since
from kraftlog.state.arrow_events import Event, in_offset_order
from kraftlog.state.encode import RawRecord, encode_batch, metadata_record
from kraftlog.state.fold import fold_partitions
from kraftlog.state.history import HeldVersions, History, history_tables
from kraftlog.state.outline import (
    OUTLINE_TYPES,
    PARTITION_TYPES,
    Outline,
    Outliner,
    outline_from,
)
from kraftlog.state.replay import Replay
from kraftlog.state.versions import holding_at
from kraftlog.state.write import image_records
from tests.golden.cases import Replica
from tests.golden.history import rows_at_offset, state_rows
from tests.golden.spans import history_tables_of
from tests.images import built
from tests.log_coverage import scan
from tests.property.engines import window_of

CLEAR = Redactor(None)
Record = tuple[str, int, dict[str, Any]]
TOPICS = [letter * 21 + "A" for letter in "BCD"]
DIRECTORIES = [letter * 21 + "A" for letter in "AXYZ"]

topics = st.sampled_from(TOPICS)
brokers = st.lists(st.integers(1, 4), max_size=3)
directories = st.lists(st.sampled_from(DIRECTORIES), max_size=3)
partition_ids = st.integers(0, 1)
recovery = st.sampled_from([0, 0, 0, 1, 2])


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def record(kind: str, version: int, /, **fields: Any) -> st.SearchStrategy[Record]:
    given = {
        key: one if isinstance(one, st.SearchStrategy) else st.just(one)
        for key, one in fields.items()
    }
    return st.tuples(st.just(kind), st.just(version), st.fixed_dictionaries(given))


def put(version: int, **more: Any) -> st.SearchStrategy[Record]:
    return record(
        "PARTITION_RECORD",
        version,
        topicId=topics,
        partitionId=partition_ids,
        replicas=brokers,
        isr=brokers,
        removingReplicas=brokers,
        addingReplicas=brokers,
        leader=st.integers(-1, 4),
        leaderEpoch=st.sampled_from([0, 5, (1 << 31) - 2]),
        partitionEpoch=st.sampled_from([0, 7, (1 << 31) - 1]),
        leaderRecoveryState=recovery,
        **more,
    )


def change(version: int, **more: Any) -> st.SearchStrategy[Record]:
    return record(
        "PARTITION_CHANGE_RECORD",
        version,
        topicId=topics,
        partitionId=partition_ids,
        isr=maybe(brokers),
        leader=st.integers(-2, 4),
        replicas=maybe(brokers),
        removingReplicas=maybe(brokers),
        addingReplicas=maybe(brokers),
        leaderRecoveryState=st.sampled_from([-1, -1, 0, 1, 3]),
        **more,
    )


elr = {"eligibleLeaderReplicas": maybe(brokers), "lastKnownElr": maybe(brokers)}
records = st.one_of(
    record("TOPIC_RECORD", 0, name=st.sampled_from(["a", "b"]), topicId=topics),
    record("REMOVE_TOPIC_RECORD", 0, topicId=topics),
    put(0),
    put(1, directories=directories),
    put(2, directories=directories, **elr),
    put(2, directories=[], **elr),
    change(0),
    change(1, directories=maybe(directories)),
    change(2, directories=maybe(directories), **elr),
    change(2, directories=None, **elr),
    record("CLEAR_ELR_RECORD", 0, topicName=st.sampled_from(["", "a", "b", "nobody"])),
    record("BEGIN_TRANSACTION_RECORD", 0, name=None),
    record("END_TRANSACTION_RECORD", 0),
    record("ABORT_TRANSACTION_RECORD", 0, reason=None),
)
# Every log begins with something alive, else most of it would be faults.
histories = st.lists(records, max_size=40).map(
    lambda tail: [("TOPIC_RECORD", 0, {"name": "a", "topicId": TOPICS[0]}), *tail]
)


def spec(name: str) -> MessageSpec:
    found = spec_of(name)
    assert found is not None
    return found


def decode(log: list[Record], base_offset: int) -> dict[str, pa.Table]:
    """The records as the columnar decoder gives them, type by type."""
    raw: list[RawRecord] = [metadata_record(spec(one[0]), *one[1:]) for one in log]
    if not raw:
        return {}
    batch = encode_batch(raw, base_offset, 3, 1_000_000)
    window = window_of([batch])
    (decoded,) = decode_window(window, None, CLEAR, 1 << 20)
    assert not decoded.faults
    return {name: pa.Table.from_batches([rows]) for name, rows in decoded.records.items()}


def small_events(tables: dict[str, pa.Table]) -> list[Event]:
    small = (rows for name, rows in tables.items() if name not in PARTITION_TYPES)
    return list(in_offset_order(small))


def all_events(tables: dict[str, pa.Table]) -> list[Event]:
    return list(in_offset_order(tables.values()))


def partitions_of(tables: dict[str, pa.Table], name: str) -> pa.Table:
    return tables.get(name, row_schema(name).empty_table())


def by_definition(outline: Outline, base: list[Event], log: list[Event]) -> tuple[Any, list[Any]]:
    replay, history = Replay(), History()
    for event in base:
        seen = replay.apply(event.origin._replace(offset=None), event.data)
        offset, time = outline.start_offset, outline.start_timestamp
        history.take(one._replace(since_offset=offset, since_timestamp=time) for one in seen)
    for event in log:
        history.take(replay.apply(event.origin, event.data))
    history.close(outline.close_offset, outline.close_timestamp)
    rows = [history_tables()["partitions"].schema.empty_table()]
    rows += [part for name, part in history.rows() if name == "partitions"]
    return pa.concat_tables(rows), [
        one for one in replay.faults if one.origin.type in PARTITION_TYPES
    ]


def as_set(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


@given(histories, st.integers(0, 40), st.booleans(), st.integers(1, 3))
@settings(max_examples=80, deadline=None)
def test_the_fold_is_the_definition(log: list[Record], cut: int, closes: bool, parts: int) -> None:
    assert_folded(log, cut, closes, parts)


def test_a_change_that_takes_all_replicas_away_is_folded() -> None:
    """Directories belong to replicas, one by one; the change says nothing of them."""
    at = {"topicId": TOPICS[0], "partitionId": 0}
    none = dict.fromkeys(("isr", "removingReplicas", "addingReplicas", "directories",
                          "eligibleLeaderReplicas", "lastKnownElr"))  # fmt: skip
    assert_folded(
        [
            ("TOPIC_RECORD", 0, {"name": "a", "topicId": TOPICS[0]}),
            ("PARTITION_RECORD", 2, at | none | {
                "replicas": [1, 2], "isr": [1], "removingReplicas": [], "addingReplicas": [],
                "leader": 1, "leaderEpoch": 0, "partitionEpoch": 0, "leaderRecoveryState": 0,
                "directories": list(DIRECTORIES[:2]),
            }),
            ("PARTITION_CHANGE_RECORD", 2, at | none | {
                "replicas": [], "leader": -2, "leaderRecoveryState": -1,
            }),
        ],
        0, False, 1,
    )  # fmt: skip


@given(st.integers(0, 1 << 32))
@settings(max_examples=80, deadline=None)
def test_the_fold_of_sound_logs(seed: int) -> None:
    """Nearly no faults, so that the array operations do the work and not the definition."""
    chance = Random(seed)
    log = sound_log(chance, chance.randrange(60))
    folded = assert_folded(log, chance.randrange(len(log)), chance.random() < 0.5, 1)
    assert folded == [] or "BEGIN_TRANSACTION_RECORD" in {name for name, _, _ in log}


def sound_log(chance: Random, length: int) -> list[Record]:
    """Changes of partitions that exist, in transactions now and then."""
    log: list[Record] = [("TOPIC_RECORD", 0, {"name": "a", "topicId": TOPICS[0]})]
    replicas: dict[tuple[str, int], int] = {}
    alive, in_transaction = {TOPICS[0]}, False

    def some(least: int = 0) -> list[int]:
        return [chance.randrange(1, 5) for _ in range(chance.randrange(least, 4))]

    def some_directories(count: int) -> list[str]:
        return [chance.choice(DIRECTORIES) for _ in range(chance.choice([0, count]))]

    for _ in range(length):
        topic, partition = chance.choice(TOPICS), chance.randrange(2)
        which = chance.choices(
            ["topic", "gone", "put", "change", "clear", "begin", "end"], [2, 1, 4, 14, 3, 1, 3]
        )[0]
        if which == "topic" and topic not in alive:
            log.append(("TOPIC_RECORD", 0, {"name": chance.choice("ab"), "topicId": topic}))
            alive.add(topic)
        elif which == "gone" and topic in alive and len(alive) > 1:
            log.append(("REMOVE_TOPIC_RECORD", 0, {"topicId": topic}))
            alive.discard(topic)
            replicas = {key: count for key, count in replicas.items() if key[0] != topic}
        elif which == "put" and topic in alive:
            held = some(1)
            replicas[topic, partition] = len(held)
            log.append(sound_put(topic, partition, held, some, some_directories, chance))
        elif which == "change" and replicas:
            topic, partition = chance.choice(list(replicas))
            count = replicas[topic, partition]
            log.append(sound_change(topic, partition, count, some, some_directories, chance))
        elif which == "clear":
            log.append(("CLEAR_ELR_RECORD", 0, {"topicName": ""}))
        elif which == "begin" and not in_transaction:
            log.append(("BEGIN_TRANSACTION_RECORD", 0, {"name": None}))
            in_transaction, before = True, (dict(replicas), set(alive))
        elif which == "end" and in_transaction:
            in_transaction = False
            if chance.random() < 0.5:
                log.append(("END_TRANSACTION_RECORD", 0, {}))
            else:
                log.append(("ABORT_TRANSACTION_RECORD", 0, {"reason": None}))
                replicas, alive = before
    return log


def sound_put(
    topic: str, partition: int, held: list[int], some: Any, dirs: Any, chance: Random
) -> Record:
    data = {
        "topicId": topic,
        "partitionId": partition,
        "replicas": held,
        "isr": some(),
        "removingReplicas": some(),
        "addingReplicas": some(),
        "leader": chance.randrange(-1, 5),
        "leaderEpoch": chance.randrange(9),
        "partitionEpoch": chance.choice([0, 5, (1 << 31) - 1]),
        "directories": dirs(len(held)),
        "leaderRecoveryState": chance.randrange(2),
        "eligibleLeaderReplicas": chance.choice([None, some()]),
        "lastKnownElr": chance.choice([None, some()]),
    }
    return "PARTITION_RECORD", 2, data


def sound_change(
    topic: str, partition: int, count: int, some: Any, dirs: Any, chance: Random
) -> Record:
    data = {
        "topicId": topic,
        "partitionId": partition,
        "isr": chance.choice([None, some()]),
        "leader": chance.randrange(-2, 5),
        "replicas": chance.choice([None, [chance.randrange(1, 5) for _ in range(count)]]),
        "removingReplicas": chance.choice([None, some()]),
        "addingReplicas": chance.choice([None, some()]),
        "leaderRecoveryState": chance.randrange(-1, 2),
        "directories": chance.choice([None, dirs(count)]),
        "eligibleLeaderReplicas": chance.choice([None, None, some()]),
        "lastKnownElr": chance.choice([None, None, some()]),
    }
    return "PARTITION_CHANGE_RECORD", 2, data


def of_outline(event: Event) -> bool:
    return event.origin.type in OUTLINE_TYPES


def assert_folded(log: list[Record], cut: int, closes: bool, parts: int) -> list[Any]:
    """Fold a log whose records before the cut became a snapshot; the faults come back."""
    before = Replay()
    for event in all_events(decode(log[:cut], 0)):
        before.apply(event.origin, event.data)
    # What the records before the cut came to is the base; it is written as a snapshot would be.
    image = [(one.type, one.version, one.data) for one in image_records(before.state)]
    start = min(cut, len(log))
    base, tail = decode(image, 0), decode(log[cut:], start)
    outliner, alone = (Outliner(start, 500, len(log)) for _ in range(2))
    base_events = all_events(base)
    for event in small_events(base):
        outliner.base(event)
    for event in small_events(tail):
        outliner.feed(event)
    close_at = (len(log) + 1, 2_000_000) if closes else (None, None)
    outline = outliner.finish(*close_at)
    for event in filter(of_outline, small_events(base)):
        alone.base(event)
    for event in filter(of_outline, small_events(tail)):
        alone.feed(event)
    assert alone.finish(*close_at) == outline
    rows, faults = [], []
    for part in range(parts):
        folded = fold_partitions(
            outline,
            share(partitions_of(base, "PARTITION_RECORD"), "partition_record", part, parts),
            share(partitions_of(tail, "PARTITION_RECORD"), "partition_record", part, parts),
            share(
                partitions_of(tail, "PARTITION_CHANGE_RECORD"),
                "partition_change_record",
                part,
                parts,
            ),
        )
        rows.append(folded.rows)
        faults += folded.faults
    wanted, wanted_faults = by_definition(outline, base_events, all_events(tail))
    assert as_set(pa.concat_tables(rows)) == as_set(wanted)
    hidden = [
        (one.begin_offset, one.end_offset) for one in outline.hidden if one.shown_offset is None
    ]
    seen = [
        one
        for one in wanted_faults
        if not any(begin <= (one.origin.offset or 0) < end for begin, end in hidden)
    ]
    assert sorted(faults) == sorted(seen)
    return faults


def share(rows: pa.Table, payload: str, part: int, parts: int) -> pa.Table:
    """Some of the partitions, each with all its rows."""
    keep = [
        (TOPICS.index(one["topic_id"]) + one["partition_id"]) % parts == part
        for one in rows.column(payload).to_pylist()
    ]
    return rows.filter(pa.array(keep, pa.bool_()))


@pytest.mark.parametrize(
    "replica",
    [
        Replica("synthetic-fuzz-1", "0"),
        Replica("synthetic-transactions", "0"),
        Replica("synthetic-snapshots", "0"),
        Replica("steady-live", "1"),
        Replica("legacy", "11"),
    ],
    ids=str,
)
def test_the_filter_at_an_offset_is_the_state_there(replica: Replica) -> None:
    (found,) = find_replicas([str(replica.folder)])
    coverage = scan(found)
    tables = history_tables_of(coverage, CLEAR)
    first, last = coverage.restorable()[0]
    for offset in {first, first + 1, (first + last) // 3, (first + last) // 2, last - 1, last}:
        # The newest snapshot below it says the same, but for what the facts about grouping name.
        assert state_rows(built(coverage.replica, offset).state) == rows_at_offset(tables, offset)


def as_known_again(parts: Iterable[tuple[str, pa.Table]], at: int) -> dict[str, HeldVersions]:
    """What a history tells of an offset, for a replay to go on from."""
    held = {name: holding_at(rows, at) for name, rows in parts}
    return {name: HeldVersions(name, rows) for name, rows in held.items()}


@given(histories, st.integers(0, 40), st.integers(0, 40))
@settings(max_examples=150, deadline=None)
def test_small_tables_go_on_from_their_history(log: list[Record], cut: int, at: int) -> None:
    """Cut anywhere, and gone on with from what the tables tell of any offset before, the versions
    are those of the whole.
    """
    cut = min(cut, len(log))
    at = min(at, cut)
    events = small_events(decode(log, 0))
    whole, first = Outliner(0, 0, len(log)), Outliner(0, 0, cut)
    for event in events:
        if (event.origin.offset or 0) < cut:
            first.feed(event)
        whole.feed(event)
    first.finish()
    wanted = outline_from(whole.finish(), at)
    assume(wanted is not None and not first.replay.current.shares_names())
    second = Outliner(at, 0, len(log))
    second.goes_on(as_known_again(first.history.rows(), at))
    for event in events:
        second.feed(event)
    assert second.finish() == wanted
    assert second.replay.state == whole.replay.state
    told, gone_on = (
        {name: since(rows, at) for name, rows in one.history.rows()} for one in (whole, second)
    )
    for name in told | gone_on:
        nothing = history_tables()[name].schema.empty_table()
        assert as_set(told.get(name, nothing)) == as_set(gone_on.get(name, nothing))
