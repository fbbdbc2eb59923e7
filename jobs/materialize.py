"""spark-submit jobs/materialize.py --lake LAKE: derive replicas, epochs and the state's history
from what the lake holds.
"""

import sys

from kraftlog.pipeline.job import run_job

if __name__ == "__main__":
    sys.exit(run_job("materialize"))
