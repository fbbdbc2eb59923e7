"""Numbers in the configs of topics, and which values of them Kafka's brokers do not start with.

In: a state. Out: the configs that are refused. A broker builds the configs of all topics when it
starts (LogManager.fetchTopicConfigOverrides), and ends where one does not fit its definition.
Source: LogConfig of Kafka 4.3.1; KAFKA-19080.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from kraftlog.state.state import State
from kraftlog.state.tables import TOPIC_RESOURCE

_INT, _LONG = (1 << 31) - 1, (1 << 63) - 1
SEGMENT_BYTES, MIB = "segment.bytes", 1 << 20
_RANGES = {
    "delete.retention.ms": (0, _LONG),
    "file.delete.delay.ms": (0, _LONG),
    "flush.messages": (1, _LONG),
    "flush.ms": (0, _LONG),
    "index.interval.bytes": (0, _INT),
    "local.retention.bytes": (-2, _LONG),
    "local.retention.ms": (-2, _LONG),
    "max.compaction.lag.ms": (1, _LONG),
    "max.message.bytes": (0, _INT),
    "message.timestamp.after.max.ms": (0, _LONG),
    "message.timestamp.before.max.ms": (0, _LONG),
    "min.compaction.lag.ms": (0, _LONG),
    "min.insync.replicas": (1, _INT),
    "retention.bytes": (-_LONG - 1, _LONG),
    "retention.ms": (-1, _LONG),
    SEGMENT_BYTES: (MIB, _INT),
    "segment.index.bytes": (4, _INT),
    "segment.jitter.ms": (0, _LONG),
    "segment.ms": (1, _LONG),
}
"""The least and the largest value of each number."""
_LEAST_SEGMENT_BEFORE_4_1 = 14
_WHOLE = re.compile(r"[+-]?\d{1,30}", re.ASCII)


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
        number = int(value) if _WHOLE.fullmatch(value.strip()) else None
        least, largest = _RANGES[name]
        if (number is None or not least <= number <= largest) and state.named("topics", topic):
            is_old = number is not None and _LEAST_SEGMENT_BEFORE_4_1 <= number <= largest
            yield RefusedConfig(topic, name, value, is_old and name == SEGMENT_BYTES)
