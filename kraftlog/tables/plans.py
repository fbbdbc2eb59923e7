"""The tables of plans, declared: what Kafka would do next, and which states can be rebuilt, one set
of rows per run.
"""

import pyarrow as pa

from kraftlog import relations
from kraftlog.relations import BOOL, DOUBLE, INT, LONG, TEXT, column
from kraftlog.tables.spec import PER_RUN, RUN_ID, TableSpec

FOLLOWER = column("follower", TEXT, "label of the copy that fetches")
LEADER = column("leader", TEXT, "label of the copy that would lead")

TRUNCATION_PLAN = TableSpec(
    "truncation_plan",
    "one row per ordered pair of replicas whose logs are not equal, and run",
    pa.schema(
        [
            RUN_ID,
            FOLLOWER,
            LEADER,
            column(
                "truncation_offset",
                LONG,
                "from where on the follower's history is not this leader's (KAFKA-1211)",
            ),
            column(
                "by_snapshot",
                pa.list_(LONG),
                "end offset and epoch of the snapshot that then replaces its log; null: none does",
            ),
            column("records_lost", LONG, "records from there on"),
            column("size_bytes_lost", LONG, "their batches' size"),
            column("types_lost", pa.map_(TEXT, LONG), "records that are lost, per type"),
            column(
                "committed_lost", LONG, "of the records that are lost, those known to be committed"
            ),
        ]
    ),
    PER_RUN,
)

FETCH_PLAN = TableSpec(
    "fetch_plan",
    "one row per ordered pair of replicas and run",
    pa.schema(
        [
            RUN_ID,
            FOLLOWER,
            LEADER,
            column("fetch_offset", LONG, "the follower's log end, from which it fetches"),
            column("last_fetched_epoch", LONG, "epoch of the record before it"),
            column(
                "answer", TEXT, "records, diverging_epoch, snapshot, or the name of Kafka's error"
            ),
            column("diverging_epoch", LONG, "epoch that the leader knows instead"),
            column("diverging_end_offset", LONG, "where that epoch ends on the leader"),
            column("snapshot_end_offset", LONG, "end offset of the snapshot to be fetched"),
            column("snapshot_epoch", LONG, "its epoch"),
        ]
    ),
    PER_RUN,
)

BOOT_PLAN = TableSpec(
    "boot_plan",
    "one row per replica and run",
    pa.schema(
        [
            RUN_ID,
            relations.REPLICA,
            column("boots", BOOL, "whether Kafka starts with these files"),
            column("reason", TEXT, "why it refuses, or what it does besides starting"),
            column("snapshot_end_offset", LONG, "end offset of the snapshot that it loads"),
            column("snapshot_epoch", LONG, "its epoch"),
            column("replay_records", LONG, "records of the log that it replays after it"),
            column(
                "discarded_from_offset", LONG, "from where on it throws its log away; null: nowhere"
            ),
        ]
    ),
    PER_RUN,
)

ELECTION_PLAN = TableSpec(
    "election_plan",
    "one row per copy of a voter's log at hand, and run",
    pa.schema(
        [
            RUN_ID,
            column("candidate", TEXT, "label of the copy that stands for election"),
            column(
                "can_win", BOOL, "with a majority of the voters; null: voters not at hand decide"
            ),
            column("granted_by", pa.list_(TEXT), "copies that grant their vote, its own included"),
            column("refused_by", pa.list_(TEXT), "copies whose log is further"),
            column(
                "lacks_committed_from_offset",
                LONG,
                "first committed offset that it lacks; null: it holds all that is known",
            ),
        ]
    ),
    PER_RUN,
)

RESTORABLE = TableSpec(
    "restorable",
    "one row per replica, range of offsets and source of the states there, and run",
    pa.schema(
        [
            RUN_ID,
            relations.REPLICA,
            column("start_offset", LONG, "first offset whose state is meant"),
            column("end_offset", LONG, "last offset whose state is meant (included)"),
            column(
                "source",
                TEXT,
                "whose files give these states: the replica itself, or another; null: nobody",
            ),
            column(
                "same_history",
                BOOL,
                "whether the source tells the replica's own history there; null: nothing says",
            ),
            column(
                "missing",
                TEXT,
                "why its own files do not: no_base, hole or after_end; null: they do",
            ),
            column(
                "snapshot_path", TEXT, "the source's snapshot to begin with; null: from offset 0"
            ),
            column("segment_paths", pa.list_(TEXT), "the source's segments to be replayed on it"),
        ]
    ),
    PER_RUN,
)

