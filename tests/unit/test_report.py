"""The page: what it shows of known quorums, where its marks stand, and that nothing breaks out."""

import re
import shutil
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import vl_convert

from kraftlog.audit.every_check import CATALOGUE
from kraftlog.config import load_options
from kraftlog.errors import UsageError
from kraftlog.pipeline.outputs import require_outputs
from kraftlog.pipeline.page import write_audit_page, write_lake_page
from kraftlog.report.actions import ACTIONS, grouped
from kraftlog.report.answer import answer_of
from kraftlog.report.churn_charts import elections
from kraftlog.report.findings import place_of
from kraftlog.report.headline import headline, outcome_words
from kraftlog.report.html_page import render_page
from kraftlog.report.marks import epoch_marks, finding_marks, full_extent, start_marks, zooms
from kraftlog.report.once import about_text, findings_once
from kraftlog.report.view import BrokerLoad, status_of
from kraftlog.tables.lake import Lake
from tests import drawings
from tests.golden.cases import DATA
from tests.unit.report_pages import (
    NOON,
    VERDICT,
    Reader,
    Row,
    audited,
    epoch,
    finding,
    page,
    place,
    read,
    replica,
    span,
)

HOSTILE = "</style></svg><script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{7*7}}"
BROKEN = "\x00\x1b[31m\ud800\u202e"


@pytest.fixture(scope="module")
def isolated() -> Reader:
    return read(render_page(audited(str(DATA / "isolated" / "replicas"))))


