"""The tables of plans, each with what fills it: what Kafka would do next, and which
states can be rebuilt.
"""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraftlog import relations
from kraftlog.native.folding import Lists
from kraftlog.pipeline.derive import Rows, table
from kraftlog.pipeline.histories import shared_versions
from kraftlog.pipeline.lake_evidence import record_types_of
from kraftlog.pipeline.run import Run
from kraftlog.quorum.evidence import Longs, id_texts
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.restorable import MISSING, restorable
from kraftlog.relations import BOOL, DOUBLE, INT, LONG, TEXT, column
from kraftlog.simulate.liveness import snapshot_transfer_rows
from kraftlog.simulate.lost import TypeCounts
from kraftlog.simulate.plan_rows import boot_rows, election_rows, fetch_rows, truncation_rows
from kraftlog.simulate.replica_selection import Broker, Cluster, Partitions, select_all, topic_rows
from kraftlog.simulate.selectors import RackAwareReplicaSelector
from kraftlog.tables.lake import Lake
from kraftlog.tables.promise import among, at_least, known, not_below, unique

FOLLOWER = column("follower", TEXT, "label of the copy that fetches")
LEADER = column("leader", TEXT, "label of the copy that would lead")


@table(
    "truncation_plan",
    "ordered pair of replicas whose logs are not equal,",
    FOLLOWER,
    LEADER,
    column(
        "truncation_offset",
        LONG,
        "from where on, or from below it where the leader's log begins there, the follower's history is not this leader's (KAFKA-1211); null: no newer log shows it",
    ),
    column(
        "by_snapshot",
        pa.list_(LONG),
        "end offset and epoch of the snapshot that then replaces its log; null: none does",
    ),
    column(
        "records_lost",
        LONG,
        "records from there on; 0 where Kafka cuts nothing and stops with an exception, or asks without end; null: not known, as all that is lost",
    ),
    column("size_bytes_lost", LONG, "their batches' size"),
    column("types_lost", pa.map_(TEXT, LONG), "records that are lost, per type"),
    column("committed_lost", LONG, "of the records that are lost, those known to be committed"),
    promises=(
        unique("follower", "leader", why="one row per ordered pair and run"),
        at_least("truncation_offset", 0, "a log is cut at an offset"),
        not_below(
            "records_lost", "committed_lost", "what is committed and lost is a part of what is lost"
        ),
    ),
)
def truncation_plan(run: Run) -> Iterator[dict[str, Any]]:
    """A map column takes pairs."""
    for row in truncation_rows(run.quorum, _counted_in_lake(run)):
        lost = row["types_lost"]
        yield row | {"types_lost": None if lost is None else list(lost.items())}


def _counted_in_lake(run: Run) -> TypeCounts:
    """The lake knows what each batch holds: half a log may be lost, and need not be read for it."""
    contents = run.lake.dataset("contents")

    def counts(log: LogView, rows: Longs) -> dict[str, int]:
        columns = log.evidence.log
        ids = id_texts(columns.ids[rows[columns.crc_valid[rows]]])
        held = pc.list_flatten(record_types_of(contents, ids))
        counted = pa.Table.from_struct_array(held).group_by("type")
        found = counted.aggregate([("record_count", "sum")])
        return {row["type"]: row["record_count_sum"] for row in found.to_pylist()}

    return counts


@table(
    "fetch_plan",
    "ordered pair of replicas",
    FOLLOWER,
    LEADER,
    column("fetch_offset", LONG, "the follower's log end, from which it fetches"),
    column("last_fetched_epoch", LONG, "epoch of the record before it"),
    column("answer", TEXT, "records, diverging_epoch, snapshot, or the name of Kafka's error"),
    column("diverging_epoch", LONG, "epoch that the leader knows instead"),
    column("diverging_end_offset", LONG, "where that epoch ends on the leader"),
    column("snapshot_end_offset", LONG, "end offset of the snapshot to be fetched"),
    column("snapshot_epoch", LONG, "its epoch"),
    promises=(
        unique("follower", "leader", why="one row per ordered pair and run"),
        known("answer", "a leader always answers, with an error at least"),
        known(
            "snapshot_end_offset",
            "a follower that is sent a snapshot is told which",
            answer=("snapshot",),
        ),
        known(
            "diverging_end_offset",
            "a follower whose log diverges is told where",
            answer=("diverging_epoch",),
        ),
    ),
)
def fetch_plan(run: Run) -> Rows:
    return fetch_rows(run.quorum)


@table(
    "boot_plan",
    "replica",
    relations.REPLICA,
    column("boots", BOOL, "whether Kafka starts with these files"),
    column("reason", TEXT, "why it refuses, or what it does besides starting"),
    column("snapshot_end_offset", LONG, "end offset of the snapshot that it loads"),
    column("snapshot_epoch", LONG, "its epoch"),
    column("replay_records", LONG, "records of the log that it replays after it"),
    column("discarded_from_offset", LONG, "from where on it throws its log away; null: nowhere"),
    promises=(
        unique("replica", why="one row per replica and run"),
        known("boots", "every node starts or does not"),
        at_least("replay_records", 0, "records are counted"),
    ),
)
def boot_plan(run: Run) -> Rows:
    return boot_rows(run.quorum)