SNAPSHOT_TRANSFER = TableSpec(
    "snapshot_transfer",
    "one row per replica with a complete snapshot, example link, limit per request, and run",
    pa.schema(
        [
            RUN_ID,
            relations.REPLICA,
            column("snapshot_end_offset", LONG, "end offset of the replica's latest snapshot"),
            column("snapshot_epoch", LONG, "its epoch"),
            column("size_bytes", LONG, "its size"),
            column("bandwidth_bytes_per_s", LONG, "bandwidth of the link"),
            column("round_trip_ms", LONG, "time of an empty request over the link, there and back"),
            column(
                "chunk_bytes",
                LONG,
                "most that one request fetches (controller.quorum.fetch.snapshot.max.bytes)",
            ),
            column("fetch_timeout_ms", LONG, "controller.quorum.fetch.timeout.ms"),
            column("request_count", LONG, "requests that the whole snapshot takes"),
            column("transfer_ms", LONG, "how long they take one after the other (KIP-1219)"),
            column("longest_response_ms", LONG, "how long the longest of them takes"),
            column(
                "finishes",
                BOOL,
                "whether each arrives within the fetch timeout; else the node never catches up "
                "over this link (KAFKA-19541)",
            ),
            column("slowdown", DOUBLE, "how many times as long as with 8 MiB, timeouts aside"),
            column(
                "recommended_chunk_bytes",
                LONG,
                "largest limit that needs at most half of the timeout; null: only a longer "
                "timeout helps",
            ),
            column(
                "newer_snapshots",
                DOUBLE,
                "snapshots that the replica writes meanwhile, at its pace so far: with many, the "
                "one that is fetched may be deleted (SNAPSHOT_NOT_FOUND)",
            ),
            column("kept_snapshots", LONG, "snapshots that the replica holds"),
            column(
                "outlives_chance",
                DOUBLE,
                "how likely a download lasts longer than that many snapshots are kept (KIP-630)",
            ),
            column(
                "snapshots_to_keep", LONG, "so many are enough that no download outlives its own"
            ),
            column("is_unusually_large", BOOL, "larger than the 10 MiB that KIP-1219 calls usual"),
            column("largest_batch_bytes", LONG, "largest batch of the replica's log"),
            column(
                "largest_batch_fits",
                BOOL,
                "whether a Fetch, which brings at least one batch, can bring that one in time",
            ),
            column(
                "unfinished_by", pa.list_(TEXT), "replicas that hold a snapshot they never finished"
            ),
            column(
                "likely_stuck",
                BOOL,
                "too slow by this row, a snapshot that was never finished, and a storm of "
                "elections: likely KAFKA-19541",
            ),
        ]
    ),
    PER_RUN,
)

REPLICA_SELECTION = TableSpec(
    "replica_selection",
    "one row per rack of consumers, topic, and run",
    pa.schema(
        [
            RUN_ID,
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
                "partitions that are read from a follower (the consumer's metric "
                "preferred-read-replica is not −1)",
            ),
            column(
                "cross_zone_share_before",
                DOUBLE,
                "share of what they read that leaves its zone, from leaders, where each partition "
                "is read alike (bytes and money: plan replicas --traffic)",
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
                "per partition what the consumer's metric preferred-read-replica says: −1 for the "
                "leader; null: it is offline",
            ),
        ]
    ),
    PER_RUN,
)

PLANS: tuple[TableSpec, ...] = (
    TRUNCATION_PLAN,
    FETCH_PLAN,
    BOOT_PLAN,
    ELECTION_PLAN,
    RESTORABLE,
    SNAPSHOT_TRANSFER,
    REPLICA_SELECTION,
)
