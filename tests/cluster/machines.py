"""What the tests of clusters share: processes of Spark's own programs."""

import socket
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path


def spark_home() -> Path:
    """The folder of the Spark that pip has installed."""
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


def wait_for(port: int) -> None:
    """Until somebody listens at a port."""
    for _ in range(600):
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(port)


def stop(process: "subprocess.Popen[bytes]") -> None:
    """End a process, and wait for that."""
    process.terminate()
    process.wait(60)
