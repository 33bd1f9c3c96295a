"""Transcripts, requests and responses as the kernel's messages, and back: providers and the loop speak those."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import treadle
from treadle import messages as kernel
from treadle_loop.conversations.toolbox import HostedTool, ToolSpec
from treadle_loop.errors import ResponseInvalid
from treadle_loop.provider import ModelResponse, Usage
from treadle_loop.transcript import (
    Citation,
    HostedToolPart,
    Message,
    Origin,
    Part,
    Source,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)

__all__ = ["as_response", "call_of", "from_reply", "kernel_request", "message_of", "sent", "shown"]

# Under this name, beside the providers' own, stands what only a transcript can hold: no provider looks there.
_OURS = "treadle_loop"

# How an origin of ours is told from one that a client of somebody's made: by the keys of its `raw`.
_RAW = frozenset({"message", "parts"})


# --- to the kernel -----------------------------------------------------------------------------------


def sent(message: Message) -> tuple[kernel.Message, ...]:
    """A message of a transcript as the loop and the providers take it: the user's text and tool results apart."""
    if message.role == "assistant":
        return (_assistant(message.content, message.origin),)
    made: list[kernel.Message] = []
    if results := message.tool_results:
        made.append(treadle.ToolMessage(results=tuple(_result(each) for each in results)))
    texts = tuple(treadle.TextPart(text=each.text) for each in message.content if isinstance(each, TextPart))
    if texts or not made:
        made.append(treadle.UserMessage(parts=texts))
    return tuple(made)


def _assistant(content: tuple[Part, ...], origin: Origin | None) -> treadle.AssistantMessage:
    raw = origin.raw if origin is not None else None
    if isinstance(raw, Mapping) and raw.keys() == _RAW and len(raw["parts"]) == len(content):
        parts = [_part(each, data) for each, data in zip(content, raw["parts"], strict=True)]
        return treadle.AssistantMessage(parts=tuple(parts), provider_data=raw["message"])
    data = {} if origin is None else {_OURS: _carried(origin)}
    return treadle.AssistantMessage(parts=tuple(_part(each, {}) for each in content), provider_data=data)


def _carried(origin: Origin) -> dict[str, Any]:
    """An origin that is not ours, in a form in which a paused turn and its continuation are joined as they should be:
    lists are put together, what must be alike is compared."""
    return {"origin": {"provider": origin.provider, "api": origin.api, "raw": origin.raw}, "models": [origin.model]}


def _part(part: Part, data: Mapping[str, Any]) -> Any:
    if isinstance(part, TextPart):
        citations = tuple(treadle.Citation(**each.model_dump()) for each in part.citations)
        return treadle.TextPart(text=part.text, citations=citations, provider_data=data)
    if isinstance(part, ToolCallPart):
        return treadle.ToolCallPart(
            call_id=part.id,
            tool_name=part.tool_name,
            arguments=None if part.parse_error is not None else part.arguments,
            raw_arguments=part.raw_arguments,
            parse_error=part.parse_error,
            provider_data=data,
        )
    if isinstance(part, ThinkingPart):
        return treadle.ReasoningPart(text=part.text, provider_data=data or {_OURS: part.model_dump()})
    if isinstance(part, HostedToolPart):
        return treadle.HostedToolPart(
            tool=part.kind,
            call_id=part.call_id,
            query=part.query,
            sources=tuple(treadle.Source(url=each.url, title=each.title) for each in part.sources),
            error=part.error,
            provider_data=data,
        )
    return treadle.TextPart(text=part.content)  # a result has no place in a turn of the model; the checks say so


def _result(part: ToolResultPart) -> treadle.ToolResultPart:
    return treadle.ToolResultPart(
        call_id=part.call_id, tool_name=part.tool_name, content=part.content, is_error=part.is_error
    )


def kernel_request(
    *,
    model: str,
    messages: tuple[kernel.Message, ...],
    system: str | None,
    tools: tuple[ToolSpec, ...] = (),
    hosted_tools: tuple[HostedTool, ...] = (),
    max_tokens: int | None,
    **settings: Any,
) -> treadle.ModelRequest:
    """A request of the kernel's."""
    before = (treadle.SystemMessage(text=system),) if system is not None else ()
    return treadle.ModelRequest(
        model=model,
        messages=(*before, *messages),
        tools=tuple(
            treadle.ToolSpec(name=each.name, description=each.description, parameters=each.parameters) for each in tools
        ),
        hosted_tools=tuple(treadle.HostedTool(tool=each.kind, options=each.options) for each in hosted_tools),
        max_tokens=max_tokens,
        **settings,
    )


def from_reply(response: ModelResponse, *, model: str, provider: str) -> treadle.ModelResponse:
    """A client's response, as the loop takes it."""
    usage = response.usage
    return treadle.ModelResponse(
        message=_assistant(response.content, response.origin),
        stop_reason=response.stop_reason,
        finish_reason=response.raw_stop_reason,
        usage=treadle.Usage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            reasoning_tokens=usage.reasoning_tokens,
        ),
        cost_usd=usage.cost_usd,
        model=response.model or model,
        provider=response.provider or provider,
        request_id=response.request_id,
    )


