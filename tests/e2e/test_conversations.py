"""Conversations against servers that hold to their vendors' rules of who may say what when, through the real SDKs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import treadle
from treadle import Host, RunResult

from wire import anthropic_server, google_server, ollama_server, openai_server
from wire.anthropic_server import AnthropicServer
from wire.google_server import GoogleServer
from wire.http_server import Bytes, Json, Recorded, WireServer
from wire.ollama_server import OllamaServer
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


def google_breach(body: Any) -> str | None:
    """What the Gemini API would refuse: https://ai.google.dev/gemini-api/docs/function-calling."""
    contents = body["contents"]
    if contents[0]["role"] != "user" or contents[-1]["role"] != "user":
        return "please ensure that multiturn requests begin and end with a user role"
    calls = 0
    for before, each in zip([None, *contents], contents, strict=False):
        results = sum("functionResponse" in part for part in each["parts"])
        if results != calls:
            return (
                "the number of function response parts is to equal the number of function call parts of the turn before"
            )
        calls = sum("functionCall" in part for part in each["parts"])
        if before is not None and before["role"] == each["role"]:
            return "roles alternate between user and model"
    return None


def ollama_breach(body: Any) -> str | None:
    """The server takes any order; templates of models want results right after calls, and a turn to answer."""
    waiting = 0
    for each in body["messages"]:
        if each["role"] == "tool":
            waiting -= 1
        elif waiting:
            return "calls without results"
        waiting = waiting if each["role"] == "tool" else len(each.get("tool_calls", ()))
        if waiting < 0:
            return "results without calls"
    return "no turn to answer" if waiting or body["messages"][-1]["role"] == "assistant" else None


@dataclass(frozen=True)
class Vendor:
    """A provider, the server that it talks to, and how that answers."""

    name: str
    server: type[WireServer]
    breach: Callable[[Any], str | None]
    made: Callable[[str], Any]
    failed: Callable[[str], Bytes]
    model: str | None = None
    path: str = ""

    def answer(self, request: Recorded) -> Bytes:
        found = self.breach(request.json)
        return Json(self.made("An answer.")) if found is None else self.failed(found)


OPENAI = Vendor("openai", OpenAIServer, openai_breach, openai_server.completion, openai_server.failure, path="/v1")
ANTHROPIC = Vendor(
    "anthropic",
    AnthropicServer,
    anthropic_breach,
    anthropic_server.message,
    lambda why: anthropic_server.failure(why, status=400),
)
GOOGLE = Vendor("google", GoogleServer, google_breach, google_server.content, google_server.failure)
OLLAMA = Vendor("ollama", OllamaServer, ollama_breach, ollama_server.reply_json, ollama_server.failure, model="qwen3")
every = pytest.mark.parametrize("vendor", [OPENAI, ANTHROPIC, GOOGLE, OLLAMA], ids=lambda each: each.name)


async def run_at(vendor: Vendor, server: WireServer, path: Path, flow: dict[str, Any]) -> RunResult:
    """The result of a workflow that asks this server, in a folder."""
    model = {} if vendor.model is None else {"model": vendor.model}
    config = {"provider": vendor.name, "max_retries": 0, **model}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        patch.setenv(f"{vendor.name.upper()}_API_KEY", "sk-test-0123456789")
        patch.setenv(f"{vendor.name.upper()}_BASE_URL", server.url + vendor.path)
        workflow = treadle.build_workflow({"name": "flow", "config": config, **flow}, host=Host.discover())
        result = await treadle.run(workflow)
    assert result.status == "success", result.error
    return result


async def talk(vendor: Vendor, path: Path, *steps: dict[str, Any], chat: Any = None) -> tuple[RunResult, Sequence[Any]]:
    """The result of a workflow of these steps, and the bodies that the server got."""
    state = {} if chat is None else {"state": {"chat": chat}}
    flow = {**state, "steps": [{"type": "llm_call", "conversation": "state.chat", **each} for each in steps]}
    async with vendor.server.open() as server:
        server.reply(*[vendor.answer] * 9)
        return await run_at(vendor, server, path, flow), server.bodies()


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


