"""The step ``agent``: what it sends, what it writes, what it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
import trio

import treadle
import treadle_attachments.plugin
import treadle_llm_call.plugin
from treadle import (
    AssistantMessage,
    DocumentError,
    Host,
    MediaPart,
    MemoryJournal,
    ModelResponse,
    Offer,
    StopReason,
    TextPart,
    Tool,
    ToolCallPart,
    ToolContext,
    ToolMessage,
    UnavailableError,
    UserMessage,
)
from treadle.contracts.provider import Features
from treadle.testing import FakeSandbox, offering, reply, run_workflow, scripted
from treadle_agent import Agent, plugin


class Look(Tool):
    name = "look"
    description = "Looks something up."
    parameters: ClassVar[Mapping[str, Any]] = {"type": "object", "properties": {"what": {"type": "string"}}}

    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        await trio.sleep(float(arguments.get("what", 0)))
        return "found"


def calls(*pairs: tuple[str, Mapping[str, Any]], text: str = "", cost: float | None = None) -> ModelResponse:
    parts = [ToolCallPart(call_id=f"c{n}", tool_name=name, arguments=given) for n, (name, given) in enumerate(pairs)]
    said = [TextPart(text=text)] if text else []
    message = AssistantMessage(parts=(*said, *parts))
    return reply("", message=message, stop_reason=StopReason.TOOL_USE, finish_reason="tool_calls", cost_usd=cost)


def plugins(provider: Any, *, tool: bool = True) -> dict[str, object]:
    tools = {"tool": {"look": Offer(Look, "look")}} if tool else {}
    return {
        "agent": plugin,
        "llm_call": treadle_llm_call.plugin,
        "double": offering({"provider": {"scripted": provider}, **tools}),
    }


def document(agent: Any, config: Mapping[str, Any] | None = None, **step: Any) -> dict[str, Any]:
    base = {"id": "answer", "type": "agent", "agent": agent, "prompt": "{state.question}", "output": "reply"}
    return {
        "name": "t",
        "config": {"provider": "scripted", **(config or {})},
        "state": {"question": "why?", "firm": "ACME"},
        "steps": [{**base, **step}],
    }


DESK = {"name": "desk", "system_prompt": "You serve {firm}.", "model": "m-desk", "temperature": 0.1, "max_tokens": 50}


async def test_a_turn_is_a_model_call_with_the_agents_settings() -> None:
    provider = scripted("because")
    result = await run_workflow(document(DESK), plugins=plugins(provider))
    (request,) = provider.requests
    assert (request.model, request.temperature, request.max_tokens, request.key) == ("m-desk", 0.1, 50, "answer")
    assert [each.text for each in request.messages] == ["You serve ACME.", "why?"]  # type: ignore[union-attr]
    assert (result.final_state["reply"], result.step_results["answer"].output) == ("because", "because")


async def test_only_the_agents_tools_are_shown_and_can_be_called() -> None:
    provider = scripted(calls(("look", {}), ("other", {})), "done")
    await run_workflow(document({**DESK, "tools": ["look"]}), plugins=plugins(provider))
    assert [each.name for each in provider.requests[0].tools] == ["look"]
    message = provider.requests[1].messages[-1]
    assert isinstance(message, ToolMessage)
    assert message.results[0].content == "found"
    assert message.results[1].content == "there is no tool 'other' (it is not registered here); the tools are look"


async def test_a_tool_that_is_not_registered_fails_the_step_before_a_model_call() -> None:
    provider = scripted()
    inner = {"name": "inner", "tools": ["look"]}
    for agent in ({**DESK, "tools": ["look"]}, {**DESK, "tools": [{"name": "ask", "agent": inner}]}):
        result = await run_workflow(document(agent, retry={"max_retries": 3}), plugins=plugins(provider, tool=False))
        step = result.step_results["answer"]
        assert (step.attempts, step.error_classification) == (1, "permanent")
        assert step.error is not None
        assert step.error.startswith(f"agent '{'inner' if agent['tools'] != ['look'] else 'desk'}': no tool 'look'")
    assert provider.requests == []


# --- the cap ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "texts", "error", "output"),
    [
        ({}, "a", "agent 'desk': it has not answered within 2 model calls", None),
        ({"on_max_iterations": "warn_and_return"}, "I'll check", None, "I'll check"),
        ({"on_max_iterations": "warn_and_return"}, "", "and its last reply has no text", None),
    ],
)
async def test_the_cap(policy: dict[str, Any], texts: str, error: str | None, output: str | None) -> None:
    provider = scripted(calls(("look", {}), text=texts), calls(("look", {}), text=texts))
    agent = {**DESK, "tools": ["look"], "loop_policy": {"max_iterations": 2, **policy}}
    result = await run_workflow(document(agent), plugins=plugins(provider))
    step = result.step_results["answer"]
    assert (step.output, step.attempts, len(provider.requests)) == (output, 1, 2)
    if error is None:
        assert "agent 'desk' reached 2 model calls and gave its last text" in [each.message for each in result.warnings]
    else:
        assert error in str(step.error)
        assert step.error_classification == "permanent"


async def test_answer_at_the_cap_asks_once_more_with_the_tools_off() -> None:
    provider = scripted(calls(("look", {})), "at last")
    agent = {**DESK, "tools": ["look"], "loop_policy": {"max_iterations": 1, "on_max_iterations": "answer"}}
    result = await run_workflow(document(agent), plugins=plugins(provider))
    assert result.final_state["reply"] == "at last"
    assert provider.requests[-1].tool_choice == "none"


# --- typed replies ------------------------------------------------------------------------------------

SHAPE = {
    "type": "json_schema",
    "schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
}


async def test_without_tools_the_provider_holds_the_reply_and_a_bad_one_is_asked_for_again() -> None:
    provider = scripted('{"n": "x"}', '{"n": 4}')
    result = await run_workflow(document({**DESK, "output_schema": SHAPE}), plugins=plugins(provider))
    assert result.final_state["reply"] == {"n": 4}
    output = provider.requests[0].output
    assert output is not None
    assert output.name == "desk"


async def test_without_a_valid_reply_within_the_cap_the_step_fails_for_good_under_either_policy() -> None:
    for policy in ("error", "warn_and_return"):
        agent = {
            **DESK,
            "output_schema": SHAPE,
            "loop_policy": {"max_iterations": 2, "on_max_iterations": policy},
        }
        result = await run_workflow(document(agent), plugins=plugins(scripted("no", "no")))
        step = result.step_results["answer"]
        assert (step.status, step.attempts, step.error_classification) == ("failed", 1, "permanent")
        assert "agent 'desk' gave no valid reply: there is no JSON in the reply: 'no'" in str(step.error)


async def test_with_tools_the_reply_is_given_by_final_result_and_a_tool_must_be_called_every_time() -> None:
    provider = scripted(
        "plain", calls(("look", {})), calls(("final_result", {"n": "x"})), calls(("final_result", {"n": 7}))
    )
    agent = {**DESK, "tools": ["look"], "output_schema": SHAPE}
    result = await run_workflow(document(agent), plugins=plugins(provider))
    assert result.final_state["reply"] == {"n": 7}
    assert result.step_results["answer"].output == '{"n": 7}'
    assert [each.tool_choice for each in provider.requests] == ["required"] * 4
    assert [each.name for each in provider.requests[0].tools] == ["look", "final_result"]
    assert provider.requests[0].output is None
    assert "final_result" in provider.requests[1].messages[-1].text  # type: ignore[union-attr]


# --- constraints --------------------------------------------------------------------------------------


async def test_a_turn_that_has_spent_too_much_fails_for_good_and_its_cost_is_told() -> None:
    provider = scripted(calls(("look", {}), cost=0.03), calls(("look", {}), cost=0.03))
    agent = {**DESK, "tools": ["look"], "constraints": {"max_cost_usd": 0.05}}
    result = await run_workflow(document(agent, retry={"max_retries": 2}), plugins=plugins(provider))
    step = result.step_results["answer"]
    assert step.error == "agent 'desk' has spent $0.06, and its constraints.max_cost_usd is $0.05"
    assert (step.attempts, step.cost_usd) == (1, pytest.approx(0.06))
    assert "reply" not in result.final_state


async def test_a_call_that_can_only_break_the_limit_is_not_made() -> None:
    provider = scripted(calls(("look", {}), cost=0.05), "never asked")
    agent = {**DESK, "tools": ["look"], "constraints": {"max_cost_usd": 0.05}}
    await run_workflow(document(agent), plugins=plugins(provider))
    assert len(provider.requests) == 1


@pytest.mark.parametrize("text", ["I am AN AI Language MODEL.", "as an ai language model, no"])
async def test_forbidden_text_in_whatever_case_fails_the_turn(text: str) -> None:
    agent = {**DESK, "constraints": {"forbidden_patterns": ["an ai language model"]}}
    result = await run_workflow(document(agent), plugins=plugins(scripted(text)))
    assert result.step_results["answer"].error == (
        "agent 'desk': the reply contains 'an ai language model', which is forbidden"
    )
    assert "reply" not in result.final_state


async def test_every_text_of_a_typed_reply_is_looked_at() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}}
    agent = {
        **DESK,
        "output_schema": {"type": "json_schema", "schema": schema},
        "constraints": {"forbidden_patterns": ["secret"]},
    }
    result = await run_workflow(document(agent), plugins=plugins(scripted('{"a": ["x", "a SECRET"]}')))
    assert "which is forbidden" in str(result.step_results["answer"].error)


async def test_out_of_time_is_transient_and_the_retry_repeats_the_turn(autojump_clock: Any) -> None:
    slow, fast = calls(("look", {"what": "90"})), "in time"
    agent = {**DESK, "tools": ["look"], "constraints": {"max_latency_ms": 60000}}
    result = await run_workflow(document(agent), plugins=plugins(scripted(slow, fast)))
    assert (result.step_results["answer"].attempts, result.final_state["reply"]) == (2, "in time")


# --- agents as tools ----------------------------------------------------------------------------------

REFUNDS = {"name": "refunds", "description": "Knows about refunds.", "system_prompt": "About {message} at {firm}."}


def asking(inner: Any, **more: Any) -> dict[str, Any]:
    return {**DESK, "tools": [{"name": "ask", "agent": inner}], **more}


async def test_an_agent_as_a_tool_takes_a_turn_of_its_own_and_its_reply_is_the_result() -> None:
    provider = scripted(calls(("ask", {"message": "the charge"}), ("ask", {"message": "again"})), "yes", "no", "done")
    result = await run_workflow(document(asking(REFUNDS), {"model": "m-flow"}), plugins=plugins(provider))
    first, *inner, last = provider.requests
    assert (first.tools[0].name, first.tools[0].description) == ("ask", "Knows about refunds.")
    assert first.tools[0].parameters["required"] == ["message"]
    assert sorted(each.key for each in inner) == ["answer::ask#1", "answer::ask#2"]
    texts = {each.key: [message.text for message in each.messages] for each in inner}  # type: ignore[union-attr]
    assert texts["answer::ask#1"] == ["About the charge at ACME.", "the charge"]
    assert {each.model for each in inner} == {"m-flow"}, "not the calling agent's"
    message = last.messages[-1]
    assert isinstance(message, ToolMessage)
    assert sorted(each.content for each in message.results) == ["no", "yes"]
    assert result.step_results["answer"].usage.input_tokens == 28


async def test_a_typed_reply_of_an_agent_below_is_heard_as_json() -> None:
    provider = scripted(calls(("ask", {"message": "n?"})), 'It is {"n": 4}', "done")
    await run_workflow(document(asking({**REFUNDS, "output_schema": SHAPE})), plugins=plugins(provider))
    message = provider.requests[-1].messages[-1]
    assert isinstance(message, ToolMessage)
    assert message.results[0].content == 'It is {"n": 4}'


async def test_a_turn_below_that_fails_for_good_is_the_tools_error() -> None:
    inner = {**REFUNDS, "constraints": {"forbidden_patterns": ["yes"]}}
    provider = scripted(calls(("ask", {"message": "?"})), "yes", "they could not say")
    result = await run_workflow(document(asking(inner)), plugins=plugins(provider))
    message = provider.requests[-1].messages[-1]
    assert isinstance(message, ToolMessage)
    assert message.results[0].is_error
    assert "the reply contains 'yes', which is forbidden" in message.results[0].content
    assert result.final_state["reply"] == "they could not say"


async def test_a_transient_error_below_fails_the_step_as_transient_and_the_whole_turn_is_repeated(
    autojump_clock: Any,
) -> None:
    ask = calls(("ask", {"message": "?"}))
    provider = scripted(ask, UnavailableError("down", provider="scripted", status_code=503), ask, "yes", "done")
    result = await run_workflow(document(asking(REFUNDS)), plugins=plugins(provider))
    assert (result.step_results["answer"].attempts, result.final_state["reply"]) == (2, "done")


async def test_what_an_agent_below_spends_counts_for_the_caller() -> None:
    provider = scripted(calls(("ask", {"message": "?"}), cost=0.01), reply("yes", cost_usd=0.09), "never")
    result = await run_workflow(
        document(asking(REFUNDS, constraints={"max_cost_usd": 0.05})), plugins=plugins(provider)
    )
    assert result.step_results["answer"].error == (
        "agent 'desk' has spent $0.1, and its constraints.max_cost_usd is $0.05"
    )


async def test_agents_may_be_three_hundred_deep() -> None:
    depth = 300
    agent: dict[str, Any] = {"name": "leaf"}
    for _ in range(depth):
        agent = {"name": "level", "tools": [{"name": "down", "agent": agent}]}
    # Built from Python data, level by level: YAML itself refuses such depth.
    provider = scripted(*[calls(("down", {"message": "?"}))] * depth, *["up"] * (depth + 1))
    from treadle_agent.definition import AgentDefinition

    definition = AgentDefinition(name="leaf")
    for _ in range(depth):
        definition = AgentDefinition.model_construct(
            **{
                **dict(AgentDefinition(name="level")),
                "tools": (treadle_agent_tool(definition),),
            }
        )
    workflow = treadle.build_workflow(document({"name": "stand_in"}), host=Host.of(plugins(provider)))
    step = workflow.steps[0].model_copy(update={"agent": definition})
    from dataclasses import replace

    async with treadle.open(host=workflow.host) as session:
        result = await session.run(replace(workflow, steps=(step,)))
    assert result.final_state["reply"] == "up", result.error


def treadle_agent_tool(definition: Any) -> Any:
    from treadle_agent.definition import AgentTool

    return AgentTool.model_construct(name="down", agent=definition, description=None, max_calls=None)


# --- approval -----------------------------------------------------------------------------------------


async def test_a_call_that_needs_a_person_does_not_run_where_nobody_can_be_asked() -> None:
    provider = scripted(calls(("look", {})), "done")
    await run_workflow(document({**DESK, "tools": ["look"], "approve": ["look"]}), plugins=plugins(provider))
    message = provider.requests[-1].messages[-1]
    assert isinstance(message, ToolMessage)
    assert message.results[0].content == "'look' needs a person's approval, and nobody can be asked here; not run"


class Recorded(MemoryJournal):
    """As a journal on disk: others can go on with what is in it."""

    outlives_process = True


ASKS = {**DESK, "tools": ["look", "peek"], "approve": ["look"]}


class Peek(Look):
    name = "peek"
    calls: ClassVar[list[Mapping[str, Any]]] = []

    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        self.calls.append(arguments)
        return "peeked"


class Careful(Look):
    calls: ClassVar[list[Mapping[str, Any]]] = []

    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        self.calls.append(arguments)
        return "looked"


async def paused_desk(provider: Any, agent: Any, *answers: Mapping[str, str]) -> Any:
    """A run of the agent, gone on with for each set of answers in a session of its own; every result."""
    Peek.calls.clear()
    Careful.calls.clear()
    tools = {"peek": Offer(Peek, "peek"), "look": Offer(Careful, "look")}
    host = Host.of({**plugins(provider, tool=False), "more": offering({"tool": tools})})
    workflow, journal = treadle.build_workflow(document(agent), host=host), Recorded()
    async with treadle.open(host=host, journal=journal) as session:
        results = [await session.run(workflow, run_id="r")]
    for each in answers:
        async with treadle.open(host=host, journal=journal) as session:
            results.append(await session.resume("r", answers=each))
    return results


async def test_a_call_that_needs_a_person_waits_in_a_recorded_run_and_the_loop_goes_on_in_its_middle() -> None:
    provider = scripted(calls(("look", {"what": "1"}), ("peek", {})), calls(("look", {"what": "2"})), "done")
    first, second, last = await paused_desk(
        provider, ASKS, {"answer:look-1": "approved"}, {"answer:look-2": "approved"}
    )
    (question,) = first.pending
    assert (question.gate, question.tool_name) == ("answer:look-1", "look")
    assert question.question == """may agent 'desk' call 'look' with {"what": "1"}?"""
    assert question.details == {"arguments": {"what": "1"}}
    assert [each.gate for each in second.pending] == ["answer:look-2"]
    assert (last.status, last.final_state["reply"]) == ("success", "done")
    assert len(provider.requests) == 3, "no model call was made twice"
    assert Careful.calls == [{"what": "1"}, {"what": "2"}]
    assert Peek.calls == [{}], "what needs nobody ran at once, and once"


async def test_a_call_that_a_person_rejects_goes_back_to_the_model_as_its_result() -> None:
    provider = scripted(calls(("look", {})), "then not")
    _, last = await paused_desk(provider, ASKS, {"": "rejected"})
    message = provider.requests[-1].messages[-1]
    assert isinstance(message, ToolMessage)
    assert message.results[0].content == "a person did not allow this call of 'look'; it was not run"
    assert (last.status, last.final_state["reply"], Careful.calls) == ("success", "then not", [])


async def test_two_calls_of_one_reply_are_two_gates_answered_in_any_order() -> None:
    provider = scripted(calls(("look", {"what": "1"}), ("look", {"what": "1"})), "done")
    first, second, last = await paused_desk(
        provider, ASKS, {"answer:look-2": "rejected"}, {"answer:look-1": "approved"}
    )
    assert [each.gate for each in first.pending] == ["answer:look-1", "answer:look-2"]
    assert [each.gate for each in second.pending] == ["answer:look-1"]
    message = provider.requests[-1].messages[-1]
    assert isinstance(message, ToolMessage)
    assert [each.is_error for each in message.results] == [False, True]
    assert (last.final_state["reply"], Careful.calls) == ("done", [{"what": "1"}])


async def test_a_call_of_an_agent_below_waits_at_a_gate_of_its_own() -> None:
    below = {**DESK, "name": "helper", "tools": ["look"], "approve": ["look"]}
    desk = {**DESK, "tools": [{"agent": below, "name": "helper"}, "peek"]}
    provider = scripted(calls(("helper", {"message": "go"})), calls(("look", {})), "from below", "done")
    first, last = await paused_desk(provider, desk, {"": "approved"})
    assert [each.gate for each in first.pending] == ["answer:helper-1.look-1"]
    assert (last.status, last.final_state["reply"], len(provider.requests)) == ("success", "done", 4)
    assert Careful.calls == [{}]


# --- documents ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agent", "step", "message"),
    [
        (DESK, {"model": "m", "tools": []}, "model, tools: the agent's own to say, not the step's"),
        ({**DESK, "nmae": "x"}, {}, "steps.answer.agent.nmae: unknown field; did you mean 'name'?"),
        ({"name": "1x"}, {}, "steps.answer.agent.name: '1x' is not allowed here"),
        ({**DESK, "tools": ["look", "look"]}, {}, "agent.tools.1: 'look' is named twice"),
        ({**DESK, "tools": [{"name": "a", "agent": 5}]}, {}, "tools.0.agent: must be the agent's file, or its"),
        ({**DESK, "tools": [5]}, {}, "agent.tools.0: must be a tool's name, {name, max_calls} or {name, agent}, not 5"),
        (
            {**DESK, "tools": ["final_result"], "output_schema": SHAPE},
            {},
            "is how an agent with an output_schema gives",
        ),
        (
            {**DESK, "output_schema": {"type": "json_schema", "schema": {"type": "array"}}},
            {},
            "output_schema: the schema must describe an object, not 'array'",
        ),
        ({**DESK, "loop_policy": {"max_iterations": 0}}, {}, "agent.loop_policy.max_iterations: must be at least 1"),
        ({**DESK, "thinking": {"enabled": True}}, {}, "agent.thinking: unknown field"),
        ({**DESK, "approve": ["look"]}, {}, "approve.0: the agent has no tool 'look'; list it under tools as well"),
    ],
)
def test_a_wrong_agent_is_refused_when_the_document_loads(agent: Any, step: dict[str, Any], message: str) -> None:
    with pytest.raises(DocumentError) as caught:
        treadle.build_workflow(document(agent, **step), host=Host.of(plugins(scripted())))
    assert message in str(caught.value)


def files(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")


FLOW = """\
name: t
config: {provider: scripted}
steps:
  - id: answer
    type: agent
    agent: desk.yaml
    prompt: hi
    output: reply
