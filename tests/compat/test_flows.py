"""Workflow files with AgentLoom's fields do what AgentLoom says of them. Which field, which test: `al_fields.py`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

import treadle
from treadle import Host, ProviderError, RunResult
from treadle._plugins.objects import extended_host
from treadle.contracts.events import StepRetrying, StepStarted, TextEmitted
from treadle.testing import RecordingObserver, reply, scripted

FLOWS = Path(__file__).parent / "flows"


@treadle.tool
async def give(value: Any = None) -> Any:
    """Give back what came in."""
    return value


@treadle.tool
async def fail(text: str) -> None:
    """Fail."""
    raise RuntimeError(text)


@treadle.tool
async def sleep(seconds: float) -> str:
    """Sleep."""
    await trio.sleep(seconds)
    return "slept"


@pytest.fixture(scope="module")
def host() -> Host:
    """Everything installed, whatever treadle.yaml may lie about, and three tools of ours."""
    return extended_host(Host.discover(), {"tools": [give, fail, sleep]})


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


async def run(host: Host, flow: str | dict[str, Any], *, config: Any = None, state: Any = None, **extras: Any) -> Any:
    """The result of a flow of ours, or of plain data; its events are in ``result.events``."""
    seen = RecordingObserver()
    async with treadle.open(host=host, **extras) as session:
        if isinstance(flow, str):
            workflow = treadle.load_workflow(FLOWS / f"{flow}.yaml", host=session.host, config=config)
        else:
            workflow = treadle.build_workflow(flow, host=session.host, config=config)
        return await session.run(workflow, state=state, observers=[seen]), seen.events


def statuses(result: RunResult) -> dict[str, str]:
    return {step_id: str(each.status) for step_id, each in result.step_results.items()}


def steps(*steps: dict[str, Any], **document: Any) -> dict[str, Any]:
    return {"name": "x", "steps": list(steps), **document}


def giving(step_id: str, *depends_on: str, value: Any = 1, **fields: Any) -> dict[str, Any]:
    how = {"tool_name": "give", "tool_args": {"value": value}}
    return {"id": step_id, "type": "tool", "depends_on": list(depends_on), **how, **fields}


def asking(**fields: Any) -> dict[str, Any]:
    return {"id": "a", "type": "llm_call", "prompt": "hi", "output": "out", **fields}


# --- calls ----------------------------------------------------------------------------------------


async def test_a_call_sends_what_the_file_says_and_writes_the_reply(host):
    played = scripted("Hello Ann", "Short", '```json\n{"name": "Ann", "date": "today"}\n```')
    result, events = await run(host, "calls", providers={"played": played})
    assert (result.status, result.workflow_name) == ("success", "calls")
    assert result.final_state["who"].startswith("<REDACTED:"), "state_schema says so"
    assert {**result.final_state, "who": "Ann"} == {
        "who": "Ann",
        "tone": "kind",
        "greeting": "Hello Ann",
        "summary": "Short",
        "extracted": {"deep": {"name": "Ann", "date": "today"}},
    }
    plain, full, shaped = played.requests
    assert (plain.model, plain.temperature, plain.max_tokens, plain.stream) == ("config-model", None, None, False)
    assert [each.text for each in plain.messages] == ["Greet Ann"]
    assert (full.model, full.temperature, full.max_tokens, full.stream) == ("step-model", 0.2, 400, True)
    assert [each.text for each in full.messages] == ["Be kind.", "Sum up Hello Ann in one word"]
    shape = shaped.output
    assert (shape.name, shape.strict, shape.description, shape.schema["required"]) == (
        "found", False, "who and when", ["name", "date"]
    )  # fmt: skip
    # steps.<id>.output is the reply as the model wrote it, words around the JSON included.
    assert result.step_results["shaped"].output.startswith("```json")
    assert [event.step_id for event in events if isinstance(event, TextEmitted)] == ["full"]


async def test_the_result_of_a_call_has_its_model_tokens_cost_and_finish_reason(host):
    played = scripted(reply("hi", finish_reason="end_turn", model="m-1", provider="played"))
    result, _ = await run(host, steps(asking(), config={"provider": "played"}), providers={"played": played})
    step = result.to_json()["step_results"]["a"]
    assert (step["model"], step["provider"], step["finish_reason"], step["cost_usd"]) == (
        "m-1",
        "played",
        "end_turn",
        0,
    )
    assert step["token_usage"]["prompt_tokens"] == 7
    assert step["prompt_metadata"]["length_chars"] == 2


@pytest.mark.parametrize(
    "shape",
    [
        {"type": "json_schema", "schema": {"type": "object", "required": ["a"]}},
        {"type": "json_object"},
        {"type": "pydantic", "model": "shapes_beside_the_flow:Found"},
    ],
    ids=lambda shape: shape["type"],
)
async def test_a_reply_without_the_shape_is_asked_for_again_within_the_attempt(host, shape, tmp_path, monkeypatch):
    model = "from pydantic import BaseModel\n\n\nclass Found(BaseModel):\n    a: int\n"
    (tmp_path / "shapes_beside_the_flow.py").write_text(model, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "shapes_beside_the_flow", raising=False)
    fitting = '{"a": 1}'
    played = scripted("no JSON", fitting, "none", "none", "none")
    flow = steps(asking(response_schema=shape, retry={"max_retries": 1}), config={"provider": "played"})
    result, _ = await run(host, flow, providers={"played": played})
    assert statuses(result) == {"a": "success"}
    assert result.step_results["a"].output == fitting
    assert len(played.requests) == 2
    result, _ = await run(host, flow, providers={"played": played})
    assert (result.step_results["a"].status, result.step_results["a"].attempts) == ("failed", 1)
    assert len(played.requests) == 4


def tool_calls(*values: Any, text: str = "") -> treadle.ModelResponse:
    parts = [
        treadle.ToolCallPart(call_id=f"c{number}", tool_name=name, arguments=arguments)
        for number, (name, arguments) in enumerate(values)
    ]
    message = treadle.AssistantMessage(parts=([treadle.TextPart(text=text)] if text else []) + parts)
    return reply("", message=message, stop_reason=treadle.StopReason.TOOL_USE, finish_reason="tool_calls")


GIVE = {"name": "give", "description": "Gives.", "parameters": {"type": "object", "properties": {"value": {}}}}


async def test_the_model_calls_declared_tools_until_it_answers(host):
    asked = tool_calls(("give", {"value": 1}), ("fail", {"text": "no"}), ("unknown", {}))
    played = scripted(asked, "done")
    tools = [GIVE, {"name": "fail", "description": "Fails."}]
    flow = steps(asking(tools=tools, tool_choice="required", max_tool_iterations=3), config={"provider": "played"})
    result, _ = await run(host, flow, providers={"played": played})
    assert result.final_state == {"out": "done"}
    first, second = played.requests
    assert [each.name for each in first.tools] == ["give", "fail"]
    assert first.tools[0].parameters == GIVE["parameters"]
    assert set(first.tools[1].parameters["properties"]) == {"text"}, "the registered tool's own"
    # Required, or a tool by name, is for the first call only.
    assert (first.tool_choice, second.tool_choice) == ("required", "auto")
    results = [
        part for message in second.messages if isinstance(message, treadle.ToolMessage) for part in message.results
    ]
    assert [part.call_id for part in results] == ["c0", "c1", "c2"]
    assert result.step_results["a"].usage.input_tokens == 14


async def test_at_the_most_iterations_the_last_text_is_the_answer_and_nothing_more_runs(host):
    played = scripted(tool_calls(("fail", {"text": "ran"}), text="I will see"))
    flow = steps(asking(tools=[{"name": "fail"}], max_tool_iterations=1), config={"provider": "played"})
    result, events = await run(host, flow, providers={"played": played})
    assert (result.status, result.final_state) == ("success", {"out": "I will see"})
    assert result.step_results["a"].finish_reason == "max_tool_iterations"
    assert "ToolCallStarted" not in {type(event).__name__ for event in events}


async def test_thinking_asks_for_reasoning_and_keeps_it_out_of_the_state(host):
    message = treadle.AssistantMessage(parts=[treadle.ReasoningPart(text="hm"), treadle.TextPart(text="yes")])
    played = scripted(reply("", message=message), "no")
    thinking = {"enabled": True, "budget_tokens": 4000, "level": "low", "capture_reasoning": True}
    off = {**asking(thinking={"budget_tokens": 5}), "id": "b", "output": "other", "depends_on": ["a"]}
    flow = steps(asking(thinking=thinking), off, config={"provider": "played"})
    result, _ = await run(host, flow, providers={"played": played})
    reasoning = played.requests[0].reasoning
    assert (reasoning.budget_tokens, reasoning.level, reasoning.capture) == (4000, "low", True)
    assert played.requests[1].reasoning is None
    assert result.step_results["a"].reasoning_content == "hm"
    assert result.final_state == {"out": "yes", "other": "no"}


async def test_config_stream_streams_every_call_but_those_that_say_otherwise(host):
    played = scripted("one two", "three four")
    flow = steps(asking(), {**asking(stream=False), "id": "b", "output": "other"}, config={"provider": "played"})
    _, events = await run(host, flow, config={"stream": True}, providers={"played": played})
    assert {request.key: request.stream for request in played.requests} == {"a": True, "b": False}
    assert {event.step_id for event in events if isinstance(event, TextEmitted)} == {"a"}


@pytest.mark.parametrize("prompt", ["{state.open", "{name."])
def test_a_broken_template_is_a_template_error_found_when_the_file_loads(host, prompt):
    with pytest.raises(treadle.DocumentError) as caught:
        treadle.build_workflow(steps(asking(prompt=prompt), config={"provider": "mock"}), host=host)
    assert [(each.path, each.code) for each in caught.value.problems] == [("steps.a.prompt", "bad-template")]


def test_a_call_without_a_prompt_is_refused_before_any_provider_is_asked(host):
    call = asking()
    del call["prompt"]
    with pytest.raises(treadle.DocumentError, match=r"steps\.a: the field 'prompt' is missing"):
        treadle.build_workflow(steps(call, config={"provider": "mock"}), host=host)


def test_without_a_provider_it_is_openai_with_its_small_model(host):
    offer = host.get("provider", "openai").offer
    assert (offer.is_default, offer.default_model) == (True, "gpt-4o-mini")
    assert host.default_provider() == "openai"


async def test_the_mock_provider_plays_the_file_and_gives_its_default_elsewhere(host, tmp_path):
    replies = {"_version": 2, "first": {"content": "1", "usage": {"prompt_tokens": 3}}, "twice": ["2", "3"]}
    (tmp_path / "replies.json").write_text(json.dumps(replies), encoding="utf-8")
    result, _ = await run(host, "mocked")
    assert result.final_state == {"one": "1", "two": "2", "three": "Mock response"}
    assert result.total_cost_usd == 0
    assert result.step_results["first"].usage.input_tokens == 3


@pytest.mark.parametrize("model", ["constant", "normal", "replay"])
async def test_the_latency_models_have_their_names(host, tmp_path, model):
    (tmp_path / "replies.json").write_text("{}", encoding="utf-8")
    result, _ = await run(host, "mocked", config={"latency_model": model})
    assert result.status == "success"


AGENT = """\
name: desk
description: Answers questions about bills.
model: agent-model
system_prompt: "You answer {state.who}."
temperature: 0.3
max_tokens: 50
tools: [give]
loop_policy: {max_iterations: 4, on_max_iterations: error}
output_schema:
  type: json_schema
  schema: {type: object, properties: {refund: {type: boolean}}, required: [refund]}
