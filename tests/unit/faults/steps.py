"""What a finding says is to be done with files, done as it is said.

In: a finding over a quorum below a folder. Out: the same folder, changed. Each step is one sentence
of `kraftlog.audit.triage`, by its words: who changes these changes them here, too.
"""

import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from kraftlog.audit.runner import Finding
from kraftlog.log.names import LOG_FOLDER

_NAMES = r"replicas? (\d+)[^.]*\."


def _same_name(root: Path, file: Path, said: re.Match[str]) -> None:
    gone(file)
    shutil.copy2(root / said[1] / LOG_FOLDER / file.name, file)


def _another(root: Path, file: Path, said: re.Match[str]) -> None:
    gone(file)
    shutil.copy2(root / said[2] / LOG_FOLDER / said[1], file.parent / said[1])


def _folder(root: Path, file: Path, said: re.Match[str]) -> None:
    """Whose vote a node casts stays its own, where that is said."""
    folder = _log_folder(root, file)
    state = folder / "quorum-state"
    kept = state.read_bytes() if said[2] else None
    shutil.rmtree(folder, ignore_errors=True)  # it may be gone
    shutil.copytree(root / said[1] / LOG_FOLDER, folder)
    if kept is not None:
        state.write_bytes(kept)


def _anew(root: Path, file: Path, said: re.Match[str]) -> None:
    """As it is when the node starts; what it fetches then is the leader's."""
    folder = _log_folder(root, file)
    shutil.rmtree(folder)
    folder.mkdir()


def _log_folder(root: Path, file: Path) -> Path:
    return root / file.relative_to(root).parts[0] / LOG_FOLDER


def gone(file: Path) -> None:
    """Set aside, or delete."""
    if file.is_dir() and not file.is_symlink():
        shutil.rmtree(file)
    else:
        file.unlink(missing_ok=True)


STEPS: Mapping[str, Callable[[Path, Path, re.Match[str]], None]] = {
    rf"Take the file of the same name from {_NAMES}": _same_name,
    rf"Set it aside, and take (\S+) from {_NAMES}": _another,
    r"Set it aside: the (node then|log) begins": lambda _, file, __: gone(file),
    r"[Dd]elete (it|the file) while the node is stopped": lambda _, file, __: gone(file),
    r"put the log folder of replica (\d+) in the place of its own, with (its own)?": _folder,
    r"Set its log folder aside, and start the node when the others have a leader": _anew,
}
"""Words of a finding → what is done."""


def step_of(finding: Finding) -> str | None:
    """Which of these a finding says is to be done: its words; None where it is none."""
    found = (words for words in STEPS if re.search(words, finding.row.message))
    return None if finding.row.replica is None else next(found, None)


def follow(root: Path, finding: Finding, words: str) -> None:
    """Do it."""
    said = re.search(words, finding.row.message)
    assert said
    assert finding.row.replica
    STEPS[words](root, Path(finding.row.path or root / finding.row.replica / LOG_FOLDER), said)
