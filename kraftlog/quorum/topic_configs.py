"""Numbers in the configs of topics, and which values of them Kafka's brokers do not start with.

In: a state. Out: the configs that are refused. A broker builds the configs of all topics when it
starts (LogManager.fetchTopicConfigOverrides), and ends where one does not fit its definition.
Source: LogConfig of Kafka 4.3.1; KAFKA-19080.
"""

from collections.abc import Iterator
from typing import NamedTuple

from kraftlog.quorum.config_numbers import LARGEST_INT, LARGEST_LONG, LEAST_LONG, java_number
from kraftlog.state.state import State
from kraftlog.state.tables import TOPIC_RESOURCE

_SEGMENT = "segment.bytes"
_RANGES = {
    "delete.retention.ms": (0, LARGEST_LONG),
    "file.delete.delay.ms": (0, LARGEST_LONG),
    "flush.messages": (1, LARGEST_LONG),
    "flush.ms": (0, LARGEST_LONG),
    "index.interval.bytes": (0, LARGEST_INT),
    "local.retention.bytes": (-2, LARGEST_LONG),
    "local.retention.ms": (-2, LARGEST_LONG),
    "max.compaction.lag.ms": (1, LARGEST_LONG),
    "max.message.bytes": (0, LARGEST_INT),
    "message.timestamp.after.max.ms": (0, LARGEST_LONG),
    "message.timestamp.before.max.ms": (0, LARGEST_LONG),
    "min.compaction.lag.ms": (0, LARGEST_LONG),
    "min.insync.replicas": (1, LARGEST_INT),
    "retention.bytes": (LEAST_LONG, LARGEST_LONG),
    "retention.ms": (-1, LARGEST_LONG),
    _SEGMENT: (1 << 20, LARGEST_INT),
    "segment.index.bytes": (4, LARGEST_INT),
    "segment.jitter.ms": (0, LARGEST_LONG),
    "segment.ms": (1, LARGEST_LONG),
}
"""The least and the largest value of each number."""
_LEAST_SEGMENT_BEFORE_4_1 = 14


class RefusedConfig(NamedTuple):
    """A config that brokers do not take; one that `is_old` those before Kafka 4.1 do."""

    topic: str
    name: str
    value: str
    is_old: bool


def refused_configs(state: State) -> Iterator[RefusedConfig]:
    """Those of the topics that are there."""
    for (kind, topic, name), config in state.rows("configs").items():
        value = config["value"]
        if kind != TOPIC_RESOURCE or name not in _RANGES or not isinstance(value, str):
            continue
        number = java_number(value)
        least, largest = _RANGES[name]
        if (number is None or not least <= number <= largest) and state.named("topics", topic):
            is_old = number is not None and _LEAST_SEGMENT_BEFORE_4_1 <= number <= largest
            yield RefusedConfig(topic, name, value, is_old and name == _SEGMENT)
