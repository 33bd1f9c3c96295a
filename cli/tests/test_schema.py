"""``treadle schema``, and the schemas of everything installed."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result
from jsonschema import Draft202012Validator

import treadle

Invoke = Callable[..., Result]

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
GOOD = [each for each in EXAMPLES if each.name != "broken.yaml"]

SHAPE = {"unknown-field", "missing-field", "wrong-type", "bad-value", "unknown-step-type"}
"""Codes of problems that a schema can see."""

BEYOND_A_SCHEMA = re.compile(
    r"a router needs conditions or a default|is given by one of|"
    r"not a JSON Schema|^schema[:.]|^\w+: (argument|unknown argument) '"
)
"""Problems with those codes that it cannot see all the same: what validators of the steps and tools say."""

INSIDE_A_STEP = re.compile(r"steps\.\w+\.step(\.(?!type: )|: the field '(?!type'))")
"""Of a single step inside another one it knows the type alone, as the schema of a step demands an id."""

RETYPED: list[Any] = ["text", 7, 0.5, True, None, [], ["text"], {}, {"a": 1}]


@pytest.fixture(scope="module")
def host() -> treadle.Host:
    return treadle.Host.discover()


@pytest.fixture(scope="module")
def workflow_schema(host: treadle.Host) -> dict[str, Any]:
    return treadle.workflow_schema(host, left_out=pytest.fail)


@pytest.fixture(scope="module")
def settings_schema(host: treadle.Host) -> dict[str, Any]:
    return treadle.settings_schema(host, left_out=pytest.fail)


def properties(schema: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every property that the schema describes, with where it stands."""
    if isinstance(schema, list):
        for each in schema:
            yield from properties(each, place)
    elif isinstance(schema, dict):
        for name, each in schema.get("properties", {}).items():
            yield f"{place}.{name}", each
            yield from properties(each, f"{place}.{name}")
        for name, each in schema.get("$defs", {}).items():
            yield from properties(each, name)
        for key in ("items", "anyOf", "oneOf", "allOf", "then", "else", "additionalProperties"):
            yield from properties(schema.get(key), place)


def test_every_field_of_ours_has_a_description(
    workflow_schema: dict[str, Any], settings_schema: dict[str, Any]
) -> None:
    found = [*properties(workflow_schema), *properties(settings_schema)]
    silent = [
        place for place, schema in found
        if not schema.get("description") and not re.match(r"\.providers\.\w+$", place)
    ]  # fmt: skip
    assert silent == []
    assert len(found) > 80


def test_both_are_valid_schemas_with_references_that_lead_somewhere(
    workflow_schema: dict[str, Any], settings_schema: dict[str, Any]
) -> None:
    for schema in (workflow_schema, settings_schema):
        Draft202012Validator.check_schema(schema)
        references = set(re.findall(r'"\$ref": "#/\$defs/([^"]+)"', json.dumps(schema)))
        assert references == set(schema["$defs"])
    assert workflow_schema["$id"] != settings_schema["$id"]


@pytest.mark.parametrize("file", GOOD, ids=lambda each: each.name)
def test_every_example_is_valid(file: Path, workflow_schema: dict[str, Any]) -> None:
    data = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert [error.message for error in Draft202012Validator(workflow_schema).iter_errors(data)] == []


def test_the_broken_example_is_not(workflow_schema: dict[str, Any]) -> None:
    data = yaml.safe_load((EXAMPLES[0].parent / "broken.yaml").read_text(encoding="utf-8"))
    found = {".".join(map(str, error.path)) for error in Draft202012Validator(workflow_schema).iter_errors(data)}
    assert found == {"config", "steps.1.type", "steps.2.prompt", "steps.2.max_tokens"}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in below:
        yield from places(each, (*path, key))


def mutants(data: Any) -> Iterator[tuple[str, Any]]:
    """The data with one thing of another type, dropped, or misspelt."""
    for path in places(data):
        *way, last = path
        changes = [("=", value) for value in RETYPED] + [("dropped", None), ("misspelt", None)]
        for change, new in changes if isinstance(last, str) else changes[: len(RETYPED)]:
            own = copy.deepcopy(data)
            holder: Any = own
            for part in way:
                holder = holder[part]
            if change == "=":
                holder[last] = new
            else:
                old = holder.pop(last)
                holder |= {f"{last}q": old} if change == "misspelt" else {}
            yield f"{'.'.join(map(str, path))} {change} {new!r}", own


