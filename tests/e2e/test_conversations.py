"""Conversations against servers that hold to their vendors' rules of who may say what when, through the real SDKs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.command import treadle
from wire import anthropic_server, openai_server
from wire.anthropic_server import AnthropicServer
from wire.http_server import Bytes, Json, Recorded
from wire.openai_server import OpenAIServer

POLICIES = ("drop_oldest", "drop_pairs", "summarize_oldest")


def openai_breach(body: Any) -> str | None:
    """What the Chat Completions API would refuse: https://platform.openai.com/docs/guides/function-calling."""
    waiting: list[str] = []
    for each in body["messages"]:
        if each["role"] == "tool":
            if each["tool_call_id"] not in waiting:
                return "messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
            waiting.remove(each["tool_call_id"])
            continue
        if waiting:
            return f"tool_call_ids did not have response messages: {waiting}"
        waiting = [call["id"] for call in each.get("tool_calls", ())]
    return "no turn to answer" if waiting or body["messages"][-1]["role"] == "assistant" else None


def anthropic_breach(body: Any) -> str | None:
    """What the Messages API would refuse: https://docs.claude.com/en/docs/build-with-claude/tool-use."""
    messages = body["messages"]
    if messages[0]["role"] != "user":
        return "messages: first message must use the user role"
    if messages[-1]["role"] != "user":
        return "this model does not support assistant message prefill"
    waiting: set[str] = set()
    for each in messages:
        blocks = each["content"] if isinstance(each["content"], list) else [{"type": "text", "text": each["content"]}]
        given = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
        if given != waiting:
            return "tool_use ids were found without tool_result blocks immediately after, or the other way round"
        if any(block["type"] == "text" and not block["text"].strip() for block in blocks):
            return "text content blocks must contain non-whitespace text"
        waiting = {block["id"] for block in blocks if block["type"] == "tool_use"}
    return "tool_use ids were found without tool_result blocks" if waiting else None


def answers(breach: Callable[[Any], str | None], made: Callable[[str], Any], failed: Callable[[str], Bytes]) -> Any:
    def answer(request: Recorded) -> Bytes:
        found = breach(request.json)
        return Json(made("An answer.")) if found is None else failed(found)

    return answer


OPENAI = answers(openai_breach, openai_server.completion, openai_server.failure)
ANTHROPIC = answers(
    anthropic_breach,
    lambda said: anthropic_server.message(said),
    lambda why: anthropic_server.failure(why, status=400),
)


async def run(
    server: Any, path: Path, *steps: dict[str, Any], chat: Any = None, answered: int = 9
) -> tuple[dict[str, Any], Sequence[Any]]:
    """The result of a workflow of these steps, and the bodies that the server got."""
    name, answer = ("openai", OPENAI) if isinstance(server, OpenAIServer) else ("anthropic", ANTHROPIC)
    server.reply(*[answer] * answered)
    flow = {
        "name": "flow",
        "config": {"provider": name, "max_retries": 0},
        **({} if chat is None else {"state": {"chat": chat}}),
        "steps": [{"type": "llm_call", "conversation": "state.chat", **each} for each in steps],
    }
    (path / "flow.yaml").write_text(yaml.safe_dump(flow), encoding="utf-8")
    address = f"{server.url}/v1" if name == "openai" else server.url
    settings = {f"{name.upper()}_API_KEY": "sk-test-0123456789", f"{name.upper()}_BASE_URL": address}
    done = await treadle("run", "flow.yaml", "--json", cwd=path, **settings)
    assert done.stdout, done.stderr
    return json.loads(done.stdout), server.bodies()


def long_talk() -> list[dict[str, Any]]:
    """Questions, each with calls of tools and an answer, as a person may write them."""
    said: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}]
    for n in range(6):
        calls = [{"id": f"call_{n}{each}", "name": "look", "arguments": {"at": each}} for each in "ab"]
        said += [
            {"role": "user", "content": f"Question {n}? " * 4},
            {"role": "assistant", "content": None, "tool_calls": calls},
            *({"role": "tool", "tool_call_id": call["id"], "content": f"Grüße {n} " * 5} for call in reversed(calls)),
            {"role": "assistant", "content": f"Answer {n}. " * 4},
        ]
    return said


