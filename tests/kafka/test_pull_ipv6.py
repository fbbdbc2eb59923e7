"""A real quorum whose nodes know each other, and are reached, by IPv6 addresses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kraftlog.cli import main
from tests import kafka_quorum
from tests.kafka_judge import JUDGE, NEWEST
from tests.kafka_quorum import Quorum
from tests.pulled import assert_same_bytes, pull

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module", params=[(JUDGE, False), (NEWEST, True)])
def quorum(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Quorum]:
    folder = tmp_path_factory.mktemp("ipv6")
    version, is_static = request.param
    with kafka_quorum.running(folder, version, is_static=is_static, host="[::1]") as found:
        yield found


def test_all_comes_from_whichever_leads(
    quorum: Quorum, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each controller alone names the leader, at its IPv6 address."""
    for node in quorum.controllers:
        out = tmp_path / str(node.id)
        assert node.address().startswith("[::1]:")
        assert pull(node.address(), out) == 0, capsys.readouterr().err
        assert_same_bytes(out, quorum.leader().data)
    capsys.readouterr()
    copies = quorum.capture(tmp_path / "copies")
    assert main(["audit", "--input", str(copies), "--fail-on", "warning"]) == 0
    assert "[::1]" not in capsys.readouterr().out


def test_an_address_at_which_nobody_listens_is_named(
    quorum: Quorum, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nobody = f"[::1]:{kafka_quorum.free_port()}"
    assert pull(nobody, tmp_path / "out") == 2
    assert nobody in capsys.readouterr().err