def shape_problems(data: Any, host: treadle.Host) -> list[str]:
    try:
        treadle.build_workflow(data, host=host)
    except treadle.DocumentError as error:
        shape = (each for each in error.problems if each.code in SHAPE)
        return [
            str(each) for each in shape
            if not BEYOND_A_SCHEMA.search(each.message) and not INSIDE_A_STEP.match(f"{each.path}: {each.message}")
        ]  # fmt: skip
    return []


@pytest.mark.parametrize("file", GOOD, ids=lambda each: each.name)
def test_the_schema_and_the_checks_agree_on_every_mutant_of_an_example(
    file: Path, host: treadle.Host, workflow_schema: dict[str, Any]
) -> None:
    """Where one refuses the other does. Listed exceptions: true passes for the number 1 in the checks."""
    validator = Draft202012Validator(workflow_schema)
    compared = 0
    for name, data in mutants(yaml.safe_load(file.read_text(encoding="utf-8"))):
        refused, found = not validator.is_valid(data), shape_problems(data, host)
        if name.endswith("= True") and re.search("max_tokens|temperature", name):
            continue
        assert refused == bool(found), f"{name}: by the schema: {refused}; by the checks: {found}"
        compared += 1
    assert compared > 70


@pytest.mark.parametrize(
    ("settings", "refused"),
    [
        ({}, None),
        ({"provider": "elsewhere", "model": "m"}, None),
        ({"providers": {"openai": {"api_key": "env:OURS", "timeout": 5}}}, None),
        ({"providers": {"openai": {"api_key": "sk-123"}}}, "does not match"),
        ({"providers": {"openai": {"base_ul": "http://x"}}}, "'base_ul' was unexpected"),
        ({"providers": {"ours": {"kind": "generic_openai", "base_url": "http://x"}}}, None),
        ({"providers": {"ours": {"kind": "generic_openai", "organization": "o"}}}, "'organization' was unexpected"),
        ({"providers": {"ours": {"base_url": "http://x"}}}, "'kind' is a required property"),
        ({"providers": {"openai": {"kind": "mock", "seed": 1}}}, None),
        ({"providers": {"openai": {"models": ["m"], "priority": 1}}}, None),
        ({"providers": {"ours": {"kind": "mock", "fallback": True, "fallback_model": "m"}}}, None),
        ({"providers": {"theirs": {"kind": "not_installed", "anything": 1}}}, None),
        ({"roles": {"sandbox": "policy"}, "aliases": {"tools": {"read": "file_read"}}}, None),
        ({"roles": {"sandbx": "policy"}}, "'sandbx' was unexpected"),
        ({"config": {"max_concurrent_steps": 4, "latency_ms": 5}}, None),
        ({"config": {"provider": "mock"}}, "'provider' was unexpected"),
        ({"sandbox": {"allow_network": False}}, None),
        ({"sandbox": {"allow_netwrk": False}}, "is not valid under any"),
        ({"plugins": {"disabled": ["x"], "enabled": None}}, None),
        ({"prices": {"file": "p.yaml", "m-*": {"input": 1, "output": 2}}}, None),
        ({"prices": {"m": {"inptu": 1}}}, "'inptu' was unexpected"),
        ({"providers": {"openai": {"limits": {"requests_per_minute": 5, "breaker": {}}}}}, None),
        ({"providers": {"openai": {"limits": {"requests_per_minut": 5}}}}, "'requests_per_minut' was unexpected"),
        ({"tools": ["a.py"], "redaction": {"keys": ["x"], "salt": "env:SALT"}}, None),
        ({"redaction": {"salt": "pepper"}}, "'pepper' does not match"),
    ],
)
def test_settings(settings: Any, refused: str | None, settings_schema: dict[str, Any]) -> None:
    found = [error.message for error in Draft202012Validator(settings_schema).iter_errors(settings)]
    if refused is None:
        assert found == []
    else:
        assert any(refused in each for each in found), found


def test_installed_things_are_offered_in_settings(settings_schema: dict[str, Any]) -> None:
    fields, defs = settings_schema["properties"], settings_schema["$defs"]
    assert "mock" in fields["provider"]["anyOf"][0]["enum"]
    assert "openai" in defs["ProviderEntry"]["properties"]["kind"]["anyOf"][0]["enum"]
    assert defs["RoleSettings"]["properties"]["sandbox"]["anyOf"][0]["enum"] == ["policy"]
    tools = defs["AliasSettings"]["properties"]["tools"]["additionalProperties"]
    assert "file_read" in tools["anyOf"][0]["enum"]


