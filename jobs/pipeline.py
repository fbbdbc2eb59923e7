"""spark-submit jobs/pipeline.py --input ROOT … --lake LAKE: decode, materialize, audit and metrics,
in this order.
"""

import sys

from kraftlog.pipeline.job import run_job

if __name__ == "__main__":
    sys.exit(run_job("pipeline"))