def test_a_chart_is_drawn_alike_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that one drawing serves all other tests."""
    quorum = audited(str(DATA / "isolated" / "replicas"))
    known = render_page(quorum)
    assert known.count("<svg") >= 2
    monkeypatch.setattr(vl_convert, "vegalite_to_svg", drawings.draw)
    for _ in range(2):
        assert render_page(quorum) == known


# --- what it shows ------------------------------------------------------------------------------


def test_the_verdict_is_the_only_first_heading(isolated: Reader) -> None:
    (heading,) = isolated.named("h1")
    assert heading.text == (
        "Each node may be restarted, one at a time. Controller 2 and broker 12 lose records that "
        "were never committed."
    )
    (lead,) = [one for one in isolated.named("p") if one.attributes.get("class") == "lead"]
    assert lead.text.startswith("Controller 2 and broker 12 carry an uncommitted tail from offset")


def test_the_answer_stands_first(isolated: Reader) -> None:
    titles = [one.text for one in isolated.named("h2")]
    assert titles[:4] == [
        "May I restart?",
        "What is lost?",
        "What must I do?",
        "Why: the findings",
    ]
    lost = [one.text for one in isolated.named("li")]
    assert "topics ghost-topic-a, ghost-topic-b" in lost
    assert "SCRAM user ghost (SCRAM-SHA-256)" in lost
    links = {one.attributes["href"] for one in isolated.named("a")}
    ids = {f"#{one.attributes.get('id')}" for one in isolated.elements}
    assert {"#do-watch", "#do-restart"} <= links <= ids


def test_a_group_of_many_findings_is_folded_with_its_count() -> None:
    bad = [finding("batch_crc_valid", "1", offset=at) for at in range(100)]
    reader = read(render_page(page([replica("1", 1, 1000)], bad)))
    summaries = [one.text for one in reader.named("summary")]
    assert any(text.startswith("37 more of") for text in summaries)
    assert any("60 more in the table" in one.text for one in reader.named("p"))
    folded = [one for one in reader.named("details") if one.attributes.get("class") == "fold"]
    assert len(folded) == 1


def test_no_snapshot_is_left_out_without_a_sign() -> None:
    row = replica("1", 1, 1000, snapshots=[[at, 1] for at in range(0, 700, 100)])
    cells = [one.text for one in read(render_page(page([row]))).named("td")]
    assert any(text.startswith("3 more … 300 · 400") for text in cells)


def test_a_legend_shows_the_colours_that_are_drawn() -> None:
    """Which of them is the lighter one is another in dark mode."""
    reader = read(render_page(page([replica("1", 1, 9)], loads=(BrokerLoad(1, 2, 3, 4),))))
    legend = {
        swatch.attributes["style"].removeprefix("background:"): item.text
        for item, swatch in pairwise(reader.elements)
        if item.figure == 1 and swatch.attributes.get("class") == "bar"
    }
    assert {*legend.values()} == {"leads", "follows", "holds without a leader"}
    drawn = {one.attributes["fill"]: one for one in reader.marks("partitions", figure=1)}
    assert drawn.keys() == legend.keys()
    for colour, what in legend.items():
        assert f"broker 1 {what} " in drawn[colour].attributes["aria-label"]


def test_more_than_six_epochs_repeat_no_colour() -> None:
    epochs = tuple(epoch("1", number, number * 20, number * 20 + 20) for number in range(30))
    data = page([replica("1", 1, 600)], epochs=epochs)
    colours = [one["colour"] for one in epoch_marks(data, full_extent(data))]
    assert len(set(colours)) == len(colours) == 30


def with_points(count: int) -> Reader:
    """A page with so many snapshots and epochs."""
    snapshots = tuple(
        {
            "replica": "1", "end_offset": at, "size_bytes": 345 + at, "epoch": 1, "complete": True,
            "path": "p",
        }
        for at in range(0, 100 * count, 100)
    )  # fmt: skip
    epochs = tuple(epoch("1", one, one * 10, one * 10 + 10) for one in range(1, count + 1))
    return read(render_page(page([replica("1", 1, 1000)], snapshots=snapshots, epochs=epochs)))


def test_a_chart_of_few_points_is_a_sentence() -> None:
    drawn = ("election", "snapshot size")
    for count in (1, 2):
        reader = with_points(count)
        assert not [one for one in reader.elements if one.attributes.get("aria-roledescription")
                    in drawn]  # fmt: skip
    told = " ".join(one.text for one in reader.named("li"))
    assert (
        "Written by formatting, without records: 345 bytes; of the offsets below 100: 445 bytes."
        in told
    )
    assert (
        "Epoch 1 since 2026-11-21 12:00:01 UTC, led by node 1; epoch 2 since 2026-11-21 12:00:02 "
        "UTC, led by node 1." in told
    )
    kinds = [one.attributes.get("aria-roledescription") for one in with_points(3).elements]
    assert set(drawn) <= set(kinds)


def test_times_on_an_axis_are_those_of_the_findings() -> None:
    """00:57 is 00:57, and not 12:57."""
    night = NOON.replace(hour=0, minute=57)
    epochs = tuple(
        epoch("1", one, one * 10, one * 10 + 10)
        | {"start_timestamp": night + timedelta(minutes=one)}
        for one in range(5)
    )
    data = page([replica("1", 1, 50)], epochs=epochs)
    svg = elections.svg(data, 500)
    assert svg is not None
    ticks = re.findall(r">(\d\d:\d\d)<", svg)
    assert ticks
    assert {one[:2] for one in ticks} <= {"00", "01"}
    assert "time (UTC), from 2026-11-21 on" in svg


def test_each_leader_of_an_epoch_is_named() -> None:
    """Copies may prove more than one, which is a finding: the chart chooses none of them."""
    epochs = [epoch(f"replicas/{one}", one, 0, 9) for one in (1, 2, 3)]
    epochs[2]["leader_id"] = None
    epochs.append(epochs[1] | {"replica": "replicas/3", "leader_id": 4})
    svg = elections.svg(page([replica("1", 1, 50)], epochs=epochs), 500)
    assert svg is not None
    told = re.findall(r"epoch (\d) since [^\"]*UTC, led by ([^\"<]*)", svg)
    assert sorted({*told}) == [
        ("1", "node 1"), ("2", "node 1 and node 4"), ("3", "an unknown node"),
    ]  # fmt: skip


def test_an_epoch_that_logs_begin_amid_was_led_before() -> None:
    epochs = [epoch("1", one, one * 10, one * 10 + 9) for one in (1, 2, 3)]
    epochs[0]["has_leader_change"] = False
    for begun, cut in ((0, False), (10, True)):
        epochs[0]["start_offset"] = begun
        svg = elections.svg(page([replica("1", 1, 50)], epochs=epochs), 500)
        assert svg is not None
        assert re.findall(r"epoch (\d) since before", svg)[:1] == ["1"] * cut


# --- the answer ----------------------------------------------------------------------------------


def restart(who: str, verdict: str, reason: str, **others: Any) -> Row:
    """A row of a restart."""
    role, _, node = who.partition(" ")
    row = {
        "replica": node, "node_id": int(node), "who": who, "role": role, "verdict": verdict,
        "reason": reason, "lost_from": None, "lost": [], "needs": [], "order": None,
    }  # fmt: skip
    return row | others


def test_of_nodes_that_must_not_start_the_brokers_come_last() -> None:
    rows = [
        restart("broker 14", "unsafe", "a", role="observer"),
        restart("controller 1", "unsafe", "b", role="voter"),
        restart("replica 3", "unsafe", "c", role="unknown"),
        restart("broker 11", "safe", "d", role="observer", order=1),
    ]
    told = [one.nodes for one in answer_of(rows, VERDICT, []).restart]
    assert told == ["controller 1", "replica 3", "broker 14", "broker 11"]


def test_what_to_do_names_the_nodes() -> None:
    rows = [restart("controller 2", "unsafe", "w"), restart("broker 11", "unsafe", "w")]
    bad = [
        finding("log_end_lost", "2", message="The log ends at offset 8, but it went on: so."),
        finding("log_end_lost", "11", message="The log ends at offset 8, but it went on: too."),
        finding("snapshot_complete", "2", message="Controller 2 has half a snapshot: it ends."),
    ]
    found = answer_of(rows, VERDICT, bad)
    assert [one.text for one in found.todo] == [
        "The log ends at offset 8, but it went on (controller 2 and broker 11).",
        "Controller 2 has half a snapshot.",
    ]


def test_equal_findings_are_told_once_of_all_whom_they_are_about() -> None:
    lacks = "{} lacks offset 4, which is committed: a snapshot ends there. Voters 1 and 2 would elect it."
    bad = [
        finding("voter_holds_committed_data", "1", message=lacks.format("Controller 1")),
        finding("voter_holds_committed_data", "2", message=lacks.format("Controller 2")),
        finding("voter_holds_committed_data", "3", message=lacks.format("Controller 2")),
        finding("segment_complete", "1", message="Offsets 4 to 8 are missing: so."),
        finding("segment_complete", "11", message="Offsets 4 to 8 are missing: so."),
        finding("segment_complete", "11", message="Offsets 4 to 8 are missing: so."),
    ]
    names = {"1": "controller 1", "2": "controller 2", "3": "controller 3", "11": "broker 11"}
    told = findings_once(bad, names)
    each = "Each of controllers 1 and 2 lacks offset 4"
    assert [one["message"].partition(",")[0].partition(":")[0] for one in told] == [
        each, "Controller 2 lacks offset 4", "Offsets 4 to 8 are missing", "Offsets 4 to 8 are missing",
    ]  # fmt: skip
    assert [about_text(one, names) for one in told] == [
        "controllers 1 and 2", "controller 3", "controller 1 and broker 11", "broker 11"
    ]  # fmt: skip
    assert [place_of(one) for one in told] == ["1, 2", "3", "1, 11", "11"]
    tails = "Controller {} carries a tail, and others go on without it."
    carries = [finding("log_matching", at, message=tails.format(at)) for at in "12"]
    (tail,) = findings_once(carries, names)
    assert tail["message"] == "Controllers 1 and 2 carry a tail, and others go on without it."


@pytest.mark.parametrize(
    ("message", "scope", "told"),
    [
        ("Replicas 1, 2 and 3 differ: so.", "log", "Replicas 1, 2 and 3 differ."),
        ("Replica 2 is odd: so.", "log", "Replica 2 is odd."),
        ("Replicas 1 and 22 differ: so.", "log", "Replicas 1 and 22 differ (controller 2)."),
        ("Node 2 does not vote: so.", "log", "Node 2 does not vote."),
        ("28 of 32 topics were removed: so.", "state", "28 of 32 topics were removed."),
        (f"Node 2 goes on, {'x' * 140}", "log", "Node 2 goes on…"),
    ],
)
def test_a_node_that_the_words_name_is_not_named_again(message: str, scope: str, told: str) -> None:
    bad = finding("log_matching", "2", message=message, scope=scope, node_id=2)
    (todo,) = answer_of([restart("controller 2", "unsafe", "w")], VERDICT, [bad]).todo
    assert todo.text == told


def test_a_node_of_whom_nothing_is_known_is_to_be_copied_again() -> None:
    rows = [
        restart("controller 1", "safe", "nothing is lost", order=1),
        restart("broker 12", "unknown", "no segment of its log was copied"),
    ]
    found = answer_of(rows, VERDICT, [])
    assert [(one.title, one.text) for one in found.todo] == [
        ("Copy again, then audit again", "Broker 12: no segment of its log was copied.")
    ]
    for check in ("file_readable", "meta_properties_valid"):
        asks = finding(check, "12", "warning")
        assert len(answer_of(rows, VERDICT, [asks]).todo) == 1, "the finding asks for it already"
    other = finding("meta_properties_valid", "1", "warning")
    assert len(answer_of(rows, VERDICT, [other]).todo) == 2
    of_the_cluster = finding("folders_match_topics", "12", "warning")
    todo = answer_of(rows, VERDICT, [of_the_cluster]).todo
    assert [one.key for one in todo] == ["copy", "watch"], "it asks for no copy, and comes later"
    critical = finding("log_end_lost", "1")
    assert [one.key for one in answer_of(rows, VERDICT, [critical]).todo] == ["stop", "copy"]
    replicas = [replica("1", 1, 9), replica("12", 12, 0, role="observer")]
    reader = read(render_page(page(replicas, restart=tuple(rows))))
    assert not any(one.attributes["href"] == "#do-copy" for one in reader.named("a"))


def test_a_yes_says_what_comes_before_it() -> None:
    rows = [restart("controller 1", "safe", "nothing is lost", order=1)]
    yes = "Each node may be restarted, one at a time."
    first = f"{yes} But first do what is listed under What must I do."
    for check, told in (
        ("election_storm", yes),
        ("voter_directories_agree", first),
        ("snapshot_name_valid", first),
    ):
        assert answer_of(rows, VERDICT, [finding(check, "1", "warning")]).sentence == told
    missing = VERDICT | {"missing_voters": [2]}
    warned = finding("voters_present", None, "warning")
    told = f"{yes} But voter 2 was not copied: copy before you decide."
    assert answer_of(rows, missing, [warned]).sentence == told
    # The running quorum was pulled, or the node is at hand with another disk.
    assert answer_of(rows, missing, [warned | {"severity": "info"}]).sentence == yes


def test_a_yes_waits_for_a_voter_that_could_run_again() -> None:
    """Until its disk has room, the others have none to spare."""
    told = "Do not restart {} yet. Each other node may be restarted, one at a time."
    first = " But first do what is listed under What must I do."
    full = finding("disk_has_room", "2", "warning")
    for who, role, asked, more in (
        ("controller 2", "voter", [full], first),
        ("controller 2", "voter", [], ""),
        ("broker 2", "observer", [full], ""),
    ):
        rows = [
            restart("controller 1", "safe", "nothing is lost", order=1),
            restart(who, "safe", "its disk is full", role=role),
        ]
        assert answer_of(rows, VERDICT, asked).sentence == told.format(who) + more


@pytest.mark.parametrize(
    ("verdict", "order", "told"),
    [
        ("unsafe", None, " Do not start broker 12 for that yet."),
        ("unknown", None, " Do not start broker 12 for that yet."),
        ("safe", None, " Do not start broker 12 for that yet."),
        ("safe", 1, ""),
        ("loses", 1, ""),
    ],
)
def test_a_broker_that_the_cluster_waits_for_does_not_start_before_it_may(
    verdict: str, order: int | None, told: str
) -> None:
    rows = [
        restart("controller 1", "unsafe", "w"),
        restart("broker 11", "unsafe", "w"),
        restart("broker 12", verdict, "w", order=order),
    ]
    fenced = finding(
        "brokers_unfenced", None, "warning", message="Broker 12 is fenced.", scope="state"
    )
    found = answer_of(rows, VERDICT, [fenced | {"evidence": {"broker_id": 12}}]).todo
    assert [one.text for one in found if one.key == "watch"] == [f"Broker 12 is fenced.{told}"]


def test_where_nobody_would_lead_no_order_helps() -> None:
    why = "nothing is lost; but no leader can be elected without the old disk of voter 2: what starts waits for one"
    rows = [
        restart("controller 1", "safe", why, order=1),
        restart("broker 9", "safe", why, order=2),
    ]
    moved = finding("voter_directories_agree", "1", "warning")
    found = answer_of(rows, VERDICT | {"missing_voters": [2]}, [moved])
    assert found.order is None
    assert found.sentence == (
        "Each node may be restarted, one at a time. But no leader can be elected without the old disk of voter 2: first do what is listed under What must I do."
    )


def test_nodes_that_may_not_be_restarted_are_named_together() -> None:
    rows = [
        restart("controller 1", "unsafe", "while it is down, controller 2 could be elected"),
        restart("controller 2", "unsafe", "it could be elected"),
        restart("controller 3", "loses", "records are cut", order=1, lost_from=4),
        restart("broker 11", "loses", "records are cut", order=2, lost_from=9),
    ]
    assert answer_of(rows, VERDICT, []).sentence == (
        "Do not restart controllers 1 and 2. Each other node may be restarted, one at a time. "
        "Controller 3 and broker 11 lose records by it."
    )


def test_nothing_is_lost_is_said_of_no_node_that_is_not_known_to_lose_nothing() -> None:
    safe = restart("controller 1", "safe", "nothing is lost", order=1)
    unknown = restart("controller 2", "unknown", "no segment of its log was copied")
    users = restart("broker 11", "loses", "loses SCRAM user a (SCRAM-SHA-256)", order=2)
    nothing = "loses nothing that the copies show."
    doubt = "What controller 2 would lose is not known."
    named = "Broker 11 loses the SCRAM users named under May I restart."
    for rows, told in (
        ([safe], f"A restart {nothing}"),
        ([unknown], doubt),
        ([safe, users], f"{named} A restart of the others {nothing}"),
        ([safe, unknown, users], f"{doubt} {named} A restart of the others {nothing}"),
        ([unknown, users], f"{doubt} {named}"),
    ):
        assert answer_of(rows, VERDICT, []).unnamed == told
        shown = [one.text for one in read(render_page(page([], restart=tuple(rows)))).named("p")]
        assert told in shown
    critical = finding("log_end_lost", "1")
    assert answer_of([safe], VERDICT, [critical]).unnamed == (
        "Not known before the critical finding is settled."
    )


def test_the_table_of_the_replicas_says_what_the_answer_says() -> None:
    rows = (
        restart("controller 1", "safe", "nothing is lost", order=1),
        restart("controller 2", "unsafe", "its log is damaged"),
        restart("controller 3", "loses", "records from offset 4 on are cut", order=2, lost_from=4),
    )
    replicas = [replica(str(node), node, 9) for node in (1, 2, 3)]

    def cells(*findings: Row, waits: bool = False) -> list[str]:
        told = tuple({**row, "order": None} for row in rows) if waits else rows
        reader = read(render_page(page(replicas, list(findings), restart=told)))
        return [
            one.text for one in reader.named("td") if one.attributes.get("data-label") == "Restart"
        ]

    assert cells() == ["yes", "no", "yes, with loss"]
    assert cells(finding("batch_crc_valid", "2"), waits=True) == ["not yet", "no", "not yet"]


def test_a_check_with_notes_only_has_passed() -> None:
    checks = [
        {"check": name, "result": result}
        for name, result in (("a", "passed"), ("b", "failed"), ("c", "failed"), ("d", "skipped"))
    ]
    findings = [finding("b", "1", "info"), finding("c", "1", "info"), finding("c", "1", "warning")]
    assert outcome_words(checks, findings) == (
        "1 passed, 1 passed with a note, 1 failed, 1 skipped"
    )
    assert outcome_words(checks, []) == "1 passed, 2 failed, 1 skipped"


def test_how_bad_a_check_can_be_is_not_taken_for_how_bad_it_is() -> None:
    checks = [
        {
            "check": name, "result": result, "reason": None, "finding_count": count,
            "severity": "critical", "scope": "log",
        }
        for name, result, count in (("a", "passed", 0), ("b", "failed", 2), ("c", "failed", 1))
    ]  # fmt: skip
    findings = [finding("b", "1", "info"), finding("b", "2", "warning"), finding("c", "1", "info")]
    reader = read(render_page(page([replica("1", 1, 9)], findings, checks=checks)))
    told = [one.text for one in reader.named("td")]
    assert [told[at : at + 4] for at, text in enumerate(told) if text in ("passed", "failed")] == [
        ["passed", "0", "–", "critical"],
        ["failed", "2", "warning", "critical"],
    ]
    at = told.index("passed with a note")
    assert told[at : at + 4] == ["passed with a note", "1", "info", "critical"]


@pytest.mark.parametrize(
    ("case", "node", "order"),
    [
        ("voter-replaced", "2", "controllers 3 → 1, then controller 2, then brokers 11 → 12."),
        (
            "ghosts-4.4",
            "5",
            "controllers 1 → 3 → 2, then controllers 4 → 5, then brokers 11 → 12.",
        ),
    ],
)
def test_a_controller_without_a_vote_is_no_broker(case: str, node: str, order: str) -> None:
    """It was a voter once, or its id is a voter's."""
    data = audited(str(DATA / case / "replicas"))
    assert data.names[node] == data.short_names[node] == f"controller {node}"
    found = answer_of(data.restart, data.verdict, data.findings)
    assert found.order is not None
    assert found.order.endswith(order)


