"""spark-submit jobs/audit.py --lake LAKE: check the lake's newest run, record results and findings,
and write its page, when materialize and metrics have written what it shows.
"""

import sys

from kraftlog.pipeline.job import run_job

if __name__ == "__main__":
    sys.exit(run_job("audit"))