@pytest.mark.parametrize("kind", [OpenAIServer, AnthropicServer])
@pytest.mark.parametrize("policy", POLICIES)
async def test_whatever_is_trimmed_is_taken_by_the_vendor(kind: Any, policy: str, tmp_path: Path) -> None:
    chat = {"messages": long_talk(), "token_budget": 200, "trim_policy": policy}
    second = {"id": "two", "prompt": "And then?", "depends_on": ["one"]}
    third = {"id": "three", "depends_on": ["two"], "speaker": "bob", "system_prompt": "You doubt."}
    async with kind.open() as server:
        result, bodies = await run(server, tmp_path, {"id": "one", "prompt": "What now?"}, second, third, chat=chat)
    assert result["status"] == "success", result
    assert len(bodies) == (4 if policy == "summarize_oldest" else 3)
    left = result["final_state"]["chat"]["messages"]
    assert len(left) < len(long_talk())
    assert left[0] == {"role": "system", "content": "Be brief."}


@pytest.mark.parametrize("kind", [OpenAIServer, AnthropicServer])
async def test_a_conversation_that_ends_with_a_tools_result_is_answered(kind: Any, tmp_path: Path) -> None:
    async with kind.open() as server:
        result, _ = await run(server, tmp_path, {"id": "one"}, chat=long_talk()[:5])
    assert result["status"] == "success", result


PLAN = {"id": "plan", "speaker": "alice", "system_prompt": "You plan.", "prompt": "Propose."}
DOUBT = {"id": "doubt", "speaker": "bob", "system_prompt": "You doubt.", "depends_on": ["plan"]}
AGAIN = {"id": "again", "speaker": "alice", "system_prompt": "You plan.", "prompt": "Go on.", "depends_on": ["doubt"]}


async def test_openai_gets_the_speakers_name_as_the_messages_name(tmp_path: Path) -> None:
    async with OpenAIServer.open() as server:
        _, (_, doubt, again) = await run(server, tmp_path, PLAN, DOUBT, AGAIN)
    assert doubt["messages"] == [
        {"role": "system", "content": "You doubt."},
        {"role": "user", "content": "Propose."},
        {"role": "user", "content": "An answer.", "name": "alice"},
    ]
    assert again["messages"][2:4] == [
        {"role": "assistant", "content": "An answer.", "name": "alice"},
        {"role": "assistant", "content": "An answer.", "name": "bob"},
    ]


async def test_anthropic_sees_it_in_brackets_before_the_turn(tmp_path: Path) -> None:
    async with AnthropicServer.open() as server:
        _, (_, doubt, again) = await run(server, tmp_path, PLAN, DOUBT, AGAIN)
    assert "[alice] An answer." in json.dumps(doubt["messages"])
    assert "[alice] An answer." in json.dumps(again["messages"])
    assert "[bob] An answer." in json.dumps(again["messages"])


async def test_a_chat_goes_on_in_the_next_run(tmp_path: Path) -> None:
    stored = {"id": "one", "prompt": "Hello?", "conversation": {"key": "state.chat", "store": "ada"}}
    for messages in (1, 3, 5):
        async with OpenAIServer.open() as server:
            result, (body,) = await run(server, tmp_path, stored)
        assert len(body["messages"]) == messages
    file = tmp_path / ".treadle" / "conversations" / "ada.json"
    assert json.loads(file.read_text(encoding="utf-8")) == result["final_state"]["chat"]


async def test_embed_asks_openai_and_keeps_the_order(tmp_path: Path) -> None:
    def answer(request: Recorded) -> Bytes:
        rows = [{"index": n, "embedding": [float(len(each))]} for n, each in enumerate(request.json["input"])]
        usage = {"prompt_tokens": 5, "total_tokens": 5}
        return Json({"data": rows[::-1], "model": "text-embedding-3-small", "usage": usage})

    step = {"type": "embed", "inputs": "state.documents", "model": "text-embedding-3-small", "dimensions": 1}
    flow = {
        "name": "flow",
        "config": {"provider": "openai"},
        "state": {"documents": ["a", "bbb", "cc"]},
        "steps": [{"id": "vectors", "output": "found", **step}],
    }
    (tmp_path / "flow.yaml").write_text(yaml.safe_dump(flow), encoding="utf-8")
    async with OpenAIServer.open() as server:
        server.reply(answer)
        settings = {"OPENAI_API_KEY": "sk-test-0123456789", "OPENAI_BASE_URL": f"{server.url}/v1"}
        done = await treadle("run", "flow.yaml", "--json", cwd=tmp_path, **settings)
    result = json.loads(done.stdout)
    assert result["final_state"]["found"] == [[1.0], [3.0], [2.0]]
    assert result["step_results"]["vectors"]["output"] == "3 vectors x 1"
    assert result["total_tokens"] == 5
    assert server.last.json == {
        "input": ["a", "bbb", "cc"],
        "model": "text-embedding-3-small",
        "dimensions": 1,
        "encoding_format": "float",
    }