"""


def test_all_mistakes_in_an_agents_own_file_stand_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one pass: those of its fields, and those seen where what it names is looked up, in files below it too."""
    monkeypatch.chdir(tmp_path)
    files(
        tmp_path,
        flow=FLOW,
        desk="name: desk\ntols: [look]\ntools:\n  - nope\n  - {name: ask, agent: other.yaml}\n"
        "  - {name: tell, agent: none.yaml}\nloop_policy: {max_iterations: 0}\n",
        other="name: other\nloop_policy: {max_iteration: 3}\n",
    )
    with pytest.raises(DocumentError) as caught:
        treadle.load_workflow("flow.yaml", host=Host.of(plugins(scripted())))
    told = str(caught.value).splitlines()
    assert told[0] == "desk.yaml:2:1: tols: unknown field; did you mean 'tools'?"
    assert told[1].startswith("desk.yaml:4:5: warning: tools.0: no tool 'nope'")
    assert told[2:] == [
        "desk.yaml:6:25: tools.2.agent: no such file: none.yaml",
        "desk.yaml:7:31: loop_policy.max_iterations: must be at least 1, not 0",
        "other.yaml:2:15: loop_policy.max_iteration: unknown field; did you mean 'max_iterations'?",
    ]
    files(tmp_path, desk="name: desk\ntools: [look, look]\n")
    with pytest.raises(DocumentError, match=r"^desk\.yaml:2:15: tools\.1: 'look' is named twice"):
        treadle.load_workflow("flow.yaml", host=Host.of(plugins(scripted())))