@table(
    "election_plan",
    "copy of a voter's log at hand,",
    column("candidate", TEXT, "label of the copy that stands for election"),
    column(
        "can_win",
        BOOL,
        "with a majority of the voters; null: voters not at hand decide, or files that could not be read",
    ),
    column("granted_by", pa.list_(TEXT), "copies that grant their vote, its own included"),
    column("refused_by", pa.list_(TEXT), "copies whose log is further"),
    column(
        "lacks_committed_from_offset",
        LONG,
        "first committed offset that it lacks; null: it holds all that is known",
    ),
    promises=(
        unique("candidate", why="one row per copy that can stand for election"),
        at_least("lacks_committed_from_offset", 0, "what a candidate lacks begins at an offset"),
    ),
)
def election_plan(run: Run) -> Rows:
    return election_rows(run.quorum)


@table(
    "snapshot_transfer",
    "replica, example link, limit per request,",
    relations.REPLICA,
    column(
        "is_leading",
        BOOL,
        "whether a new node fetches from it: from the leader of the newest epoch, or else the newest log",
    ),
    column(
        "snapshot_end_offset",
        LONG,
        "end offset of the replica's latest snapshot; null: it has none",
    ),
    column("snapshot_epoch", LONG, "its epoch"),
    column("size_bytes", LONG, "its size"),
    column("bandwidth_bytes_per_s", LONG, "bandwidth of the link"),
    column("round_trip_ms", LONG, "time of an empty request over the link, there and back"),
    column(
        "chunk_bytes",
        LONG,
        "most that one request brings (controller.quorum.fetch.snapshot.max.bytes and controller.quorum.fetch.max.bytes): 1 MiB by default, 8 MiB before KIP-1219",
    ),
    column("fetch_timeout_ms", LONG, "controller.quorum.fetch.timeout.ms"),
    column("request_timeout_ms", LONG, "controller.quorum.request.timeout.ms"),
    column("request_count", LONG, "requests that the whole snapshot takes"),
    column("transfer_ms", LONG, "how long they take one after the other (KIP-1219)"),
    column("longest_response_ms", LONG, "how long the longest of them takes"),
    column(
        "finishes",
        BOOL,
        "whether each arrives within both timeouts; else the node never catches up over this link (KAFKA-19541)",
    ),
    column("slowdown", DOUBLE, "how many times as long as with 8 MiB, timeouts aside"),
    column(
        "recommended_chunk_bytes",
        LONG,
        "largest limit that needs at most half of the lesser timeout; null: only longer timeouts help",
    ),
    column(
        "newer_snapshots",
        DOUBLE,
        "snapshots that the replica writes meanwhile, at its pace so far: with many, the one that is fetched may be deleted (SNAPSHOT_NOT_FOUND)",
    ),
    column("kept_snapshots", LONG, "snapshots that the replica holds"),
    column(
        "outlives_chance",
        DOUBLE,
        "how likely a download lasts longer than that many snapshots are kept (KIP-630)",
    ),
    column("snapshots_to_keep", LONG, "so many are enough that no download outlives its own"),
    column("is_unusually_large", BOOL, "larger than the 10 MiB that KIP-1219 calls usual"),
    column("largest_batch_bytes", LONG, "largest batch of the replica's log"),
    column(
        "largest_batch_fits",
        BOOL,
        "whether a Fetch, which brings at least one batch, can bring that one in time",
    ),
    column("unfinished_by", pa.list_(TEXT), "replicas that hold a snapshot they never finished"),
    column(
        "likely_stuck",
        BOOL,
        "too slow by this row, a snapshot that was never finished, and a storm of elections: likely KAFKA-19541",
    ),
    column("log_size_bytes", LONG, "bytes of the log after the snapshot"),
    column("log_request_count", LONG, "Fetch requests for it: whole batches, one at least"),
    column("log_transfer_ms", LONG, "how long they take one after the other"),
    column("load_ms", LONG, "time to load both, by the option load_bytes_per_second"),
    column("total_ms", LONG, "snapshot, log, and loading them"),
    column(
        "fits_fetch_timeout",
        BOOL,
        "whether the longest answer, of snapshot or log, arrives within both timeouts; else the node never catches up",
    ),
    promises=(
        unique(
            "replica",
            "bandwidth_bytes_per_s",
            "round_trip_ms",
            "chunk_bytes",
            why="one row per replica, example link, limit per request and run",
        ),
        at_least("request_count", 1, "a complete snapshot is not empty"),
        not_below(
            "transfer_ms",
            "longest_response_ms",
            "the whole transfer holds its longest response",
            where_both=True,
        ),
        not_below("total_ms", "load_ms", "loading is a part of it"),
        known("finishes", "it is the question that the table answers"),
        known("fits_fetch_timeout", "it is the question that the table answers"),
    ),
)
def snapshot_transfer(run: Run) -> Rows:
    return snapshot_transfer_rows(run.quorum, run.options.load_bytes_per_second)


