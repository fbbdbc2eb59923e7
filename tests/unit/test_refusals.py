"""Small files that Kafka reads when it starts: what it takes, and what it throws at.

Each text was given to the classes of Kafka 4.0.0, 4.1.1 and 4.3.1 that read such a file.
"""

import math
import os
import struct
from pathlib import Path

import pytest

from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import find_replicas
from kraftlog.log.segment import Limits
from kraftlog.log.sidefiles import (
    read_epoch_checkpoint,
    read_meta_properties,
    read_partition_metadata,
    read_quorum_state,
    refused_meta_properties,
)
from kraftlog.quorum.collector import read_bootstrap
from kraftlog.quorum.model import Quorum
from kraftlog.simulate.plan_rows import Plans
from kraftlog.state.difference import of_key
from tests.collecting import collect
from tests.unit.audit_logs import (
    START_MS,
    Batch,
    Node,
    audit,
    copied_live,
    feature,
    found,
    healthy_state,
    kraft_voters,
    partition,
    producer_ids,
    quorum,
    quota,
    register_broker,
    replace_batch,
    snapshot,
    topic,
    voters_batch,
)
from tests.unit.test_disk import disk

NO_DIRECTORY = '"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA"'
VOTE = f'"leaderId":2,"leaderEpoch":1,"votedId":-1,{NO_DIRECTORY}'
OLD = '"leaderId":2,"leaderEpoch":1,"votedId":-1'
OLD_REST = '"clusterId":"","appliedOffset":0,"currentVoters":[{"voterId":1}]'

TAKEN_STATES = [
    f'{{{VOTE},"data_version":1}}',
    f'{{{VOTE},"data_version":1}}{{"leaderId":2}}',
    f'{{{VOTE},"data_version":1}}\nmore',
    f'  {{{VOTE},"foo":1,"data_version":1}}\r\n',
    f'{{{OLD},{OLD_REST},"data_version":0}}',
    f'{{{OLD},{OLD_REST},"data_version":0}}'.replace('{"voterId":1}', ""),
    f'{{{VOTE},"data_version":1}}'.replace("AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAA=="),
    *(f'{{{VOTE},"data_version":{one}}}' for one in ("1.9", "65537", "1.0")),
    f'{{{VOTE},"clusterId":"c","appliedOffset":5,"currentVoters":[],"data_version":1}}',
    f'{{{OLD},{OLD_REST},{NO_DIRECTORY},"data_version":0}}',
    *(
        f'{{{OLD},{OLD_REST},"data_version":{one}}}'
        for one in ("0.5", "-0.5", "null", '"1"', "[]", "false", "65536", "2147483648")
    ),
]
REFUSED_STATES = [
    "",
    f"\n{TAKEN_STATES[0]}",
    f"{{{VOTE}}}",
    f'{{{OLD},"data_version":1}}',
    f'{{{VOTE},"data_version":2}}',
    *(f'{{{VOTE},"data_version":{one}}}' for one in ("2.0", "-1.5", "1e300", "3e9", "true", "NaN")),
    f'{{{VOTE},"more":NaN,"data_version":1}}',
    f'{{{VOTE},"clusterId":3,"data_version":1}}',
    f'{{{VOTE},"appliedOffset":null,"data_version":1}}',
    f'{{{VOTE},"currentVoters":[{{"voterId":1}}],"data_version":1}}',
    f'{{{OLD},{OLD_REST},"votedDirectoryId":2,"data_version":0}}',
    f'{{{VOTE},"data_version":0}}',
    '{"leaderEpoch":1,"data_version":1}',
    f'{{{VOTE},"data_version":1}}'.replace("AAAAAAAAAAAAAAAAAAAAAA", "??"),
    f'{{{VOTE},"data_version":1}}'.replace("AAAAAAAAAAAAAAAAAAAAAA", "zz"),
    f'{{\n{VOTE},"data_version":1}}',
    f'{{{VOTE},"data_version":1}}'.replace('"leaderId":2', '"leaderId":"2"'),
    f'{{{VOTE},"data_version":1}}'.replace('"leaderEpoch":1', '"leaderEpoch":1.0'),
    *(
        f'{{{OLD},{OLD_REST},"data_version":0}}'.replace(f'"{name}"', '"other"')
        for name in ("clusterId", "leaderId", "leaderEpoch", "votedId", "appliedOffset")
    ),
    f'{{{OLD},{OLD_REST},"data_version":0}}'.replace('"currentVoters"', '"other"'),
    f'{{{OLD},{OLD_REST},"data_version":0}}'.replace('"voterId"', '"other"'),
    f'{{{OLD},{OLD_REST},"data_version":0}}'.replace('[{"voterId":1}]', "null"),
]
TAKEN_EPOCHS = ["", "0", "0\n", "0\n0\n", "0\n1\n1 978", "0\r\n1\r\n1\t978 \r\n", "+0\n1\n1  2\n"]
REFUSED_EPOCHS = [
    "\n",
    "0\n1\n\n1 978\n",
    "0\n1\n1 978\n\n",
    "0\n1\n-1 978\n",
    "0\n1\n1 -1\n",
    "1\n1\n1 978\n",
    "1",
    "0\n1\n1 978\n2 2000\n",
    " 0\n0\n",
    "0\n0 \n",
    "0\n1\n 1 978\n",
    "0\n1\n 978\n",
]
ID = "AAAAAAAAAAAAAAAAAAAAAQ"
DISK = "AAAAAAAAAAAAAAAAAAAAZA"
TAKEN_METADATA = [f"version: 0\ntopic_id: {ID}", f"version:  1\r\ntopic_id: {ID}\r\nmore\n"]
REFUSED_METADATA = [
    "",
    "version: 0",
    f"version: x\ntopic_id: {ID}",
    f"version: -1\ntopic_id: {ID}",
    f"version:0\ntopic_id: {ID}",
    f"topic_id: {ID}\nversion: 0",
    f"\nversion: 0\ntopic_id: {ID}",
]
READERS = {
    read_quorum_state: (TAKEN_STATES, REFUSED_STATES),
    read_epoch_checkpoint: (TAKEN_EPOCHS, REFUSED_EPOCHS),
    read_partition_metadata: (TAKEN_METADATA, REFUSED_METADATA),
}


