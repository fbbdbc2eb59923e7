"""spark-submit jobs/metrics.py --lake LAKE: measure the snapshots of the lake's newest run."""

import sys

from kraftlog.pipeline.job import run_job

if __name__ == "__main__":
    sys.exit(run_job("metrics"))