def test_findings_are_counted_as_everywhere_else(isolated: Reader) -> None:
    """As rows of `findings`, though equal ones are told in one sentence."""
    small = [one.text for one in isolated.named("dd") if one.attributes.get("class") == "small"]
    assert "0 critical, 5 warnings, 2 notes" in small
    assert "equal ones are told once" in small


def test_findings_stand_under_what_to_do(isolated: Reader) -> None:
    titles = [one.text for one in isolated.named("h3")]
    assert titles == [
        "Look into the running cluster",
        "Note what a restart cuts, then restart",
        "Good to know",
    ]
    folded = [one for one in isolated.named("details") if one.attributes.get("class") == "finding"]
    assert len(folded) == 6, "equal tails are one"
    assert not any("open" in one.attributes for one in folded)


def test_epochs_stand_where_the_batches_say(isolated: Reader) -> None:
    bars = [
        (one.attributes["aria-label"], span(one))
        for one in isolated.marks("epoch")
        if one.attributes["aria-label"].startswith("controller 1:")
    ]
    assert [label for label, _ in bars] == [
        "controller 1: epoch 1, leader 2, offsets 0 to 175",
        "controller 1: epoch 2, leader 3, offsets 176 to 361",
    ]
    (_, (left, first)), (_, (border, second)) = bars
    assert left == 0
    assert border == pytest.approx(first, abs=0.02)
    assert first / (first + second) == pytest.approx(176 / 362, abs=1e-4)


