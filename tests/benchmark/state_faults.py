"""State faults behind the last record of a long log, on all replicas: is each found where it is, is nothing
skipped, is nothing else critical; and do `audit`, `run`, and `audit --lake` of that run say the same?

    .venv/bin/python -m tests.benchmark.state_faults --size 1G

In: the log of `tests.benchmark.quorums`, three times, each fault in a batch of its own behind its last
record. Out: what was expected, or an AssertionError.
"""

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kraftlog.log.directory import find_replicas
from kraftlog.state.declare import Data
from kraftlog.state.image import Image
from tests.benchmark.inputs import DATA, parse_size
from tests.benchmark.pipeline import PROGRAM
from tests.benchmark.quorums import log_folder, quorum
from tests.images import built
from tests.log_coverage import scan
from tests.unit.audit_logs import Batch, Node, disk_text, producer_ids, topic, uuid_text
from tests.unit.test_long_history import STATE_CHECKS, record

_PAUSE_MS = 600_000
"""So long nothing happens before the faults: they are no part of what came before."""
_NEVER, _TWIN, _DOUBLED = 251, 252, 253
"""Numbers of topics that the log does not know."""


@dataclass(frozen=True)
class Fault:
    """Values of one batch, and which of them makes which check fail."""

    check: str
    values: tuple[bytes, ...]
    at: int = 0


def faults(image: Image, end: int) -> Iterator[Fault]:
    """One of each kind; nine tenths of all topics go last."""
    state = image.state
    partitions = state.rows("partitions")
    key = max(partitions)
    held = partitions[key]
    brokers = sorted(one for (one,) in state.rows("brokers"))
    outside = next(one for one in brokers if one not in held["replicas"])
    yield Fault("references_exist", (_change((uuid_text(_NEVER), 0), leader=1),))
    yield Fault("isr_within_replicas", (_change(key, isr=[held["leader"], outside]),))
    doubled = (topic("doubled", _DOUBLED), _partition(uuid_text(_DOUBLED), [brokers[0]] * 2))
    yield Fault("isr_within_replicas", doubled, 1)
    yield Fault("producer_ids_increase", (producer_ids(1 << 50), producer_ids(1 << 49)), 1)
    name = state.rows("topics")[key[:1]]["name"]
    twin = (topic(name, _TWIN), _partition(uuid_text(_TWIN), brokers[:1]))
    yield Fault("topic_identity_unique", twin)
    known = state.rows("brokers")[(brokers[0],)]
    yield Fault("broker_epoch_is_offset", (_registered(known, end + (1 << 40)),))
    topics = sorted(state.rows("topics"))
    gone = topics[: len(topics) * 9 // 10]
    yield Fault("mass_deletion", tuple(_removed(one) for (one,) in gone))


def _change(key: tuple[Any, ...], **fields: Any) -> bytes:
    nothing = {
        "isr": None, "leader": -2, "replicas": None, "removingReplicas": None,
        "addingReplicas": None, "leaderRecoveryState": -1, "directories": None,
        "eligibleLeaderReplicas": [], "lastKnownElr": [],
    }  # fmt: skip
    data = {"topicId": key[0], "partitionId": key[1]} | nothing | fields
    return record("PARTITION_CHANGE_RECORD", 2, **data)


def _partition(topic_id: str, replicas: list[int]) -> bytes:
    return record(
        "PARTITION_RECORD", 1, topicId=topic_id, partitionId=0, replicas=replicas,
        isr=replicas[:1], removingReplicas=[], addingReplicas=[], leader=replicas[0], leaderEpoch=0,
        partitionEpoch=0, leaderRecoveryState=0, directories=[uuid_text(9)] * len(replicas),
    )  # fmt: skip


def _registered(known: Data, epoch: int) -> bytes:
    return record("REGISTER_BROKER_RECORD", 3, **{**known, "brokerEpoch": epoch})


def _removed(topic_id: str) -> bytes:
    return record("REMOVE_TOPIC_RECORD", 0, topicId=topic_id)


def write(source: Path, root: Path, injected: Sequence[Fault], image: Image) -> dict[int, str]:
    """Three voters with the log of one; gives the check that must fail, by offset."""
    expected: dict[int, str] = {}
    end, ms = image.end_offset, image.timestamp + _PAUSE_MS
    batches = []
    for index, one in enumerate(injected):
        batches.append(Batch(end, image.epoch, one.values, ms=ms + index * _PAUSE_MS))
        expected[end + one.at] = one.check
        end = batches[-1].end
    for voter, directory in image.state.rows("voters"):
        node = Node(root, voter)
        for file in log_folder(source).iterdir():
            shutil.copy(file, node.folder)
        with max(node.folder.glob("*.log")).open("ab") as segment:
            segment.writelines(one.raw() for one in batches)
        node.meta(directory=0)
        identity = node.home / "meta.properties"
        text = identity.read_text().replace(disk_text(0), directory)
        identity.write_text(text)
    return expected


def said(*words: str) -> str:
    """What a command says, which must not end in an error."""
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def told(*words: str) -> list[dict[str, Any]]:
    """The lines of an audit."""
    return [json.loads(line) for line in said("audit", *words, "--format", "json").splitlines()]


def lines(found: Sequence[dict[str, Any]]) -> set[str]:
    """What each check says, but for the ids of batches, which a lake makes under a key. The last line
    of an audit names its options, and so the lake.
    """
    rows = [
        row
        | {"evidence": {name: one for name, one in row["evidence"].items() if name != "batch_id"}}
        for row in found
        if "check" in row
    ]
    return {json.dumps(row, sort_keys=True) for row in rows}


def judge(name: str, found: Sequence[dict[str, Any]], expected: dict[int, str]) -> None:
    """Everything that was injected is found, and nothing else is critical."""
    failed = [one for one in found if one.get("result") == "failed"]
    held = {(one["offset"], one["check"]) for one in failed}
    missed = expected.items() - held
    assert not missed, f"{name}: not found: {missed}"
    others = [
        one
        for one in failed
        if one["severity"] == "critical" and (one["offset"], one["check"]) not in expected.items()
    ]
    assert not others, f"{name}: also critical: {others[:3]}"
    looked_at = {one["check"] for one in found if one.get("result") in ("failed", "passed")}
    skipped = {*STATE_CHECKS} - looked_at
    assert not skipped, f"{name}: skipped: {skipped}"
    print(
        f"{name}: {len(found)} lines, all {len(expected)} found, nothing else critical", flush=True
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmark.state_faults", description=__doc__
    )
    parser.add_argument("--size", type=parse_size, default="100M", help="of the log (100M)")
    size = parser.parse_args().size
    source, work = quorum(size) / "replicas/1", DATA / "work"
    coverage = scan(find_replicas([str(source)])[0])
    image = built(coverage.replica, None)
    print(f"behind {image.end_offset:,} records:", flush=True)
    for name, injected in (("nothing", []), ("faults", list(faults(image, image.end_offset)))):
        shutil.rmtree(work, ignore_errors=True)
        root, lake = work / "replicas", work / "lake"
        expected = write(source, root, injected, image)
        by_files = told("--input", str(root))
        judge(f"{name}, audit", by_files, expected)
        said("run", "--input", str(root), "--lake", str(lake))
        by_lake = told("--input", str(root), "--lake", str(lake))
        judge(f"{name}, audit --lake", by_lake, expected)
        different = sorted(lines(by_files) ^ lines(by_lake))
        assert not different, f"they say different things: {different}"
    return 0


if __name__ == "__main__":
    sys.exit(main())
