"""The whole audit in one paragraph, the answer first: what the terminal and the page say alike.

In: the verdict's row (`Verdict.as_row`), findings and results as rows. Out: text for a person. No
word of comfort stands here without the proof that the verdict holds.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from kraftlog.audit.check import RANK
from kraftlog.audit.state_rules import CONTROLLERS, NODES
from kraftlog.plain import counted, listed, sentence, some, voters_text
from kraftlog.relations import Row
from kraftlog.report.once import count_of, nodes_text

TAIL = "uncommitted_tail_diverged"
_NAMED = 4
NOTED = "passed with a note"
_OUTCOMES = ("passed", NOTED, "failed", "errored", "skipped")
NO_NAMES: Mapping[str, str] = MappingProxyType({})


def worst_first(findings: list[Row]) -> list[Row]:
    """Critical before warning before info; otherwise as they came."""
    return sorted(findings, key=lambda row: RANK.get(row["severity"], 3))


def headline(
    verdict: Row, findings: list[Row], results: list[Row], names: Mapping[str, str] = NO_NAMES
) -> str:
    """The whole audit in a few sentences. `results` has a row per check that broke, `names` says
    what replicas are called, where that is known.
    """
    by_severity: dict[str, list[Row]] = defaultdict(list)
    for row in findings:
        by_severity[row["severity"]].append(row)
    parts = []
    if by_severity["critical"]:
        parts.append(_critical(by_severity["critical"], names))
    tails = _tails([row for row in findings if row["check"] == TAIL], names)
    parts += tails
    errored = [row["check"] for row in results if row["result"] == "errored"]
    if errored:
        parts.append(f"{counted(len(errored), 'check')} could not be run: {listed(errored)}")
    others = [row for row in by_severity["warning"] if row["check"] not in (TAIL, "voters_present")]
    if not by_severity["critical"] and others:
        parts.append(_warnings(others, "other warning" if tails else "warning"))
    told = [f"{sentence(part)}." for part in parts]
    present = [row["evidence"] for row in findings if row["check"] == "voters_present"]
    return " ".join(
        [*told, *_grade(verdict, bool(told), *present[:1]), *_lag(verdict, *present[:1])]
    )


def check_outcomes(checks: Iterable[Row], findings: Iterable[Row]) -> dict[str, str]:
    """How each check came out, for a person: one whose findings are all notes has passed."""
    worst = worst_severities(findings)
    return {
        row["check"]: NOTED
        if row["result"] == "failed" and worst.get(row["check"]) == "info"
        else row["result"]
        for row in checks
    }


def worst_severities(findings: Iterable[Row]) -> dict[str, str]:
    """How bad the worst finding of each check is, which may be less than the check can be."""
    worst: dict[str, str] = {}
    for row in findings:
        both = (worst.get(row["check"], row["severity"]), row["severity"])
        worst[row["check"]] = min(both, key=lambda one: RANK.get(one, 0))
    return worst


def outcome_words(checks: Iterable[Row], findings: Iterable[Row]) -> str:
    """How many checks came out how."""
    count = Counter(check_outcomes(checks, findings).values())
    return ", ".join(f"{count[one]} {one}" for one in _OUTCOMES if count[one])


def committed_words(verdict: Row, verb: str = "is") -> str:
    """The committed interval in words: where it ends only where that is proven."""
    lower, upper = verdict["committed_lower"], verdict["committed_upper"]
    if upper is not None and upper == lower:
        return f"everything below offset {lower} {verb} committed, and nothing from there on"
    if upper is not None:
        return f"everything below offset {lower} {verb} committed, and nothing from {upper} on"
    if not lower:
        return "what is committed is not known"
    return f"everything below offset {lower} {verb} committed, and how much more is not known"


def _grade(verdict: Row, has_parts: bool, present: Mapping[str, Any] = NO_NAMES) -> list[str]:
    """`present` is the evidence of `voters_present`, where that has a finding."""
    missing, voters = verdict["missing_voters"], verdict["voters"]
    if verdict["verdict"] == "sound":
        number = "the only voter was" if len(voters) == 1 else f"all {len(voters)} voters were"
        return [
            f"Sound: {number} copied, and every check that applies has passed. {sentence(committed_words(verdict))}."
        ]
    told = []
    if verdict["verdict"] == "incomplete" and not has_parts:
        told.append("Nothing was found in what could be judged, but not everything could be.")
    if voters is None:
        told.append("Nothing at hand says who votes: no loss of committed data is ruled out.")
    elif missing:
        advice = "do not decide about a restart without " + ("it" if len(missing) == 1 else "them")
        if missing == present.get("on_other_disks"):
            advice = f"{'its node is' if len(missing) == 1 else 'their nodes are'} here with another disk"
        if present.get("pulled"):
            advice = (
                f"the running quorum was pulled instead, and then {committed_words(verdict, 'was')}"
            )
        told.append(
            f"{'No copy of' if len(missing) == 1 else 'No copies of'} {voters_text(missing)} (of {len({*voters, *missing})}): {advice}."
        )
    if verdict["not_judged"] and not missing:
        checks = list(dict.fromkeys(check for check, _ in verdict["not_judged"]))
        names = f": {listed(checks)}" if len(checks) <= _NAMED else ""
        told.append(f"{counted(len(checks), 'check')} could not judge everything{names}.")
    return told


def _lag(verdict: Row, present: Mapping[str, Any] = NO_NAMES) -> list[str]:
    """Who is far behind, and how many voters are left that are not; `present` as above."""
    lagging = verdict["lagging"]
    if not lagging:
        return []
    told = []
    if far := [one for one in lagging if not one.get("fell_behind")]:
        who, is_one = some([one["who"] for one in far], _NAMED), len(far) == 1
        most = max(one["behind"] for one in far)
        snapshot = any(one["needs_snapshot"] for one in far)
        behind = f"{counted(most, 'record')} behind" if is_one else f"up to {most:,} records behind"
        how = ", so far that a snapshot must be fetched" if snapshot else ""
        told.append(f"{sentence(who)} {'is' if is_one else 'are'} {behind}{how}.")
    if fell := [one["who"] for one in lagging if one.get("fell_behind")]:
        who = sentence(nodes_text(fell))
        told.append(f"{who} did not keep up with the leader when that was described.")
    voters = [one for one in lagging if one["is_voter"]]
    slow = [one["who"] for one in voters]
    if slow and verdict["voters"]:
        total = len({*verdict["voters"], *verdict["missing_voters"]})
        unknown = {*verdict["missing_voters"]} - {*(present.get("keeping_up") or ())}
        # A voter is one, though two copies of it lag, or the one at hand is of another disk.
        left = total - len(unknown.union(one.get("node_id", one["who"]) for one in voters))
        spare = left - (total // 2 + 1)
        may_fail = "none of them" if spare <= 0 else f"no more than {spare}"
        until = f"{some(slow)} {'has' if len(slow) == 1 else 'have'} caught up"
        if not left and not verdict["missing_voters"]:
            # What is committed, a majority had: it is not the voters alone that lag.
            told.append(
                "By these copies the only voter is not up to date: it was copied too early, or lost records. Copy it again."
                if total == 1
                else f"By these copies none of {total} voters is up to date: they were copied too early, or lost records. Copy all of them again."
            )
            return told
        known = "known to be " if unknown else ""
        those = (
            f"{f'Only {left}' if left else 'None'} of {total} voters {'are' if left > 1 else 'is'}"
        )
        told.append(f"{those} {known}up to date: {may_fail} may fail until {until}.")
    return told


def _warnings(findings: list[Row], noun: str) -> str:
    """How many there are to look at, and no comfort where nodes stop at what one of them tells of."""
    checks = list(dict.fromkeys(row["check"] for row in findings))
    names = f" ({listed(checks)})" if len(checks) <= _NAMED else ""
    count = count_of(findings)
    be = "is" if count == 1 else "are"
    told = f"there {be} {counted(count, noun)} to look at{names}"
    stopping = [row for row in findings if "stops" in row["evidence"]]
    if not stopping:
        return f"nothing critical was found, but {told}"
    who = NODES if any(row["evidence"]["stops"] == NODES for row in stopping) else CONTROLLERS
    offsets = {row["offset"] for row in stopping}  # which all who hold a record tell of
    where = min((one for one in offsets if one is not None), default=None)
    is_one = len(offsets) == 1 and count_of(stopping) == len(stopping)
    at = "" if where is None else f", {'at' if is_one else 'the first at'} offset {where}"
    what = "there is a record" if is_one else "there are records"
    return f"{what} at which {who} stop{at}: settle that before you restart any that has it. {sentence(told)}"


def _critical(findings: list[Row], known: Mapping[str, str]) -> str:
    """How many, on whom, from where on. What is wrong in the history is on no one of its copies."""
    names = sorted({_who(row, known) for row in findings if row["replica"]})
    offsets = [row["offset"] for row in findings if row["offset"] is not None]
    is_shared = any(row["scope"] == "state" for row in findings)
    where = f" on {nodes_text(names)}" if 0 < len(names) <= _NAMED and not is_shared else ""
    start = f", from offset {min(offsets)} on" if offsets and len(names) == 1 else ""
    count = count_of(findings)
    what = "it" if count == 1 else "the first one"
    return f"{counted(count, 'critical finding')}{where}{start}: settle {what} before you restart any node"


def _tails(findings: list[Row], known: Mapping[str, str]) -> list[str]:
    """One clause for each group of tails that begin at one offset; controllers first, in order."""
    groups: dict[tuple[int, bool, bool, bool], list[Row]] = defaultdict(list)
    for row in findings:
        evidence = row["evidence"]
        if "who" in evidence:
            proven = bool(evidence.get("is_proven_uncommitted"))
            cut = evidence.get("truncation_offset")
            hides = cut is not None and evidence.get("confirmed_end_offset", row["offset"]) < cut
            groups[row["offset"], cut is not None, hides, proven].append(row)
    return [_tail(*key, rows, known) for key, rows in sorted(groups.items())]


def _tail(
    start: int, is_cut: bool, hides: bool, proven: bool, rows: list[Row], known: Mapping[str, str]
) -> str:
    ordered = sorted(rows, key=lambda row: (_is_broker(row, known), row["node_id"] or 0))
    names = list(dict.fromkeys(_who(row, known) for row in ordered))
    verb = "carries" if len(names) == 1 else "carry"
    what = "none of it committed" if proven else "whether any of it was committed is not proven"
    who, below = nodes_text(names), " or below" if hides else ""
    cut = " that a restart cuts" if is_cut else ""
    return f"{who} {verb} an uncommitted tail from offset {start}{below} on{cut} ({what})"


def _is_broker(row: Row, known: Mapping[str, str]) -> bool:
    return not _who(row, known).startswith("controller")


def _who(finding: Row, names: Mapping[str, str]) -> str:
    """The replica as a person calls it (controller 2), by its finding or by its name."""
    label = finding["replica"]
    return str(finding["evidence"].get("who") or names.get(label) or f"replica {label}")
