"""`import kraftlog`: its page runs as it stands, its answers are those of the commands, and it asks
for no Spark.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kraftlog
from kraftlog import api
from kraftlog.cli import main
from tests.documents import DOCS, ROOT, blocks
from tests.golden.cases import DATA
from tests.packing import packed
from tests.unit.audit_logs import LIMITS, NO_OP, START_MS, Batch, frame, overwrite, quorum

ISOLATED = DATA / "isolated" / "replicas"
Row = dict[str, Any]


def test_the_page_runs_as_it_stands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    scope: dict[str, Any] = {}
    for block in blocks(DOCS / "python.md", "python"):
        exec(compile(block, "python.md", "exec"), scope)
    out = capsys.readouterr().out
    assert "362 " in out
    assert scope["result"].verdict.grade == "attention"
    # 2 and 12 differ from each of 1, 3 and 11.
    assert len(scope["apart"]) == 2 * 3
    assert "{'version': 1, 'group': 'app', 'topic': 'orders', 'partition': 7}" in out
    assert scope["damaged"] == []
    assert scope["steps"][-1]["what"] == "caught_up"
    assert scope["entry"]["text"] != []


def test_names_come_when_they_are_asked_for_and_without_spark() -> None:
    """`import kraftlog` alone costs nothing; what it then gives needs no JVM."""
    code = (
        "import sys, kraftlog; early = {m for m in sys.modules if m.startswith('kraftlog.')};"
        "kraftlog.open; assert not early, early;"
        "assert not {'pyspark', 'py4j', 'delta'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


@pytest.mark.parametrize("module", ["relations", "decode.tabular", "decode.rows", "source.parts"])
def test_any_module_may_be_the_first(module: str) -> None:
    """As in Spark's workers: what a task pickles decides what is imported first."""
    code = f"import sys, kraftlog.{module}; assert 'kraftlog.api' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


@pytest.mark.parametrize(
    "module", ["decode.tabular", "state.image", "source.datasource", "quorum.model", "cli", "api"]
)
def test_any_module_may_be_imported_first(module: str) -> None:
    """A worker of Spark begins anywhere."""
    code = (
        f"import sys, kraftlog.{module}; "
        f"assert {module == 'api'} or 'kraftlog.api' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_what_type_checkers_are_told_is_what_there_is() -> None:
    stub = (ROOT / "kraftlog" / "__init__.pyi").read_text(encoding="utf-8")
    assert stub.splitlines()[0].startswith("from kraftlog.api import *")
    assert set(api.__all__) == set(vars(kraftlog)["__all__"])
    for name in api.__all__:
        assert getattr(kraftlog, name) is getattr(api, name)
    with pytest.raises(AttributeError, match="no attribute 'closed'"):
        _ = kraftlog.closed  # type: ignore[attr-defined]


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> list[Row]:
    main([*words, "--format", "json"])
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def plain(rows: Any) -> Any:
    """As JSON has them."""
    return json.loads(
        json.dumps(list(rows), default=lambda one: one.isoformat("T", "milliseconds"))
    )


def test_a_notebook_completes_the_names() -> None:
    assert set(dir(kraftlog)) == {*api.__all__, "__version__"}
    assert len(kraftlog.open(str(ISOLATED))) == len(list((ISOLATED).iterdir()))


def pairs(key: bytes | None, value: bytes | None) -> object:
    return key, value


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda copy: kraftlog.open(), "no folder is named"),
        (lambda copy: list(copy.records(types=["NOSUCH"])), "there is no record type 'NOSUCH'"),
        (lambda copy: list(copy.arrow(types=["NOSUCH"])), "there is no record type 'NOSUCH'"),
        (lambda copy: copy.image(at=5, at_ms=5), "at an offset or at a time"),
        (lambda copy: list(kraftlog.read_partition("/no-such", pairs)), "/no-such: it cannot be"),
        (lambda copy: list(kraftlog.read_partition("/no-such.log", pairs)), "it cannot be read"),
        (
            lambda copy: kraftlog.versioned({"name": "x", "fields": []}),
            "declared without 'versions'",
        ),
    ],
)
def test_what_cannot_be_done_is_a_sentence(ask: Any, says: str) -> None:
    with pytest.raises(kraftlog.KraftlogError, match=re.escape(says)):
        ask(kraftlog.open(str(ISOLATED))["1"])


def test_one_type_need_not_be_a_list() -> None:
    copy = kraftlog.open(str(ISOLATED))["1"]
    wanted = list(copy.records(types=["TOPIC_RECORD"]))
    assert wanted
    assert list(copy.records(types="TOPIC_RECORD")) == wanted
    assert list(copy.records(types=[])) == []


