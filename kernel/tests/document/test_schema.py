"""The JSON Schema of workflow files: what it holds of each plugin, and that it agrees with the checks."""

import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field, GetJsonSchemaHandler

from treadle import Settings, workflow_schema
from treadle._document import build_workflow
from treadle._plugins import Host
from treadle.contracts.offers import ConfigOffer, Offer
from treadle.contracts.step import Reference, Step, StepOutcome
from treadle.errors import DocumentError
from treadle.hookspecs import hookimpl
from treadle.testing import offering

NewHost = Callable[..., Host]


def of_type(schema: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The fields of a step of that type."""
    (found,) = [
        each["then"]["$ref"].removeprefix("#/$defs/")
        for each in schema["$defs"]["Step"]["allOf"]
        if each["if"]["properties"]["type"] == {"const": name}
    ]
    fields = schema["$defs"][found]["properties"]
    assert isinstance(fields, dict)
    return fields


def errors(schema: Mapping[str, Any], data: Any) -> list[str]:
    return [error.message for error in Draft202012Validator(schema).iter_errors(data)]


def workflow(*steps: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    return {"name": "x", "steps": list(steps), **fields}


@pytest.fixture
def schema(host: Host) -> dict[str, Any]:
    return workflow_schema(host)


def test_it_is_a_schema_of_its_dialect_and_every_reference_in_it_leads_somewhere(schema: dict[str, Any]) -> None:
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert (schema["$id"], schema["title"]) == ("urn:treadle:schema:workflow", "Treadle workflow")
    Draft202012Validator.check_schema(schema)
    references = set(re.findall(r'"\$ref": "#/\$defs/([^"]+)"', json.dumps(schema)))
    assert references == set(schema["$defs"])
    assert {"Branch", "RetrySettings", "Say", "Shape"} < references


def test_the_same_plugins_give_the_same_text(new_host: NewHost) -> None:
    first, second = (json.dumps(workflow_schema(new_host())) for _ in range(2))
    assert first == second


def test_a_step_has_the_fields_of_its_type_and_no_others(schema: dict[str, Any]) -> None:
    assert errors(schema, workflow({"id": "a", "type": "say", "prompt": "hi", "count": 2})) == []
    assert errors(schema, workflow({"id": "a", "type": "say", "prompt": "hi", "target": "b"})) == [
        "Additional properties are not allowed ('target' was unexpected)"
    ]
    assert errors(schema, workflow({"id": "a", "type": "say"})) == ["'prompt' is a required property"]
    assert errors(schema, workflow({"id": "a", "type": "say", "prompt": 5})) == ["5 is not of type 'string'"]
    assert errors(schema, workflow({"id": "a", "type": "sya", "prompt": "hi"})) == [
        "'sya' is not one of ['boxed', 'idle', 'picky', 'route', 'say', 'use']"
    ]


def test_the_step_types_are_listed_with_what_each_is_for(schema: dict[str, Any]) -> None:
    step = schema["$defs"]["Step"]
    assert step["properties"]["type"]["enum"] == ["boxed", "idle", "picky", "route", "say", "use"]
    assert step["properties"]["type"]["enumDescriptions"] == ["boxed", "idle", "picky", "route", "say", "use"]
    assert of_type(schema, "say")["type"]["enum"] == ["say"]


def test_before_its_type_is_written_a_step_has_an_id_and_a_type(schema: dict[str, Any]) -> None:
    step = schema["$defs"]["Step"]
    assert list(step["properties"]) == step["required"] == ["id", "type"]
    assert set(of_type(schema, "idle")) == {
        "id",
        "type",
        "depends_on",
        "when",
        "output",
        "timeout",
        "budget_usd",
        "retry",
    }


def test_a_class_may_serve_under_two_names() -> None:
    class Twice(Step):
        """Is offered twice."""

        count: int

        async def run(self, ctx: Any) -> StepOutcome:
            return StepOutcome()

    schema = workflow_schema(Host.of({"acme": offering({"step_type": {"one": Twice, "two": Twice}})}))
    for name in ("one", "two"):
        assert errors(schema, workflow({"id": "a", "type": name, "count": 1})) == []
        assert errors(schema, workflow({"id": "a", "type": name})) == ["'count' is a required property"]


def test_text_that_is_compiled_says_what_it_is(schema: dict[str, Any]) -> None:
    say, route, use = of_type(schema, "say"), schema["$defs"]["Branch"]["properties"], of_type(schema, "use")
    assert say["prompt"]["description"] == (
        "A template: {state.key} becomes the value there, and {{ is one brace"
    )  # the field of this double has no words of its own
    assert route["expression"]["description"] == "An expression, such as state.score > 80 and 'red' in state.tags"
    assert say["output"] == {
        "title": "Output",
        "type": ["string", "null"],
        "description": ("state path that receives what the step makes. A state path, such as report.title or items[0]"),
    }
    assert use["arguments"]["description"].startswith("Texts within are templates; ")
    assert "$comment" not in json.dumps(schema)


def test_a_default_is_named_where_it_is_a_value_to_write(schema: dict[str, Any]) -> None:
    say = of_type(schema, "say")
    assert (say["count"]["default"], say["loud"]["default"]) == (1, False)
    # An editor writes a default down: null, [] and a whole block would only be in the way.
    assert not any("default" in say[name] for name in ("model", "tags", "shape", "depends_on", "retry"))
    assert schema["$defs"]["RunConfig"]["properties"]["max_retries"]["default"] == 3


def test_ids_of_every_script_pass_where_letters_are_ascii(schema: dict[str, Any]) -> None:
    pattern = schema["$defs"]["Step"]["properties"]["id"]["pattern"]
    ascii_only = re.compile(pattern, re.ASCII)
    assert [each for each in ("a", "_", "9", "größe", "步骤.2", "a-b.c_d") if not ascii_only.search(each)] == []
    assert [each for each in ("", ".a", "-a", "a b", "a/b", "a{", "[a]") if ascii_only.search(each)] == []


def test_installed_names_are_offered_and_others_taken(schema: dict[str, Any]) -> None:
    assert of_type(schema, "use")["tool"]["anyOf"] == [
        {"enum": ["echo"], "enumDescriptions": ["a tool that is never loaded"]},
        {"type": "string"},
    ]
    provider = schema["$defs"]["RunConfig"]["properties"]["provider"]["anyOf"]
    assert provider[0]["enum"] == ["fake"]
    assert provider[1] == {"type": ["string", "null"]}
    unknown = workflow({"id": "a", "type": "use", "tool": "elsewhere"}, config={"provider": "elsewhere"})
    assert errors(schema, unknown) == []


def test_steps_within_a_step_are_steps_of_every_type() -> None:
    class Group(Step):
        """Holds steps."""

        steps: tuple[Step, ...]

        async def run(self, ctx: Any) -> StepOutcome:
            return StepOutcome()

    schema = workflow_schema(Host.of({"acme": offering({"step_type": {"group": Group}})}))
    inner = {"id": "b", "type": "group", "steps": []}
    assert errors(schema, workflow({"id": "a", "type": "group", "steps": [inner]})) == []
    assert errors(schema, workflow({"id": "a", "type": "group", "steps": [{**inner, "type": "grup"}]})) == [
        "'grup' is not one of ['group']"
    ]


def test_an_alias_is_a_type_as_well_and_names_are_offered_once() -> None:
    class Single(Step):
        """Uses a tool."""

        tool: str

        async def run(self, ctx: Any) -> StepOutcome:
            return StepOutcome()

        def references(self) -> Iterator[Reference]:
            yield Reference(role="tool", name=self.tool, field="tool")

    plugin = offering({"tool": {"echo": object}, "step_type": {"single": Single}})
    settings = Settings.model_validate({"aliases": {"step_types": {"own": "single", "gone": "nothing"}}})
    schema = workflow_schema(Host.of({"acme": plugin}, settings=settings))
    assert schema["$defs"]["Step"]["properties"]["type"]["enum"] == ["own", "single"]
    assert [each.get("enum") for each in of_type(schema, "own")["tool"]["anyOf"]] == [["echo"], None]


def test_names_in_a_list_are_offered_too() -> None:
    class Several(Step):
        """Uses several tools."""

        tools: tuple[str, ...] = ()

        async def run(self, ctx: Any) -> StepOutcome:
            return StepOutcome()

        def references(self) -> Iterator[Reference]:
            for index, name in enumerate(self.tools):
                yield Reference(role="tool", name=name, field=f"tools.{index}")
            yield Reference(role="file", name="x", field="id")

    tool = offering({"tool": {"echo": object}, "step_type": {"several": Several}})
    fields = of_type(workflow_schema(Host.of({"acme": tool})), "several")
    assert fields["tools"]["items"]["anyOf"][0]["enum"] == ["echo"]
    assert "anyOf" not in fields["id"], "a file is not installed"


def test_a_step_that_cannot_be_asked_has_no_suggestions_and_its_schema() -> None:
    class Odd(Step):
        """Wants a whole block."""

        tool: str
        block: dict[str, str]

        async def run(self, ctx: Any) -> StepOutcome:
            return StepOutcome()

        def references(self) -> Iterator[Reference]:
            yield Reference(role="tool", name=self.block["tool"], field="tool")

    fields = of_type(workflow_schema(Host.of({"acme": offering({"step_type": {"odd": Odd}})})), "odd")
    assert fields["tool"] == {"title": "Tool", "type": "string"}


def test_fields_of_plugins_are_part_of_the_config(schema: dict[str, Any]) -> None:
    assert schema["$defs"]["RunConfig"]["properties"]["replies"]["description"] == "counts by word"
    assert errors(schema, workflow({"id": "a", "type": "idle"}, config={"replies": {"a": 1}})) == []
    assert errors(schema, workflow({"id": "a", "type": "idle"}, config={"replies": {"a": "one"}})) != []
    assert errors(schema, workflow({"id": "a", "type": "idle"}, config={"replis": {}})) != []


def test_the_sandbox_block_is_the_installed_sandboxs(new_host: NewHost, plugins: SimpleNamespace) -> None:
    step = {"id": "a", "type": "idle"}
    without, with_box = workflow_schema(new_host()), workflow_schema(new_host(box=plugins.BoxPlugin()))
    assert errors(without, workflow(step, config={"sandbox": {"anything": 1}})) == []
    assert errors(with_box, workflow(step, config={"sandbox": {"enabled": True}})) == []
    assert errors(with_box, workflow(step, config={"sandbox": None})) == []
    assert errors(with_box, workflow(step, config={"sandbox": {"anything": 1}})) != []


def test_two_plugins_may_each_have_a_block_of_one_name() -> None:
    def make(inner: type) -> type[Step]:
        class Block(BaseModel):
            part: inner = Field(description="a part")  # type: ignore[valid-type]

        class Stranger(Step):
            """Has a block."""

            block: Block = Field(description="the block")

            async def run(self, ctx: Any) -> StepOutcome:
                return StepOutcome()

        Block.__module__ = Stranger.__module__ = f"acme_{inner.__name__}"
        return Stranger

    schema = workflow_schema(Host.of({"a": offering({"step_type": {"a": make(int), "b": make(str)}})}))
    assert errors(schema, workflow({"id": "x", "type": "a", "block": {"part": 1}})) == []
    assert errors(schema, workflow({"id": "x", "type": "b", "block": {"part": "t"}})) == []
    assert errors(schema, workflow({"id": "x", "type": "b", "block": {"part": 1}})) == ["1 is not of type 'string'"]


def test_a_type_that_json_schema_has_no_words_for_takes_anything() -> None:
    class Wild(Step):
        """Has a field of a foreign type."""

        model_config = {"arbitrary_types_allowed": True}  # noqa: RUF012
        when: SimpleNamespace | None = None
        count: int = 1

        async def run(self, ctx: Any) -> StepOutcome:
            return StepOutcome()

    schema = workflow_schema(Host.of({"acme": offering({"step_type": {"wild": Wild}})}))
    assert errors(schema, workflow({"id": "x", "type": "wild", "when": {"a": 1}})) == []
    assert errors(schema, workflow({"id": "x", "type": "wild", "count": "one"})) == ["'one' is not of type 'integer'"]


def test_what_is_broken_or_offered_twice_is_left_out_and_told(new_host: NewHost) -> None:
    class Raises(Step):
        """Its schema cannot be made."""

        async def run(self, ctx: Any) -> StepOutcome:
            return StepOutcome()

        @classmethod
        def __get_pydantic_json_schema__(cls, schema: Any, handler: GetJsonSchemaHandler) -> Any:
            raise LookupError("no words")

    class Twice:
        @hookimpl
        def treadle_step_types(self) -> Mapping[str, Offer]:
            return {"say": Offer(Raises, "the same name again"), "gone": Offer("nowhere:Gone", "not there")}

        @hookimpl
        def treadle_config_fields(self) -> Mapping[str, ConfigOffer]:
            return {"limit": ConfigOffer("nowhere:Limit", "not there"), "model": ConfigOffer(int, "the kernel's")}

    others = offering({"step_type": {"raises": Raises, "function": len, "model": BaseModel}})
    told: list[str] = []
    schema = workflow_schema(new_host(twice=Twice(), others=others), left_out=lambda error: told.append(str(error)))
    assert schema["$defs"]["Step"]["properties"]["type"]["enum"] == [
        "boxed", "idle", "picky", "route", "use",
    ]  # fmt: skip
    assert "limit" not in schema["$defs"]["RunConfig"]["properties"]
    assert schema["$defs"]["RunConfig"]["properties"]["model"]["type"] == ["string", "null"]
    assert sorted(line.partition(" nowhere")[0] for line in told) == [
        "config field 'limit' of plugin 'twice' could not be loaded from",
        "plugin 'twice' redefines this field of the kernel's; disable it with --without twice",
        "step type 'function' of plugin 'others' has no JSON Schema: TypeError: issubclass() arg 1 must be a class",
        "step type 'gone' of plugin 'twice' could not be loaded from",
        "step type 'model' of plugin 'others' has no JSON Schema: TypeError: it is not a subclass of Step",
        "step type 'raises' of plugin 'others' has no JSON Schema: LookupError: no words",
        (
            "step type 'say' is offered by plugin 'testing' and by plugin 'twice'; "
            "disable one with --without testing or --without twice"
        ),
    ]
    Draft202012Validator.check_schema(schema)


def test_without_any_plugin_there_is_still_an_envelope() -> None:
    schema = workflow_schema(Host.of({}))
    Draft202012Validator.check_schema({**schema})
    assert errors(schema, {"name": "x", "stepps": []}) == [
        "Additional properties are not allowed ('stepps' was unexpected)",
        "'steps' is a required property",
    ]


# --- the schema and the checks agree ----------------------------------------------------------------

GOOD = workflow(
    {"id": "a", "type": "say", "prompt": "{state.x}", "model": "m", "temperature": 1, "count": 2, "loud": True,
     "shape": {"kind": "text", "name": "n"}, "tags": ["t"], "output": "b.c", "timeout": 5,
     "retry": {"max_retries": 1, "backoff_base": 2.5, "jitter": False, "retryable_status_codes": [500]}},
    {"id": "r", "type": "route", "depends_on": ["a"], "default": "u",
     "conditions": [{"expression": "state.x > 1", "target": "u"}]},
    {"id": "u", "type": "use", "depends_on": ["r"], "tool": "echo", "arguments": {"q": ["{state.x}"]}},
    version="2",
    description="d",
    config={"provider": "fake", "model": "m", "max_retries": 1, "timeout": 60, "max_concurrent_steps": 3,
            "stream": True, "on_step_failure": "continue", "strict_outputs": True, "strict_templates": False,
            "replies": {"a": 1}},
    state={"x": 1},
    state_schema={"x": {"type": "integer"}},
)  # fmt: skip

SHAPE = {"unknown-field", "missing-field", "wrong-type", "bad-value", "unknown-step-type"}
"""Codes of problems that a schema can see. Ids that nobody has, texts that do not parse and the like it cannot."""

RETYPED: list[Any] = ["text", "", 7, -1, 0.5, 2000, [], ["text"], {}, {"a": 1}, None, True]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in below:
        yield from places(each, (*path, key))


def mutants() -> Iterator[tuple[str, Any]]:
    for path in places(GOOD):
        *way, last = path
        name = ".".join(map(str, path))
        for value in RETYPED:
            data = copy.deepcopy(GOOD)
            holder: Any = data
            for part in way:
                holder = holder[part]
            holder[last] = value
            yield f"{name} = {value!r}", data
        for change in ("dropped", "misspelt") if isinstance(last, str) else ():
            data = copy.deepcopy(GOOD)
            holder = data
            for part in way:
                holder = holder[part]
            value = holder.pop(last)
            if change == "misspelt":
                holder[f"{last[:-1]}q"] = value
            yield f"{name} {change}", data


def shape_problems(data: Any, host: Host) -> list[str]:
    try:
        build_workflow(data, host=host)
    except DocumentError as error:
        return [str(problem) for problem in error.problems if problem.code in SHAPE]
    return []


def test_the_schema_refuses_what_the_checks_refuse_and_nothing_else(shared_host: Host) -> None:
    """Listed exceptions: ``true`` passes for the number 1 in the checks, as do numbers in quotes."""
    validator = Draft202012Validator(workflow_schema(shared_host))
    assert list(validator.iter_errors(GOOD)) == []
    assert shape_problems(GOOD, shared_host) == []
    compared = 0
    for name, data in mutants():
        refused, found = not validator.is_valid(data), shape_problems(data, shared_host)
        if name.endswith("= True") and refused and not found:
            assert re.search(r"temperature|count|timeout|retries|backoff|codes|concurrent|replies", name), name
            continue
        assert refused == bool(found), f"{name}: refused by the schema: {refused}; by the checks: {found}"
        compared += 1
    assert compared > 600
