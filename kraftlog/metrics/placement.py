"""How replicas of partitions lie on brokers: KIP-630 assumes that no broker holds two of one topic.

In: topic ids and replica lists of the partitions that are alive. Out: counts. Source: KIP-630
"Amount of Data Replicated".
"""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True, slots=True)
class Placement:
    """Counts over all partitions."""

    topics: int
    brokers: int
    replicas: int
    busiest_broker_replicas: int
    unbalanced_topics: int


def placement(rows: pa.Table) -> Placement:
    """`rows` has a row per partition: topic_id, partition_replicas."""
    lists = rows.column("partition_replicas").combine_chunks()
    topics = rows.column("topic_id").combine_chunks().take(pc.list_parent_indices(lists))
    pairs = pa.table({"topic": topics, "broker": pc.list_flatten(lists)})
    held = pairs.group_by(["topic", "broker"]).aggregate([([], "count_all")])
    doubled = held.filter(pc.greater(held.column("count_all"), 1))
    brokers = pairs.group_by("broker").aggregate([([], "count_all")])
    return Placement(
        pc.count_distinct(rows.column("topic_id")).as_py(),
        brokers.num_rows,
        pairs.num_rows,
        pc.max(brokers.column("count_all")).as_py() or 0,
        pc.count_distinct(doubled.column("topic")).as_py(),
    )
