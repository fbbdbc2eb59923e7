"""spark-submit jobs/decode.py --input ROOT … --lake LAKE: read the disks, write what they hold to
the lake.
"""

import sys

from kraftlog.pipeline.job import run_job

if __name__ == "__main__":
    sys.exit(run_job("decode"))
