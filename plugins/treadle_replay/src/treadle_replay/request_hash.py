"""The hash by which a recording knows a request again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from treadle import (
    AssistantMessage,
    EmbedRequest,
    MediaPart,
    Message,
    ModelRequest,
    SystemMessage,
    TextPart,
    ToolCallPart,
    UserMessage,
    UserPart,
)
from treadle.messages import dump
from treadle.redaction import without_hashes

__all__ = ["content_hash", "hashed_content", "request_hash"]


def request_hash(request: ModelRequest | EmbedRequest) -> str:
    """SHA-256, in hex, of the request's content as JSON with sorted keys.

    The JSON is what ``json.dumps(hashed_content(request), sort_keys=True)`` gives: ASCII, ``", "`` and ``": "``
    between items. Equal requests have equal hashes in every process and on every machine; what is redacted in them
    counts as ``<REDACTED>``.
    """
    return content_hash(hashed_content(request))


def content_hash(content: Mapping[str, Any]) -> str:
    """The hash of what :func:`hashed_content` gives."""
    text = without_hashes(json.dumps(content, sort_keys=True, allow_nan=False))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def hashed_content(request: ModelRequest | EmbedRequest) -> dict[str, Any]:
    """What of a request its hash covers.

    A model request: ``messages``, ``model``, ``temperature``, ``max_tokens`` and ``extra``, which holds the
    tools, the tool choice, the output's shape and whatever else was set away from its default, and is empty for
    a plain request. An embedding request: ``inputs``, ``model`` and ``dimensions``.

    Messages are taken in the form in which documents write them (``{role, content, name?}``). Left out is what a
    recording does not give back, since the second request of a replayed tool loop would otherwise never match:
    reasoning, hosted-tool activity, citations and every provider's opaque data. So are the request's ``key`` and
    whether it is streamed. The bytes of an image, PDF or recording stand as their SHA-256.
    """
    if isinstance(request, EmbedRequest):
        return {"inputs": list(request.inputs), "model": request.model, "dimensions": request.dimensions}
    return {
        "messages": [line for message in request.messages for line in _message_lines(message)],
        "model": request.model,
        "temperature": request.temperature,
        "max_tokens": request.max_tokens,
        "extra": _extra(request),
    }


_EXTRA_FIELDS = (
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "hosted_tools",
    "output",
    "reasoning",
    "stop_sequences",
    "provider_options",
)


def _extra(request: ModelRequest) -> dict[str, Any]:
    given, plain = dump(request), _plain_request()
    return {name: given[name] for name in _EXTRA_FIELDS if given[name] != plain[name]}


@cache
def _plain_request() -> dict[str, Any]:
    return dump(ModelRequest(model="", messages=()))  # type: ignore[no-any-return]


def _message_lines(message: Message) -> list[dict[str, Any]]:
    if isinstance(message, SystemMessage):
        return [{"role": "system", "content": message.text}]
    if isinstance(message, UserMessage):
        only_text = all(isinstance(part, TextPart) for part in message.parts)
        content = message.text if only_text else [_part(part) for part in message.parts]
        return [_named({"role": "user", "content": content}, message.name)]
    if isinstance(message, AssistantMessage):
        line: dict[str, Any] = {"role": "assistant", "content": message.text}
        if message.tool_calls:
            line["tool_calls"] = [_call(call) for call in message.tool_calls]
        return [_named(line, message.name)]
    return [
        {"role": "tool", "tool_call_id": result.call_id, "content": result.content}
        | ({"media": [_part(part) for part in result.media]} if result.media else {})
        for result in message.results
    ]


def _call(call: ToolCallPart) -> dict[str, Any]:
    arguments = call.raw_arguments if call.arguments is None else dump(call)["arguments"]
    return {"id": call.call_id, "name": call.tool_name, "arguments": arguments}


def _named(line: dict[str, Any], name: str | None) -> dict[str, Any]:
    return line if name is None else line | {"name": name}


def _part(part: UserPart) -> dict[str, Any]:
    data = {key: value for key, value in dump(part).items() if key not in ("provider_data", "citations")}
    if isinstance(part, MediaPart) and part.data is not None:
        data["data"] = f"sha256:{hashlib.sha256(part.data).hexdigest()}"
    return data
