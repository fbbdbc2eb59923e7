"""An audit as JUnit XML, which every CI server shows: one test case per check,
and one that fails where files have changed in silence.

In: what an audit says, and the options, which say what makes a command fail. Out: bytes. A case fails where the command
would: for findings at or above `fail_on`, and under `strict` for a critical check that could not
judge everything. Findings below that stand in the case's output; what was not judged is skipped.
"""

from xml.etree import ElementTree as ET

from kraftlog.audit.check import RANK
from kraftlog.audit.every_check import BY_NAME
from kraftlog.config import Options
from kraftlog.plain import counted, printable
from kraftlog.relations import Row
from kraftlog.report.judgement import Judged
from kraftlog.report.once import count_of

_NEVER = -1


def junit_xml(judged: Judged, name: str, options: Options) -> bytes:
    """The whole file; `name` is the input's."""
    limit = RANK.get(options.fail_on, _NEVER)
    gaps = dict[str, str](judged.verdict["not_judged"])
    by_check = dict[str, list[Row]]()
    for row in judged.lines():
        by_check.setdefault(row["check"], []).append(row)
    suite = ET.Element("testsuite", name=printable(name))
    for check, rows in by_check.items():
        case = ET.SubElement(
            suite, "testcase", name=check, classname=f"kraftlog.{rows[0]['scope']}"
        )
        _judge(case, rows, gaps.get(check), limit, options.strict)
    if judged.changed_in_place:
        case = ET.SubElement(suite, "testcase", name="changed_in_place", classname="kraftlog.files")
        told = f"{counted(judged.changed_in_place, 'file')}: the content has changed under the same size and time"
        tag = "system-out" if limit == _NEVER else "failure"
        ET.SubElement(case, tag, type="critical", message=told).text = told
    suite.set("tests", str(len(suite.findall("testcase"))))
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(attribute, str(len(suite.findall(f"testcase/{tag}"))))
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _judge(case: ET.Element, rows: list[Row], gap: str | None, limit: int, strict: bool) -> None:
    """Say what became of a check: its findings are one element, as readers show only the first."""
    first, told = rows[0], "\n".join(map(_line, rows))
    rank = RANK[first["severity"]]
    if first["result"] == "failed" and rank <= limit:
        count = f"{count_of(rows):,} findings" if len(rows) > 1 else printable(first["message"])
        ET.SubElement(case, "failure", type=first["severity"], message=count).text = told
    elif (
        strict
        and limit != _NEVER
        and gap is not None
        and BY_NAME[first["check"]].severity == "critical"
    ):
        message = f"not judged: {printable(gap)}"
        ET.SubElement(case, "failure", type="not judged", message=message).text = told
    elif first["result"] == "errored":
        message = printable(first["message"])
        ET.SubElement(case, "error", type="errored", message=message).text = told
    elif first["result"] == "skipped":
        ET.SubElement(case, "skipped", message=printable(first["message"]))
    elif first["result"] == "failed" or gap is not None:
        told = told if first["result"] == "failed" else f"not judged: {printable(gap or '')}"
        ET.SubElement(case, "system-out").text = told


def _line(row: Row) -> str:
    where = f" [{row['replica']}]" if row["replica"] else ""
    return printable(f"{row['severity']}{where} {row['message']}")
