"""A lake's key: made in one step, its owner's alone, never replaced in silence; and what is named
under it tells nobody of secrets.
"""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Never

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from kraftlog.cli import main
from kraftlog.config import load_options
from kraftlog.decode.columnar import decode_window
from kraftlog.decode.tabular import batch_table, fault_table
from kraftlog.errors import LakeError
from kraftlog.log.batch import content_hash
from kraftlog.log.directory import find_replicas, walk_file
from kraftlog.log.fault import Fault
from kraftlog.log.names import LOG_FOLDER
from kraftlog.message.catalogue import spec_of
from kraftlog.pipeline import run
from kraftlog.pipeline.keeping import lake_damage
from kraftlog.pipeline.run import lake_key
from kraftlog.source.task_settings import KEY_SIZE, limits_of, redactor_of
from kraftlog.state.encode import encode_batch, metadata_record
from kraftlog.tables.lake import Lake
from kraftlog.tables.lease import lease_of
from kraftlog.tables.register import Published
from kraftlog.tables.spec import decoded_tables
from tests.property.engines import flipped, sealed
from tests.unit.stream_runs import batch_rows, fields

KEY = "_redaction.key"
SECRET = "hunter2"


def test_a_key_is_made_once_and_its_owner_s_alone(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "deep" / "lake"))
    key = lake_key(lake)
    assert len(key) == KEY_SIZE
    assert lake_key(lake) == key
    folder = Path(lake.root)
    assert [one.name for one in folder.iterdir()] == [KEY]
    assert (folder / KEY).stat().st_mode & 0o777 == 0o600


def test_a_key_that_everybody_may_read_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = Lake(str(tmp_path))
    key = lake_key(lake)
    for mode, is_told in ((0o600, False), (0o640, False), (0o644, True)):
        (tmp_path / KEY).chmod(mode)
        assert lake_key(lake) == key
        assert ("may be read by everybody" in capsys.readouterr().err) == is_told


def test_keys_made_at_once_are_one(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: lake_key(lake), range(40)))
    assert len(keys) == 1


@pytest.mark.parametrize("content", [b"", b"short", bytes(KEY_SIZE + 1)])
def test_a_broken_key_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / KEY).write_bytes(content)
    with pytest.raises(LakeError, match="is broken"):
        lake_key(Lake(str(tmp_path)))
    assert (tmp_path / KEY).read_bytes() == content


def test_a_folder_in_the_place_of_the_key_is_no_missing_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / KEY).mkdir()
    told = f"{KEY}, the key of the lake's masks and names, is a folder, not a file: set the folder aside; then "
    with pytest.raises(LakeError, match=f"{told}the next run makes the key$"):
        lake_key(Lake(str(tmp_path)))
    monkeypatch.setattr(Lake, "run_number", lambda *_: 1)
    with pytest.raises(LakeError, match=f"{told}put its backup back, or name another lake$"):
        lake_key(Lake(str(tmp_path)))
    assert [*(tmp_path / KEY).iterdir()] == []


