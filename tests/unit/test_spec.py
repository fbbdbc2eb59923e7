"""Message specs: what is in `schemas/`, and that a spec that contradicts itself cannot be built."""

from typing import Any

import pytest

from kraftlog import relations
from kraftlog.message.catalogue import control_specs, metadata_specs, spec_of
from kraftlog.message.message_spec import (
    FieldSpec,
    MessageSpec,
    SpecError,
    Versions,
    camel_case,
    parse_spec,
    struct_at,
)

SPECS = [*metadata_specs().values(), *control_specs().values()]


def raw(*fields: dict[str, Any], **changes: Any) -> dict[str, Any]:
    message = {
        "name": "Some",
        "kind": "metadata",
        "type": "SOME",
        "id": 99,
        "versions": [0, 2],
        "flexible": [1, 2],
        "fields": list(fields),
    }
    return message | changes


@pytest.mark.parametrize(
    "broken",
    [
        raw({"name": "a", "type": "int24"}),
        raw({"name": "a", "type": "[int24]"}),
        raw({"name": "a", "type": "int8", "colour": "red"}),
        raw({"name": "a", "type": "struct"}),
        raw({"name": "a", "type": "int8", "fields": []}),
        raw({"name": "a", "type": "int8"}, {"name": "a", "type": "int8"}),
        raw({"name": "a", "type": "int8", "tag": 0}),
        raw(
            {"name": "a", "type": "int8", "tag": 0, "versions": [1, 2]},
            {"name": "b", "type": "int8", "tag": 0, "versions": [1, 2]},
        ),
        raw({"name": "a", "type": "int8", "versions": [2, 1]}),
        raw({"name": "a", "type": "int8", "versions": [-1, 1]}),
        raw(versions=[1, 0]),
    ],
)
def test_what_contradicts_itself_is_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        parse_spec(broken)


def test_a_field_may_have_one_name_in_versions_that_do_not_meet() -> None:
    spec = parse_spec(
        raw(
            {"name": "a", "type": "int8", "versions": [0, 1]},
            {"name": "a", "type": "string", "versions": [2, 2]},
        )
    )
    assert [spec.at(version).plain[0].type for version in range(3)] == ["int8", "int8", "string"]


def test_resolution_by_version() -> None:
    spec = parse_spec(
        raw(
            {"name": "old", "type": "int8", "versions": [0, 1]},
            {"name": "new_one", "type": "string", "versions": [1, 2], "nullable": [2, 2]},
            {"name": "extra", "type": "[int32]", "versions": [2, 2], "tag": 4},
        )
    )
    assert [[field.name for field in spec.at(version).plain] for version in range(3)] == [
        ["old"],
        ["old", "new_one"],
        ["new_one"],
    ]
    assert [list(spec.at(version).tagged) for version in range(3)] == [[], [], [4]]
    assert [spec.at(version).flexible for version in range(3)] == [False, True, True]
    new_one = spec.fields[1]
    assert (1 in new_one.nullable, 2 in new_one.nullable) == (False, True)
    assert new_one.json == "newOne"
    assert spec.at(2) is spec.at(2)
    for version in (-1, 3):
        with pytest.raises(SpecError, match="Some has no version"):
            spec.at(version)


def test_an_empty_range_holds_nothing() -> None:
    assert 0 not in Versions(0, -1)
    assert "0" not in Versions(0, 3)


def test_the_catalogue_is_kafkas() -> None:
    # Kafka withdrew the records of api keys 6, 13 and 16.
    assert set(metadata_specs()) == set(range(30)) - {6, 13, 16}
    assert set(control_specs()) == {2, 3, 4, 5, 6}
    assert spec_of("PARTITION_CHANGE_RECORD") is metadata_specs()[5]
    assert spec_of("NOTHING") is None


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.type)
def test_every_version_of_every_message_resolves(spec: MessageSpec) -> None:
    for version in range(spec.versions.first, spec.versions.last + 1):
        at = spec.at(version)
        for field in (*at.plain, *at.tagged.values()):
            assert version in field.versions
            if field.fields:
                assert struct_at(field, at).plain
    columns = relations.struct_type(spec.fields)
    assert [column.name for column in columns] == [field.name for field in spec.fields]


def test_secrets_are_declared() -> None:
    assert {spec.type for spec in SPECS if spec.holds_secrets} == {
        "CONFIG_RECORD",
        "DELEGATION_TOKEN_RECORD",
        "REMOVE_DELEGATION_TOKEN_RECORD",
        "USER_SCRAM_CREDENTIAL_RECORD",
    }


def test_names_go_back_to_kafkas() -> None:
    assert camel_case("topic_id") == "topicId"

    def fields(of: tuple[FieldSpec, ...]) -> list[FieldSpec]:
        return [inner for one in of for inner in (one, *fields(one.fields))]

    odd = {
        field.json
        for spec in SPECS
        for field in fields(spec.fields)
        if camel_case(field.name) != field.json
    }
    assert odd == {"kRaftVersion", "kRaftVersionFeature"}
