"""The quorums that other tests stage are real ones: they elect, write, and survive a crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import kafka_judge, kafka_quorum

pytestmark = pytest.mark.kafka


def test_a_quorum_of_the_newest_version_elects_writes_and_elects_again(tmp_path: Path) -> None:
    with kafka_quorum.running(tmp_path, kafka_judge.NEWEST) as quorum:
        first = quorum.leader()
        with kafka_quorum.writer(quorum) as writer:
            assert writer.write(60) == 60
            quorum.kill(first.id)
            assert quorum.leader() is not first
            assert writer.write(10) == 70
        segments = [one for one in quorum.leader().log_folder.iterdir() if one.suffix == ".log"]
    records = kafka_judge.records(segments)
    assert sum(row.get("type") == "CONFIG_RECORD" for row in records) >= 70