def test_all_mistakes_of_an_agent_s_file_are_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    desk = """\
name: my desk
tools:
  - nope
  - {name: look, max_call: 3}
  - look
  - 5
  - {name: other, agent: {name: other, bogus: 1}}
  - {name: third, agent: third.yaml}
memory: {trim_policy: drop_oldst}
output_schema: {type: json_schema, schema: {type: array}}
loop_policy: {max_iterations: 0}
"""
    files(tmp_path, flow=FLOW, desk=desk, third="name: third\napprove: [loook]\ntools: [look, look]\n")
    with pytest.raises(DocumentError) as caught:
        treadle.load_workflow("flow.yaml", host=Host.of(plugins(scripted())))
    told = [str(each).partition(";")[0] for each in caught.value.problems]
    assert sorted(told) == [
        "desk.yaml:10:16: output_schema: the schema must describe an object, not 'array'",
        "desk.yaml:11:31: loop_policy.max_iterations: must be at least 1, not 0",
        "desk.yaml:1:7: name: 'my desk' is not allowed here",
        "desk.yaml:3:5: warning: tools.0: no tool 'nope'",
        "desk.yaml:4:18: tools.1.max_call: unknown field",
        "desk.yaml:6:5: tools.3: must be a tool's name, {name, max_calls} or {name, agent}, not 5",
        "desk.yaml:7:40: tools.4.agent.bogus: unknown field",
        "desk.yaml:9:23: warning: memory.trim_policy: no trim policy 'drop_oldst'",
        "third.yaml:3:15: tools.1: 'look' is named twice",
    ]


