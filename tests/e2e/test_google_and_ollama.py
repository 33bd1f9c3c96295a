"""Workflows against servers that speak Gemini's and Ollama's APIs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from e2e.command import treadle
from wire.google_server import GoogleServer, Stream, candidate, content, failure
from wire.http_server import Json
from wire.ollama_server import Lines, OllamaServer, call, done, line, reply_json

TOOL = (
    "    tools:\n      - {name: file_read, description: Read a file., parameters: "
    "{type: object, properties: {path: {type: string}, title: {type: string}}, required: [path]}}\n"
)
SHAPE = (
    "    response_schema:\n      type: json_schema\n      schema:\n"
    "        {type: object, properties: {n: {type: integer, exclusiveMinimum: 3}}, required: [n]}\n"
)


async def run(path: Path, config: str, step: str, **environment: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, result and standard error of a workflow of this step."""
    text = f"name: flow\nconfig: {config}\nsteps:\n  - id: it\n    type: llm_call\n    output: said\n{step}"
    (path / "flow.yaml").write_text(text, encoding="utf-8")
    ended = await treadle("run", "flow.yaml", "--json", cwd=path, **environment)
    return ended.returncode, json.loads(ended.stdout) if ended.stdout else {}, ended.stderr


async def google(server: GoogleServer, path: Path, step: str) -> tuple[int, dict[str, Any], str]:
    key = "AIzaTest0123456789abcdef"
    return await run(path, "{provider: google}", step, GOOGLE_API_KEY=key, GOOGLE_BASE_URL=server.url)


async def ollama(server: OllamaServer, path: Path, step: str) -> tuple[int, dict[str, Any], str]:
    return await run(path, '{provider: ollama, model: "llama3.2:1b"}', step, OLLAMA_BASE_URL=server.url)


@pytest.mark.parametrize("stream", ["true", "false"])
async def test_gemini_thinks_and_its_shape_is_checked_against_the_whole_schema(tmp_path: Path, stream: str) -> None:
    thought = {"text": "two and two", "thought": True}
    chunks = [candidate(thought), candidate('{"n"'), content(": 4}")]
    step = f"    prompt: 2+2\n    stream: {stream}\n    thinking: {{enabled: true, budget_tokens: 9}}\n{SHAPE}"
    async with GoogleServer.open() as server:
        # The dialect has no exclusive bounds of numbers that it could not say otherwise: the reply is checked here.
        server.reply(Stream(chunks) if stream == "true" else Json(content(thought, '{"n": 4}')))
        code, result, stderr = await google(server, tmp_path, step)
    assert code == 0, stderr
    assert result["final_state"]["said"] == {"n": 4}
    assert result["step_results"]["it"]["reasoning_content"] == "two and two"
    assert server.last.path.startswith("/v1beta/models/gemini-2.5-flash:")
    assert server.last.json["generationConfig"] == {
        "responseMimeType": "application/json",
        "responseSchema": {
            "type": "OBJECT", "properties": {"n": {"type": "INTEGER", "minimum": 4}}, "required": ["n"],
        },
        "thinkingConfig": {"includeThoughts": True, "thinkingBudget": 9},
    }  # fmt: skip


async def test_a_tool_loop_sends_geminis_signature_back(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("the answer is 42", encoding="utf-8")
    asked = {"functionCall": {"name": "file_read", "args": {"path": "note.txt"}}, "thoughtSignature": "CiQB+/=="}
    async with GoogleServer.open() as server:
        server.reply(Json(content(asked)), Json(content("42")))
        code, result, stderr = await google(server, tmp_path, f"    prompt: what?\n{TOOL}")
    assert code == 0, stderr
    assert result["final_state"]["said"] == "42"
    _, calling, answered = server.last.json["contents"]
    assert calling == {"role": "model", "parts": [asked]}
    (part,) = answered["parts"]
    assert "the answer is 42" in json.dumps(part["functionResponse"]["response"])
    declared = server.last.json["tools"][0]["functionDeclarations"][0]["parameters"]
    assert set(declared["properties"]) == {"path", "title"}


async def test_geminis_bad_key_fails_at_once_though_its_status_is_400(tmp_path: Path) -> None:
    async with GoogleServer.open() as server:
        server.reply(failure("API key not valid.", details=[{"reason": "API_KEY_INVALID"}]))
        code, result, _ = await google(server, tmp_path, "    prompt: hi\n")
    assert (code, len(server.requests)) == (1, 1)
    assert result["error"].endswith("check the key and what it may be used for")


@pytest.mark.parametrize("stream", ["true", "false"])
async def test_what_ollama_ignores_is_told_and_costs_are_zero(tmp_path: Path, stream: str) -> None:
    step = f"    prompt: 2+2\n    stream: {stream}\n    thinking: {{enabled: true, budget_tokens: 9}}\n{SHAPE}"
    async with OllamaServer.open() as server:
        server.reply(
            Lines([line(thinking="two and two"), line('{"n":'), line("4}"), done()])
            if stream == "true"
            else Json(reply_json('{"n":4}', thinking="two and two"))
        )
        code, result, stderr = await ollama(server, tmp_path, step)
    assert code == 0, stderr
    assert result["final_state"]["said"] == {"n": 4}
    assert result["total_cost_usd"] == 0
    assert result["step_results"]["it"]["reasoning_content"] == "two and two"
    assert [each["message"] for each in result["warnings"]] == [
        "thinking.budget_tokens is ignored: Ollama takes a level"
    ]
    assert server.last.json["think"] is True
    assert server.last.json["format"]["required"] == ["n"]


async def test_ollama_runs_tools_though_a_choice_of_them_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("the answer is 42", encoding="utf-8")
    async with OllamaServer.open() as server:
        server.reply(Json(reply_json("", tool_calls=[call("file_read", {"path": "note.txt"})])), Json(reply_json("42")))
        code, result, stderr = await ollama(server, tmp_path, f"    prompt: what?\n    tool_choice: required\n{TOOL}")
    assert code == 0, stderr
    assert result["final_state"]["said"] == "42"
    assert [each["message"] for each in result["warnings"]] == ["tool_choice is ignored: Ollama has none"]
    *_, answered = server.last.json["messages"]
    assert (answered["role"], answered["tool_name"]) == ("tool", "file_read")
    assert "the answer is 42" in answered["content"]


async def test_a_missing_model_of_ollamas_fails_at_once_with_its_remedy(tmp_path: Path) -> None:
    async with OllamaServer.open() as server:
        server.reply(Json({"error": "model 'llama3.2:1b' not found"}, 404))
        code, result, _ = await ollama(server, tmp_path, "    prompt: hi\n")
    assert (code, len(server.requests)) == (1, 1)
    assert result["error"].endswith("; ollama pull llama3.2:1b")
