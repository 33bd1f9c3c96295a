"""On paper: the shapes of two vendors' conversations fit our messages, and nothing that a vendor has is lost.

Sources: https://platform.openai.com/docs/api-reference/chat/create, https://docs.anthropic.com/en/api/messages,
https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking.
"""

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest

from treadle.messages import (
    AssistantMessage,
    MediaPart,
    Message,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
    dump,
    load,
)


def through_json(value: Any) -> Any:
    return load(type(value), json.loads(json.dumps(dump(value))))


def to_openai(conversation: list[Message]) -> list[dict[str, Any]]:
    wire: list[dict[str, Any]] = []
    for message in conversation:
        if isinstance(message, SystemMessage):
            wire.append({"role": "system", "content": message.text})
        elif isinstance(message, UserMessage):
            content = [
                {"type": "text", "text": part.text}
                if isinstance(part, TextPart)
                else {"type": "image_url", "image_url": {"url": part.url}}
                for part in message.parts
            ]
            wire.append({"role": "user", "content": content, **({"name": message.name} if message.name else {})})
        elif isinstance(message, AssistantMessage):
            turn: dict[str, Any] = {"role": "assistant", "content": message.text or None}
            if message.name:
                turn["name"] = message.name
            if message.tool_calls:
                turn["tool_calls"] = [
                    {
                        "id": call.call_id,
                        "type": "function",
                        "function": {"name": call.tool_name, "arguments": call.raw_arguments},
                    }
                    for call in message.tool_calls
                ]
            wire.append(turn)
        else:
            wire += [
                {"role": "tool", "tool_call_id": each.call_id, "content": each.content} for each in message.results
            ]
    return wire


def from_openai(wire: list[dict[str, Any]]) -> list[Message]:
    conversation: list[Message] = []
    names: dict[str, str] = {}
    for turn in wire:
        if turn["role"] == "system":
            conversation.append(SystemMessage(text=turn["content"]))
        elif turn["role"] == "user":
            parts = tuple(
                TextPart(text=each["text"])
                if each["type"] == "text"
                else MediaPart(type="image", url=each["image_url"]["url"])
                for each in turn["content"]
            )
            conversation.append(UserMessage(parts=parts, name=turn.get("name")))
        elif turn["role"] == "assistant":
            said = (TextPart(text=turn["content"]),) if turn["content"] else ()
            calls = tuple(
                ToolCallPart(
                    call_id=each["id"],
                    tool_name=each["function"]["name"],
                    arguments=json.loads(each["function"]["arguments"]),
                    raw_arguments=each["function"]["arguments"],
                )
                for each in turn.get("tool_calls", ())
            )
            names.update({call.call_id: call.tool_name for call in calls})
            conversation.append(AssistantMessage(parts=(*said, *calls), name=turn.get("name")))
        else:
            call_id = turn["tool_call_id"]
            result = ToolResultPart(call_id=call_id, tool_name=names[call_id], content=turn["content"])
            if isinstance(conversation[-1], ToolMessage):
                result_of_the_same_turn = ToolMessage(results=(*conversation[-1].results, result))
                conversation[-1] = result_of_the_same_turn
            else:
                conversation.append(ToolMessage(results=(result,)))
    return conversation


def to_anthropic(conversation: list[Message]) -> dict[str, Any]:
    def block(part: Any) -> dict[str, Any]:
        if part.provider_data.get("anthropic"):
            return dict(part.provider_data["anthropic"])  # byte for byte
        if isinstance(part, TextPart):
            return {"type": "text", "text": part.text}
        if isinstance(part, MediaPart):
            return {"type": "image", "source": {"type": "url", "url": part.url}}
        assert isinstance(part, ToolCallPart)
        return {"type": "tool_use", "id": part.call_id, "name": part.tool_name, "input": dict(part.arguments or {})}

    wire: list[dict[str, Any]] = []
    for message in conversation:
        if isinstance(message, UserMessage):
            wire.append({"role": "user", "content": [block(part) for part in message.parts]})
        elif isinstance(message, AssistantMessage):
            wire.append({"role": "assistant", "content": [block(part) for part in message.parts]})
        elif isinstance(message, ToolMessage):
            wire.append(
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": each.call_id,
                            "content": each.content,
                            "is_error": each.is_error,
                        }
                        for each in message.results
                    ],
                }
            )
    system = [each.text for each in conversation if isinstance(each, SystemMessage)]
    return {"system": [{"type": "text", "text": each} for each in system], "messages": wire}


