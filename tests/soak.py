"""`python -m tests.soak SECONDS` (`make soak`): a real cluster that is worked on at random, whose
nodes are killed, wiped and started again, in other releases and racks too, whose leader stands still
or is out of reach at times, whose brokers lose a disk, whose voters come and go, and whose disks are
copied meanwhile, as they are; beside some of the copies lies what was pulled.

Kafka's own client does the work (tests/java/Work.java). Of each copy is asked: nothing is critical
but what Kafka itself is known to do wrong, no check breaks, the committed interval holds the truth,
and a lake that has grown with every copy says what a fresh audit says. No secret of the cluster is
said, or lies in the lake. Of the last copy each replica's image is Kafka's own. The copies that fail
stay below the folder that the first line names; its seed repeats the work, and not its timing. Needs
Java 17 and `make -C tests/java`.
"""

import argparse
import json
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from kraftlog.audit.grouping import ABORTED, FORGOTTEN, LOST_SCRAM, TAKEN_OVER, UNCLEARED
from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import find_replicas
from kraftlog.log.segment import Limits
from kraftlog.quorum.model import Quorum as Model
from tests import kafka_judge, kafka_quorum
from tests.benchmark.state_faults import lines, said, told
from tests.canonical import canonical_lines
from tests.collecting import collect
from tests.images import built
from tests.kafka_judge import JUDGE, NEWEST
from tests.kafka_quorum import START_SECONDS, Quorum, free_port
from tests.relay import Relay

KAFKAS_OWN = (ABORTED, FORGOTTEN, LOST_SCRAM, TAKEN_OVER, UNCLEARED)
TOPIC_SETTINGS = {"transaction.state.log.replication.factor": 1, "transaction.state.log.min.isr": 1}
ACCESS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": "true",
}
SECRET = "sesame"
TOKENS = {
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain."
    f'PlainLoginModule required username="admin" password="{SECRET}" user_admin="{SECRET}";',
    "delegation.token.secret.key": f"{SECRET}-of-tokens",
    "delegation.token.expiry.check.interval.ms": 5000,
}
COMMITTED_MS = 10_000
"""A record that is older when a copy begins, and stays, has been committed by then."""
HASTE = {
    "broker.session.timeout.ms": 2000,
    "broker.heartbeat.interval.ms": 500,
    "controller.quorum.election.timeout.ms": 500,
    "controller.quorum.fetch.timeout.ms": 1000,
}


def settings_by(chance: random.Random) -> dict[str, object]:
    """Small files, so that all that happens in months happens in minutes."""
    return {
        "metadata.log.max.record.bytes.between.snapshots": chance.choice([8_000, 20_000, 60_000]),
        "internal.metadata.log.segment.bytes": chance.choice([20_000, 60_000, 200_000]),
        "metadata.max.retention.bytes": 100_000,
        "metadata.max.idle.interval.ms": chance.choice([100, 500, 2000]),
        **TOPIC_SETTINGS, **ACCESS, **HASTE, **TOKENS,
    }  # fmt: skip


