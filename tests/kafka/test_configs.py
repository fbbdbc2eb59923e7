"""Which configs are not masked, and which numbers a setting may be: what Kafka's own definitions
say, and no more.
"""

import json
import re

import pytest

from kraftlog.message.catalogue import packaged
from kraftlog.quorum.settings import SETTINGS
from kraftlog.quorum.topic_configs import LARGEST_INT, LARGEST_LONG, LEAST_LONG, NUMBERS, takes
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


@pytest.mark.parametrize("release", [kafka_judge.JUDGE, kafka_judge.NEWEST])
def test_settings_are_those_of_kafka_s_own_definitions(release: str) -> None:
    declared = kafka_judge.numbers(release)
    ours = {one.name: one for one in SETTINGS if one.minimum is not None}
    assert len(ours) >= 9
    for name, one in ours.items():
        kind, default, text = declared[name]
        least = re.fullmatch(r"\[(-?\d+),...\]", text)
        assert default == one.default
        assert one.maximum == (LARGEST_INT if kind == "INT" else LARGEST_LONG)
        assert one.minimum == (int(least[1]) if least else LEAST_LONG)
        assert least is not None or text == "null"
    assert not {one.name for one in SETTINGS if not one.is_shipped} & declared.keys()


@pytest.mark.parametrize("release", [kafka_judge.JUDGE, kafka_judge.NEWEST])
def test_topics_take_what_kafka_s_own_definition_takes(release: str) -> None:
    """Each config with some values of every kind, and each number at the ends of its range."""
    topic = "2"
    names = [one for one in kafka_judge.open_configs(release)[topic] if "internal" not in one]
    pairs = [(name, value) for name in names for value in _VALUES]
    for name, range_ in NUMBERS.items():
        ends = (range_[0] - 1, range_[0], range_[-1], range_[-1] + 1) if name in names else ()
        pairs += [(name, str(one)) for one in ends]
    ours = [takes(name, value.strip()) for name, value in pairs]
    assert ours == kafka_judge.taken(pairs, release)
    assert all(ours.count(one) > len(names) for one in (False, True))


_VALUES = (
    *("", " ", "x", "-1", "0", "+1", "9", "10", "17", "1.5", "0.5", " 1. ", "1e0", ".5f", "-0.1"),
    *("NaN", "Infinity", "True", " false", "yes", "*", "*,*", "0:1", "0:1, 2:3", "0:1,", "0:1:2"),
    *("compact", "Compact", " delete , compact", "delete,", "delete,delete", "gzip", "GZIP"),
    *("none", "CreateTime", "createtime", "1_000"),
)
