"""What a file holds, small enough to keep: records per type, and every 997th record in full.

Enters: Kafka's rows (Oracle, kept beside the log as JSON) or ours. Two answers are equal, or the
benchmark stops before it times anything.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from tests import kafka_judge
from tests.golden.compare import RECORD_FIELDS

Row = dict[str, Any]
EVERY = 997
TYPE = re.compile(rb'"type":"([A-Z_]+)"')


class AnswersDiffer(Exception):
    """Ours is not what Kafka reads: nothing is timed."""


@dataclass(frozen=True)
class Answers:
    """Records per type, and sampled records under our own field names."""

    counts: dict[str, int]
    samples: list[Row]

    @property
    def record_count(self) -> int:
        return sum(self.counts.values())


def kafka_answers(path: Path) -> Answers:
    """What Kafka's own classes read; asked once per file."""
    kept = path.with_name(f"{path.name}.answers.json")
    if kept.exists():
        return Answers(**json.loads(kept.read_text(encoding="utf-8")))
    with kafka_judge.records_lines([path]) as lines:
        answers = _of_kafka(lines)
    unfinished = kept.with_name(f"{kept.name}.part")
    unfinished.write_text(json.dumps(asdict(answers)), encoding="utf-8")
    unfinished.rename(kept)
    return answers


def our_answers(
    sampled: Callable[[Path, int], tuple[Counter[str], list[Row]]], path: Path
) -> Answers:
    """The same of our own rows."""
    counts, rows = sampled(path, EVERY)
    samples = [{name: row.get(name) for name in RECORD_FIELDS} for row in rows]
    return Answers(dict(sorted(counts.items())), samples)


def assert_equal(kafka: Answers, ours: Answers) -> None:
    """Raises AnswersDiffer at the first difference."""
    if kafka.counts != ours.counts:
        raise AnswersDiffer(f"records per type: Kafka {kafka.counts}, ours {ours.counts}")
    for theirs, mine in zip(kafka.samples, ours.samples, strict=True):
        if theirs != mine:
            raise AnswersDiffer(f"a sampled record: Kafka {theirs}, ours {mine}")


def _of_kafka(lines: IO[bytes]) -> Answers:
    counts: Counter[str] = Counter()
    samples: list[Row] = []
    for index, line in enumerate(lines):
        if line.startswith(b'{"summary"'):
            summary = json.loads(line)
            if summary["error"] is not None:
                raise AnswersDiffer(f"Kafka cannot read all of it: {summary}")
            continue
        named = TYPE.search(line)
        if named is None or b'"error":' in line:
            raise AnswersDiffer(f"Kafka cannot read a record: {line!r}")
        counts[named[1].decode()] += 1
        if index % EVERY == 0:
            row = json.loads(line)
            samples.append({mine: row.get(theirs) for mine, theirs in RECORD_FIELDS.items()})
    return Answers(dict(sorted(counts.items())), samples)