@every
@pytest.mark.parametrize("policy", POLICIES)
async def test_whatever_is_trimmed_is_taken_by_the_vendor(vendor: Vendor, policy: str, tmp_path: Path) -> None:
    chat = {"messages": long_talk(), "token_budget": 200, "trim_policy": policy}
    second = {"id": "two", "prompt": "And then?", "depends_on": ["one"]}
    third = {"id": "three", "depends_on": ["two"], "speaker": "bob", "system_prompt": "You doubt."}
    result, bodies = await talk(vendor, tmp_path, {"id": "one", "prompt": "What now?"}, second, third, chat=chat)
    assert len(bodies) == (4 if policy == "summarize_oldest" else 3)
    left = result.final_state["chat"]["messages"]
    assert len(left) < len(long_talk())
    assert left[0] == {"role": "system", "content": "Be brief."}


@every
async def test_a_conversation_that_ends_with_a_tools_result_is_answered(vendor: Vendor, tmp_path: Path) -> None:
    _, bodies = await talk(vendor, tmp_path, {"id": "one"}, chat=long_talk()[:5])
    assert len(bodies) == 1


PLAN = {"id": "plan", "speaker": "alice", "system_prompt": "You plan.", "prompt": "Propose."}
DOUBT = {"id": "doubt", "speaker": "bob", "system_prompt": "You doubt.", "depends_on": ["plan"]}
AGAIN = {"id": "again", "speaker": "alice", "system_prompt": "You plan.", "prompt": "Go on.", "depends_on": ["doubt"]}


async def test_openai_gets_the_speakers_name_as_the_messages_name(tmp_path: Path) -> None:
    _, (_, doubt, again) = await talk(OPENAI, tmp_path, PLAN, DOUBT, AGAIN)
    assert doubt["messages"] == [
        {"role": "system", "content": "You doubt."},
        {"role": "user", "content": "Propose."},
        {"role": "user", "content": "An answer.", "name": "alice"},
    ]
    assert again["messages"][2:4] == [
        {"role": "assistant", "content": "An answer.", "name": "alice"},
        {"role": "assistant", "content": "An answer.", "name": "bob"},
    ]


@pytest.mark.parametrize("vendor", [ANTHROPIC, GOOGLE, OLLAMA], ids=lambda each: each.name)
async def test_other_vendors_see_it_in_brackets_before_the_turn(vendor: Vendor, tmp_path: Path) -> None:
    _, (_, doubt, again) = await talk(vendor, tmp_path, PLAN, DOUBT, AGAIN)
    assert "[alice] An answer." in json.dumps(doubt)
    assert "[alice] An answer." in json.dumps(again)
    assert "[bob] An answer." in json.dumps(again)


async def test_a_chat_goes_on_in_the_next_run(tmp_path: Path) -> None:
    stored = {"id": "one", "prompt": "Hello?", "conversation": {"key": "state.chat", "store": "ada"}}
    for messages in (1, 3, 5):
        result, (body,) = await talk(OPENAI, tmp_path, stored)
        assert len(body["messages"]) == messages
    file = tmp_path / ".treadle" / "conversations" / "ada.json"
    assert json.loads(file.read_text(encoding="utf-8")) == result.final_state["chat"]


@pytest.mark.parametrize("vendor", [OPENAI, GOOGLE, OLLAMA], ids=lambda each: each.name)
async def test_embed_gives_the_vectors_in_the_order_of_the_texts(vendor: Vendor, tmp_path: Path) -> None:
    def shuffled(request: Recorded) -> Bytes:
        rows = [{"index": n, "embedding": [float(len(each)), 1.0]} for n, each in enumerate(request.json["input"])]
        return Json({"data": rows[::-1], "model": "m", "usage": {"prompt_tokens": 5, "total_tokens": 5}})

    step = {"id": "vectors", "type": "embed", "inputs": "state.documents", "model": "m", "output": "found"}
    flow = {"state": {"documents": ["a", "bbb", "cc"]}, "steps": [step]}
    async with vendor.server.open() as server:
        if vendor is OPENAI:
            server.reply(shuffled)
        result = await run_at(vendor, server, tmp_path, flow)
        assert len(server.bodies()) == 1
    assert result.final_state["found"] == [[1.0, 1.0], [3.0, 1.0], [2.0, 1.0]]
    assert result.step_results["vectors"].output == "3 vectors x 2"
