"""What a saved describe says of the live quorum, where there is one that is of the same cluster.

In: options, replicas. Out: `Described`. Needs no lake, and no Spark.
"""

from collections.abc import Sequence
from pathlib import Path

from kraftlog.config import Options
from kraftlog.errors import InputError
from kraftlog.log.directory import Replica
from kraftlog.quorum.describe import described_beside, foreign_cluster, read_described
from kraftlog.quorum.evidence import Described, QuorumEvidence


def described_of(options: Options, replicas: Sequence[Replica]) -> Described | None:
    """What a saved `kafka-metadata-quorum describe` says: the one that is named, else the one that
    `pull` has saved beside a replica.

    Raises InputError where the file cannot be read, or is none."""
    path = options.quorum_describe
    try:
        if path is None:
            return described_beside(replicas)
        return read_described(Path(path).read_text(encoding="utf-8"), path)
    except OSError as error:
        name = path or error.filename
        raise InputError(f"{name}: it cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise InputError(f"{path or 'the describe beside a copy'}: {error}") from error


def of_one_cluster(evidence: QuorumEvidence, options: Options) -> QuorumEvidence:
    """The evidence, where its describe is of the same cluster.

    Raises InputError where it is of another one."""
    other = foreign_cluster(evidence)
    if other is not None:
        name = options.quorum_describe or "the describe beside a copy"
        raise InputError(f"{name}: it describes cluster {other}, which is not that of the copies")
    return evidence