@pytest.mark.parametrize("width", ["wide", "narrow"])
def test_the_divergence_is_marked_to_the_offset(isolated: Reader, width: str) -> None:
    axis = max(sum(span(one)) for one in isolated.marks("epoch", 0, width))
    starts = isolated.marks("finding start", 0, width)
    assert [place(one) / axis * 362 for one in starts] == pytest.approx([176, 176], abs=0.1)
    tails = [span(one) for one in isolated.marks("finding", 0, width)]
    ends = [(left + size) / axis * 362 for left, size in tails]
    assert ends == pytest.approx([243, 242], abs=0.1)
    labels = [one.attributes["aria-label"] for one in starts]
    assert all("uncommitted_tail_diverged" in label for label in labels)
    assert labels[0].startswith("controller 2")


def test_log_ends_bounds_and_snapshots_are_told(isolated: Reader) -> None:
    ends = [one.attributes["aria-label"] for one in isolated.marks("log end")]
    assert [label.rpartition(" ")[2] for label in ends] == ["362", "243", "362", "362", "242"]
    (bound,) = isolated.marks("committed bound")
    assert bound.attributes["aria-label"] == "committed below 362"
    assert len(isolated.marks("snapshot")) == 3


def test_the_keyboard_reaches_every_replica(isolated: Reader) -> None:
    for width in ("wide", "narrow"):
        marks = isolated.marks("replica", 0, width)
        assert len(marks) == 5
        assert all(one.attributes["tabindex"] == "0" for one in marks)
        labels = [one.attributes["aria-label"] for one in marks]
        assert [", snapshot at offset 0;" in one for one in labels] == [
            True,
            True,
            True,
            False,
            False,
        ]
        assert ", no snapshot;" in labels[3]
        assert "uncommitted" not in marks[0].attributes["aria-label"]
        assert "1 finding, the first at offset 176" in marks[1].attributes["aria-label"]
    ids = {one.attributes["id"] for one in isolated.elements if "id" in one.attributes}
    wanted = {
        one.attributes["aria-labelledby"]
        for one in isolated.elements
        if "aria-labelledby" in one.attributes
    }
    assert wanted <= ids
    skip = next(one for one in isolated.named("a"))
    assert skip.attributes["href"].removeprefix("#") in ids


