"""Replies with a shape: re-asks, pydantic classes, JSON objects; and reasoning."""

from __future__ import annotations

from typing import Any

import pytest

import treadle
from treadle import DocumentError, Host, Reasoning, ReasoningPart, TextPart
from treadle.testing import offering, reply, run_workflow, scripted
from treadle_llm_call import plugin

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}

ACME = '''
from pydantic import BaseModel, Field


class Answer(BaseModel):
    """A number with words."""

    n: int
    words: list[str] = Field(default_factory=list)


NOT_ONE = 5
'''


@pytest.fixture
def acme(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "acme_shapes.py").write_text(ACME, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "acme_shapes", raising=False)
    return "acme_shapes"


def plugins(provider: Any) -> dict[str, object]:
    return {"llm_call": plugin, "double": offering({"provider": {"scripted": provider}})}


def document(schema: Any, **step: Any) -> dict[str, Any]:
    base = {"id": "ask", "type": "llm_call", "prompt": "go", "response_schema": schema, "output": "answer"}
    return {"name": "t", "config": {"provider": "scripted"}, "steps": [{**base, **step}]}


INLINE = {"type": "json_schema", "schema": SCHEMA}


@pytest.mark.parametrize("stream", [False, True])
async def test_an_invalid_reply_goes_back_with_the_error_within_the_attempt(stream: bool) -> None:
    provider = scripted('{"n": "x"}', '{"n": 4}')
    result = await run_workflow(document(INLINE, stream=stream), plugins=plugins(provider))
    step = result.step_results["ask"]
    assert (step.status, step.attempts, result.final_state["answer"]) == ("success", 1, {"n": 4})
    assert provider.requests[1].messages[-1].text == (
        "That will not do: the reply does not have the shape asked for: n: 'x' is not of type 'integer'. "
        "Reply again, with the JSON alone."
    )
    assert step.output == '{"n": 4}'
    assert step.usage.input_tokens == 14


async def test_re_asks_are_as_many_as_retry_max_retries_and_then_the_step_fails_without_a_retry() -> None:
    provider = scripted(*["no"] * 9)
    result = await run_workflow(document(INLINE, retry={"max_retries": 2}), plugins=plugins(provider))
    step = result.step_results["ask"]
    assert (step.status, step.attempts, len(provider.requests)) == ("failed", 1, 3)
    assert step.error == "there is no JSON in the reply: 'no' (3 replies)"
    assert step.error_classification == "permanent"


async def test_a_valid_value_anywhere_in_the_reply_needs_no_further_call() -> None:
    provider = scripted('First I tried {"n": "x"}, then:\n```json\n{"n": 5}\n```\nand `so` on')
    result = await run_workflow(document(INLINE), plugins=plugins(provider))
    assert result.final_state["answer"] == {"n": 5}


async def test_a_null_for_an_optional_property_is_as_if_it_were_not_there_and_defaults_are_filled_in() -> None:
    schema = {
        "type": "object",
        "properties": {
            "n": {"type": "integer"},
            "unit": {"type": "string", "default": "m"},
            "note": {"type": "string"},
        },
        "required": ["n"],
    }
    provider = scripted('{"n": 1, "unit": null, "note": null}')
    result = await run_workflow(document({"type": "json_schema", "schema": schema}), plugins=plugins(provider))
    assert result.final_state["answer"] == {"n": 1, "unit": "m"}
    assert "default" in schema["properties"]["unit"], "the schema of the document stays as it is"  # type: ignore[index]


@pytest.mark.parametrize("separator", [".", ":"])
async def test_a_pydantic_class_gives_an_instance_in_the_state_and_a_mapping_in_json(acme: str, separator: str) -> None:
    provider = scripted('{"n": 4}')
    schema = {"type": "pydantic", "model": f"{acme}{separator}Answer"}
    result = await run_workflow(document(schema), plugins=plugins(provider))
    answer = result.final_state["answer"]
    assert (type(answer).__name__, answer.n, answer.words) == ("Answer", 4, [])
    assert result.to_json()["final_state"]["answer"] == {"n": 4, "words": []}
    output = provider.requests[0].output
    assert (output.name, output.strict, output.schema["required"]) == ("Answer", True, ["n"])


async def test_a_pydantic_complaint_names_the_fields(acme: str) -> None:
    provider = scripted('{"n": "x"}', '{"n": 1}')
    await run_workflow(document({"type": "pydantic", "model": f"{acme}:Answer"}), plugins=plugins(provider))
    assert "n: Input should be a valid integer" in provider.requests[1].messages[-1].text


async def test_any_json_object_will_do_where_nothing_more_is_said() -> None:
    provider = scripted("[1]", '{"a": 1}')
    result = await run_workflow(document({}), plugins=plugins(provider))
    assert result.final_state["answer"] == {"a": 1}
    assert (provider.requests[0].output.schema, provider.requests[0].output.name) == (None, "ask")
    assert "it is not a JSON object" in provider.requests[1].messages[-1].text


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "pydantic"}, "the field 'model' is missing"),
        ({"type": "pydantic", "model": "no_such_module:Thing"}, "no_such_module"),
        ({"type": "json_object", "schema": {}}, "response_schema.schema: unknown field"),
        ({"schema": {}}, "response_schema: the field 'type' is missing"),
        ({"type": "schema"}, "response_schema.type: must be json_object, json_schema or pydantic, not 'schema'"),
        ({"type": "json_schema", "schema": {}, "model": "a:B"}, "response_schema.model: unknown field"),
    ],
)
def test_a_wrong_block_is_refused_when_the_document_loads(schema: Any, message: str) -> None:
    with pytest.raises(DocumentError) as caught:
        treadle.build_workflow(document(schema), host=Host.of(plugins(scripted())))
    assert message in str(caught.value)


async def test_what_is_no_pydantic_class_fails_the_step_before_a_call(acme: str) -> None:
    provider = scripted()
    result = await run_workflow(document({"type": "pydantic", "model": f"{acme}:NOT_ONE"}), plugins=plugins(provider))
    assert result.step_results["ask"].error == (
        "response_schema.model: 'acme_shapes:NOT_ONE' is not a pydantic model class"
    )


async def test_reasoning_is_asked_for_and_reaches_the_result_alone() -> None:
    answer = reply("x", message=treadle.AssistantMessage(parts=(ReasoningPart(text="hm"), TextPart(text="4"))))
    provider = scripted(answer, "x")
    thinking = {"enabled": True, "budget_tokens": 500, "level": "low", "capture_reasoning": False}
    result = await run_workflow(document(None, thinking=thinking), plugins=plugins(provider))
    assert provider.requests[0].reasoning == Reasoning(budget_tokens=500, level="low", capture=False)
    assert result.step_results["ask"].reasoning_content == "hm"
    assert "hm" not in str(result.final_state)
    await run_workflow(document(None, thinking={"budget_tokens": 5}), plugins=plugins(provider))
    assert provider.requests[1].reasoning is None, "without enabled nothing of the block is sent"
