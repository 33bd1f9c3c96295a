"""What is sent is what the SDK's own types declare: every field is known there, and of its type."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic.types.message_create_params import MessageCreateParams
from pydantic import BaseModel, TypeAdapter, ValidationError

from treadle.messages import (
    AssistantMessage,
    HostedTool,
    MediaPart,
    ModelRequest,
    NamedTool,
    OutputSchema,
    Reasoning,
    SystemMessage,
    TextPart,
    ToolMessage,
    ToolResultPart,
    ToolSpec,
    UserMessage,
)
from treadle_anthropic.convert import prepare
from treadle_anthropic.replies import Asked, response_of

from wire.anthropic_server import message, redacted, search, text, thinking, tool_use

DECLARED: TypeAdapter[Any] = TypeAdapter(MessageCreateParams)
PNG = MediaPart(type="image", media_type="image/png", data=b"png")
PDF = MediaPart(type="pdf", media_type="application/pdf", data=b"%PDF")
SPEC = ToolSpec(name="look", description="Look up", parameters={"properties": {"q": {"type": "string"}}})
CITATION = {
    "type": "web_search_result_location",
    "url": "https://a",
    "title": "A",
    "encrypted_index": "Eo8=",
    "cited_text": "words",
}
SAID = response_of(
    message(thinking(), redacted(), *search("q", "https://a"), text("so", CITATION), tool_use("look", {"q": "x"})),
    Asked(provider="anthropic", model="m"),
).message
HISTORY = (
    SystemMessage(text="be brief"),
    UserMessage(parts=(TextPart(text="hi"), PNG, PDF, MediaPart(type="image", url="https://x/y.png")), name="bob"),
    SAID,
    ToolMessage(
        results=(ToolResultPart(call_id="toolu_1", tool_name="look", content="no", is_error=True, media=(PNG, PDF)),)
    ),
    AssistantMessage.of("ok", name="alice"),
    UserMessage.of("go on"),
)


def exhausted(value: Any) -> Any:
    """The validated value whole: what is declared as an iterable is validated as it is read."""
    if isinstance(value, BaseModel):  # a block of a reply, sent back as it came
        return value.model_dump(exclude_unset=True)
    if isinstance(value, dict):
        return {key: exhausted(each) for key, each in value.items()}
    return value if isinstance(value, str) or not hasattr(value, "__iter__") else [exhausted(each) for each in value]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"messages": HISTORY},
        {
            "messages": HISTORY,
            "tools": (SPEC,),
            "parallel_tool_calls": False,
            "reasoning": Reasoning(budget_tokens=2000),
        },
        {"messages": HISTORY[:3], "hosted_tools": (HostedTool(tool="web_search", options={"max_uses": 1}),)},
        {
            "hosted_tools": (
                HostedTool(
                    tool="web_search", options={"blocked_domains": ["a.com"], "user_location": {"country": "FR"}}
                ),
            )
        },
        {"tools": (SPEC,), "tool_choice": NamedTool(name="look")},
        {"tools": (SPEC,), "tool_choice": "required"},
        {"tools": (SPEC,), "tool_choice": "none", "stop_sequences": ("END",), "stream": True},
        {"model": "claude-opus-4-8", "reasoning": Reasoning(budget_tokens=2000, capture=False)},
        {"output": OutputSchema(name="x", schema={"type": "object", "properties": {"a": {"type": "string"}}})},
        {
            "model": "claude-3-7-sonnet-latest",
            "output": OutputSchema(name="x", schema={"type": "object", "properties": {"a": {"type": "string"}}}),
        },
        {
            "messages": HISTORY,
            "tools": (SPEC,),
            "provider_options": {"anthropic": {"prompt_cache": {"ttl": "1h"}, "service_tier": "auto"}},
        },
    ],
)
def test_every_field_is_declared(fields: dict[str, Any]) -> None:
    request = ModelRequest(**{"model": "claude-sonnet-4-5", "messages": (UserMessage.of("hi"),), **fields})
    body = prepare(request, provider="anthropic").body
    assert exhausted(DECLARED.validate_python(body)) == body


def test_a_wrong_body_would_be_noticed() -> None:
    body = prepare(ModelRequest(model="m", messages=(UserMessage.of("hi"),)), provider="anthropic").body
    assert exhausted(DECLARED.validate_python({**body, "unheard": 1})) != {**body, "unheard": 1}
    with pytest.raises(ValidationError):
        exhausted(DECLARED.validate_python({**body, "messages": [{"role": "user", "content": [{"type": "txt"}]}]}))
