"""Options: where a value comes from, and what is refused."""

import pickle
import subprocess
import sys
import tomllib
from dataclasses import FrozenInstanceError, asdict, fields
from pathlib import Path

import pytest

from kraftlog.config import (
    SECRETS,
    THRESHOLDS,
    Options,
    default_thresholds,
    load_options,
    option_names,
    thresholds_of,
)
from kraftlog.errors import UsageError
from kraftlog.message.catalogue import packaged


def test_toml_and_fields_hold_the_same_names_in_the_same_order() -> None:
    text = (packaged("conf") / "kraftlog.toml").read_text(encoding="utf-8")
    names = [field.name for field in fields(Options)]
    assert list(tomllib.loads(text)) == option_names()
    assert sorted([*option_names(), "origins"]) == sorted(names)
    assert [one for one in option_names() if one in THRESHOLDS] == [*THRESHOLDS]


def test_what_evidence_carries_of_the_options_are_limits_and_no_key() -> None:
    given = load_options({"redaction_key": "k" * 32, "lag_offsets": 7})
    carried = asdict(thresholds_of(given))
    assert carried == asdict(default_thresholds()) | {"lag_offsets": 7}
    assert {*carried} == {*THRESHOLDS}
    assert not {*THRESHOLDS} & SECRETS


def test_every_option_is_explained_above_its_line() -> None:
    text = (packaged("conf") / "kraftlog.toml").read_text(encoding="utf-8")
    lines = text.splitlines()
    for name in option_names():
        line = next(i for i, line in enumerate(lines) if line.startswith(f"{name} = "))
        assert lines[line - 1].startswith("# "), f"{name} has no comment"


def test_defaults() -> None:
    options = load_options()
    assert options.input == ()
    assert options.lake is None
    assert options.quorum_describe is None
    assert options.redaction_key is None
    assert options.fail_on == "critical"
    assert options.reveal_secrets is False
    assert options.split_size_bytes == 64 * 1024**2
    assert options.window_size_bytes == 4 * 1024**2
    assert options.batch_limit_bytes == options.decompress_limit_bytes == 16 * 1024**2
    assert options.master == "local[*]"


def test_the_file_wins_over_the_defaults_and_overrides_over_the_file(tmp_path: Path) -> None:
    conf_file = tmp_path / "mine.toml"
    conf_file.write_text('lake = "from file"\nfail_on = "warning"\n', encoding="utf-8")
    options = load_options({"lake": "from argument", "master": None}, conf_file)
    assert options.lake == "from argument"
    assert options.fail_on == "warning"
    assert options.master == "local[*]"


def test_texts_of_a_job_become_the_types_of_the_fields() -> None:
    options = load_options(
        {"split_size_bytes": "1024", "reveal_secrets": "true", "input": "one", "lake": Path("l")}
    )
    assert options.split_size_bytes == 1024
    assert options.reveal_secrets is True
    assert options.input == ("one",)
    assert options.lake == "l"


def test_an_unknown_option_names_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"no option 'split_size'.*'split_size_bytes'"):
        load_options({"split_size": 1})


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("fail_on", "sometimes", "one of critical, warning, info, never"),
        ("reveal_secrets", "yes", "true or false"),
        ("reveal_secrets", 1, "true or false"),
        ("split_size_bytes", 0, "whole number above 0"),
        ("split_size_bytes", True, "whole number above 0"),
        ("split_size_bytes", "64 MiB", "whole number above 0"),
        ("batch_limit_bytes", 1 << 63, r"must be below 2\^63"),
        ("batch_limit_bytes", "9" * 5000, r"must be below 2\^63"),
        ("window_size_bytes", 1.5, "whole number above 0"),
        ("input", [1], "list of texts"),
        ("lake", 7, "must be a text"),
        ("lake", "a\0b", "holds a NUL character"),
        ("input", ["a", "b\0"], "holds a NUL character"),
    ],
)
def test_a_wrong_value_is_refused_by_name(key: str, value: object, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence) as caught:
        load_options({key: value})
    assert repr(key) in str(caught.value)


def test_a_file_that_cannot_be_read_or_parsed_is_a_usage_error(tmp_path: Path) -> None:
    for name, why in (
        ("absent.toml", "No such file or directory"),
        ("bytes.toml", "it is not UTF-8"),
    ):
        path = tmp_path / name
        (tmp_path / "bytes.toml").write_bytes(b"\xff")
        with pytest.raises(UsageError) as refused:
            load_options(conf_file=path)
        assert str(refused.value) == f"the options file {path} cannot be read: {why}"
    broken = tmp_path / "broken.toml"
    broken.write_text("lake = ", encoding="utf-8")
    with pytest.raises(UsageError, match="not TOML"):
        load_options(conf_file=broken)


def test_options_are_frozen_travel_pickled_and_hide_the_key() -> None:
    options = load_options({"redaction_key": "very secret" * 3})
    assert pickle.loads(pickle.dumps(options)) == options
    assert "very secret" * 3 not in repr(options)
    with pytest.raises(FrozenInstanceError):
        options.lake = "elsewhere"  # type: ignore[misc]


@pytest.mark.parametrize("length", [1, 31])
def test_a_key_that_could_be_guessed_is_refused(length: int, tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(f'redaction_key = "{"k" * length}"', encoding="utf-8")
    with pytest.raises(UsageError, match="openssl rand -hex 32") as refused:
        load_options(conf_file=path)
    assert str(path) in str(refused.value)
    assert "kk" not in str(refused.value)
    assert load_options({"redaction_key": "k" * 32}, path).redaction_key == "k" * 32


def test_config_imports_no_spark() -> None:
    program = "import kraftlog.config, sys; sys.exit('pyspark' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
