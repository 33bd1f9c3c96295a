"""The model call: what it sends, what it writes, how it fails."""

from __future__ import annotations

from typing import Any

import pytest

import treadle
from treadle import (
    DocumentError,
    Host,
    OutputSchema,
    RateLimitError,
    ReasoningPart,
    StopReason,
    SystemMessage,
    TextPart,
    Usage,
    UserMessage,
)
from treadle.testing import RecordingObserver, offering, reply, run_workflow, scripted
from treadle_llm_call import plugin

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


def plugins(provider: Any) -> dict[str, object]:
    return {"llm_call": plugin, "double": offering({"provider": {"scripted": provider}})}


def document(config: dict[str, Any] | None = None, **step: Any) -> dict[str, Any]:
    base = {"id": "ask", "type": "llm_call", "prompt": "Hello {state.who}", "output": "answer"}
    return {
        "name": "t",
        "config": {"provider": "scripted", **(config or {})},
        "state": {"who": "world"},
        "steps": [{**base, **step}],
    }


async def test_the_prompts_are_rendered_and_sent_with_the_settings_of_the_step() -> None:
    provider = scripted("hi")
    step = {
        "system_prompt": "You serve {who}.",
        "model": "m-2",
        "temperature": 0.5,
        "max_tokens": 9,
        "response_schema": None,
    }
    result = await run_workflow(document(**step), plugins=plugins(provider))
    (request,) = provider.requests
    assert request.messages == (SystemMessage(text="You serve world."), UserMessage.of("Hello world"))
    assert (request.model, request.temperature, request.max_tokens, request.key) == ("m-2", 0.5, 9, "ask")
    assert not request.stream
    assert result.final_state["answer"] == "hi"


@pytest.mark.parametrize(
    ("config", "step", "model"),
    [({}, {}, "scripted-1"), ({"model": "c"}, {}, "c"), ({"model": "c"}, {"model": "s"}, "s")],
)
async def test_the_model_is_the_steps_then_the_configs_then_the_providers(
    config: dict[str, Any], step: dict[str, Any], model: str
) -> None:
    provider = scripted("hi")
    await run_workflow(document(config, **step), plugins=plugins(provider))
    assert provider.requests[0].model == model


@pytest.mark.parametrize(
    ("config", "step", "streamed"),
    [
        ({}, {}, False),
        ({"stream": True}, {}, True),
        ({"stream": True}, {"stream": False}, False),
        ({}, {"stream": True}, True),
    ],
)
async def test_a_steps_own_stream_setting_wins(config: dict[str, Any], step: dict[str, Any], streamed: bool) -> None:
    provider, observer = scripted("one two three"), RecordingObserver()
    result = await run_workflow(document(config, **step), plugins=plugins(provider), observers=[observer])
    assert provider.requests[0].stream is streamed
    pieces = [event.text for event in observer.events if isinstance(event, treadle.contracts.events.TextEmitted)]
    assert pieces == (["one", " two", " three"] if streamed else [])
    assert (result.step_results["ask"].time_to_first_token_ms is not None) is streamed
    assert result.final_state["answer"] == "one two three"


async def test_the_result_says_what_was_spent_who_answered_and_why_it_stopped() -> None:
    answer = reply(
        "x",
        message=treadle.AssistantMessage(parts=(ReasoningPart(text="hm"), TextPart(text="x"))),
        stop_reason=StopReason.MAX_TOKENS,
        finish_reason="length",
        usage=Usage(input_tokens=3, output_tokens=2, reasoning_tokens=1),
        model="m-dated",
    )
    step = (await run_workflow(document(), plugins=plugins(scripted(answer)))).step_results["ask"].to_json()
    assert step["finish_reason"] == "length"
    assert step["reasoning_content"] == "hm"
    assert (step["model"], step["provider"], step["cost_usd"]) == ("m-dated", "scripted", 0.0)
    assert step["token_usage"]["total_tokens"] == 5
    assert step["token_usage"]["cache_read_tokens"] is None
    assert step["prompt_metadata"]["length_chars"] == len("Hello world")
    assert step["prompt_metadata"]["template_vars"] == ["state.who"]


async def test_a_reply_of_the_declared_shape_is_written_as_a_value_and_shown_as_text() -> None:
    provider = scripted('Sure: {"n": 4}')
    step = {"response_schema": {"type": "json_schema", "schema": SCHEMA, "description": "a number"}}
    result = await run_workflow(document(**step), plugins=plugins(provider))
    assert provider.requests[0].output == OutputSchema(name="ask", schema=SCHEMA, description="a number")
    assert result.final_state["answer"] == {"n": 4}
    assert result.step_results["ask"].output == 'Sure: {"n": 4}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no idea", "there is no JSON in the reply: 'no idea'"),
        ("  ", "the reply is empty"),
        ('{"n": "four"}', "the reply does not have the shape asked for: n: 'four' is not of type 'integer'"),
    ],
)
async def test_a_reply_of_another_shape_fails_the_step_without_a_retry(text: str, message: str) -> None:
    step = {"response_schema": {"type": "json_schema", "schema": SCHEMA}, "retry": {"max_retries": 0}}
    result = await run_workflow(document(**step), plugins=plugins(scripted(text)))
    asked = result.step_results["ask"]
    assert (asked.status, asked.error, asked.attempts) == ("failed", message, 1)
    assert asked.usage.input_tokens == 7, "what was paid for is counted"
    assert "answer" not in result.final_state