def from_anthropic(body: dict[str, Any]) -> list[Message]:
    names: dict[str, str] = {}

    def part(block: dict[str, Any]) -> Any:
        kind = block["type"]
        if kind == "text":
            return TextPart(text=block["text"])
        if kind == "image":
            return MediaPart(type="image", url=block["source"]["url"])
        if kind == "tool_use":
            names[block["id"]] = block["name"]
            return ToolCallPart(call_id=block["id"], tool_name=block["name"], arguments=block["input"])
        if kind == "tool_result":
            call_id = block["tool_use_id"]
            return ToolResultPart(
                call_id=call_id, tool_name=names[call_id], content=block["content"], is_error=block["is_error"]
            )
        return ReasoningPart(text=block.get("thinking", ""), provider_data={"anthropic": block})

    conversation: list[Message] = [SystemMessage(text=each["text"]) for each in body["system"]]
    for turn in body["messages"]:
        parts = tuple(part(block) for block in turn["content"])
        if turn["role"] == "assistant":
            conversation.append(AssistantMessage(parts=parts))
        elif isinstance(parts[0], ToolResultPart):
            conversation.append(ToolMessage(results=parts))
        else:
            conversation.append(UserMessage(parts=parts))
    return conversation


OPENAI = [
    {"role": "system", "content": "Be brief."},
    {
        "role": "user",
        "name": "ada",
        "content": [{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {"url": "https://x/a.png"}}],
    },
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "zoom", "arguments": '{"by":  2}'}},
            {"id": "c2", "type": "function", "function": {"name": "crop", "arguments": "{}"}},
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "done"},
    {"role": "tool", "tool_call_id": "c2", "content": "failed"},
    {"role": "system", "content": "Now answer."},
    {"role": "assistant", "name": "bot", "content": "A cat."},
]

ANTHROPIC = {
    "system": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look"},
                {"type": "image", "source": {"type": "url", "url": "https://x/a.png"}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "I should zoom.", "signature": "EqoBCkgIARABGAI="},
                {"type": "redacted_thinking", "data": "ErUBCkYIA=="},
                {"type": "text", "text": "Let me look."},
                {"type": "tool_use", "id": "t1", "name": "zoom", "input": {"by": 2}},
                {"type": "tool_use", "id": "t2", "name": "crop", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "done", "is_error": False},
                {"type": "tool_result", "tool_use_id": "t2", "content": "failed", "is_error": True},
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "A cat."}]},
    ],
}


@pytest.mark.parametrize(
    ("read", "write", "wire"),
    [(from_openai, to_openai, OPENAI), (from_anthropic, to_anthropic, ANTHROPIC)],
    ids=["openai", "anthropic"],
)
def test_a_vendors_conversation_comes_back_as_it_was(
    read: Callable[[Any], list[Message]], write: Callable[[list[Message]], Any], wire: Any
) -> None:
    conversation = read(wire)
    assert write(conversation) == wire
    assert write([through_json(each) for each in conversation]) == wire  # also after being kept as JSON


def in_openais_words(message: Message) -> Message:
    """OpenAI's API takes the arguments of a call as text; another vendor's call has none."""
    if not isinstance(message, AssistantMessage):
        return message
    parts = tuple(
        dataclasses.replace(part, raw_arguments=json.dumps(part.arguments)) if isinstance(part, ToolCallPart) else part
        for part in message.parts
    )
    return dataclasses.replace(message, parts=parts)


def test_one_conversation_can_be_sent_to_either_vendor() -> None:
    """What the other does not have is left out; the rest keeps its order and its ties."""
    conversation = from_anthropic(ANTHROPIC)
    openai = to_openai([in_openais_words(each) for each in conversation])
    assert [each["role"] for each in openai] == ["system", "system", "user", "assistant", "tool", "tool", "assistant"]
    assert [each["tool_call_id"] for each in openai if each["role"] == "tool"] == ["t1", "t2"]
    assert "EqoBCkgIARABGAI=" not in json.dumps(openai)
    back = to_anthropic(from_openai(OPENAI))
    assert [each["role"] for each in back["messages"]] == ["user", "assistant", "user", "assistant"]
    assert len(back["messages"][2]["content"]) == 2
