"""A model call with tools: the loop as a step runs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest
import trio

import treadle
from treadle import (
    AssistantMessage,
    DocumentError,
    Host,
    ModelResponse,
    NamedTool,
    Offer,
    StopReason,
    TextPart,
    Tool,
    ToolCallPart,
    ToolContext,
    ToolError,
    ToolMessage,
    UnavailableError,
)
from treadle.contracts.tool import Effect
from treadle.testing import RecordingObserver, offering, reply, run_workflow, scripted
from treadle_llm_call import plugin


class Echo(Tool):
    name = "echo"
    description = "Gives back what it gets."
    parameters: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
    }
    effect: ClassVar[Effect | None] = "pure"
    calls: ClassVar[list[Mapping[str, Any]]] = []

    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        type(self).calls.append(arguments)
        if arguments["text"] == "boom":
            raise ToolError("it went off", hint="do not")
        if arguments["text"] == "bug":
            raise ZeroDivisionError("by nought")
        if arguments["text"] == "slow":
            await trio.sleep(1000)
        return arguments["text"]


def echo(**attributes: Any) -> type[Echo]:
    return type("Echo", (Echo,), {"calls": [], **attributes})


def calls(*pairs: tuple[str, Mapping[str, Any]], text: str = "") -> ModelResponse:
    parts = [ToolCallPart(call_id=f"c{n}", tool_name=name, arguments=given) for n, (name, given) in enumerate(pairs)]
    said = [TextPart(text=text)] if text else []
    return reply(
        "", message=AssistantMessage(parts=(*said, *parts)), stop_reason=StopReason.TOOL_USE, finish_reason="tool_calls"
    )


def plugins(provider: Any, tool: type[Tool] | None = None) -> dict[str, object]:
    tools = {} if tool is None else {"tool": {"echo": Offer(tool, "echo")}}
    return {"llm_call": plugin, "double": offering({"provider": {"scripted": provider}, **tools})}


def document(config: Mapping[str, Any] | None = None, **step: Any) -> dict[str, Any]:
    base = {"id": "ask", "type": "llm_call", "prompt": "go", "tools": [{"name": "echo"}], "output": "answer"}
    return {"name": "t", "config": {"provider": "scripted", **(config or {})}, "steps": [{**base, **step}]}


def heard(provider: Any, index: int = -1) -> list[str]:
    message = provider.requests[index].messages[-1]
    assert isinstance(message, ToolMessage)
    return [each.content for each in message.results]


async def test_the_model_is_asked_again_with_the_results_until_it_answers() -> None:
    tool = echo()
    provider = scripted(calls(("echo", {"text": "a"}), ("echo", {"text": "b"})), "done")
    result = await run_workflow(document(), plugins=plugins(provider, tool))
    step = result.step_results["ask"]
    assert (step.output, step.finish_reason, result.final_state["answer"]) == ("done", "stop", "done")
    assert heard(provider) == ["a", "b"]
    assert step.usage.input_tokens == 14, "tokens of every call"
    assert [each.key for each in provider.requests] == ["ask", "ask"]


async def test_a_tool_declared_by_name_is_shown_as_it_is_registered_and_the_step_may_say_otherwise() -> None:
    provider = scripted("x", "y")
    parts = plugins(provider, echo())
    await run_workflow(document(), plugins=parts)
    own = {"type": "object", "properties": {"text": {"type": "string", "description": "what to say"}}}
    await run_workflow(document(tools=[{"name": "echo", "description": "Says it.", "parameters": own}]), plugins=parts)
    first, second = (each.tools[0] for each in provider.requests)
    assert (first.description, first.parameters) == ("Gives back what it gets.", Echo.parameters)
    assert (second.description, second.parameters) == ("Says it.", own)


async def test_whatever_a_tool_does_wrong_goes_back_to_the_model_and_the_step_goes_on(autojump_clock: Any) -> None:
    texts = ("boom", "bug", "slow", "fine")
    provider = scripted(calls(*(("echo", {"text": each}) for each in texts), ("nope", {})), "done")
    result = await run_workflow(document(), plugins=plugins(provider, echo(timeout=5.0)))
    assert result.ok
    assert heard(provider) == [
        "it went off; do not",
        "tool 'echo' failed: ZeroDivisionError: by nought",
        "tool 'echo' timed out after 5 s; whether it had an effect is unknown",
        "fine",
        "there is no tool 'nope' (it is not registered here); the tools are echo",
    ]


async def test_a_declared_tool_that_is_not_registered_is_a_result_and_a_warning() -> None:
    provider = scripted(calls(("echo", {"text": "a"})), "done")
    result = await run_workflow(document(), plugins=plugins(provider))
    assert heard(provider) == ["tool 'echo' is not registered here, so it cannot run; do without it"]
    assert "tool 'echo' is not registered here: the model sees it and cannot use it" in [
        each.message for each in result.warnings
    ]


@pytest.mark.parametrize(
    ("text", "finish_reason"), [("I'll look", "max_tool_iterations"), ("", "max_tool_iterations_no_answer")]
)
async def test_at_the_cap_the_step_succeeds_with_the_last_text_and_its_tools_do_not_run(
    text: str, finish_reason: str
) -> None:
    tool = echo()
    provider = scripted(calls(("echo", {"text": "a"})), calls(("echo", {"text": "b"}), text=text))
    result = await run_workflow(document(max_tool_iterations=2), plugins=plugins(provider, tool))
    step = result.step_results["ask"]
    assert (step.status, step.output, step.finish_reason) == ("success", text, finish_reason)
    assert tool.calls == [{"text": "a"}]


async def test_five_calls_are_made_at_most_where_the_step_does_not_say() -> None:
    provider = scripted(*(calls(("echo", {"text": str(n)})) for n in range(9)))
    await run_workflow(document(), plugins=plugins(provider, echo()))
    assert len(provider.requests) == 5


@pytest.mark.parametrize(("choice", "sent"), [("required", "required"), ({"name": "echo"}, NamedTool(name="echo"))])
async def test_a_forced_choice_holds_for_the_first_call(choice: Any, sent: Any) -> None:
    provider = scripted(calls(("echo", {"text": "a"})), "done")
    await run_workflow(document(tool_choice=choice), plugins=plugins(provider, echo()))
    assert [each.tool_choice for each in provider.requests] == [sent, "auto"]


async def test_text_streams_inside_the_loop() -> None:
    observer = RecordingObserver()
    provider = scripted(calls(("echo", {"text": "a"}), text="let me see"), "all done")
    await run_workflow(document(stream=True), plugins=plugins(provider, echo()), observers=[observer])
    texts = [each.text for each in observer.events if type(each).__name__ == "TextEmitted"]
    assert "".join(texts) == "let me seeall done"


# --- retries ------------------------------------------------------------------------------------------

FAILS = UnavailableError("down", provider="scripted", status_code=503)


async def test_a_retry_reruns_the_loop_and_does_not_run_again_what_was_to_happen_once(autojump_clock: Any) -> None:
    tool = echo(effect="once")
    asks = calls(("echo", {"text": "pay"}))
    provider = scripted(asks, FAILS, asks, "done")
    result = await run_workflow(document(), plugins=plugins(provider, tool))
    assert result.step_results["ask"].attempts == 2
    assert tool.calls == [{"text": "pay"}]
    assert heard(provider) == ["pay"], "the second attempt hears the first one's result"


async def test_a_retry_runs_again_what_may_run_again(autojump_clock: Any) -> None:
    tool = echo(effect="idempotent")
    asks = calls(("echo", {"text": "put"}))
    await run_workflow(document(), plugins=plugins(scripted(asks, FAILS, asks, "done"), tool))
    assert len(tool.calls) == 2


async def test_with_other_arguments_the_model_is_told_of_the_earlier_attempt_and_may_insist(
    autojump_clock: Any,
) -> None:
    tool = echo(effect="once")
    first, other = calls(("echo", {"text": "pay 1"})), calls(("echo", {"text": "pay 2"}))
    provider = scripted(first, FAILS, other, other, "done")
    await run_workflow(document(), plugins=plugins(provider, tool))
    (told,) = heard(provider, 3)
    assert told == (
        "not run: 'echo' was called before in this step, which is being tried again: with "
        '{"text":"pay 1"} it gave "pay 1". If this further call is still needed, make it again'
    )
    assert tool.calls == [{"text": "pay 1"}, {"text": "pay 2"}]


async def test_the_second_like_call_of_an_attempt_is_another_call(autojump_clock: Any) -> None:
    tool = echo(effect="once")
    twice = calls(("echo", {"text": "x"}), ("echo", {"text": "x"}))
    provider = scripted(calls(("echo", {"text": "x"})), FAILS, twice, "done")
    await run_workflow(document(), plugins=plugins(provider, tool))
    assert len(tool.calls) == 2


# --- documents ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (
            {"response_schema": {"type": "json_object"}},
            "tools and response_schema cannot share a step; an agent with an output_schema combines them",
        ),
        ({"tools": [{"name": "echo"}, {"name": "echo"}]}, "tools: 'echo' is declared twice"),
        ({"tool_choice": {"name": "other"}}, "tool_choice: the step has no tool 'other'"),
        ({"tool_choice": "required", "tools": []}, "tool_choice: required needs tools"),
        ({"max_tool_iterations": 0}, "steps.ask.max_tool_iterations: must be at least 1, not 0"),
        ({"tools": ["echo"]}, "steps.ask.tools.0: must be a mapping, not 'echo'; write {name: echo}"),
        ({"tools": [{"nam": "echo"}]}, "unknown field; did you mean 'name'?"),
        (
            {"tools": [{"name": "echo", "parameters": {"type": "array"}}]},
            "the parameters of a tool are a JSON Schema of type object",
        ),
        ({"thinking": {"level": "much"}}, "steps.ask.thinking.level"),
    ],
)
def test_a_wrong_step_is_refused_when_the_document_loads(step: dict[str, Any], message: str) -> None:
    with pytest.raises(DocumentError) as caught:
        treadle.build_workflow(document(**step), host=Host.of(plugins(scripted(), echo())))
    assert message in str(caught.value)