# --- from the kernel ---------------------------------------------------------------------------------


def message_of(message: kernel.Message, *, api: str | None = None, model: str | None = None) -> Message:
    """A message of the loop as a transcript keeps it."""
    if isinstance(message, treadle.AssistantMessage):
        return Message(role="assistant", content=_content(message), origin=_origin(message, api, model))
    if isinstance(message, treadle.ToolMessage):
        return Message(role="user", content=tuple(shown(each) for each in message.results))
    if isinstance(message, treadle.UserMessage):
        parts = tuple(TextPart(text=each.text) for each in message.parts if isinstance(each, treadle.TextPart))
        return Message(role="user", content=parts)
    raise TypeError("a transcript keeps no system message")


def shown(result: treadle.ToolResultPart) -> ToolResultPart:
    """A result as a transcript keeps it."""
    return ToolResultPart(
        call_id=result.call_id, tool_name=result.tool_name, content=result.content, is_error=result.is_error
    )


def call_of(call: treadle.ToolCallPart) -> ToolCallPart:
    """A call as tools and observers see it."""
    return ToolCallPart(
        id=call.call_id,
        tool_name=call.tool_name,
        arguments=dict(call.arguments or {}),
        raw_arguments=call.raw_arguments,
        parse_error=call.parse_error,
    )


def as_response(given: Any, *, api: str | None = None) -> ModelResponse:
    """What a client's ``complete`` gave: a response of ours, one of the kernel's, or a text.

    :raises TypeError: it is something else.
    :raises ResponseInvalid: it is empty, and was not cut.
    """
    if isinstance(given, ModelResponse):
        return given
    if isinstance(given, str):
        return ModelResponse(content=(TextPart(text=given),))
    if not isinstance(given, treadle.ModelResponse):
        raise TypeError(f"a client's complete() gives a ModelResponse, not {type(given).__name__}")
    content = _content(given.message)
    if not content and given.stop_reason in (treadle.StopReason.REFUSAL, treadle.StopReason.PAUSED):
        content = (TextPart(text=""),)
    if not content and given.stop_reason is not treadle.StopReason.MAX_TOKENS:
        raise ResponseInvalid(
            f"provider '{given.provider}' answered with nothing at all",
            provider=given.provider,
            status_code=200,
            request_id=given.request_id,
            phase="body",
            request_sent=True,
        )
    usage = given.usage
    return ModelResponse(
        content=content,
        stop_reason=given.stop_reason,
        usage=Usage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=_written(usage),
            reasoning_tokens=usage.reasoning_tokens,
            cost_usd=given.cost_usd,
            input_includes_cached=True if usage.input_tokens is not None else None,
        ),
        model=given.model,
        provider=given.provider,
        raw_stop_reason=given.finish_reason,
        request_id=given.request_id,
        origin=_origin(given.message, api, given.model),
    )


def _written(usage: treadle.Usage) -> int | None:
    if usage.cache_write_tokens is None or usage.cache_write_1h_tokens is None:
        return usage.cache_write_tokens if usage.cache_write_1h_tokens is None else usage.cache_write_1h_tokens
    return usage.cache_write_tokens + usage.cache_write_1h_tokens


def _content(message: treadle.AssistantMessage) -> tuple[Part, ...]:
    return tuple(_shown_part(each) for each in message.parts)


def _shown_part(part: kernel.AssistantPart) -> Part:
    if isinstance(part, treadle.TextPart):
        citations = tuple(
            Citation(url=each.url, title=each.title, cited_text=each.cited_text, start=each.start, end=each.end)
            for each in part.citations
        )
        return TextPart(text=part.text, citations=citations)
    if isinstance(part, treadle.ToolCallPart):
        return call_of(part)
    if isinstance(part, treadle.HostedToolPart):
        return HostedToolPart(
            kind=part.tool,
            call_id=part.call_id,
            query=part.query,
            sources=tuple(Source(url=each.url, title=each.title) for each in part.sources),
            error=part.error,
        )
    if _OURS in part.provider_data:
        return ThinkingPart.model_validate(part.provider_data[_OURS])
    provider, data = next(iter(part.provider_data.items()), (None, None))
    signature = data.get("signature") if isinstance(data, Mapping) else None
    return ThinkingPart(text=part.text, provider=provider, signature=signature if isinstance(signature, str) else None)


def _origin(message: treadle.AssistantMessage, api: str | None, model: str | None) -> Origin | None:
    """What the provider must get back, as the transcript keeps it: of the message and of each of its parts."""
    kept = message.provider_data.get(_OURS)
    if kept is not None:
        return Origin(**kept["origin"], model=kept["models"][-1]) if kept["origin"] else None
    parts = [{} if _OURS in each.provider_data else dict(each.provider_data) for each in message.parts]
    names = [*message.provider_data, *(name for data in parts for name in data)]
    if not names:
        return None
    return Origin(provider=names[0], api=api, model=model, raw={"message": dict(message.provider_data), "parts": parts})
