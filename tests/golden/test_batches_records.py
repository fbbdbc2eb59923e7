"""Every batch and every record of every golden replica is what Kafka's own classes read."""

from __future__ import annotations

import pytest

from tests.golden.cases import REPLICAS, Replica
from tests.golden.compare import differences, file_names, run_kraftlog


@pytest.mark.parametrize("command", ["batches", "records"])
@pytest.mark.parametrize("replica", REPLICAS, ids=str)
def test_equal_to_kafka(replica: Replica, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    kafka = replica.batches() if command == "batches" else replica.records()
    paths = [replica.file(name) for name in file_names(kafka)]
    ours = run_kraftlog(command, paths, lambda: capsys.readouterr().out)
    found = differences(command, kafka, ours)
    assert not found, "\n".join(found[:5])
