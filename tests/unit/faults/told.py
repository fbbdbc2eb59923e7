"""What the audit tells of each damage, in full: `told/<scope>.txt` beside this file.

A change of a sentence, a place or a number shows there as a difference, and is to be read as one:
`python -m tests.unit.faults.told` writes the files anew, and proves nothing by itself. What each
section must say follows from its damage, which is declared under the same name.
"""

import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from kraftlog.audit.every_check import BY_NAME
from kraftlog.audit.runner import AuditResult, CheckResult, Finding
from tests.unit.audit_logs import audit, quorum
from tests.unit.faults.table import FAULTS, Fault

FOLDER = Path(__file__).parent / "told"
HEALTHY = "healthy"


@cache
def names() -> dict[str, Fault]:
    """Each fault by a name of its own."""
    found: dict[str, Fault] = {}
    for one in FAULTS:
        name = f"{one.check}, {one.says or one.severity}"
        same = sum(other.partition(" #")[0] == name for other in found)
        found[f"{name} #{same + 1}" if same else name] = one
    return found


def told(result: AuditResult, root: Path, about: str) -> str:
    """The verdict, each finding of the check in question in full, where that check looked, how many
    findings others had, and what they lacked; others by name, not in the order of the catalogue.
    """
    return "".join(f"{line}\n" for line in _lines(result, str(root), about))


def _lines(result: AuditResult, root: str, about: str) -> Iterator[str]:
    verdict = result.verdict.as_row()
    del verdict["not_judged"]
    yield _json(verdict)
    others: Counter[str] = Counter()
    for finding in result.findings:
        if finding.check == about:
            yield _place(finding, root)
            yield f"  {finding.row.message}".replace(root, "")
            yield f"  {_json(dict(finding.row.evidence))}".replace(root, "")
        else:
            others[f"{finding.severity} {finding.check} of {finding.row.replica}"] += 1
    for text, times in sorted(others.items()):
        yield f"also {text}" if times == 1 else f"also {text}, {times} times"
    lacking: dict[str, list[str]] = {}
    for one in sorted(result.results, key=lambda one: one.check):
        if about in (one.check, HEALTHY):
            yield _result(one).replace(root, "")
        elif one.is_gap:
            lacking.setdefault(str(one.reason), []).append(one.check)
    for reason, checks in lacking.items():
        yield f"not judged: {', '.join(checks)}: {reason}".replace(root, "")


def _place(one: Finding, root: str) -> str:
    row = one.row
    place = {
        "replica": row.replica, "node": one.node_id, "against": row.other_replica,
        "offset": row.offset, "end": row.end_offset, "epoch": row.batch_leader_epoch,
        "path": row.path and row.path.removeprefix(root), "at": row.position,
    }  # fmt: skip
    where = ", ".join(f"{key} {value}" for key, value in place.items() if value is not None)
    return f"{one.severity} {one.check}: {where}"


def _result(one: CheckResult) -> str:
    judged = ", ".join(f"{place.replica} {place.start_offset}-{place.end_offset}"
                       for place in one.judged)  # fmt: skip
    count = f", {one.finding_count} found" if one.finding_count else ""
    gap = ", a gap" if one.is_gap else ""
    return f"{one.result} {one.check}{count}{gap}; {judged or 'nowhere'}; {one.reason}"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def section(one: Fault) -> str:
    """What is to be told of a fault."""
    name = next(name for name, other in names().items() if other is one)
    return sections(_scope_of(one))[name]


@cache
def sections(scope: str) -> dict[str, str]:
    """What a file holds, by the name of the fault."""
    parts = (FOLDER / f"{scope}.txt").read_text(encoding="utf-8").split("\n== ")[1:]
    return {name: text for name, _, text in (part.partition(" ==\n") for part in parts)}


def _scope_of(one: Fault) -> str:
    return BY_NAME[one.check].scope


def main() -> None:
    """Write the files anew."""
    import tests.unit.test_audit_checks  # noqa: F401  (it declares faults)

    texts: dict[str, str] = {}
    for name, one in names().items():
        with TemporaryDirectory() as folder:
            one.damage(quorum(Path(folder)))
            text = told(audit(Path(folder), limits=one.limits), Path(folder), one.check)
        texts[_scope_of(one)] = f"{texts.get(_scope_of(one), '')}\n== {name} ==\n{text}"
    with TemporaryDirectory() as folder:
        quorum(Path(folder))
        text = told(audit(Path(folder)), Path(folder), HEALTHY)
        texts[HEALTHY] = f"\n== {HEALTHY} ==\n{text}"
    FOLDER.mkdir(exist_ok=True)
    for scope, text in texts.items():
        (FOLDER / f"{scope}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