@pytest.mark.parametrize("read", READERS, ids=lambda one: one.__name__)
def test_what_kafka_takes_is_read_and_what_it_throws_at_is_not(read: object) -> None:
    taken, refused = READERS[read]  # type: ignore[index]
    for text in taken:
        read(text.encode())  # type: ignore[operator]
    for text in (*refused, "\udcff"):
        with pytest.raises(ValueError, match=r".") as told:
            read(text.encode("utf-8", "surrogateescape"))  # type: ignore[operator]
        assert type(told.value) is ValueError, text


def test_kafka_takes_the_node_of_meta_properties_by_the_name_that_its_version_has() -> None:
    """Seen of MetaProperties of 3.9.1, 4.0.0, 4.3.1 and 4.4.0."""
    for version, is_taken, names in (
        ("version=1\n", True, "node.id=4\nbroker.id=5\n"),
        ("version=0\n", True, "node.id=5\nbroker.id=4\n"),
        ("", True, "node.id=5\nbroker.id=4\n"),
        ("version=0\n", False, "node.id=4\n"),
        ("version=1\n", False, "broker.id=4\n"),
    ):
        values = read_meta_properties(f"{version}cluster.id=c\n{names}".encode())
        assert (refused_meta_properties(values) is None) is is_taken
        assert values.get("node.id", values.get("broker.id")) == "4", (version, names)


def test_a_directory_id_that_is_no_uuid_is_refused() -> None:
    known = "version=1\nnode.id=1\ncluster.id=c\n"
    for text, told in (
        ("", None),
        (f"directory.id={DISK}", None),
        (f"directory.id={DISK}==", None),
        ("directory.id=zz", "its directory.id is not a UUID"),
        ("directory.id=", "its directory.id is not a UUID"),
        ("directory.id=AAAAAAAAAAAAAAAAAAAAAA", "its directory.id is one that Kafka reserves"),
        ("directory.id=AAAAAAAAAAAAAAAAAAAAYw", "its directory.id is one that Kafka reserves"),
        ("directory.id=AAAAAAAAAACAAAAAAAAAAA", "its directory.id is one that Kafka reserves"),
    ):
        values = read_meta_properties((known + text + "\nssl.key.password=hush").encode())
        assert refused_meta_properties(values) == told
        assert "hush" not in repr(values)
    with pytest.raises(ValueError, match=r"^node.id is below 0$"):
        read_meta_properties(b"node.id=-2")


