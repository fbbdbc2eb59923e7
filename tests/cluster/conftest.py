"""What one run leaves, alone and on a local disk: whatever a cluster writes is held against it."""

import subprocess
import sys

import pytest

from tests.golden.cases import DATA
from tests.lakes import contents, key_in


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The rows of its tables."""
    lake = tmp_path_factory.mktemp("alone")
    key_in(lake)
    command = [sys.executable, "-m", "kraftlog", "run", "--lake", str(lake)]
    options = ["--input", str(DATA / "isolated" / "replicas"), "--master", "local[2]"]
    done = subprocess.run([*command, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return contents(str(lake))
