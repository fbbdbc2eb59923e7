"""Ask Kafka's own classes about a metadata log: the Java programs of tests/java as typed functions.

Files and folders go in, what Kafka reads in them comes out, as rows (one dict per JSON line). Needs
Java 17 and the folders that `make -C tests/java` fills. Without them every function raises
JudgeMissing: a test that needs the judge fails, it never skips.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any

Row = dict[str, Any]

JAVA = Path(__file__).parent / "java"
LIBS = JAVA / "libs"
CLASSES = JAVA / "classes"
JUDGE, NEWEST = "4.3.1", "4.4.0"
"""The releases that judge: the first has Kafka's tools too, the second only reads and writes logs.
"""
HEAP = ("-Xmx4g", "-XX:+UseSerialGC", "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8")
# Enums hash alike in every run, so the order of records in a snapshot repeats too.
REPEATABLE = ("-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=2")
# For programs that live for seconds: what the second compiler makes pays after minutes.
QUICK = ("-XX:TieredStopAtLevel=1",)
PARTITION = "__cluster_metadata-0"


class JudgeMissing(Exception):
    """Java, Kafka's jars or the compiled programs are not there."""


class JudgeFailed(Exception):
    """A Java program ended with an error."""


@dataclass(frozen=True)
class Image:
    """The state that Kafka's image writes: canonical lines, sorted; and the facts of the run."""

    lines: list[str]
    facts: Row

    @property
    def rows(self) -> list[Row]:
        """The lines as records: type, version, data."""
        return [json.loads(line) for line in self.lines]

    @property
    def refused(self) -> str | None:
        """Why Kafka could not build an image (a gap, no start), else None."""
        error = self.facts.get("error")
        return None if error is None else str(error)


def batches(paths: Iterable[Path], release: str = JUDGE) -> list[Row]:
    """A row per record batch and a summary row per file; rows name files without their folder."""
    return _rows(_run("Oracle", "batches", *paths, release=release))


def records(paths: Iterable[Path], release: str = JUDGE) -> list[Row]:
    """A row per record and a summary row per file."""
    return _rows(_run("Oracle", "records", *paths, release=release))


def open_configs(release: str = JUDGE) -> dict[str, list[str]]:
    """By the number of a resource type, the configs that Kafka declares not to be sensitive."""
    found: dict[str, list[str]] = json.loads(_run("Configs", release=release).stdout)
    return found


def numbers(release: str = JUDGE) -> dict[str, tuple[str, str, str]]:
    """Of each number that a broker or controller takes: its type, its default, and its range in
    Kafka's words.
    """
    found = json.loads(_run("Configs", "numbers", release=release).stdout)
    return {name: tuple(one) for name, one in found.items()}


def taken(pairs: Iterable[tuple[str, str]], release: str = JUDGE) -> list[bool]:
    """Whether a topic takes each of some configs, by Kafka's definition."""
    answer: list[bool] = json.loads(
        _run("Configs", "taken", *chain(*pairs), release=release).stdout
    )
    return answer


@contextmanager
def records_lines(paths: Iterable[Path]) -> Iterator[IO[bytes]]:
    """What `records` reads, as an open stream of JSON lines: for logs too large to hold."""
    command = java_command("Oracle", "records", *paths)
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        yield child.stdout
    if child.returncode:
        raise JudgeFailed(f"Oracle records: exit {child.returncode}")


def image(
    directory: Path,
    at: int | None = None,
    *,
    no_snapshot: bool = False,
    snapshot: Path | None = None,
    flush: str | int | None = None,
    raw_order: bool = False,
    release: str = JUDGE,
) -> Image:
    """The state of the records with an offset below `at` (default: the end of the log)."""
    options = _image_options(at, no_snapshot, snapshot, flush, raw_order)
    done = _run("Oracle", "image", directory, *options, accept=(0, 2), release=release)
    facts = _last_json_line(done.stderr)
    if done.returncode and "error" not in facts:
        raise JudgeFailed(f"Oracle image: exit {done.returncode}: {done.stderr[-2000:]}")
    return Image(lines=_lines(done.stdout), facts=facts)


def image_digests(
    directory: Path,
    every: int = 1,
    *,
    at: int | None = None,
    no_snapshot: bool = False,
    snapshot: Path | None = None,
    flush: str | int | None = None,
    release: str = JUDGE,
) -> list[Row]:
    """The digest of the state after every Nth batch, and of each snapshot met on the way."""
    options = _image_options(at, no_snapshot, snapshot, flush, raw_order=False)
    asked = ("image", directory, "--every", every, *options)
    return _rows(_run("Oracle", *asked, release=release))


def bench(paths: Iterable[Path], *, only: str, seconds: float) -> list[Row]:
    """Kafka's decoding loops whose name contains `only`, timed in a warm virtual machine."""
    asked = ("bench", *paths, "--only", only, "--seconds", seconds)
    return _rows(_run("Oracle", *asked, options=()))


def make_case(name: str, out: Path, seed: int = 42, release: str = JUDGE) -> Path:
    """Write the named small log below `out`; its __cluster_metadata-0 folder comes back."""
    _make("case", name, out, "--seed", seed, release=release)
    return out / name / PARTITION