constraints: {max_latency_ms: 60000, forbidden_patterns: ["as an AI"]}
"""


async def test_an_agent_takes_a_turn_by_its_file(host, tmp_path):
    (tmp_path / "desk.yaml").write_text(AGENT, encoding="utf-8")
    played = scripted(tool_calls(("give", {"value": 1})), tool_calls(("final_result", {"refund": True})))
    turn = {"id": "a", "type": "agent", "agent": "desk.yaml", "prompt": "Again, {state.who}?", "output": "out"}
    flow = steps(turn, config={"provider": "played"}, state={"who": "Ann"})
    result, _ = await run(host, flow, providers={"played": played})
    assert result.status == "success", result.error
    assert result.final_state["out"] == {"refund": True}
    first = played.requests[0]
    assert (first.model, first.temperature, first.max_tokens) == ("agent-model", 0.3, 50)
    assert [each.text for each in first.messages] == ["You answer Ann.", "Again, Ann?"]
    assert [each.name for each in first.tools] == ["give", "final_result"]
    assert first.tool_choice == "required"


@pytest.mark.parametrize("step", [{"type": "llm_call"}, {"type": "agent", "agent": {"name": "desk"}}])
async def test_attachments_go_with_the_prompt_of_a_call_and_of_an_agent(host, tmp_path, step):
    (tmp_path / "05.pdf").write_bytes(b"%PDF-1.7")
    shown = [{"source": "{state.picture}"}, {"type": "pdf", "source": "05.pdf", "media_type": "application/pdf"}]
    flow = {
        "name": "t",
        "config": {"provider": "mock"},
        "state": {"picture": "data:image/png;base64,iVBORw0KGgo="},
        "steps": [{"id": "a", **step, "prompt": "What is it?", "attachments": shown}],
    }
    result, _ = await run(host, flow)
    assert result.status == "success", result.error
    assert result.step_results["a"].to_json()["attachment_count"] == 2


async def test_a_forbidden_pattern_fails_an_agent_without_another_attempt(host):
    agent = {"name": "desk", "constraints": {"forbidden_patterns": ["as an ai"]}}
    flow = steps({"id": "a", "type": "agent", "agent": agent, "prompt": "hi"}, config={"provider": "played"})
    result, _ = await run(host, flow, providers={"played": scripted("As an AI, no")})
    assert (result.step_results["a"].status, result.step_results["a"].attempts) == ("failed", 1)


# --- conversations and embeddings -----------------------------------------------------------------


async def test_steps_and_agents_go_on_with_a_conversation_of_the_state(host):
    result, _ = await run(host, "conversations", config={"provider": "mock"})
    assert result.status == "success", result.error
    chat = result.final_state["chat"]
    assert [each["role"] for each in chat["messages"]] == ["system", "user", "assistant", "user", "assistant"]
    assert (chat["token_budget"], chat["trim_policy"]) == (800, "drop_pairs")
    assert [(each["role"], each.get("name")) for each in result.final_state["debate"]["messages"]] == [
        ("user", None), ("assistant", "alice"), ("assistant", "bob"), ("user", None), ("assistant", "carol"),
    ]  # fmt: skip
    assert result.final_state["critique"] == result.final_state["debate"]["messages"][2]["content"]


async def test_embed_writes_vectors_and_its_own_output_says_how_many(host):
    step = {"id": "a", "type": "embed", "inputs": "state.texts", "model": "m", "dimensions": 3, "output": "vectors"}
    result, _ = await run(host, steps(step, config={"provider": "mock"}, state={"texts": ["one", "two"]}))
    assert [len(each) for each in result.final_state["vectors"]] == [3, 3]
    assert result.step_results["a"].output == "2 vectors x 3"


# --- routers --------------------------------------------------------------------------------------


async def test_the_first_true_condition_wins_and_the_others_branches_are_skipped(host):
    result, _ = await run(host, "branches")
    assert statuses(result) == {
        "seed": "success", "route": "success", "high": "skipped", "middle": "success", "low": "skipped",
        "after_high": "skipped", "join": "success",
    }  # fmt: skip
    assert result.final_state["chosen"] == "middle"
    assert result.final_state["joined"] == "middle!"


async def test_without_a_true_condition_it_is_the_default_and_a_missing_key_fails_a_comparison(host):
    result, _ = await run(host, "branches", state={"score": None})
    assert result.step_results["route"].status == "failed"
    assert "state.seeded > 90" in result.step_results["route"].error
    result, _ = await run(host, "branches", state={"score": 10})
    assert result.final_state["chosen"] == "low"


async def test_no_true_condition_and_no_default_fails_the_step(host):
    route = {"id": "r", "type": "router", "conditions": [{"expression": "1 > 2", "target": "a"}]}
    result, _ = await run(host, steps(route, giving("a", "r")))
    assert statuses(result) == {"r": "failed", "a": "skipped"}
    assert result.step_results["r"].error == "no condition is true and there is no default; add a default"


@pytest.mark.parametrize(
    "expression", ["state.__class__", "state['_x']", "[x for x in state]", "state.a * 2", "open('x')", "f'{state}'"]
)
def test_what_expressions_may_not_do_is_found_when_the_file_loads(host, expression):
    route = {"id": "r", "type": "router", "conditions": [{"expression": expression, "target": "a"}]}
    with pytest.raises(treadle.DocumentError) as caught:
        treadle.build_workflow(steps(route, giving("a", "r")), host=host)
    assert [each.code for each in caught.value.problems] == ["bad-expression"]


def test_a_target_that_is_no_step_is_refused(host):
    route = {"id": "r", "type": "router", "default": "nowhere"}
    with pytest.raises(treadle.DocumentError, match=r"steps\.r\.default: .*'nowhere'"):
        treadle.build_workflow(steps(route, giving("a", "r")), host=host)


# --- state and templates --------------------------------------------------------------------------


async def test_templates_paths_and_writes(host):
    result, _ = await run(host, "state")
    assert result.status == "success", result.error
    assert result.final_state["texts"] == {
        "nested": "Ann c Ann 3",
        "formats": "2.50 'Ann'    2.5",
        "lenient": "[] [] [] {unknown}",
        "braces": '{kept} {"json": [1]} body { color: red }',
    }
    assert result.final_state["deep"] == {"er": {"values": {"list": ["a", "b", "c"], "untouched": "{state.user.name}"}}}
    assert result.final_state["user"]["tags"] == ["z", "b", "c"]
    assert result.final_state["nothing"] is None


@pytest.mark.parametrize(
    ("path", "error"),
    [("price.x", "price"), ("user.tags[7]", r"user\.tags"), ("user.tags.x", r"user\.tags")],
)
async def test_a_write_that_cannot_be_made_fails_the_step_and_names_the_place(host, path, error):
    result, _ = await run(host, steps(giving("a", output=path), state={"price": 1, "user": {"tags": [1]}}))
    assert result.status == "failed"
    assert error.replace("\\", "") in result.step_results["a"].error


async def test_a_step_that_gives_nothing_writes_null_and_has_no_entry_under_steps(host):
    flow = steps(
        giving("none", value=None, output="x"),
        {"id": "look", "type": "tool", "depends_on": ["none"], "tool_name": "give",
         "tool_args": {"value": "[{state.steps.none.output}]"}, "output": "y"},
        state={"x": 1},
    )  # fmt: skip
    result, _ = await run(host, flow)
    assert (result.final_state["x"], result.final_state["y"]) == (None, "[]")


async def test_a_later_step_reads_output_and_status_of_an_earlier_one(host):
    text = "{state.steps.a.status} {state.steps.a.output}"
    result, _ = await run(host, steps(giving("a", value=7), giving("b", "a", value=text, output="y")))
    assert result.final_state["y"] == "success 7"


async def test_an_argument_that_names_a_missing_key_fails_at_once(host):
    result, _ = await run(host, steps(giving("a", value="state.nowhere"), config={"max_retries": 3}))
    step = result.step_results["a"]
    assert (step.status, step.attempts, step.error_classification) == ("failed", 1, "permanent")
    assert "nowhere" in (step.error or "")


# --- tools ----------------------------------------------------------------------------------------


async def test_the_built_in_tools_give_what_they_gave(host):
    result, _ = await run(host, "tools")
    state = result.final_state
    assert result.status == "success", result.error
    assert state["written"]["written"] == 8
    assert state["text"] == "Dear Ann"
    assert state["ran"] == {"returncode": 3, "stdout": "Dear Ann", "stderr": ""}
    assert (state["slow"]["returncode"], state["slow"]["stderr"]) == (-1, "Command timed out")


async def test_an_enabled_sandbox_holds_the_tools(host):
    await trio.Path("data").mkdir()
    await trio.Path("data/a").write_text("x", encoding="utf-8")
    block = {"enabled": True, "allowed_commands": ["cat"], "allowed_paths": ["data"], "max_write_bytes": 4}

    async def outcome(tool: str, arguments: dict[str, Any], **more: Any) -> Any:
        step = {"id": "a", "type": "tool", "tool_name": tool, "tool_args": arguments, "output": "out"}
        result, _ = await run(host, steps(step, config={"sandbox": block | more}))
        return result.final_state.get("out") if result.status == "success" else result.step_results["a"]

    assert (await outcome("file_read", {"path": "data/a"})) == "x"
    assert (await outcome("shell_command", {"command": "cat a", "cwd": "data"}))["stdout"] == "x"
    assert (await outcome("file_write", {"path": "data/new", "content": "1234"}))["written"] == 4
    for tool, arguments, more in (
        ("file_read", {"path": "/etc/passwd"}, {}),
        ("file_read", {"path": "data/a"}, {"allowed_paths": [], "writable_paths": ["data"]}),
        ("file_write", {"path": "data/new", "content": "12345"}, {}),
        ("file_write", {"path": "data/new", "content": ""}, {"allowed_paths": [], "readable_paths": ["data"]}),
        ("shell_command", {"command": "cat a"}, {}),
        ("shell_command", {"command": "ls a", "cwd": "data"}, {}),
        ("shell_command", {"command": "cat a | cat", "cwd": "data"}, {}),
        ("shell_command", {"command": "sh a", "cwd": "data"}, {"allowed_commands": ["sh"]}),
        ("http_request", {"url": "http://127.0.0.1/"}, {}),
        ("http_request", {"url": "http://a.test/"}, {"allow_network": False}),
        ("http_request", {"url": "http://a.test/"}, {"allowed_schemes": ["https"]}),
        ("http_request", {"url": "http://a.test/"}, {"allowed_domains": ["b.test"]}),
        ("http_request", {"url": "http://127.0.0.1/"}, {"allowed_domains": ["127.0.0.1"], "deny_internal_hosts": True}),
    ):
        failed = await outcome(tool, arguments, **more)
        assert failed.error.startswith(f"Sandbox violation ({tool}): "), failed
        assert failed.attempts == 1
    opted = {"allowed_commands": ["sh"], "danger_opt_in": ["sh"]}
    assert (await outcome("shell_command", {"command": "sh a", "cwd": "data"}, **opted))["returncode"] == 127


async def test_a_tool_that_is_not_there_fails_when_it_is_reached_and_only_then(host):
    route = {"id": "r", "type": "router", "default": "a"}
    missing = {"id": "b", "type": "tool", "depends_on": ["r"], "tool_name": "no_such_tool"}
    flow = steps(route, giving("a", "r"), missing)
    flow["steps"][0]["conditions"] = [{"expression": "1 == 2", "target": "b"}]
    result, _ = await run(host, flow)
    assert result.status == "success"
    result, _ = await run(host, steps(missing | {"depends_on": []}))
    assert result.step_results["b"].attempts == 1
    assert result.step_results["b"].error.startswith("no tool 'no_such_tool'")


async def test_an_error_of_a_tool_is_tried_again(host, autojump_clock):
    bad = {"id": "a", "type": "tool", "tool_name": "fail", "tool_args": {"text": "broken"}}
    result, _ = await run(host, steps(bad))
    assert result.step_results["a"].attempts == 4
    assert "broken" in result.step_results["a"].error


# --- scheduling, failures, retries ----------------------------------------------------------------


async def test_what_depends_on_a_failed_step_is_skipped_and_told_the_nearest_one(host):
    result, _ = await run(host, "failures")
    assert statuses(result) == {"bad": "failed", "after": "skipped", "last": "skipped", "other": "success"}
    assert {result.step_results[each].reason for each in ("after", "last")} == {"step 'bad' failed"}
    assert result.status == "failed"
    assert result.error.startswith("step 'bad': ")
    assert result.final_state == {"other": 3}


async def test_continue_runs_what_depends_on_a_failed_step_and_the_run_has_failed(host):
    flow = FLOWS.joinpath("failures.yaml").read_text(encoding="utf-8").replace("skip_downstream", "continue")
    async with treadle.open(host=host) as session:
        result = await session.run(treadle.parse_workflow(flow, host=session.host))
    assert statuses(result) == {"bad": "failed", "after": "success", "last": "success", "other": "success"}
    assert (result.status, result.final_state) == ("failed", {"after": 1, "last": 2, "other": 3})


def busy(status: int | None) -> ProviderError:
    """As a provider classifies it: 429 and 5xx are worth another attempt, and so is a dropped connection."""
    transient = status is None or status == 429 or status >= 500
    return ProviderError("no", provider="played", status_code=status, transient=transient)


@pytest.mark.parametrize(
    ("status", "attempts"),
    [(429, 4), (500, 4), (502, 4), (503, 4), (504, 4), (None, 4), (400, 1), (401, 1), (403, 1), (404, 1)],
)
async def test_which_errors_of_a_provider_are_tried_again(host, autojump_clock, status, attempts):
    played = scripted(*[busy(status)] * 4)
    result, _ = await run(host, steps(asking(), config={"provider": "played"}), providers={"played": played})
    assert result.step_results["a"].attempts == attempts
    assert statuses(result) == {"a": "failed"}


async def test_retryable_status_codes_decide_alone(host, autojump_clock):
    for status, attempts in ((404, 3), (500, 1)):
        retry = {"max_retries": 2, "retryable_status_codes": [404]}
        played = scripted(*[busy(status)] * 3)
        flow = steps(asking(retry=retry), config={"provider": "played"})
        result, _ = await run(host, flow, providers={"played": played})
        assert result.step_results["a"].attempts == attempts


async def test_the_waits_grow_from_one_second_up_to_the_most(host, autojump_clock):
    retry = {"max_retries": 4, "backoff_base": 3, "backoff_max": 10, "jitter": False}
    flow = steps(asking(retry=retry), config={"provider": "played"})
    _, events = await run(host, flow, providers={"played": scripted(*[busy(500)] * 5)})
    assert [event.wait for event in events if isinstance(event, StepRetrying)] == [1, 3, 9, 10]


async def test_jitter_is_a_quarter_either_way(host, autojump_clock):
    flow = steps(asking(retry={"max_retries": 30, "backoff_base": 1}), config={"provider": "played"})
    _, events = await run(host, flow, providers={"played": scripted(*[busy(500)] * 31)})
    waits = [event.wait for event in events if isinstance(event, StepRetrying)]
    assert len(set(waits)) > 1
    assert all(0.75 <= wait <= 1.25 for wait in waits)


async def test_the_servers_wait_is_kept(host, autojump_clock):
    error = ProviderError("no", provider="played", status_code=429, transient=True, retry_after=17)
    played = scripted(error, "yes")
    result, events = await run(host, steps(asking(), config={"provider": "played"}), providers={"played": played})
    assert [event.wait for event in events if isinstance(event, StepRetrying)] == [17]
    assert result.final_state == {"out": "yes"}


async def test_config_max_retries_is_that_of_steps_without_their_own(host, autojump_clock):
    bad = {"type": "tool", "tool_name": "fail", "tool_args": {"text": "no"}}
    flow = steps({"id": "a", **bad}, {"id": "b", "retry": {"max_retries": 2}, **bad}, config={"max_retries": 1})
    result, _ = await run(host, flow)
    assert [each.attempts for each in result.step_results.values()] == [2, 3]


def sleeping(step_id: str, *depends_on: str, seconds: float = 10, **fields: Any) -> dict[str, Any]:
    how = {"tool_name": "sleep", "tool_args": {"seconds": seconds}}
    return {"id": step_id, "type": "tool", "depends_on": list(depends_on), **how, **fields}


async def test_the_timeout_is_per_attempt_and_a_step_that_ran_into_it_has_failed(host, autojump_clock):
    flow = steps(sleeping("a", timeout=2, retry={"max_retries": 1, "jitter": False}), giving("b", "a"))
    result, _ = await run(host, flow)
    assert statuses(result) == {"a": "timeout", "b": "skipped"}
    assert (result.status, result.step_results["a"].attempts) == ("failed", 2)


async def test_config_timeout_ends_the_run(host, autojump_clock):
    result, _ = await run(host, steps(giving("a", output="x"), sleeping("b", "a"), config={"timeout": 5}))
    assert (result.status, result.final_state) == ("timeout", {"x": 1})


async def test_no_more_steps_run_at_once_than_allowed(host, autojump_clock):
    flow = steps(*(sleeping(f"s{number}") for number in range(6)), config={"max_concurrent_steps": 2})
    started = trio.current_time()
    await run(host, flow)
    assert trio.current_time() - started == pytest.approx(30)


@pytest.mark.parametrize("number", [0, 1025, "many"])
def test_more_slots_than_1024_or_none_are_refused(host, number):
    with pytest.raises(treadle.DocumentError, match=r"config\.max_concurrent_steps"):
        treadle.build_workflow(steps(giving("a"), config={"max_concurrent_steps": number}), host=host)


async def test_a_step_starts_when_its_own_dependencies_have_ended(host, autojump_clock):
    flow = steps(sleeping("slow", seconds=100), giving("quick"), giving("next", "quick"))
    _, events = await run(host, flow)
    assert [event.step_id for event in events if isinstance(event, StepStarted)] == ["slow", "quick", "next"]


def test_a_shared_output_is_a_warning_and_an_error_where_outputs_are_strict(host):
    flow = steps(giving("a", output="x"), giving("b", output="x"))
    workflow = treadle.build_workflow(flow, host=host)
    assert "shared-output" in [each.code for each in workflow.warnings]
    with pytest.raises(treadle.DocumentError) as caught:
        treadle.build_workflow({**flow, "config": {"strict_outputs": True}}, host=host)
    assert "shared-output" in [each.code for each in caught.value.problems]


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"nmae": "x"}, "nmae"),
        ({"config": {"responses": {}}}, "config.responses"),
        ({"steps": [giving("a") | {"promt": 1}]}, "steps.a.promt"),
        ({"config": {"sandbox": {"allowed_command": []}}}, "config.sandbox.allowed_command"),
        ({"steps": [giving("a"), giving("a")]}, "steps.a.id"),
        ({"steps": [giving("a", "b"), giving("b", "a")]}, "steps.a.depends_on"),
        ({"steps": [giving("a", "nowhere")]}, "steps.a.depends_on"),
        ({"steps": None}, "steps"),
        ({"name": None}, "name"),
    ],
)
def test_what_stops_a_file_from_loading(host, changes, path):
    with pytest.raises(treadle.DocumentError) as caught:
        treadle.build_workflow({**steps(giving("a")), **changes}, host=host)
    assert any(problem.path.startswith(path) for problem in caught.value.problems), str(caught.value)


# --- subworkflow ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "made"),
    [
        ({}, {"a": 1, "b": 2, "told": "1 2"}),
        ({"input": {"a": "{state.a}!"}}, {"a": "1!", "b": 2, "told": "1! 2"}),
        ({"isolated_state": True}, {"a": 10, "b": 2, "told": "10 2"}),
        ({"isolated_state": True, "input": {"b": "state.a"}}, {"a": 10, "b": 1, "told": "10 1"}),
        ({"return_keys": ["told", "nothing"]}, {"told": "1 2"}),
    ],
    ids=["the parent's state", "input", "isolated", "isolated input", "return_keys"],
)
@pytest.mark.parametrize("form", ["workflow_path", "workflow_inline"])
async def test_a_subworkflow_starts_from_and_gives_back_what_the_table_says(host, tmp_path, form, fields, made):
    inner = steps(
        {"id": "tell", "type": "tool", "tool_name": "give", "tool_args": {"value": "{state.a} {b}"}, "output": "told"},
        state={"a": 10, "b": 2},
    )
    (tmp_path / "inner.yaml").write_text(json.dumps(inner), encoding="utf-8")
    given = "inner.yaml" if form == "workflow_path" else inner
    sub = {"id": "sub", "type": "subworkflow", form: given, "output": "made", **fields}
    result, _ = await run(host, steps(sub, state={"a": 1}))
    assert result.status == "success", result.error
    assert result.final_state == {"a": 1, "made": made}


async def test_a_failed_subworkflow_fails_the_step_in_its_own_words(host):
    inner = steps({"id": "no", "type": "tool", "tool_name": "fail", "tool_args": {"text": "boom"}})
    inner["steps"][0]["retry"] = {"max_retries": 0}
    result, _ = await run(host, steps({"id": "sub", "type": "subworkflow", "workflow_inline": inner}))
    assert result.error == "step 'sub': step 'no': tool 'fail' failed: RuntimeError: boom"