def test_a_node_whose_id_is_below_0_was_not_pulled(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    meta = nodes[2].home / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=3", "node.id=-1"))
    (told,) = [one for one in audit(tmp_path).findings if one.check == "meta_properties_valid"]
    assert (
        "Kafka does not start with this meta.properties: its node.id is below 0."
        in told.row.message
    )


def test_what_was_pulled_may_lack_the_id_of_the_cluster(tmp_path: Path) -> None:
    """No controller before Kafka 3.7 tells it, and no node starts with these files."""
    copied_live(tmp_path)
    meta = tmp_path / "9" / "meta.properties"
    kept = [one for one in meta.read_text().splitlines() if not one.startswith("cluster.id")]
    meta.write_text("\n".join(kept))
    assert "meta_properties_valid" not in {one.check for one in audit(tmp_path).findings}


def test_a_node_with_such_a_directory_id_is_no_voter_on_another_disk(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    for node in nodes:
        node.append(voters_batch(12, 2, 1, 2, 3))
    path = nodes[1].home / "meta.properties"
    path.write_text(
        path.read_text().replace("directory.id=AAAAAAAAAAAAAAAAAAAAZg", "directory.id=zz")
    )
    found = audit(tmp_path)
    told = [one.check for one in found.findings if one.row.replica == "2"]
    assert told == ["meta_properties_valid"]


# --- bootstrap.checkpoint -----------------------------------------------------------------------

LEVELS = (feature("metadata.version", 20), feature("group.version", 1))
BOOTSTRAP = snapshot([Batch(0, 0, LEVELS)], 0, START_MS)
HEADER_END = 12 + int.from_bytes(BOOTSTRAP[8:12], "big")
DATA_END = HEADER_END + 12 + int.from_bytes(BOOTSTRAP[HEADER_END + 8 : HEADER_END + 12], "big")


def level(raw: bytes) -> int:
    return read_bootstrap(raw, Redactor(None), 1 << 20)


def test_kafka_looks_at_no_crc_in_a_bootstrap_checkpoint_and_stops_at_its_torn_end() -> None:
    assert level(BOOTSTRAP) == 20
    assert level(BOOTSTRAP.replace(struct.pack(">h", 20), struct.pack(">h", 21))) == 21
    for torn in (BOOTSTRAP[:DATA_END], BOOTSTRAP[:-1], BOOTSTRAP + bytes(17)):
        assert level(torn) == 20
    twice = snapshot([Batch(0, 0, LEVELS), Batch(0, 0, (feature("metadata.version", 22),))], 0, 0)
    assert level(twice) == 22


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"", "it holds no record that sets metadata.version"),
        (BOOTSTRAP[:HEADER_END], "it holds no record that sets metadata.version"),
        (BOOTSTRAP[: DATA_END - 1], "it holds no record that sets metadata.version"),
        (bytes(411), "there is no record batch at byte 0"),
        (BOOTSTRAP + bytes(18), f"there is no record batch at byte {len(BOOTSTRAP)}"),
        (BOOTSTRAP + Batch(9, 0, ()).raw(), f"the batch at byte {len(BOOTSTRAP)} holds no record"),
        (snapshot([Batch(0, 0, (LEVELS[0] + b"\0",))], 0, 0), f"in the batch at byte {HEADER_END}: "),
    ],
)  # fmt: skip
def test_a_node_does_not_start_with_such_a_bootstrap_checkpoint(
    raw: bytes, told: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=told):
        level(raw)
    node = quorum(tmp_path)[0]
    (node.home / "bootstrap.checkpoint").write_bytes(raw)
    (problem,) = disk(tmp_path).problems
    assert problem.startswith(f"bootstrap.checkpoint cannot be read: {told}")


# --- Control records of snapshots ---------------------------------------------------------------


def controls(*records: tuple[int, bytes]) -> bytes:
    """A snapshot whose first batch holds these control records, each by its type."""
    head = (3, struct.pack(">hq", 0, START_MS) + b"\0")
    types, values = zip(head, *records, strict=True)
    first = Batch(0, 1, values, tuple(struct.pack(">hh", 0, one) for one in types), START_MS)
    footer = Batch(first.end, 1, (b"\0\0\0",), (struct.pack(">hh", 0, 4),))
    return first.raw() + footer.raw()


def version(value: int) -> tuple[int, bytes]:
    return 5, struct.pack(">hh", 0, value) + b"\0"


VOTERS = 6, voters_batch(0, 1, 1, 2, 3).values[0]


