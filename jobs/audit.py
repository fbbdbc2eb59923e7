"""spark-submit jobs/audit.py --lake LAKE: check the lake's newest run, record results and findings,
and write its page; what materialize and metrics have left undone is done too.
"""

import sys

from kraftlog.pipeline.job import run_job

if __name__ == "__main__":
    sys.exit(run_job("audit"))