@table(
    "replica_selection",
    "rack of consumers, topic,",
    column("client_rack", TEXT, "client.rack of the consumers: one of the brokers' racks"),
    column("topic", TEXT, "name of the topic"),
    column("partition_count", LONG, "partitions of the topic"),
    column("offline_count", LONG, "of these, partitions without a leader"),
    column("leader_local_count", LONG, "partitions whose leader is in the consumers' rack"),
    column(
        "local_count",
        LONG,
        "partitions that are read in the rack with RackAwareReplicaSelector (KIP-392)",
    ),
    column(
        "preferred_read_replica_count",
        LONG,
        "partitions that are read from a follower (the consumer's metric preferred-read-replica is not −1)",
    ),
    column(
        "cross_zone_share_before",
        DOUBLE,
        "share of what they read that leaves its zone, from leaders, where each partition is read alike (bytes and money: plan replicas --traffic)",
    ),
    column("cross_zone_share_after", DOUBLE, "the same with KIP-392"),
    column(
        "partitions_by_broker",
        pa.map_(INT, LONG),
        "partitions that each broker serves to these consumers",
    ),
    column(
        "closest_replicas",
        pa.map_(INT, INT),
        "per partition the replica in their rack, the leader before others; null: none",
    ),
    column(
        "preferred_read_replicas",
        pa.map_(INT, INT),
        "per partition what the consumer's metric preferred-read-replica says: −1 for the leader; null: it is offline",
    ),
    promises=(
        unique("client_rack", "topic", why="one row per rack of consumers, topic and run"),
        not_below(
            "local_count",
            "leader_local_count",
            "a leader in the consumers' rack is what the selector takes first",
        ),
        not_below("partition_count", "local_count", "a partition is read from one replica"),
        not_below(
            "local_count",
            "preferred_read_replica_count",
            "a follower is preferred only because it is near",
        ),
    ),
)
def replica_selection(run: Run) -> Rows:
    return topic_rows(select_all(cluster_in(run.lake), RackAwareReplicaSelector()))


@table(
    "restorable",
    "replica, range of offsets and source of the states there,",
    relations.REPLICA,
    column("start_offset", LONG, "first offset whose state is meant"),
    column("end_offset", LONG, "last offset whose state is meant (included)"),
    column(
        "source",
        TEXT,
        "whose files give these states: the replica itself, another, or several together (1 + 3); null: nobody",
    ),
    column(
        "same_history",
        BOOL,
        "whether the source tells the replica's own history there; null: nothing says",
    ),
    column(
        "missing",
        TEXT,
        "why its own files do not: no_base, hole, after_end or unread; null: they do",
    ),
    column("snapshot_path", TEXT, "the source's snapshot to begin with; null: from offset 0"),
    column("segment_paths", pa.list_(TEXT), "the source's segments to be replayed on it"),
    promises=(
        unique(
            "replica", "start_offset", "source", why="one row per replica, range, source and run"
        ),
        known("end_offset", "a range without its ends names no state"),
        at_least("start_offset", 0, "there is no state before offset 0"),
        not_below("end_offset", "start_offset", "a range holds at least one offset"),
        among("missing", MISSING, "the causes that the documents name"),
    ),
)
def restorable_states(run: Run) -> Rows:
    return map(asdict, restorable(run.quorum))


def cluster_in(lake: Lake) -> Cluster:
    """The objects as the quorum's shared history leaves them, read from the lake's own tables."""
    brokers = zip(*_current(lake, "brokers", "broker_id", "rack", "fenced"), strict=True)
    ids, names = _current(lake, "topics", "topic_id", "name")
    columns = ("topic_id", "partition_id", "partition_replicas", "isr", "leader")
    topic_id, partition, replicas, isr, leader = _current(lake, "partitions", *columns)
    coded, numbers = topic_id.dictionary_encode(), dict[str, int]()
    named = dict(zip(ids.to_pylist(), names.to_pylist(), strict=True))
    topics = [named.get(one, one) for one in coded.dictionary.to_pylist()]
    topic = np.array([numbers.setdefault(one, len(numbers)) for one in topics], np.int64)
    partitions = Partitions(
        [*numbers],
        topic[coded.indices.to_numpy()],
        partition.to_numpy().astype(np.int64),
        Lists.of(replicas),
        Lists.of(isr),
        leader.to_numpy().astype(np.int64),
    )
    found = (Broker(*(cell.as_py() for cell in one)) for one in brokers)
    return Cluster({one.id: one for one in found}, partitions)


def _current(lake: Lake, table: str, *columns: str) -> list[pa.Array]:
    """The rows of a history table that still hold on the shared lineage, by column."""
    rows = shared_versions(lake, table, columns, holding=True)
    return [one.combine_chunks() for one in rows.columns]
