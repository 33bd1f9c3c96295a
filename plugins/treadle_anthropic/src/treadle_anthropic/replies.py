"""Whole replies, and the blocks they are made of. Pure; a stream ends here too.

https://docs.anthropic.com/en/api/messages#response-content
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from treadle.assembly import tool_call_part, with_unique_ids
from treadle.errors import ResponseError
from treadle.messages import (
    AssistantMessage,
    AssistantPart,
    Citation,
    HostedToolPart,
    ModelResponse,
    ReasoningPart,
    Source,
    StopReason,
    TextPart,
    ToolCallPart,
    Usage,
)
from treadle_anthropic.turns import API

__all__ = ["Asked", "parts_of", "response_from", "response_of", "unreadable", "usage_of"]

_STOP_REASONS: Mapping[str, StopReason] = {
    "end_turn": StopReason.END_TURN,
    "max_tokens": StopReason.MAX_TOKENS,
    "model_context_window_exceeded": StopReason.MAX_TOKENS,
    "pause_turn": StopReason.PAUSED,
    "refusal": StopReason.REFUSAL,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "tool_use": StopReason.TOOL_USE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What of a request its reply is read by.

    :param provider: the provider's name in this run.
    :param model: the model asked for, where the reply names none.
    :param keep_reasoning: whether readable reasoning is kept.
    :param answer_tool: the tool whose input is the reply's text.
    :param warnings: go onto the response.
    :param secrets: are taken out of error texts.
    """

    provider: str
    model: str
    keep_reasoning: bool = True
    answer_tool: str | None = None
    warnings: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()


def response_of(data: Any, asked: Asked, *, request_id: str | None = None) -> ModelResponse:
    """The response in the JSON of a whole reply.

    :raises ResponseError: the JSON is not that of a message.
    """
    content = data.get("content") if isinstance(data, Mapping) else None
    if not isinstance(data, Mapping) or not isinstance(content, list):
        raise unreadable(asked.provider, "answered without a message", request_id)
    blocks = [block for block in content if isinstance(block, Mapping)]
    calls = with_unique_ids(_call(block) for block in blocks if _is_call(block, asked))
    return response_from(data, parts_of(blocks, calls, asked), asked, request_id=request_id)


def response_from(
    data: Mapping[str, Any], parts: Iterable[AssistantPart], asked: Asked, *, request_id: str | None
) -> ModelResponse:
    """The response made of these parts and the message around them."""
    message = AssistantMessage(parts=tuple(parts))
    finish = data.get("stop_reason")
    model = data.get("model")
    return ModelResponse(
        message=message,
        stop_reason=_stop_reason(finish, has_calls=bool(message.tool_calls), asked=asked),
        finish_reason=finish if isinstance(finish, str) else None,
        usage=usage_of(data.get("usage")),
        model=model if isinstance(model, str) and model else asked.model,
        provider=asked.provider,
        warnings=asked.warnings,
        request_id=request_id,
    )


def _stop_reason(finish: Any, *, has_calls: bool, asked: Asked) -> StopReason:
    reason = _STOP_REASONS.get(finish, StopReason.UNKNOWN) if isinstance(finish, str) else StopReason.UNKNOWN
    # Calls are acted on whatever is said of them, unless they were cut off.
    if has_calls and reason is not StopReason.MAX_TOKENS:
        return StopReason.TOOL_USE
    if reason is StopReason.TOOL_USE and asked.answer_tool is not None and not has_calls:
        return StopReason.END_TURN  # the call was the answer
    return reason


# --- blocks -----------------------------------------------------------------------------------------


def _is_call(block: Mapping[str, Any], asked: Asked) -> bool:
    return block.get("type") == "tool_use" and (asked.answer_tool is None or block.get("name") != asked.answer_tool)


def _call(block: Mapping[str, Any]) -> ToolCallPart:
    given = block.get("input")
    arguments = given if isinstance(given, str) else json.dumps({} if given is None else given, ensure_ascii=False)
    extra = {key: value for key, value in block.items() if key not in ("type", "id", "name", "input")}
    return tool_call_part(
        _str(block.get("id")), _str(block.get("name")), arguments, provider_data={API: extra} if extra else None
    )