async def test_a_transient_failure_is_tried_again(autojump_clock: Any) -> None:
    provider = scripted(RateLimitError("slow down", provider="scripted", status_code=429, retry_after=7), "hi")
    result = await run_workflow(document(), plugins=plugins(provider))
    assert result.step_results["ask"].attempts == 2
    assert result.total_duration_ms == pytest.approx(7000, abs=50)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"prompt": None}, "the field 'prompt' is missing"),
        ({"prompt": "Hi {state.who"}, "steps.ask.prompt"),
        ({"max_tokens": 0}, "steps.ask.max_tokens: must be at least 1, not 0"),
        ({"modle": "m"}, "steps.ask.modle: unknown field; did you mean 'model'?"),
        ({"response_schema": {"type": "json_schema"}}, "the field 'schema' is missing"),
        (
            {"response_schema": SCHEMA},
            "this is a JSON Schema itself; write {type: json_schema, schema: ...} around it",
        ),
        (
            {"response_schema": {"type": "json_schema", "schema": {"type": "objekt"}}},
            "not a JSON Schema: type: 'objekt' is not valid under any of the given schemas",
        ),
        (
            {"response_schema": {"type": "json_schema", "schema": {**SCHEMA, "additionalProperties": True}}},
            "additionalProperties: true cannot be held to",
        ),
    ],
)
def test_a_wrong_step_is_refused_when_the_document_loads(step: dict[str, Any], message: str) -> None:
    with pytest.raises(DocumentError) as caught:
        treadle.build_workflow(document(**step), host=Host.of(plugins(scripted())))
    assert message in str(caught.value)


def test_a_step_without_a_prompt_is_refused() -> None:
    data = document()
    del data["steps"][0]["prompt"]
    with pytest.raises(DocumentError, match="the field 'prompt' is missing"):
        treadle.build_workflow(data, host=Host.of(plugins(scripted())))


def test_without_a_provider_the_document_is_refused_before_it_runs() -> None:
    data = document()
    del data["config"]["provider"]
    with pytest.raises(DocumentError) as caught:
        treadle.build_workflow(data, host=Host.of(plugins(scripted())))
    assert str(caught.value) == (
        "steps.ask.type: no model provider is set; set config.provider, or use -p; there is scripted"
    )
    treadle.build_workflow(data, host=Host.of(plugins(scripted())), config={"provider": "scripted"})


def test_a_provider_given_from_outside_saves_a_document_whose_own_is_not_there() -> None:
    data = document({"provider": "gone"})
    host = Host.of(plugins(scripted()))
    with pytest.raises(DocumentError, match="no provider 'gone'"):
        treadle.build_workflow(data, host=host)
    workflow = treadle.build_workflow(data, host=host, config={"provider": "scripted", "model": None})
    assert workflow.config.provider == "scripted"
    with pytest.raises(treadle.NotInstalledError, match="no provider 'scriptd'; did you mean 'scripted'"):
        treadle.build_workflow(data, host=host, config={"provider": "scriptd"})


async def test_a_key_that_the_default_provider_lacks_is_said_to_be_of_the_default() -> None:
    provider = scripted(*[treadle.CredentialError("ACME_KEY is not set", hint="export ACME_KEY=...")] * 2)
    offer = treadle.ProviderOffer(provider, "scripted", is_default=True)
    parts = {"llm_call": plugin, "double": offering({"provider": {"scripted": offer}})}
    data = document()
    result = await run_workflow(data, plugins=parts)
    assert result.error == "step 'ask': ACME_KEY is not set; export ACME_KEY=..."
    del data["config"]["provider"]
    result = await run_workflow(data, plugins=parts)
    assert result.error == (
        "step 'ask': ACME_KEY is not set; export ACME_KEY=..., "
        "or name another provider than 'scripted', which is the default"
    )


async def test_what_a_provider_wants_known_is_a_warning_of_the_run() -> None:
    observer = RecordingObserver()
    answer = reply("x", warnings=("temperature is not taken by this model",))
    await run_workflow(document(), plugins=plugins(scripted(answer)), observers=[observer])
    warnings = [event for event in observer.events if isinstance(event, treadle.contracts.events.RunWarning)]
    assert [(each.step_id, each.message) for each in warnings] == [("ask", "temperature is not taken by this model")]


async def test_the_exception_of_a_failed_step_is_kept_for_a_debugger() -> None:
    error = treadle.BadRequestError("no", provider="scripted", status_code=400)
    result = await run_workflow(document(), plugins=plugins(scripted(error)))
    assert result.step_results["ask"].exception is error
    assert "exception" not in result.step_results["ask"].to_json()
