"""The files of C beside this one → the compiled part for each platform, by the compiler of PyPI's ziglang.

In: nothing. Out: a file of 20 to 66 KB beside them for each of PLATFORMS, which git ignores and
a wheel holds: all of them, so that one wheel serves every platform. Runs when a wheel is made or
kraftlog is installed from a checkout (hatchling's hook), or by `python -m kraftlog.native.build`.
The same source gives the same bytes.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path(__file__).parent
PLATFORMS = {
    "x86_64-linux": ("x86_64-linux-musl", "x86_64_v2"),
    "x86_64+avx2-linux": ("x86_64-linux-musl", "x86_64_v2+avx2"),
    "aarch64-linux": ("aarch64-linux-musl", "generic+crc"),
    "x86_64-darwin": ("x86_64-macos", "x86_64_v2"),
    "x86_64+avx2-darwin": ("x86_64-macos", "x86_64_v2+avx2"),
    "aarch64-darwin": ("aarch64-macos", "apple_m1"),
}
"""Processor and system, by Python's names, and by the compiler's, with what the processor has at
least: SSE4.2, which pyarrow asks for too, or the CRC-32 of ARMv8.1. Nothing of a C library is used,
so that it does not matter which one there is."""

SOURCES = ("kernel.c", "folding.c", "sorting.c")
_OPTIONS = (
    *("-std=c11", "-O3", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"),
    *("-ffreestanding", "-fno-builtin", "-nostdlib", "-fno-sanitize=all", "-Wl,-s"),
)


def build(out: Path, platform: str, options: tuple[str, ...] = _OPTIONS) -> Path:
    """Compile for one of PLATFORMS into a folder; gives the file.

    Raises subprocess.CalledProcessError, and FileNotFoundError where the compiler gave no file."""
    target = out / f"kernel.{platform}"
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch) / target.name
        # The compiler's cache goes with the folder: nothing is left in anybody's home.
        places = {"ZIG_GLOBAL_CACHE_DIR": scratch, "ZIG_LOCAL_CACHE_DIR": scratch}
        system, processor = PLATFORMS[platform]
        command = [sys.executable, "-m", "ziglang", "cc", "-target", system, f"-mcpu={processor}"]
        command += [*options, *(str(HERE / one) for one in SOURCES), "-o", made.name]
        subprocess.run(command, check=True, env={**os.environ, **places}, cwd=scratch)
        # Whoever loads it meanwhile has the one before, or this one, whole.
        whole = target.with_name(f"{target.name}.{os.getpid()}")
        whole.write_bytes(made.read_bytes())
        whole.replace(target)
    return target


class CustomBuildHook(BuildHookInterface[Any]):
    """What hatchling calls before it makes a wheel or an editable install."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile for all platforms; they are not in git, so they are named as artifacts."""
        if self.target_name != "wheel":
            return
        for platform in PLATFORMS:
            build(HERE, platform)
        build_data["artifacts"].append("/kraftlog/native/kernel.*-*")


if __name__ == "__main__":
    for one in PLATFORMS:
        print(build(HERE, one).name)