def parts_of(
    blocks: Sequence[Mapping[str, Any]], calls: Iterable[ToolCallPart], asked: Asked
) -> Iterator[AssistantPart]:
    """The parts that the blocks stand for.

    What only this API understands stays on the part as it came, and goes back as it came: thinking with its
    signature, encrypted thinking, what its own tools did, text with citations, blocks of a kind not known here.

    :param calls: the tool calls, one for each ``tool_use`` block that is no answer, in their order.
    """
    ready = iter(calls)
    use_of = {id(result): use for use, result in _pairs(blocks)}
    paired = {id(use) for use in use_of.values()}
    for block in blocks:
        kind = block.get("type")
        if _is_call(block, asked):
            yield next(ready)
        elif kind == "tool_use":
            given = block.get("input")
            yield TextPart(text=given if isinstance(given, str) else json.dumps(given or {}, ensure_ascii=False))
        elif kind == "text":
            if part := _text(block):
                yield part
        elif kind == "thinking":
            text = _str(block.get("thinking")) if asked.keep_reasoning else ""
            yield ReasoningPart(text=text, provider_data={API: [dict(block)]})
        elif kind == "redacted_thinking":
            yield ReasoningPart(provider_data={API: [dict(block)]})
        elif kind != "server_tool_use":
            yield _hosted(use_of.get(id(block)), block)
        elif id(block) not in paired:
            yield _hosted(block, None)


def _text(block: Mapping[str, Any]) -> TextPart | None:
    text = _str(block.get("text"))
    citations = tuple(_citations(block.get("citations"), len(text)))
    if not text:
        return None
    return TextPart(text=text, citations=citations, provider_data={API: [dict(block)]} if citations else {})


def _citations(found: Any, length: int) -> Iterator[Citation]:
    for each in found if isinstance(found, list) else ():
        if isinstance(each, Mapping):
            title = each.get("title") or each.get("document_title")
            # The whole block is what the source bears out: the API cuts the text into blocks by that.
            yield Citation(
                url=_str(each.get("url")) or None,
                title=_str(title) or None,
                cited_text=_str(each.get("cited_text")) or None,
                start=0,
                end=length,
            )


def _pairs(blocks: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """The uses of hosted tools whose result is the very next block."""
    for use, result in pairwise(blocks):
        is_use = use.get("type") == "server_tool_use" and use.get("id")
        if is_use and str(result.get("type")).endswith("_tool_result") and result.get("tool_use_id") == use.get("id"):
            yield use, result


def _hosted(use: Mapping[str, Any] | None, result: Mapping[str, Any] | None) -> HostedToolPart:
    """What a hosted tool was asked and gave; either may stand alone, as in a turn that is paused between them."""
    asked, given = use or {}, result or {}
    query, content = asked.get("input"), given.get("content")
    rows = [row for row in content if isinstance(row, Mapping)] if isinstance(content, list) else []
    return HostedToolPart(
        tool=_str(asked.get("name")) or _str(given.get("type")).removesuffix("_tool_result") or "unknown",
        call_id=_str(asked.get("id")) or _str(given.get("tool_use_id")) or None,
        query=_str(query.get("query")) or None if isinstance(query, Mapping) else None,
        sources=tuple(
            Source(url=row["url"], title=_str(row.get("title")) or None) for row in rows if _str(row.get("url"))
        ),
        error=_str(content.get("error_code")) or None if isinstance(content, Mapping) else None,
        provider_data={API: [dict(block) for block in (use, result) if block is not None]},
    )


# --- counts -----------------------------------------------------------------------------------------


def usage_of(usage: Any) -> Usage:
    """Tokens as Treadle counts them: the input with what was read from and written to the cache.

    The API counts the three apart: "total input tokens in a request is the summation of ``input_tokens``,
    ``cache_creation_input_tokens``, and ``cache_read_input_tokens``". What it does not say stays unknown.
    """
    if not isinstance(usage, Mapping):
        return Usage()
    fresh = _count(usage.get("input_tokens"))
    read = _count(usage.get("cache_read_input_tokens"))
    written = _count(usage.get("cache_creation_input_tokens"))
    short, long = written, 0 if written == 0 else None
    if isinstance(parts := usage.get("cache_creation"), Mapping):
        short = _count(parts.get("ephemeral_5m_input_tokens"))
        long = _count(parts.get("ephemeral_1h_input_tokens"))
        if written is None and short is not None and long is not None:
            written = short + long
    details = usage.get("output_tokens_details")
    return Usage(
        input_tokens=None if fresh is None else fresh + (read or 0) + (written or 0),
        output_tokens=_count(usage.get("output_tokens")),
        cache_read_tokens=read,
        cache_write_tokens=short,
        cache_write_1h_tokens=long,
        reasoning_tokens=_count(details.get("thinking_tokens")) if isinstance(details, Mapping) else None,
    )


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _str(value: Any) -> str:
    return value if isinstance(value, str) else ""


def unreadable(provider: str, what: str, request_id: str | None) -> ResponseError:
    """The error for a reply that cannot be read."""
    return ResponseError(
        f"provider '{provider}' {what}", provider=provider, request_id=request_id, phase="body", request_sent=True
    )