def test_a_name_that_is_none_of_the_agent_s_tools_is_told_with_the_one_that_was_meant() -> None:
    agent = {"name": "a", "tools": ["look"], "approve": ["look", "loook"]}
    with pytest.raises(DocumentError, match=r"^approve\.1: the agent has no tool 'loook'; did you mean 'look'\?$"):
        Agent(agent, model="m")


def test_agents_that_use_each_other_in_a_circle_are_told_with_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files(
        tmp_path,
        flow=FLOW,
        desk="name: desk\ntools: [{name: ask, agent: other.yaml}]\n",
        other="name: other\ntools: [{name: back, agent: desk.yaml}]\n",
    )
    with pytest.raises(DocumentError) as caught:
        treadle.load_workflow("flow.yaml", host=Host.of(plugins(scripted())))
    assert str(caught.value) == (
        "other.yaml:2:29: tools.0.agent: agents use each other in a circle: desk.yaml -> other.yaml -> desk.yaml"
    )


def test_a_file_that_is_not_there_is_told_where_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files(tmp_path, flow=FLOW, dek="name: desk\n")
    with pytest.raises(DocumentError) as caught:
        treadle.load_workflow("flow.yaml", host=Host.of(plugins(scripted())))
    assert str(caught.value) == (
        "flow.yaml:6:12: steps.answer.agent: no such file: desk.yaml; did you mean 'dek.yaml'?"
    )


