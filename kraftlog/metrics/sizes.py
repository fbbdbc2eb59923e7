"""The sizes that KIP-630 argues with: a message's bytes from its fields, replicas per broker, and
what replication makes of them.

In: counts and field sizes. Out: bytes. Pure arithmetic, in the KIP's own terms; what real records
weigh is in the table `record_sizes`. Source: KIP-630 "Amount of Data Replicated", "Rejected
Alternatives".
"""

from collections.abc import Mapping

API_KEY_BYTES, API_VERSION_BYTES = 2, 2

ISR_CHANGE_FIELDS = {
    "partition id": 4,
    "topic id": 16,
    "isr of two brokers": 8,
    "leader id": 4,
    "leader epoch": 4,
}
FENCE_BROKER_FIELDS = {"broker id": 4}


def message_size_bytes(fields: Mapping[str, int]) -> int:
    """Bytes of an event by the sizes of its fields, with api key and version."""
    return sum(fields.values()) + API_KEY_BYTES + API_VERSION_BYTES


def replicas_per_broker(topics: int, partitions: int, replication_factor: int, brokers: int) -> int:
    """Replicas that a broker holds where all brokers hold equally many; rounded up."""
    return -(-topics * partitions * replication_factor // brokers)


def fan_out_bytes(size_bytes: float, replicas: int) -> float:
    """What the leader sends so that every other replica of the log holds these bytes."""
    return size_bytes * max(replicas - 1, 0)


def appended_snapshot_bytes(snapshot_bytes: int, replicas: int, fetchers: int) -> int:
    """Bytes on the network that a snapshot appended to the log costs beyond one that is fetched by
    those who need it (the KIP's first rejected alternative).
    """
    return int(fan_out_bytes(snapshot_bytes, replicas)) - snapshot_bytes * fetchers