class Soak:
    """One cluster, who of it is away, and its copies below a folder."""

    def __init__(
        self, quorum: Quorum, folder: Path, chance: random.Random, releases: list[str]
    ) -> None:
        self.quorum, self.folder, self.chance, self.releases = quorum, folder, chance, releases
        self.relays = {
            one.id: Relay(one.advertised, one.ports["CONTROLLER"])
            for one in quorum.controllers
            if one.advertised
        }
        self.away: list[int] = []
        self.copies: list[Path] = []
        self.begun_ms: list[float] = []

    def step(self) -> None:
        """Something happens: a copy, a leader that stands still or is out of reach, a disk that
        breaks, a node that goes or comes.
        """
        chosen = self.chance.random()
        if chosen < 0.35:
            self.copy()
        elif chosen < 0.42:
            self.freeze()
        elif chosen < 0.5:
            self.part()
        elif chosen < 0.55:
            self.break_disk()
        elif chosen < 0.75 and len(self.away) < 2:
            self.lose()
        elif self.away:
            self.come(self.away.pop(self.chance.randrange(len(self.away))))

    def copy(self, *, is_live: bool = True) -> None:
        """The disks as they are; of running nodes, files come and go meanwhile."""
        self.copies.append(self.folder / f"{len(self.copies):03}")
        self.begun_ms.append(1000 * time.time())
        self.quorum.capture(self.copies[-1], is_live=is_live)
        if is_live and self.chance.random() < 0.5:
            self.pull()

    def pull(self) -> None:
        """The leader's log goes beside the last copy, where there is a leader to ask: what was
        pulled before goes on, whoever leads now.
        """
        place = self.folder.parent / "live"
        done = subprocess.run(
            [sys.executable, "-m", "kraftlog", "pull", "--bootstrap-controller",
             self.quorum.bootstrap(), "--out", str(place)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert "Traceback" not in done.stderr, done.stderr
        print(f"pull: {done.returncode} {done.stderr.strip()[-200:]}", flush=True)
        if done.returncode == 0:
            shutil.copytree(place, self.copies[-1] / "live")

    def freeze(self) -> None:
        """The leader stands still until others have elected another one, and goes on with what it
        had not replicated; the disks are copied while it stands.
        """
        leader = self.quorum.leading()
        process = leader.process if leader is not None else None
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGSTOP)
            time.sleep(self.chance.uniform(1, 4))
            self.copy()
            process.send_signal(signal.SIGCONT)

    def part(self) -> None:
        """Nobody reaches the leader, which goes on with what it cannot replicate; the disks are
        copied meanwhile.
        """
        leader = self.quorum.leading()
        if leader is not None:
            relay = self.relays[leader.id]
            relay.cut()
            time.sleep(self.chance.uniform(0, 5))
            self.copy()
            relay.mend()

    def lose(self) -> None:
        """A node ends, at once or in order; never so many that nobody leads."""
        alive = [one for one in self.quorum.nodes.values() if one.process is not None]
        controllers = sum(not one.is_broker for one in alive)
        quorum = len(self.quorum.controllers) // 2 + 1
        node = self.chance.choice([one for one in alive if one.is_broker or controllers > quorum])
        if node.process is not None and self.chance.random() < 0.4:
            node.process.terminate()
            time.sleep(3)
        self.quorum.kill(node.id)
        self.away.append(node.id)

    def break_disk(self) -> None:
        """A broker loses its second disk, with which it lives on until it starts again; all at once,
        as it writes there meanwhile.
        """
        node = self.chance.choice(self.quorum.brokers)
        if node.spare.is_dir():
            gone = node.spare.rename(node.spare.with_name("gone"))
            node.spare.write_bytes(b"")
            shutil.rmtree(gone)

    def come(self, number: int) -> None:
        """A node starts again, some of them with an empty disk, or in another release or rack."""
        node = self.quorum.nodes[number]
        node.version = self.chance.choice(self.releases)
        self.quorum.configure(node, broker_rack=self.chance.choice("abc"))
        if node.spare.is_file():
            node.spare.unlink()
        if self.chance.random() < 0.2 and not (self.quorum.is_static and not node.is_broker):
            shutil.rmtree(node.data)
            self.quorum.format_one(node)
        self.quorum.launch(number)

    def end(self) -> None:
        """All come back, and all are stopped; the last copy is of disks that nobody writes to."""
        for number in self.away:
            self.come(number)
        time.sleep(10)
        self.copy()
        self.quorum.stop()
        self.copy(is_live=False)


@contextmanager
def work(quorum: Quorum, seed: int, seconds: int) -> Iterator[None]:
    """Kafka's client works on the cluster for as long as the context lasts."""
    addresses = ",".join(one.address("BROKER") for one in quorum.brokers)
    ids = ",".join(str(one.id) for one in quorum.brokers)
    reached = ",".join(f"{one.id}={one.reached()}" for one in quorum.controllers)
    called = kafka_judge.java_command(
        "Work", addresses, str(seed), ids, str(seconds), reached, quorum.bootstrap("SASL")
    )
    with (quorum.folder / "work.log").open("wb") as log:
        process = subprocess.Popen(called, stdout=log, stderr=log)
        try:
            yield
            process.wait(START_SECONDS)
        finally:
            process.kill()


def judged(copies: list[Path], folder: Path) -> Iterator[str]:
    """What is wrong with what is said of the copies, each at the place of the one before it."""
    place, lake = folder / "replicas", str(folder / "lake")
    for copy in copies:
        shutil.rmtree(place, ignore_errors=True)
        subprocess.run(["cp", "-R", "--preserve=timestamps", copy, place], check=True)
        found = told("--input", str(place))
        failed = [one for one in found if one.get("result") == "failed"]
        assert not [one for one in found if one.get("result") == "errored"]
        for one in failed:
            known = any(words in one["message"] for words in KAFKAS_OWN)
            if one["severity"] == "critical" and not known:
                yield f"{copy}: {one['check']} {one['replica']} {one['message']}"
        said("run", "--input", str(place), "--lake", lake)
        for line in shown(found) ^ shown(told("--lake", lake)):
            yield f"{copy}: only one of files and lake says: {line}"
        if SECRET in json.dumps(found):
            yield f"{copy}: a secret is said"
        print(f"{copy.name}: {len(failed)} findings", flush=True)
    yield from leaks(Path(lake))


def shown(found: list[dict[str, Any]]) -> set[str]:
    """Findings to compare: what is masked is so under the key of a lake, or of one audit."""
    return {re.sub("redacted:[0-9a-f]+", "redacted", one) for one in lines(found)}


def leaks(lake: Path) -> Iterator[str]:
    """The files of a lake that hold a secret."""
    for path in filter(Path.is_file, lake.rglob("*")):
        if path.suffix == ".parquet":
            text = str(pq.read_table(path, partitioning=None).to_pylist())
        else:
            text = path.read_text(encoding="utf-8", errors="replace")
        if SECRET in text:
            yield f"{path}: holds a secret"


def held(copy: Path) -> Model:
    """What the disks of a copy hold."""
    return Model(collect(find_replicas([str(copy)]), Limits(), Redactor(None)))


def bounds(copies: list[Path], begun_ms: list[float]) -> Iterator[str]:
    """The copies whose committed interval does not hold the truth, which is what is there at the
    end: what was committed stays, and what stays and is old was committed.
    """
    chain = held(copies[-1]).chain
    last = dict(zip(chain.base.tolist(), chain.ids.tolist(), strict=True))
    times = {
        base: int(chain.logs[log].evidence.log.max_timestamps[row])
        for base, log, row in zip(chain.base.tolist(), chain.log, chain.row, strict=True)
    }
    for copy, begun in zip(copies[:-1], begun_ms, strict=False):
        one = held(copy)
        lower, upper = one.bounds.lower, one.bounds.upper
        for base, batch in zip(one.chain.base.tolist(), one.chain.ids.tolist(), strict=True):
            first, after = chain.between(base, base + 1)
            is_pruned = first == after  # no disk holds it in the end
            if base < lower and not is_pruned and last.get(base) != batch:
                yield f"{copy}: said to be committed below {lower}, and {base} is gone"
        for base, time_ms in times.items():
            if upper is not None and base >= upper and time_ms < begun - COMMITTED_MS:
                yield f"{copy}: said not to be committed from {upper} on, and {base} was"


def images(copy: Path) -> Iterator[str]:
    """The replicas of a copy whose image is not Kafka's."""
    for replica in find_replicas([str(copy)]):
        if not any(Path(replica.folder).glob("*.log")):
            continue  # wiped, and ended before it had a log: it has no image
        image = built(replica)
        theirs = kafka_judge.image(Path(replica.folder), release=NEWEST)
        if image.faults or canonical_lines(image.state) != theirs.lines:
            yield f"{replica.folder}: the image is not Kafka's; {theirs.facts} {image.faults[:3]}"


def main(arguments: list[str]) -> int:
    """How many things are wrong, at most 100."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("seconds", type=int)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument(
        "--releases", help="as 4.1.1,4.3.1: nodes start in the first, and again in any"
    )
    chosen = parser.parse_args(arguments)
    chance = random.Random(chosen.seed)
    choices = [[JUDGE], [NEWEST], [JUDGE, NEWEST]]
    releases = chosen.releases.split(",") if chosen.releases else chance.choice(choices)
    is_static, is_combined = chance.random() < 0.5, chance.random() < 0.3
    controllers = chance.choice([1, 3, 3, 5])
    settings = settings_by(chance)
    if not is_static and chance.random() < 0.5:
        settings["controller.quorum.auto.join.enable"] = "true"
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    kind = f"{'static' if is_static else 'dynamic'}{', combined' if is_combined else ''}"
    print(f"--seed {chosen.seed}: Kafka {releases}, {controllers} controllers, {kind}; {folder}")
    quorum = kafka_quorum.made(
        folder / "cluster", releases[0], controllers=controllers, brokers=1 if is_combined else 3,
        settings=settings, is_static=is_static, is_combined=is_combined,
        advertised={1 + one: free_port() for one in range(controllers)},
        of_clients={"SASL": "SASL_PLAINTEXT"}, has_spares=True,
    )  # fmt: skip
    soak = Soak(quorum, folder / "copies", chance, releases)
    with kafka_quorum.started(quorum):
        with work(quorum, chosen.seed, chosen.seconds):
            deadline = time.monotonic() + chosen.seconds
            while time.monotonic() < deadline:
                time.sleep(chance.uniform(1, 6))
                soak.step()
        soak.end()
    last = soak.copies[-1]
    wrong = [*bounds(soak.copies, soak.begun_ms), *judged(soak.copies, folder), *images(last)]
    print("\n".join(wrong or [f"{len(soak.copies)} copies: nothing is wrong"]))
    if not wrong:
        shutil.rmtree(folder)
    return min(len(wrong), 100)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