async def test_the_file_is_used_as_it_was_when_the_workflow_was_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files(tmp_path, flow=FLOW, desk="name: desk\nsystem_prompt: first\n")
    provider = scripted("x")
    workflow = treadle.load_workflow("flow.yaml", host=Host.of(plugins(provider)))
    files(tmp_path, desk="name: desk\nsystem_prompt: changed\n")
    async with treadle.open(host=workflow.host) as session:
        await session.run(workflow)
    assert provider.requests[0].messages[0].text == "first"  # type: ignore[union-attr]
    assert provider.requests[0].messages[1] == UserMessage.of("hi")


async def test_a_price_that_nobody_knows_is_told() -> None:
    provider = scripted("x")
    provider.known_cost = lambda self, model: None  # type: ignore[assignment]
    result = await run_workflow(document({**DESK, "constraints": {"max_cost_usd": 1}}), plugins=plugins(provider))
    assert result.ok
    assert [each.message for each in result.warnings] == [
        "agent 'desk': nobody knows the price of 'scripted-1', so max_cost_usd does not count it"
    ]


async def test_attachments_go_with_the_prompt_and_are_counted() -> None:
    features = Features(tools=True, media=frozenset({"image"}))
    provider = type("Seeing", (scripted("a cat"),), {"features": features})
    named = {**plugins(provider, tool=False), "attachments": treadle_attachments.plugin}
    flow = document(DESK, attachments=[{"source": "{state.firm}.png"}])
    result = await run_workflow(flow, plugins=named, sandbox=FakeSandbox(files={"ACME.png": b"x"}))
    assert result.status == "success", result.error
    assert result.step_results["answer"].to_json()["attachment_count"] == 1
    assert provider.requests[0].messages[-1] == UserMessage(
        parts=(TextPart(text="why?"), MediaPart(type="image", media_type="image/png", data=b"x"))
    )


def test_an_attachment_that_the_provider_cannot_take_is_told_when_the_document_loads() -> None:
    named = {**plugins(scripted(), tool=False), "attachments": treadle_attachments.plugin}
    with pytest.raises(DocumentError, match="attachments of type audio"):
        treadle.build_workflow(document(DESK, attachments=[{"source": "a", "type": "audio"}]), host=Host.of(named))
