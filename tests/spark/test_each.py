"""Many quorums in one start of Spark: each is judged by itself."""

from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from kraftlog.config import load_options
from kraftlog.pipeline.each import FEW, audit_each
from tests.golden.cases import DATA
from tests.lakes import FOR_SPARK


class Start:
    """Gives the Spark that is there; counts how often it was asked for."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark, self.times = spark.sparkContext, 0

    def __call__(self) -> SparkContext:
        self.times += 1
        return self.spark


def test_many_need_spark(spark: SparkSession) -> None:
    """However small they are."""
    root = str(DATA / "synthetic-torn" / "replicas")
    start, options = Start(spark), load_options({"input": [root]})
    for count, times in ((FEW, 0), (FEW + 1, 1)):
        assert len(list(audit_each(start, [root] * count, options))) == count
        assert start.times == times


@pytest.mark.parametrize("by_spark", [True, False], ids=["by Spark", "without"])
def test_each_quorum_is_judged_as_if_it_were_alone(
    by_spark: bool, spark: SparkSession, tmp_path: Path
) -> None:
    """One that lost an uncommitted tail, one whose laggards wait, and a folder that is not there;
    all in the order that they were named in.
    """
    cases = ("isolated", "lagging")
    roots = [str(DATA / one / "replicas") for one in cases] + [str(tmp_path / "none")]
    options = load_options({"input": roots, **(FOR_SPARK if by_spark else {})})
    start = Start(spark)
    told = list(audit_each(start, roots, options))
    assert start.times == by_spark
    assert [root for root, _ in told] == roots
    (_, first), (_, second), (_, gone) = told
    failed = [{(row["check"], row["replica"]) for row in one.findings} for one in (first, second)]
    tails = {("uncommitted_tail_diverged", "2"), ("uncommitted_tail_diverged", "12")}
    assert tails <= failed[0]
    assert not tails & failed[1]
    assert (first.error, second.error) == (None, None)
    assert gone.error is not None
    assert str(tmp_path / "none") in gone.error
    assert gone.exit_code(options) == 2