def make_script(script: Iterable[Row] | Path, out: Path, release: str = JUDGE) -> Path:
    """Write the described batches into the folder `out`.

    A row describes one batch: `records` (type, version, data; absent fields take their default)
    and, if wanted, `epoch`, `timestamp`, `compression`, `leader`, `roll`, `snapshot`.
    """
    if isinstance(script, Path):
        _make("script", script, out, release=release)
        return out
    out.parent.mkdir(parents=True, exist_ok=True)
    described = out.parent / f"{out.name}.script.jsonl"
    described.write_text("".join(json.dumps(row) + "\n" for row in script), encoding="utf-8")
    return make_script(described, out, release)


def fuzz(
    out: Path,
    *,
    seed: int = 1,
    batches: int | None = None,
    size_bytes: int | None = None,
    segment_bytes: int | None = None,
    snapshot_every: int | None = None,
    topics: int | None = None,
) -> Path:
    """Write a random valid history into the folder `out`."""
    chosen = {
        "--seed": seed,
        "--batches": batches,
        "--bytes": size_bytes,
        "--segment-bytes": segment_bytes,
        "--snapshot-every": snapshot_every,
        "--topics": topics,
    }
    options = [str(part) for item in chosen.items() if item[1] is not None for part in item]
    _make("fuzz", out, *options)
    return out


def _make(*args: object, release: str = JUDGE) -> None:
    """Write a small log, the same one each time."""
    _run("Make", *args, options=(*QUICK, *REPEATABLE), release=release)


def scale_gen(out: Path, **options: str | int) -> str:
    """Write a large realistic log into the folder `out`; what ScaleGen says of it comes back.

    Options: size, brokers, topics, partitions, segment, snapshotEvery, seed, noops, wave, codec.
    """
    chosen = [f"{name}={value}" for name, value in options.items()]
    return _run("ScaleGen", out, *chosen, options=REPEATABLE).stdout


def dump_log_segments_command(path: Path) -> list[str]:
    """The command line of Kafka's own dump tool for one segment or checkpoint."""
    name = "org.apache.kafka.tools.DumpLogSegments"
    return java_command(name, "--cluster-metadata-decoder", "--files", path)


def dump_log_segments(path: Path) -> str:
    """What Kafka's own dump tool prints for one segment or checkpoint."""
    return _finish(dump_log_segments_command(path), (0,)).stdout


def libs_of(release: str) -> Path:
    """The jars of a release."""
    return LIBS if release == JUDGE else JAVA / f"libs-{release}"


def archive_of(release: str) -> Path:
    """A release's classes as a JVM keeps them, parsed and checked, where `keep_classes` of
    `tests.kafka_quorum` has made it.
    """
    return libs_of(release) / "classes.jsa"


def from_archive(release: str) -> list[str]:
    """The options by which a JVM takes classes from there; of one that is not for its jars, as they
    were moved, it says nothing.
    """
    archive = archive_of(release)
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:disable"] if archive.exists() else []


def java_command(
    program: str, *args: object, options: Sequence[str] = (), release: str = JUDGE
) -> list[str]:
    """The command that runs a program; raises JudgeMissing when it cannot run."""
    java = shutil.which("java")
    if java is None:
        raise JudgeMissing("no java on the PATH: the tests need Java 17")
    libs = libs_of(release)
    classes = CLASSES if release == JUDGE else JAVA / f"classes-{release}"
    for folder in (libs, classes):
        if not (folder / ".done").exists():
            raise JudgeMissing(f"{folder} is missing or incomplete: run make -C tests/java")
    # The jars come first, as in their archive.
    class_path = os.pathsep.join([str(libs / "*"), str(classes)])
    return [java, *HEAP, *options, "-cp", class_path, program, *map(str, args)]


def _run(
    program: str,
    *args: object,
    options: Sequence[str] = QUICK,
    accept: Sequence[int] = (0,),
    release: str = JUDGE,
) -> subprocess.CompletedProcess[str]:
    chosen = [*from_archive(release), *options]
    return _finish(java_command(program, *args, options=chosen, release=release), accept)


def _finish(command: list[str], accept: Sequence[int]) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    if done.returncode not in accept:
        called = " ".join(command[command.index("-cp") + 2 :])
        raise JudgeFailed(f"{called}: exit {done.returncode}: {done.stderr[-2000:]}")
    return done


def _image_options(
    at: int | None,
    no_snapshot: bool,
    snapshot: Path | None,
    flush: str | int | None,
    raw_order: bool,
) -> list[str]:
    options: list[str] = []
    for name, value in (("--at", at), ("--snapshot", snapshot), ("--flush", flush)):
        if value is not None:
            options += [name, str(value)]
    if no_snapshot:
        options.append("--no-snapshot")
    if raw_order:
        options.append("--raw-order")
    return options


def _lines(text: str) -> list[str]:
    # Not splitlines: strings inside may hold other characters that it takes for line ends.
    return [line for line in text.split("\n") if line]


def _rows(done: subprocess.CompletedProcess[str]) -> list[Row]:
    return [json.loads(line) for line in _lines(done.stdout)]


def _last_json_line(text: str) -> Row:
    for line in reversed(_lines(text)):
        if line.startswith("{"):
            row: Row = json.loads(line)
            return row
    return {}
