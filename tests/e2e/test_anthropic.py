"""Workflows against a server that speaks Anthropic's Messages API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from e2e.command import treadle
from wire.anthropic_server import AnthropicServer, Stream, events_of, failure, message, thinking, tool_use
from wire.http_server import Json

KEY = "sk-ant-test-0123456789"
THINKING = "    thinking: {enabled: true, budget_tokens: 2000}\n"


async def run(
    server: AnthropicServer, path: Path, *steps: str, arguments: tuple[str, ...] = ()
) -> tuple[int, dict[str, Any], str]:
    """Exit code, result and standard error of a workflow of these steps."""
    file = path / "flow.yaml"
    file.write_text(
        "name: flow\nconfig: {provider: anthropic}\nsteps:\n" + "".join(f"  - {step}" for step in steps),
        encoding="utf-8",
    )
    done = await treadle(
        "run", "flow.yaml", "--json", *arguments, cwd=path, ANTHROPIC_API_KEY=KEY, ANTHROPIC_BASE_URL=server.url
    )
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


async def test_a_step_is_answered_by_the_default_model(tmp_path: Path) -> None:
    async with AnthropicServer.open() as server:
        server.reply(Json(message("Bonjour")))
        code, result, _ = await run(server, tmp_path, "id: hi\n    type: llm_call\n    prompt: hi\n    output: said\n")
    assert code == 0
    assert result["final_state"]["said"] == "Bonjour"
    assert result["step_results"]["hi"]["finish_reason"] == "end_turn"
    assert (server.last.json["model"], server.last.json["max_tokens"]) == ("claude-sonnet-4-5", 4096)


@pytest.mark.parametrize("stream", ["true", "false"])
async def test_reasoning_reaches_the_result_and_the_shape_the_state(tmp_path: Path, stream: str) -> None:
    whole = message(thinking("two and two"), '{"n": 4}')
    step = (
        f"id: sum\n    type: llm_call\n    prompt: 2+2\n    output: answer\n    stream: {stream}\n"
        f"    temperature: 0.5\n{THINKING}    response_schema:\n      type: json_schema\n      schema:\n"
        "        {type: object, properties: {n: {type: integer}}, required: [n]}\n"
    )
    async with AnthropicServer.open() as server:
        server.reply(Stream(events_of(whole)) if stream == "true" else Json(whole))
        code, result, _ = await run(server, tmp_path, step)
    assert code == 0
    assert result["final_state"]["answer"] == {"n": 4}
    assert result["step_results"]["sum"]["reasoning_content"] == "two and two"
    assert "two and two" not in json.dumps(result["final_state"])
    assert [each["message"] for each in result["warnings"]] == [
        "Anthropic takes no temperature with reasoning; 0.5 is not sent"
    ]
    body = server.last.json
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 2000}
    assert body["max_tokens"] == 6096
    assert body["output_config"]["format"]["type"] == "json_schema"


async def test_a_tool_loop_sends_the_thinking_back(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("the answer is 42", encoding="utf-8")
    thought = thinking("I should read it", "EqQB+/==")
    step = (
        f"id: ask\n    type: llm_call\n    prompt: what?\n    output: answer\n{THINKING}"
        "    tools:\n      - {name: file_read, description: Read a file., parameters: "
        "{type: object, properties: {path: {type: string}}, required: [path]}}\n"
    )
    async with AnthropicServer.open() as server:
        server.reply(Json(message(thought, tool_use("file_read", {"path": "note.txt"}))), Json(message("42")))
        code, result, stderr = await run(server, tmp_path, step)
    assert code == 0, stderr
    assert result["final_state"]["answer"] == "42"
    _, asked, answered = server.last.json["messages"]
    assert asked["content"] == [thought, tool_use("file_read", {"path": "note.txt"})]
    (block,) = answered["content"]
    assert (block["type"], block["tool_use_id"]) == ("tool_result", "toolu_1")
    assert "the answer is 42" in json.dumps(block)


@pytest.mark.parametrize(
    ("thinking_block", "place", "says"),
    [
        ("{enabled: true}", "5:11: steps.sum.type", "reasoning on a Claude model needs budget_tokens"),
        (
            "{enabled: true, budget_tokens: 100}",
            "7:17: steps.sum.max_tokens",
            "max_tokens (100) must be above budget_tokens (100)",
        ),
    ],
)
async def test_a_wrong_budget_fails_at_load(tmp_path: Path, thinking_block: str, place: str, says: str) -> None:
    step = f"id: sum\n    type: llm_call\n    prompt: x\n    max_tokens: 100\n    thinking: {thinking_block}\n"
    async with AnthropicServer.open() as server:
        code, _, stderr = await run(server, tmp_path, step)
        assert server.accepted == 0
    assert code == 2
    assert f"flow.yaml:{place}: provider 'anthropic' cannot take this request: {says}" in stderr


async def test_an_overloaded_server_is_asked_again(tmp_path: Path) -> None:
    async with AnthropicServer.open() as server:
        server.reply(failure("Overloaded", kind="overloaded_error", status=529, retry_after="0"), Json(message("ok")))
        step = (
            "id: hi\n    type: llm_call\n    prompt: hi\n    output: said\n"
            "    retry: {max_retries: 1, retryable_status_codes: [529]}\n"
        )
        code, result, stderr = await run(server, tmp_path, step)
    assert code == 0, stderr
    assert result["final_state"]["said"] == "ok"
    assert len(server.requests) == 2