def test_a_key_that_may_not_be_read_is_not_a_lake_that_may_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may read everything: refuse what the mode forbids to all others."""
    lake = Lake(str(tmp_path))
    lake_key(lake)
    (tmp_path / KEY).chmod(0)

    class Refusing(pafs.LocalFileSystem):
        def open_input_stream(self, path: str) -> Never:
            raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(run, "lake_filesystem", lambda path: (Refusing(), path))
    told = rf"{KEY}, the key of the lake's masks, cannot be read \(.*Permission denied.*\): run as its owner, or put its backup back"
    with pytest.raises(LakeError, match=told):
        lake_key(lake)


def test_a_lake_of_which_only_a_killed_first_run_began_gets_its_key(tmp_path: Path) -> None:
    """Its tables are there, as the next run puts its token into them, and no run has finished."""
    options = load_options({"lake": str(tmp_path)})
    with lease_of(str(tmp_path), 60, 0, print) as lease:
        lake = Lake(str(tmp_path), lease.token, lease.opened)
        lake.fence(decoded_tables().values())
    assert not lake_damage(options).damaged
    assert not (tmp_path / KEY).exists(), "to check writes nothing"
    with lease_of(str(tmp_path), 60, 0, print) as lease:
        lake = Lake(str(tmp_path), lease.token, lease.opened)
        key = lake_key(lake)
        spec = decoded_tables()["runs"]
        lake.write(spec, spec.schema.empty_table(), 1)
    assert lake_key(lake) == key
    (tmp_path / KEY).unlink()
    with pytest.raises(LakeError, match="put its backup back"):
        lake_key(lake)
    with pytest.raises(LakeError, match="put its backup back"):
        lake_damage(options)


@pytest.mark.parametrize("content", [None, b"short"])
def test_a_check_names_a_key_that_nothing_rebuilds(tmp_path: Path, content: bytes | None) -> None:
    options = load_options({"lake": str(tmp_path)})
    with lease_of(str(tmp_path), 60, 0, print) as lease:
        spec = decoded_tables()["runs"]
        lake = Lake(str(tmp_path), lease.token, lease.opened)
        lake.write(spec, spec.schema.empty_table(), 1)
        (tmp_path / KEY).write_bytes(bytes(KEY_SIZE))
        lease.say(published=(Published(1, {"runs": 0}, {"runs": 0}),))
    assert not lake_damage(options).damaged
    (tmp_path / KEY).unlink()
    if content is not None:
        (tmp_path / KEY).write_bytes(content)
    with pytest.raises(LakeError, match="put its backup back"):
        lake_damage(options)


# --- What is stored ---------------------------------------------------------------------------


def config_batch(value: str) -> bytes:
    spec = spec_of("CONFIG_RECORD")
    assert spec is not None
    data = {"resourceType": 4, "resourceName": "1", "name": "db.pwd", "value": value}
    return encode_batch([metadata_record(spec, 0, data)], 7, 1, 1_700_000_000_000)


def broken(batch: bytes) -> list[bytes]:
    """The batch whole; with a CRC that is wrong; with a record that does not decode; cut off."""
    return [
        batch,
        flipped(batch, len(batch) * 8 - 1),
        sealed(batch[:-2] + b"\xff" + batch[-1:]),
        batch[:-5],
    ]


def stored(path: Path, lake: Lake) -> str:
    """All that a lake holds of a log, as text."""
    options = load_options({"lake": lake.root})
    redactor = redactor_of(options, lake_key(lake))
    limits = limits_of(options, redactor)
    (replica,) = find_replicas([str(path)])
    (file,) = replica.files
    tables: list[pa.RecordBatch] = []
    for found in walk_file(file, limits):
        if isinstance(found, Fault):
            tables.append(fault_table(file, [found]))
            continue
        (decoded,) = decode_window(found, None, redactor, limits.decompressed_size_bytes)
        tables += [batch_table(file, found.batches, limits), *decoded.records.values()]
        tables.append(fault_table(file, decoded.faults))
    return repr([one.to_pylist() for one in tables])


def tellers(text: str) -> set[str]:
    """What a table holds that depends on the bytes of a secret: words of hex, long numbers."""
    words = text.replace("'", " ").replace(",", " ").replace(")", " ").split()
    return {one for one in words if len(one) > 8}


def test_nothing_stored_of_a_secret_can_be_made_without_the_key(tmp_path: Path) -> None:
    """Two lakes over one log share no hash of what holds a secret: whoever lacks the key of one,
    and knows the log but for the secret, has nothing to hold a guess against.
    """
    path, one, two = tmp_path / f"{0:020d}.log", *(Lake(str(tmp_path / name)) for name in "ab")
    pairs = zip(broken(config_batch(SECRET)), broken(config_batch("hunter3")), strict=True)
    for raw, other in pairs:
        path.write_bytes(raw)
        here, there = tellers(stored(path, one)), tellers(stored(path, two))
        path.write_bytes(other)
        tells = here - tellers(stored(path, one))
        assert tells
        assert not tells & there
        assert not any(SECRET in text for text in here)


def test_what_is_told_of_the_masks_tells_of_no_key(tmp_path: Path) -> None:
    """Two lakes under one key of the user's share no word for it: a guess cannot be tested."""
    keys = [lake_key(Lake(str(tmp_path / name))) for name in "ab"]
    wanted: list[dict[str, object]] = [
        {},
        {"redaction_key": "mine" * 8},
        {"redaction_key": "other" * 8},
    ]
    told = [redactor_of(load_options(one), key).masks for one in wanted for key in keys]
    assert len(set(told)) == len(told)
    again = [redactor_of(load_options(one), key).masks for one in wanted for key in keys]
    assert again == told
    assert {redactor_of(load_options({"reveal_secrets": True}), key).masks for key in keys} == {
        "none"
    }


def test_names_of_contents_stay_from_run_to_run(tmp_path: Path) -> None:
    """Whatever else is asked for: secrets in clear, or masks under a key of the user's own."""
    key = lake_key(Lake(str(tmp_path)))
    wanted: list[dict[str, object]] = [{}, {"reveal_secrets": True}, {"redaction_key": "mine" * 8}]
    found = {redactor_of(load_options(one), key).id_key for one in wanted}
    assert len(found) == 1
    assert None not in found


# --- What is told without a lake --------------------------------------------------------------

_HASH = re.compile(r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")


def hashes(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """The hashes in what a command prints."""
    main([*arguments, "--format", "json"])
    return _HASH.findall(capsys.readouterr().out)


@pytest.mark.parametrize("command", ["records", "batches", "audit --input"])
def test_a_hash_that_a_command_tells_is_of_no_use_to_others(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Equal bytes have one hash within an answer, and another one in each answer: made without a
    key, it could be held against a guess of the secret. A batch's id is plain beside its CRC.
    """
    for node in ("1", "2"):
        folder = tmp_path / node / LOG_FOLDER
        folder.mkdir(parents=True)
        whole = [config_batch(SECRET), *broken(config_batch(SECRET))[2:]]
        (folder / f"{0:020d}.log").write_bytes(b"".join(whole))
    one, other = (hashes(capsys, *command.split(), str(tmp_path)) for _ in range(2))
    assert len(one) == len(other) > len(set(one)) > 0
    plain = set(one) & set(other)
    assert plain == ({content_hash(raw) for raw in whole[:2]} if command == "batches" else set())


def test_rows_of_the_source_tell_no_more_than_a_batch_s_id(tmp_path: Path) -> None:
    log = tmp_path / f"{0:020d}.log"
    log.write_bytes(broken(config_batch(SECRET))[3])
    one, other = (
        fields(batch_rows(log, "faults", redaction_key=""), "content_hash") for _ in range(2)
    )
    assert len(one) == len(other) == 1
    assert one != other
