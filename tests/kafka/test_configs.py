"""Which configs are not masked: what Kafka's own definitions say, and no more."""

import json

import pytest

from kraftlog.message.catalogue import packaged
from tests import kafka_judge

pytestmark = pytest.mark.kafka


def test_open_configs_are_those_of_kafka_s_own_definitions() -> None:
    """Of the releases that judge: what any of them declares open, unless another one does not."""
    listed = json.loads((packaged("schemas") / "lists" / "open_configs.json").read_text())
    declared: dict[str, set[str]] = {}
    for release in (kafka_judge.JUDGE, kafka_judge.NEWEST):
        for number, names in kafka_judge.open_configs(release).items():
            declared.setdefault(number, set()).update(names)
    assert {number: set(names) for number, names in listed["values"].items()} == declared
    assert all(names == sorted(names) for names in listed["values"].values())
