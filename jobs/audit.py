"""spark-submit jobs/audit.py --lake LAKE: check the lake's newest run, and record results and
findings.
"""

import sys

from kraftlog.pipeline.job import run_job

if __name__ == "__main__":
    sys.exit(run_job("audit"))
