"""A checkpoint that we wrote is one of Kafka's: its loader reads it, and a real controller boots
from it.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import find_replicas
from kraftlog.state.checkpoint import write_checkpoint
from kraftlog.state.difference import differences
from kraftlog.state.image import Image
from tests import kafka_judge
from tests.canonical import canonical_lines
from tests.golden.cases import PARTITION, REPLICAS, Replica
from tests.images import built

pytestmark = pytest.mark.kafka

CLEAR = Redactor(None)
NODE = 1
BOOT_SECONDS = 60
MAY_CHANGE = {"controllers", "voters", "kraft_version", "brokers", "partitions"}
"""It registers itself, and on a slow machine fences the brokers that do not answer; its voters are
those of its configuration where the checkpoint names none.
"""
LOGGING = """
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %p %c{1} %m%n
rootLogger.level = INFO
rootLogger.appenderRef.out.ref = out
"""


def image_of(folder: Path, offset: int | None = None) -> Image:
    (found,) = find_replicas([str(folder)])
    return built(found, offset)


# One replica of each case is enough: the others differ in where their logs begin and end.
READ = [
    one
    for one in REPLICAS
    if one.has_image and one.node in ("0", "1") and one.case != "synthetic-transactions"
]


@pytest.mark.parametrize("replica", READ, ids=str)
def test_kafka_reads_our_checkpoint(replica: Replica, tmp_path: Path) -> None:
    image = image_of(replica.folder)
    log_dir = tmp_path / PARTITION
    file = write_checkpoint(image, log_dir)
    judged = kafka_judge.image(log_dir, snapshot=file, release=replica.release)
    assert judged.lines == canonical_lines(image.state)
    assert judged.facts["fault_count"] == 0
    assert judged.facts.get("strict_reader_failures") is None
    read = kafka_judge.records([file], replica.release)
    kinds = [row["type"] for row in read if not row.get("summary")]
    assert kinds[0] == "SNAPSHOT_HEADER"
    assert kinds[-1] == "SNAPSHOT_FOOTER"


def test_kafkas_own_order_of_record_versions(tmp_path: Path) -> None:
    """Kafka writes the state that it loaded from us again, without a loss."""
    image = image_of(Replica("upgraded-3.9", "1").folder)
    log_dir = tmp_path / PARTITION
    file = write_checkpoint(image, log_dir)
    assert kafka_judge.image(log_dir, snapshot=file).facts["losses"] == []


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def controller(data: Path, quorum: str, port: int) -> Iterator[Path]:
    """A real single-node controller on a data folder; yields the file that it logs to."""
    settings = data.parent / "controller.properties"
    settings.write_text(
        "process.roles=controller\n"
        f"node.id={NODE}\n"
        "controller.listener.names=CONTROLLER\n"
        f"listeners=CONTROLLER://127.0.0.1:{port}\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT\n"
        f"{quorum}\n"
        f"log.dirs={data}\n"
    )
    logging = data.parent / "log4j2.properties"
    logging.write_text(LOGGING)
    output = data.parent / "controller.log"
    options = (*kafka_judge.QUICK, f"-Dlog4j2.configurationFile={logging}")
    command = kafka_judge.java_command("kafka.Kafka", settings, options=options)
    with output.open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as child:
        try:
            yield output
        finally:
            child.terminate()
            try:
                child.wait(30)
            except subprocess.TimeoutExpired:
                child.kill()


def wait_for(output: Path, text: str) -> str:
    """What the controller logged up to some text."""
    deadline = time.monotonic() + BOOT_SECONDS
    while time.monotonic() < deadline:
        logged = output.read_text(encoding="utf-8", errors="replace")
        if text in logged:
            return logged
        time.sleep(0.2)
    raise AssertionError(f"no {text!r} within {BOOT_SECONDS} s:\n{output.read_text()[-3000:]}")


@pytest.mark.parametrize(
    "replica, with_voters",
    [(Replica("combined", "1"), True), (Replica("steady-live", "1"), False)],
    ids=["dynamic quorum", "static quorum"],
)
def test_a_controller_boots_from_our_checkpoint(
    replica: Replica, with_voters: bool, tmp_path: Path
) -> None:
    image = image_of(replica.folder)
    data = tmp_path / "data"
    file = write_checkpoint(image, data / PARTITION, with_voters)
    shutil.copy(replica.folder / "meta.properties", data)
    assert [path.name for path in (data / PARTITION).iterdir()] == [file.name]
    port = free_port()
    quorum = (
        f"controller.quorum.bootstrap.servers=127.0.0.1:{port}"
        if with_voters
        else f"controller.quorum.voters={NODE}@127.0.0.1:{port}"
    )
    with controller(data, quorum, port) as output:
        logged = wait_for(output, "Becoming the active controller")
        # Its own registration is the first thing that a new controller writes.
        wait_for(output, "RegistrationResponseHandler: controller acknowledged")
    assert f"Starting to load snapshot {file.stem}" in logged
    assert f"Successfully loaded snapshot {file.stem}" in logged
    after = image_of(data)
    assert after.end_offset > image.end_offset
    assert after.epoch > image.epoch
    changed = list(differences(image.state, after.state))
    assert ("controllers", (NODE,)) in {(one.table, one.key) for one in changed}
    assert {one.key for one in changed if one.table == "controllers"} == {(NODE,)}
    assert {one.table for one in changed} <= MAY_CHANGE