def test_marks_have_titles_to_point_at(isolated: Reader) -> None:
    titles = {one.text for one in isolated.named("title")}
    assert {one.attributes["aria-label"] for one in isolated.marks("epoch")} <= titles


def test_what_an_audit_alone_cannot_show_is_said(isolated: Reader) -> None:
    hints = [one.text for one in isolated.named("li") if one.attributes.get("class") == "hint"]
    assert sum("shows it: an audit without a lake" in text for text in hints) == 2


def test_damage_comes_first_and_is_marked(tmp_path: Path) -> None:
    root = tmp_path / "replicas"
    shutil.copytree(DATA / "isolated" / "replicas", root)
    log = next((root / "3" / "__cluster_metadata-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[8000] ^= 1
    log.write_bytes(data)
    seen = audited(str(root))
    (bad,) = [one for one in seen.findings if one["check"] == "batch_crc_valid"]
    reader = read(render_page(seen))
    assert reader.named("h3")[0].text == "Replace the damaged log before its node restarts"
    (mark,) = [
        one for one in reader.marks("finding") if "batch_crc_valid" in one.attributes["aria-label"]
    ]
    axis = max(sum(span(one)) for one in reader.marks("epoch"))
    assert span(mark)[0] / axis * 362 == pytest.approx(bad["offset"], abs=0.1)
    assert mark.attributes["aria-label"].startswith("controller 3")
    assert reader.named("h1")[0].text == "Restart nothing before the critical finding is settled."
    (lead,) = [one for one in reader.named("p") if one.attributes.get("class") == "lead"]
    assert "on controller 3, from offset" in lead.text


def test_a_sound_quorum_says_so() -> None:
    data = audited(str(DATA / "isolated-healed" / "replicas"))
    assert data.verdict["verdict"] == "sound"
    reader = read(render_page(data))
    assert reader.named("h1")[0].text == "Each node may be restarted, one at a time."
    (lead,) = [one for one in reader.named("p") if one.attributes.get("class") == "lead"]
    assert lead.text.startswith("Sound: all 3 voters were copied")
    assert not reader.marks("finding")
    tiles = " ".join(one.text for one in reader.named("dd"))
    assert "passed with a note" in tiles
    assert "failed" not in tiles


# --- safety ---------------------------------------------------------------------------------------


def is_self_contained(html: str, reader: Reader) -> None:
    links = {
        one.attributes[name]
        for one in reader.elements
        for name in ("href", "src", "xlink:href", "action", "data", "srcset")
        if name in one.attributes
    }
    assert all(link.startswith("#") for link in links), links
    assert not reader.named("script")
    assert not reader.named("link")
    assert not reader.named("img")
    assert not [name for one in reader.elements for name in one.attributes if name[:2] == "on"]
    style = re.search(r"<style>(.*?)</style>", html, re.DOTALL)
    assert style
    assert not re.search(r"url\(|@import|expression", style[1])
    outside = html.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert "://" not in outside.replace("s3://bucket", "")


def test_nothing_is_fetched_and_nothing_runs() -> None:
    data = audited(str(DATA / "steady-live" / "replicas"))
    html = render_page(data)
    is_self_contained(html, read(html))
    assert "default-src 'none'" in html


def test_hostile_text_cannot_break_out() -> None:
    name = HOSTILE + BROKEN
    hostile = finding(name, name, message=name, path=name, offset=5, evidence={name: [name]})
    known = finding("batch_crc_valid", name, message=name, offset=5, other_replica=name)
    rows = [replica(name, 1, 10, cluster_id=name, role=name), replica("2", 2, 10)]
    checks = [
        {"check": name, "severity": name, "scope": name, "result": "skipped",
         "finding_count": 0, "reason": name}
    ]  # fmt: skip
    data = page(rows, [hostile, known], inputs=(name,), checks=tuple(checks))
    html = render_page(data)
    html.encode("utf-8")
    reader = read(html)
    is_self_contained(html, reader)
    assert not [one for one in html if ord(one) < 32 and one != "\n"]
    assert "{{7*7}}" in html
    assert any("alert(1)" in one.attributes.get("aria-label", "") for one in reader.elements)


def test_a_page_of_nothing_is_a_page() -> None:
    reader = read(render_page(page([])))
    assert len(reader.named("h1")) == 1
    assert not reader.marks("replica")


def test_a_copy_of_another_cluster_is_ahead_of_nobody() -> None:
    theirs = replica("theirs", 7, 900, committed_lower=None)
    data = page([replica("1", 1, 12), replica("2", 2, 10), theirs])
    assert [status_of(data, one)[1] for one in data.replicas] == [
        "no log goes further", "2 offsets behind the log that goes furthest", "of another cluster",
    ]  # fmt: skip


def test_a_copy_of_nobody_is_called_as_in_the_answer() -> None:
    """A mere 3 above a finding would be read as a count, or as controller 3."""
    rows = [replica("1", 1, 12), replica("3", 3, 2000, node_id=None, role="unknown")]
    bad = finding("batch_crc_valid", "3", offset=1964)
    told = restart("replica 3", "unsafe", "w", node_id=None)
    data = page(rows, [bad], restart=(restart("controller 1", "safe", "s"), told))
    assert data.names == {"1": "controller 1", "3": "replica 3"}
    assert status_of(data, data.replicas[1]) == ("critical", "1 finding, the first at offset 1,964")


# --- long axes, many replicas ------------------------------------------------------------------


def long_log(end: int = 23_000_000, tail: int = 5) -> list[Row]:
    rows = [replica(str(node), node, end) for node in (1, 3)]
    return [*rows, replica("2", 2, end - 1000 + tail, committed_lower=end - 1000)]


def test_offsets_that_no_drawing_tells_apart_are_counted_from_the_first() -> None:
    far = 2**62 + 5
    data = page(
        [replica(str(node), node, far + 61, log_start_offset=far) for node in (1, 2)],
        epochs=(epoch("1", 7, far, far + 61), epoch("2", 7, far, far + 61)),
    )
    reader = read(render_page(data))
    for mark in reader.marks("epoch"):
        assert int(re.findall(r"h(\d+)", mark.attributes["d"])[0]) > 200, "it has a width"
    assert any(f"counted from {far:,} on" in one.text for one in reader.named("text"))
    near = read(render_page(page([replica("1", 1, 12)])))
    assert not any("counted from" in one.text for one in near.named("text"))


def test_a_short_tail_of_a_long_log_has_a_drawing_of_its_own() -> None:
    start = 22_999_000
    tail = finding(
        "uncommitted_tail_diverged", "2", "warning", offset=start, end_offset=start + 5,
        scope="replica", other_replica="1",
    )  # fmt: skip
    data = page(long_log(), [tail])
    closer = [window for window in zooms(data) if window.holds(start)]
    assert len(closer) == 1
    assert 5 / closer[0].size > 1 / 500
    reader = read(render_page(data))
    numbers = {one.figure for one in reader.elements if one.attributes.get("class") == "logs"}
    assert len(numbers) == 2
    (mark,) = reader.marks("finding", 1)
    assert span(mark)[1] >= 2, "pixels"
    assert "offsets 22,999,000 to 22,999,004" in mark.attributes["aria-label"]


def test_places_far_apart_have_windows_of_their_own() -> None:
    bad = finding("batch_crc_valid", "1", offset=5_000_000, end_offset=5_000_003)
    data = page([replica(str(node), node, 23_000_000 - node) for node in (1, 2, 3)], [bad])
    (low,) = zooms(data)
    assert low.holds(5_000_000)
    assert not low.holds(22_999_999)
    assert not zooms(page([replica(str(node), node, 23_000_000 - node) for node in (1, 2, 3)]))


def test_no_closer_drawing_where_everything_can_be_told_apart() -> None:
    assert not zooms(audited(str(DATA / "isolated" / "replicas")))


def test_many_replicas_with_long_names_stay_below_a_megabyte() -> None:
    labels = [f"datacenter-{n % 3}/rack-{n}/metadata-disks/kraft/{n}" for n in range(12)]
    # Two of each node, so that only their folders tell them apart.
    rows = [replica(label, n // 2, 1000 + n, role="observer") for n, label in enumerate(labels)]
    epochs = tuple(epoch(one, e, e * 20, e * 20 + 20) for one in labels for e in range(50))
    bad = [finding("batch_crc_valid", one, offset=9) for one in labels for _ in range(20)]
    html = render_page(page(rows, bad, epochs=epochs))
    assert len(html.encode()) < 1_000_000
    reader = read(html)
    assert len(reader.marks("replica")) == 12
    drawn = [one.text for one in reader.named("text")]
    assert any(text.startswith("…") and text.endswith("kraft/11)") for text in drawn)
    assert any("200 more in the table" in one.text for one in reader.named("p"))


def test_very_short_epochs_are_drawn_together() -> None:
    epochs = [epoch("1", 1, 0, 90_000)]
    epochs += [epoch("1", 2 + n, 90_000 + n, 90_001 + n) for n in range(500)]
    data = page([replica("1", 1, 90_500)], epochs=tuple(epochs))
    first, rest = epoch_marks(data, full_extent(data))
    assert (first["start"], first["end"]) == (0, 90_000)
    assert (rest["start"], rest["end"]) == (90_000, 90_500)
    assert "500 epochs, 2–501" in rest["label"]


def test_equal_epochs_have_equal_colours() -> None:
    data = audited(str(DATA / "steady-live" / "replicas"))
    colours: dict[str, set[str]] = {}
    for one in epoch_marks(data, full_extent(data)):
        colours.setdefault(one["text"], set()).add(one["colour"])
    assert all(len(found) == 1 for found in colours.values())
    assert len(set.union(*colours.values())) == len(colours) == 4


def test_marks_that_would_cover_each_other_are_one() -> None:
    found = [finding("log_matching", "1", "warning", offset=at) for at in (100, 101, 900)]
    found.append(finding("batch_crc_valid", "1", offset=103))
    data = page([replica("1", 1, 1000)], found)
    window = full_extent(data)
    near, far = start_marks(finding_marks(data, window), window, 10)
    assert (near["at"], near["text"], near["colour"]) == (100, "100 +2", "var(--critical)")
    assert (far["at"], far["text"]) == (900, "900")


# --- words ----------------------------------------------------------------------------------------


def test_every_check_belongs_to_one_thing_to_do() -> None:
    keys = [action.key for action in ACTIONS]
    assert len(set(keys)) == len(keys)
    assert set(keys) == {check.action for check in CATALOGUE} | {"keep"}


def test_a_lost_end_of_a_broker_stops_nothing() -> None:
    lost = finding("log_end_lost", "12", "warning")
    # A voter that may have been copied too early is to be copied again.
    assert [action.key for action, _ in grouped([lost])] == ["copy"]
    of_broker = lost | {"evidence": {"role": "observer"}}
    assert [action.key for action, _ in grouped([of_broker])] == ["keep"]
    assert [action.key for action, _ in grouped([lost | {"severity": "critical"}])] == ["stop"]


def test_what_is_critical_comes_first_and_notes_last() -> None:
    found = [
        finding("committed_data_consistent", "1", "info"),
        finding("log_tail_complete", "1", "warning"),
        finding("index_agrees", "1", "critical"),
    ]
    assert [action.key for action, _ in grouped(found)] == ["rebuild", "restart", "know"]


def told(findings: list[Row], results: list[Row], names: dict[str, str], **others: Any) -> str:
    """The headline under a verdict with these fields."""
    return headline(VERDICT | others, findings, results, names)


def test_headlines_of_findings() -> None:
    bad = finding("batch_crc_valid", "a/3", offset=7)
    assert told([bad], [], {}, verdict="critical") == (
        "1 critical finding on replica a/3, from offset 7 on: settle it before you restart any "
        "node."
    )
    assert "on broker 3, from" in told([bad], [], {"a/3": "broker 3"}, verdict="critical")
    many = bad | {"evidence": {"more": 380}}
    begins = "382 critical findings on replica a/3, from offset 7 on: settle the first one"
    assert told([bad, many], [], {}, verdict="critical").startswith(begins)
    storm = finding("election_storm", "1", "warning")
    assert told([storm], [], {}, verdict="attention") == (
        "Nothing critical was found, but there is 1 warning to look at (election_storm)."
    )
    stops = finding("record_rules", "1", "warning", offset=12, evidence={"stops": "nodes"})
    assert told([storm, stops], [], {}, verdict="attention") == (
        "There is a record at which nodes stop, at offset 12: settle that before you restart any that has it. "
        "There are 2 warnings to look at (election_storm and record_rules)."
    )
    later = finding(
        "references_exist", None, "warning", offset=1700, evidence={"stops": "controllers"}
    )
    assert told([later], [], {}, verdict="attention").startswith(
        "There is a record at which controllers stop, at offset 1700: settle that"
    )
    assert told([later, stops], [], {}, verdict="attention").startswith(
        "There are records at which nodes stop, the first at offset 12: settle that"
    )
    # Each replica that holds it tells of one record.
    assert told([stops, stops | {"replica": "2"}], [], {}, verdict="attention").startswith(
        "There is a record at which nodes stop, at offset 12: settle that"
    )
    errored = {"check": "log_matching", "result": "errored"}
    text = told([], [errored], {}, verdict="attention")
    assert text == "1 check could not be run: log_matching."


def test_a_headline_says_no_more_than_the_verdict() -> None:
    sound = told([], [], {})
    assert sound.startswith("Sound: all 3 voters were copied, and every check that applies")
    assert "Everything below offset 12 is committed, and nothing from there on." in sound
    unproven = told([], [], {}, committed_upper=None)
    assert "below offset 12 is committed, and how much more is not known." in unproven
    assert "nothing from" not in unproven
    between = told([], [], {}, committed_upper=20)
    assert "below offset 12 is committed, and nothing from 20 on." in between
    nothing = told([], [], {}, committed_lower=0, committed_upper=None)
    assert "What is committed is not known." in nothing
    missing = told([], [], {}, verdict="incomplete", missing_voters=[2, 3])
    assert missing == (
        "Nothing was found in what could be judged, but not everything could be. "
        "No copies of voters 2 and 3 (of 3): do not decide about a restart without them."
    )
    unknown = told([], [], {}, verdict="incomplete", voters=None)
    assert "Nothing at hand says who votes" in unknown
    gaps = told([], [], {}, verdict="incomplete", not_judged=[["log_matching", "why"]])
    assert gaps.endswith("1 check could not judge everything: log_matching.")
    for text in (missing, unknown, gaps):
        assert "Sound" not in text
        assert "nothing from" not in text


def test_a_headline_tells_who_is_far_behind() -> None:
    lag = {"replica": "1", "who": "controller 1", "behind": 1190, "needs_snapshot": True}
    text = told([], [], {}, verdict="attention", lagging=[lag | {"is_voter": True}])
    assert text == (
        "Controller 1 is 1,190 records behind, so far that a snapshot must be fetched. "
        "Only 2 of 3 voters are up to date: none of them may fail until controller 1 has caught up."
    )
    of_some: Row = {"verdict": "incomplete", "lagging": [lag | {"is_voter": True}]}
    of_two = told([], [], {}, **of_some, missing_voters=[2])
    assert "Only 1 of 3 voters is known to be up to date: none of them" in of_two
    of_one = told([], [], {}, **of_some, missing_voters=[2, 3])
    assert "None of 3 voters is known to be up to date: none of them" in of_one
    twice = [lag | {"is_voter": True, "node_id": 1, "who": f"controller 1 ({one})"} for one in "ab"]
    assert "Only 2 of 3 voters are up to date" in told([], [], {}, **of_some | {"lagging": twice})
    other_disk = told([], [], {}, **of_some | {"lagging": twice}, missing_voters=[1, 2])
    assert "Only 1 of 3 voters is known to be up to date" in other_disk
    pulled = {"check": "voters_present", "severity": "info", "evidence": {"keeping_up": [2, 3]}}
    described = told([pulled], [], {}, **of_some, missing_voters=[2, 3])
    assert "Only 2 of 3 voters are up to date: none of them may fail until" in described
    fell = lag | {"replica": "2", "who": "controller 2", "behind": 0, "needs_snapshot": False}
    both = [lag | {"is_voter": True}, fell | {"is_voter": True, "fell_behind": True}]
    assert told([], [], {}, verdict="attention", lagging=both) == (
        "Controller 1 is 1,190 records behind, so far that a snapshot must be fetched. "
        "Controller 2 did not keep up with the leader when that was described. "
        "Only 1 of 3 voters is up to date: none of them may fail until controller 1 and controller 2 have caught up."
    )


def test_an_offset_is_told_as_the_commands_take_it() -> None:
    text = told([], [], {}, committed_lower=4093, committed_upper=None)
    assert "everything below offset 4093 is committed" in text.lower()


def test_voters_that_all_lag_behind_an_observer_were_copied_too_early() -> None:
    """A majority of them had what is committed: nobody is told to wait until all have caught up."""
    lag = {"behind": 720, "needs_snapshot": True, "is_voter": True}
    lagging = [{"replica": n, "who": f"controller {n}", **lag} for n in "123"]
    text = told([], [], {}, verdict="attention", lagging=lagging)
    assert text.endswith(
        "By these copies none of 3 voters is up to date: they were copied too early, or lost records. "
        "Copy all of them again."
    )
    alone = told([], [], {}, verdict="attention", lagging=lagging[:1], voters=[1])
    assert "By these copies the only voter is not up to date: it was copied too early, or" in alone


def test_a_voter_on_another_disk_is_not_asked_for_again() -> None:
    present = finding("voters_present", None, "info", evidence={"on_other_disks": [2]})
    moved = told([present], [], {}, verdict="incomplete", missing_voters=[2])
    assert moved.endswith("No copy of voter 2 (of 3): its node is here with another disk.")
    some = told([present], [], {}, verdict="incomplete", missing_voters=[2, 3])
    assert some.endswith("(of 3): do not decide about a restart without them.")


def test_equal_tails_are_told_once_and_controllers_first() -> None:
    def tail(who: str, node: int, offset: int, proven: bool) -> Row:
        row = finding("uncommitted_tail_diverged", str(node), "warning", offset=offset)
        evidence = {"who": who, "truncation_offset": offset, "is_proven_uncommitted": proven}
        return row | {"node_id": node, "evidence": evidence}

    rows = [
        tail("broker 12", 12, 176, True),
        tail("controller 3", 3, 176, True),
        tail("controller 2", 2, 168, False),
    ]
    assert told(rows, [], {}, verdict="attention") == (
        "Controller 2 carries an uncommitted tail from offset 168 on that a restart cuts "
        "(whether any of it was committed is not proven). Controller 3 and broker 12 carry an "
        "uncommitted tail from offset 176 on that a restart cuts (none of it committed)."
    )
    storm = finding("election_storm", "1", "warning")
    assert told([*rows, storm], [], {}, verdict="attention").endswith(
        "Nothing critical was found, but there is 1 other warning to look at (election_storm)."
    )


# --- writing --------------------------------------------------------------------------------------


def test_the_page_is_never_written_below_an_input(tmp_path: Path) -> None:
    options = load_options({"input": [str(tmp_path / "in")]})
    with pytest.raises(UsageError, match="lies below the input"):
        require_outputs(options, str(tmp_path / "in" / "report.html"))
    require_outputs(options, str(tmp_path / "in.html"))


def test_a_page_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from kraftlog.pipeline.input_audit import replayed
    from kraftlog.report.judgement import Judged

    quorum = replayed([str(DATA / "combined" / "replicas")], load_options({}))
    (tmp_path / "file").touch()
    path = str(tmp_path / "file" / "report.html")
    assert write_audit_page(path, quorum, Judged(verdict=VERDICT), ()) is None
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert told.endswith("; what was found is told without it\n")
    assert "could not be written" in told
    assert "Traceback" not in told
    assert write_lake_page(Lake(str(tmp_path / "no lake"))) is None
    assert "there is no table 'runs'" in capsys.readouterr().err
