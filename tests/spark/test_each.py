"""Many quorums in one start of Spark: each is judged by itself."""

from pathlib import Path

from pyspark.sql import SparkSession

from kraftlog.config import load_options
from kraftlog.pipeline.each import audit_each
from tests.golden.cases import DATA


def test_each_quorum_is_judged_as_if_it_were_alone(spark: SparkSession, tmp_path: Path) -> None:
    """One that lost an uncommitted tail, one whose laggards wait, and a folder that is not there;
    all in the order that they were named in.
    """
    cases = ("isolated", "lagging")
    roots = [str(DATA / one / "replicas") for one in cases] + [str(tmp_path / "none")]
    told = list(audit_each(spark.sparkContext, roots, load_options({"input": roots})))
    assert [root for root, _ in told] == roots
    (_, first), (_, second), (_, gone) = told
    failed = [
        {(row["check"], row["replica"]) for row in one.rows if row["result"] == "failed"}
        for one in (first, second)
    ]
    tails = {("uncommitted_tail_diverged", "2"), ("uncommitted_tail_diverged", "12")}
    assert tails <= failed[0]
    assert not tails & failed[1]
    assert (first.error, second.error) == (None, None)
    assert gone.error is not None
    assert str(tmp_path / "none") in gone.error
    assert gone.exit_code == 2