@pytest.mark.parametrize(
    ("records", "told"),
    [
        ((version(1), VOTERS), None),
        ((version(0),), None),
        ((version(5), VOTERS), "its kraft.version is 5, and only 0 to 1 are known"),
        ((version(-1), VOTERS), "its kraft.version is -1, and only 0 to 1 are known"),
        ((version(1), version(1), VOTERS), "it holds a second KRAFT_VERSION record"),
        ((version(1), VOTERS, VOTERS), "it holds a second KRAFT_VOTERS record"),
        (
            (version(1), (6, kraft_voters(1, 2, levels=(1, 0)))),
            "its voter 1 supports levels 1 to 0 of kraft.version, and that is no range of levels",
        ),
        (
            (version(1), (6, kraft_voters(1, 2, listener=" "))),
            "its voter 1 has a listener whose name is blank",
        ),
        ((version(1), (VOTERS[0], VOTERS[1] + b"x")), None),
    ],
)
def test_kafka_loads_one_set_of_voters_and_a_level_that_it_knows(
    records: tuple[tuple[int, bytes], ...], told: str | None, tmp_path: Path
) -> None:
    node = quorum(tmp_path)[0]
    node.checkpoint(6, 1).write_bytes(controls(*records))
    (found,) = disk(tmp_path).snapshots
    assert found.unreadable == told


def test_kafka_opens_no_file_of_two_gibibytes(tmp_path: Path) -> None:
    """FileRecords: "larger than the maximum allowed segment size of 2147483647"."""
    path = quorum(tmp_path)[0].checkpoint(6, 1)
    os.truncate(path, 1 << 31)
    told = "it is larger than 2,147,483,647 bytes, and Kafka opens no such file"
    assert [one.unreadable for one in disk(tmp_path).snapshots] == [told]
    os.truncate(path, (1 << 31) - 1)
    assert [one.unreadable for one in disk(tmp_path).snapshots] != [told]


def test_a_static_voter_set_that_was_changed_is_a_note(tmp_path: Path) -> None:
    """Kafka 3.7.2 ends with "Configured voter set: [1, 2, 3] is different from the voter set read
    from the state file: [1]"; 3.9.1 starts on the same disk.
    """
    node = quorum(tmp_path)[0]
    settings = node.home / "server.properties"
    told = "its controller.quorum.voters names other voters than its quorum-state, and Kafka before 3.8 does not start so"
    for more, notes in (("", ()), (",4@d:9093", (told,))):
        settings.write_text(f"controller.quorum.voters=1@a:9093,2@b:9093,3@c:9093{more}\n")
        assert disk(tmp_path).notes == notes
    node.quorum_state(leaderId=2, leaderEpoch=2, currentVoters=[])
    assert disk(tmp_path).notes == ()


def without_vote(node: Node, root: Path, voters: tuple[int, ...]) -> tuple[str, ...]:
    node.checkpoint(6, 1).write_bytes(snapshot([], 1, START_MS, voters=voters))
    return disk(root).notes


def test_a_newest_snapshot_without_the_voters_takes_the_vote(tmp_path: Path) -> None:
    node = quorum(tmp_path)[0]
    assert without_vote(node, tmp_path, ()) == ()
    replace_batch(node, 3, lambda one: voters_batch(3, 1, 1, 2, 3, ms=one.ms).raw())
    told = (
        f"{6:020d}-0000000001.checkpoint names no voter, so the node stands for no election with it"
    )
    assert without_vote(node, tmp_path, ()) == (told,)
    assert without_vote(node, tmp_path, (1, 2, 3)) == ()
    # A newer shape names those that nobody here can read.
    path, newer = node.checkpoint(6, 1), controls((6, struct.pack(">hb", 1, 0)))
    path.write_bytes(newer)
    assert disk(tmp_path).notes == ()
    path.write_bytes(snapshot([], 1, START_MS))
    # What the log names behind it counts.
    node.append(voters_batch(12, 2, 1, 2, 3))
    assert without_vote(node, tmp_path, ()) == ()


def test_who_has_lost_the_voters_stands_for_no_election_and_grants_its_vote(tmp_path: Path) -> None:
    """Kafka asks nobody, and answers who asks."""
    nodes = quorum(tmp_path)
    for node in nodes:
        replace_batch(node, 3, lambda one: voters_batch(3, 1, 1, 2, 3, ms=one.ms).raw())
        voters = () if node is nodes[0] else (1, 2, 3)
        node.checkpoint(6, 1).write_bytes(snapshot([], 1, START_MS, voters=voters))
    model = Quorum(collect(find_replicas([str(tmp_path)]), Limits(), Redactor(None)))
    told = {one.candidate: (one.can_win, one.granted_by) for one in Plans(model).elections()}
    assert told["1"] == (False, ())
    assert told["2"] == (True, ("1", "2", "3"))