# --- the command --------------------------------------------------------------------------------------


def test_it_prints_the_schema_of_workflows(invoke: Invoke, workflow_schema: dict[str, Any]) -> None:
    result = invoke("schema")
    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout) == workflow_schema
    assert invoke("schema", "workflow").stdout == result.stdout


def test_it_prints_the_schema_of_settings_even_of_broken_ones(
    invoke: Invoke, tmp_path: Path, settings_schema: dict[str, Any]
) -> None:
    (tmp_path / "treadle.yaml").write_text("provder: [", encoding="utf-8")
    result = invoke("schema", "settings")
    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout) == settings_schema


def test_names_of_the_deployment_are_offered_in_workflows(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "treadle.yaml").write_text("providers: {ours: {kind: mock}}", encoding="utf-8")
    schema = json.loads(invoke("schema").stdout)
    assert "ours" in schema["$defs"]["RunConfig"]["properties"]["provider"]["anyOf"][0]["enum"]


def test_write_puts_it_beside_the_file_and_prints_the_line_for_its_top(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "a.yaml").touch()
    result = invoke("schema", "--write", "flows/a.yaml")
    assert (result.exit_code, result.stdout) == (0, "# yaml-language-server: $schema=treadle.schema.json\n")
    written = Path("flows", "treadle.schema.json")
    assert result.stderr == f"{written} written; put this line on top of flows/a.yaml:\n"
    Draft202012Validator.check_schema(json.loads((tmp_path / written).read_text(encoding="utf-8")))


def test_write_without_a_file_is_for_this_folder(invoke: Invoke, tmp_path: Path) -> None:
    result = invoke("schema", "settings", "--write")
    assert (result.exit_code, result.stdout) == (0, "# yaml-language-server: $schema=treadle-settings.schema.json\n")
    assert result.stderr == (
        "treadle-settings.schema.json written; put this line on top of each file that it is for:\n"
    )
    assert [each.name for each in tmp_path.iterdir()] == ["treadle-settings.schema.json"]


def test_output_names_the_file_to_write(invoke: Invoke, tmp_path: Path, workflow_schema: dict[str, Any]) -> None:
    result = invoke("schema", "-o", "own.json")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "own.json written\n")
    assert json.loads((tmp_path / "own.json").read_text(encoding="utf-8")) == workflow_schema
    assert json.loads(invoke("schema", "-o", "-").stdout) == workflow_schema


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (["--write", "gone.yaml"], "gone.yaml: no such file"),
        (["--write", "settings"], "the kind comes first: treadle schema settings --write"),
        (["--write", "-o", "x.json"], "give either --write or -o"),
        (["-o", "x.json", "--write"], "give either --write or -o"),
        (["worklow"], "'worklow' is not one of 'workflow', 'settings'"),
    ],
)
def test_wrong_uses(invoke: Invoke, tmp_path: Path, args: list[str], error: str) -> None:
    result = invoke("schema", *args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert error in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written(invoke: Invoke) -> None:
    result = invoke("schema", "-o", "no/such/folder.json")
    assert (result.exit_code, result.stderr) == (
        2,
        f"error: {Path('no/such/folder.json')} cannot be written: No such file or directory\n",
    )


def test_what_is_left_out_is_told_on_stderr(invoke: Invoke) -> None:
    result = invoke("schema", "--without", "llm_call")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "llm_call" not in json.loads(result.stdout)["$defs"]["Step"]["properties"]["type"]["enum"]


def test_a_broken_plugin_is_left_out_and_named(program: Any, strangers: Callable[..., Path]) -> None:
    broken = strangers("odd", {"treadle.plugins": {"odd": "odd_plugin"}}, {"odd_plugin": "import nothing_like_it"})
    ended = program("schema", env={"PYTHONPATH": str(broken)})
    assert ended.code == 0
    assert ended.err.startswith("left out: plugin 'odd' (odd 0.9) could not be loaded from odd_plugin: ")
    assert "router" in json.loads(ended.out)["$defs"]["Step"]["properties"]["type"]["enum"]