PLANS = ("boot", "election", "fetch", "snapshot", "replicas")


@pytest.mark.parametrize("name", PLANS)
def test_plans_are_those_of_the_commands(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = printed(capsys, "plan", name, "--input", str(ISOLATED))
    assert plain(kraftlog.open(str(ISOLATED)).plan(name)) == told


def test_answers_are_those_of_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    found, given = kraftlog.open(str(ISOLATED)), ("--input", str(ISOLATED))
    assert plain(found.pairs()) == printed(capsys, "replicas", *given, "--pairs")
    assert plain(found.voters()) == printed(capsys, "replicas", *given, "--voters")
    assert plain(found.best()) == printed(capsys, "restorable", *given, "--best")
    assert plain(found.restorable()) == printed(capsys, "restorable", *given)
    assert len(found.plan("truncation")) == len(
        printed(capsys, "plan", "truncation", *given, "--all")
    )
    rows = printed(capsys, "plan", "replicas", *given, "--staleness")
    assert plain(found.plan("staleness")) == rows
    assert plain(found.settings()) == printed(capsys, "settings", *given)


@pytest.mark.parametrize("name", ["election", "fetch"])
@pytest.mark.parametrize("dialect", ["v19", "adopted"])
def test_plans_know_the_dialects_of_the_kip(
    name: str, dialect: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = printed(capsys, "plan", name, "--dialect", dialect, "--input", str(ISOLATED))
    assert plain(kraftlog.open(str(ISOLATED)).plan(name, dialect)) == told


def test_a_way_is_that_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Golden lagging: controller 1 is behind the leader's log start, and takes a snapshot."""
    where = str(DATA / "lagging" / "replicas")
    link = ("--bandwidth", "1000000", "--latency", "20", "--chunk", "9000", "--fetch-bytes", "500")
    words = ("plan", "join", "1", "--from", "2", "--input", where)
    told = printed(capsys, *words, *link, "--timeout", "900", "--dialect", "adopted")
    assert len(told) > 10
    found = kraftlog.open(where).join(
        "1", "2", bytes_per_second=1_000_000, round_trip_ms=20, chunk_bytes=9_000,
        fetch_bytes=500, timeout_ms=900, dialect="adopted",
    )  # fmt: skip
    assert plain(found) == told
    told = printed(capsys, "plan", "join", "new", "--input", where)
    assert plain(kraftlog.open(where).join("new")) == told


@pytest.mark.parametrize("words", [("broker", "12"), ("topic", "no-such"), ("170-180",)])
def test_a_timeline_is_that_of_the_command(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    found = kraftlog.open(str(ISOLATED)).explain(*words)
    assert plain(found) == printed(capsys, "explain", *words, "--input", str(ISOLATED))
    assert bool(found) == (words[-1] != "no-such")


def test_one_copy(capsys: pytest.CaptureFixture[str]) -> None:
    copies = kraftlog.open(str(ISOLATED))
    copy = copies["2"]
    assert (repr(copy), repr(copies)) == ("Copy('2')", "Copies('1', '11', '12', '2', '3')")
    folder = str(ISOLATED / "2")
    assert plain(copy.batches()) == printed(capsys, "batches", folder)
    types = ["TOPIC_RECORD"]
    mine = [(row["offset"], row["data"]["name"]) for row in copy.records(types, 100, 200)]
    rows = printed(
        capsys, "records", folder, "--type", *types, "--from-offset", "100", "--to-offset", "200"
    )
    assert mine == [(row["offset"], row["data"]["name"]) for row in rows] != []
    counts = dict.fromkeys(types, 0)
    for kind, columns in copy.arrow(types):
        counts[kind] += columns.num_rows
    assert counts == {"TOPIC_RECORD": sum(1 for _ in copy.records(types))}


def test_images_and_what_differs() -> None:
    """Golden isolated: 2 went its own way at offset 176, up to 243."""
    found = kraftlog.open(str(ISOLATED))
    own, shared = found["2"].image(), found["2"].image(176)
    assert (own.end_offset, own.is_committed) == (243, False)
    assert (shared.end_offset, shared.is_committed) == (176, True)
    assert {one.table for one in kraftlog.diff(shared, own)} >= {"topics", "partitions"}
    assert kraftlog.diff(shared, found["1"].image(176)) == []
    assert found.image().end_offset == 362
    early = found["1"].image(at_ms=found["1"].image(100).timestamp)
    assert early.end_offset <= 101


def test_an_audit_is_the_command_s(capsys: pytest.CaptureFixture[str]) -> None:
    result = kraftlog.open(str(ISOLATED)).audit()
    rows = printed(capsys, "audit", "--input", str(ISOLATED))
    told = [
        (row["check"], row["replica"], row["offset"])
        for row in rows
        if row.get("result") == "failed"
    ]
    assert [(one.check, one.row.replica, one.row.offset) for one in result.findings] == told
    assert rows[-1]["verdict"] == result.verdict.grade


def test_what_cannot_be_done_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(kraftlog.InputError, match="no copy '9'; there are 1, 11, 12, 2, 3"):
        kraftlog.open(str(ISOLATED))["9"]
    with pytest.raises(kraftlog.UsageError, match="no plan 'coup'"):
        kraftlog.open(str(ISOLATED)).plan("coup")
    with pytest.raises(kraftlog.UsageError, match="no dialect 'v18'; there are v19, adopted"):
        kraftlog.open(str(ISOLATED)).plan("fetch", "v18")
    with pytest.raises(kraftlog.UsageError, match="has no other dialect"):
        kraftlog.open(str(ISOLATED)).plan("boot", "v19")
    with pytest.raises(kraftlog.InputError, match="no replica 9"):
        kraftlog.open(str(ISOLATED)).join("1", "9")
    with pytest.raises(kraftlog.UsageError, match="no option 'lag'"):
        kraftlog.open(str(ISOLATED), lag=1)
    for option in ("lake", "fail_on", "junit_file"):
        with pytest.raises(kraftlog.UsageError, match=f"{option}' would do nothing here"):
            kraftlog.open(str(ISOLATED), **{option: "x"})  # type: ignore[arg-type]
    copies = kraftlog.open(str(ISOLATED))
    with pytest.raises(kraftlog.UsageError, match="fail_on must be one of critical, warning"):
        copies.audit().exit_code("x")
    for ask in (
        lambda: copies["1"].records(from_offset="a"),  # type: ignore[arg-type]
        lambda: copies["1"].records(to_offset=-1),
        lambda: copies["1"].image(at_ms="a"),  # type: ignore[arg-type]
        lambda: copies.image("a"),  # type: ignore[arg-type]
    ):
        with pytest.raises(kraftlog.UsageError, match="must be a whole number of at least 0"):
            ask()
    with pytest.raises(kraftlog.KraftlogError):
        kraftlog.open(str(tmp_path))
    with pytest.raises(kraftlog.InputError, match="no segment"):
        list(kraftlog.read_partition(str(tmp_path), lambda key, value: None))


def test_secrets_are_masked_unless_they_are_asked_for() -> None:
    case = str(DATA / "synthetic-every-type" / "replicas")

    def salts(**given: Any) -> set[str]:
        (copy,) = kraftlog.open(case, **given)
        rows = copy.records(["USER_SCRAM_CREDENTIAL_RECORD"])
        return {row["data"]["salt"] for row in rows}

    masked, clear = salts(), salts(reveal_secrets=True)
    assert len(clear - {""}) > 0
    assert masked & clear <= {""}


# --- other partitions ----------------------------------------------------------------------------


def commit_key(group: str, topic: str, partition: int) -> bytes:
    """Version 1 of OffsetCommitKey, as Kafka's group coordinator writes it."""
    texts = b"".join(len(one).to_bytes(2, "big") + one.encode() for one in (group, topic))
    return b"\0\1" + texts + partition.to_bytes(4, "big")


KEY = kraftlog.versioned(
    {
        "name": "OffsetCommitKey",
        "versions": [0, 1],
        "flexible": False,
        "fields": [
            {"name": "group", "type": "string"},
            {"name": "topic", "type": "string"},
            {"name": "partition", "type": "int32"},
        ],
    }
)


def test_a_partition_of_another_topic(tmp_path: Path) -> None:
    folder = tmp_path / "__consumer_offsets-3"
    folder.mkdir()
    keys = (commit_key("app", "orders", 7), commit_key("app", "bills", 0))
    first = Batch(40, 5, (b"one", b""), keys, START_MS)
    raw = bytearray(first.raw())
    # `Batch` writes keys into control batches only: this one is none. The CRC follows the bytes.
    from kraftlog.log.batch import crc32c

    raw[21:23] = b"\0\0"
    raw[17:21] = crc32c(bytes(raw[21:])).to_bytes(4, "big")
    later = Batch(42, 5, (NO_OP,), None, START_MS).raw()
    (folder / f"{40:020d}.log").write_bytes(bytes(raw) + later)
    rows = list(kraftlog.read_partition(str(folder), lambda key, value: KEY(key)))
    told = [row for row in rows if not isinstance(row, kraftlog.Fault)]
    assert [(one.offset, one.raw, one.batch_leader_epoch) for one in told] == [
        (40, b"one", 5), (41, b"", 5), (42, NO_OP, 5),
    ]  # fmt: skip
    assert told[1].value == {"version": 1, "group": "app", "topic": "bills", "partition": 0}
    assert told[2].value is None
    overwrite(folder / f"{40:020d}.log", 80, b"\xee")
    (fault, whole) = kraftlog.read_partition(str(folder), lambda key, value: 1)
    assert isinstance(fault, kraftlog.Fault)
    assert (fault.kind, fault.position) == ("batch_crc", 0)
    assert not isinstance(whole, kraftlog.Fault)


def test_equal_messages_that_pack_well_are_read(tmp_path: Path) -> None:
    """Producers' batches may pack better than any metadata batch does."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    values = (b"an order like all others, and of some length" * 30,) * 200
    raw = packed(Batch(0, 1, values, None, START_MS).raw(), "zstd")
    (folder / f"{0:020d}.log").write_bytes(raw)
    rows = list(kraftlog.read_partition(str(folder), lambda key, value: value))
    told = [row for row in rows if not isinstance(row, kraftlog.Fault)]
    assert len(raw) < 1500
    assert [one.raw for one in told] == list(values)


@pytest.mark.parametrize(("headers", "kinds"), [(b"\2\2k\0", []), (b"\7\7\0", ["record_frame"])])
def test_headers_of_another_topic_are_read_to_the_last_one(
    headers: bytes, kinds: list[str], tmp_path: Path
) -> None:
    """Where Kafka's reader of metadata looks at a record's last byte alone, consumers do not."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    batch = Batch(0, 1, (b"one",), None, START_MS, payload=frame(0, None, b"one", headers=headers))
    (folder / f"{0:020d}.log").write_bytes(batch.raw())
    found = kraftlog.read_partition(str(folder), lambda key, value: value)
    assert [one.kind for one in found if isinstance(one, kraftlog.Fault)] == kinds


FIRST, LAST = (Batch(at, 1, (b"one",), None, START_MS).raw() for at in (0, 8))


@pytest.mark.parametrize(
    ("between", "kinds"),
    [
        (b"", []),
        (bytes(90), ["zeros"]),
        (Batch(4, 1, (b"two",), None, START_MS, attributes=1).raw(), ["compression"]),
        (Batch(4, 1, (b"two",), None, START_MS, count=3).raw(), ["record_count"]),
        (Batch(4, 1, (b"two",), None, START_MS, payload=b"\x7e").raw(), ["record_frame"]),
    ],
)
def test_each_place_of_another_topic_that_cannot_be_read_is_a_fault(
    between: bytes, kinds: list[str], tmp_path: Path
) -> None:
    """What lies before and behind it is read."""
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(FIRST + between + LAST)
    found = list(kraftlog.read_partition(str(path), lambda key, value: value))
    faults = [one for one in found if isinstance(one, kraftlog.Fault)]
    assert [(one.kind, one.position) for one in faults] == [(kind, len(FIRST)) for kind in kinds]
    offsets = [one.offset for one in found if not isinstance(one, kraftlog.Fault)]
    assert (offsets[0], offsets[-1]) == (0, 8)


def test_a_decoder_that_fails_is_a_fault(tmp_path: Path) -> None:
    node = quorum(tmp_path)[0]

    def broken(key: bytes | None, value: bytes | None) -> int:
        return 1 // (value != NO_OP)

    found = list(kraftlog.read_partition(str(node.segment(0)), broken, LIMITS))
    faults = [one for one in found if isinstance(one, kraftlog.Fault)]
    assert [(one.offset, one.detail) for one in faults] == [
        (3, "its decoder failed: ZeroDivisionError('integer division or modulo by zero')")
    ]
    controls = [one for one in found if not isinstance(one, kraftlog.Fault) and one.is_control]
    assert [(one.offset, one.value) for one in controls] == [(0, None)]


def test_a_message_that_does_not_fit_is_told(tmp_path: Path) -> None:
    with pytest.raises(kraftlog.KraftlogError):
        KEY(commit_key("app", "orders", 7) + b"\0")
    with pytest.raises(Exception, match="no version 9"):
        KEY(b"\0\x09")
    spec = tmp_path / "key.json"
    spec.write_text(json.dumps({"name": "K", "versions": [0, 0], "flexible": False, "fields": []}))
    assert kraftlog.versioned(spec)(b"\0\0") == {"version": 0}
    assert KEY(None) is None


@pytest.mark.parametrize("module", ["decode.tabular", "decode.rows", "pipeline.decode", "source"])
def test_a_room_comes_first_as_well_as_last(module: str) -> None:
    """As in a worker, which imports what it is given, and nothing before it."""
    command = [sys.executable, "-c", f"import kraftlog.{module}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