@pytest.mark.parametrize("names_voters", [False, True])
def test_an_emptied_disk_knows_no_voter_but_by_its_settings(
    names_voters: bool, tmp_path: Path
) -> None:
    """Kafka 4.3.1 alone on such a disk stays unattached, with voters=[], and never leads."""
    nodes = quorum(tmp_path)
    for node in nodes:
        replace_batch(node, 3, lambda one: voters_batch(3, 1, 1, 2, 3, ms=one.ms).raw())
    nodes[2].checkpoint(6, 1).write_bytes(snapshot([], 1, START_MS, voters=(1, 2, 3)))
    for node in nodes[:2]:
        for path in node.folder.iterdir():
            path.unlink()
        more = "controller.quorum.voters=1@a:1,2@b:1,3@c:1\n" if names_voters else ""
        (node.home / "server.properties").write_text(f"node.id={node.node_id}\n{more}")
    model = Quorum(collect(find_replicas([str(tmp_path)]), Limits(), Redactor(None)))
    plans = {one.candidate: (one.can_win, one.granted_by) for one in Plans(model).elections()}
    assert plans["1"] == ((True, ("1", "2")) if names_voters else (False, ()))
    assert plans["3"] == (True, ("1", "2", "3"))
    told = [one.row.message for one in found(audit(tmp_path), "voter_holds_committed_data")]
    assert any("would elect it all the same" in one for one in told) == names_voters


# --- Records of snapshots -----------------------------------------------------------------------


def with_records(root: Path, *values: bytes) -> None:
    """Replica 1 has a snapshot of the whole log that holds these records too."""
    stored = [*healthy_state(), Batch(0, 2, values)]
    quorum(root)[0].checkpoint(12, 2).write_bytes(snapshot(stored, 2, START_MS + 9000))


@pytest.mark.parametrize(
    "values",
    [
        (topic("d", 9), partition(9, [1], [1], 1)),
        (partition(1, [1, 2], [1, 2], 1), partition(1, [1, 2], [1, 2], 1)),
        (producer_ids(1001),),
        (feature("metadata.version", 1),),
        (register_broker(7, 1, directories=[5]), register_broker(8, 2, directories=[6])),
        (register_broker(7, 1, directories=[5]), register_broker(7, 2, directories=[5])),
    ],
)
def test_records_that_kafka_loads(values: tuple[bytes, ...], tmp_path: Path) -> None:
    with_records(tmp_path, *values)
    assert found(audit(tmp_path), "snapshot_record_allowed") == []


def test_a_snapshot_is_judged_where_no_log_reaches_it(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    stored = [*healthy_state(), Batch(0, 9, (partition(9, [1], [1], 1),))]
    nodes[0].checkpoint(50, 9).write_bytes(snapshot(stored, 9, START_MS + 9000))
    (one,) = found(audit(tmp_path), "snapshot_record_allowed")
    assert "there is no topic AAAAAAAAAAAAAAAAAAAACQ" in one.row.message
    assert one.severity == "critical"


# --- Numbers that are none ----------------------------------------------------------------------


def test_a_number_that_is_none_is_no_difference() -> None:
    old, new = ({"key": key, "value": math.nan} for key in "ab")
    (one,) = of_key("client_quotas", (), old, new)
    assert one.field == "key"


def test_a_quota_that_is_no_number_equals_itself(tmp_path: Path) -> None:
    for node in quorum(tmp_path):
        node.append(Batch(12, 2, (quota("ann", math.nan), quota("bob", 1.0)), None, START_MS))
        stored = [*healthy_state(), Batch(0, 2, (quota("bob", 1.0), quota("ann", math.nan)))]
        node.checkpoint(14, 2).write_bytes(snapshot(stored, 2, START_MS))
    assert found(audit(tmp_path), "snapshot_equals_replay") == []
    replace_with = [*healthy_state(), Batch(0, 2, (quota("bob", math.nan), quota("ann", math.nan)))]
    node.checkpoint(14, 2).write_bytes(snapshot(replace_with, 2, START_MS))
    (one,) = found(audit(tmp_path), "snapshot_equals_replay")
    assert "in 1 place: client quota" in one.row.message
    assert "value is NaN, not 1.0" in one.row.message
