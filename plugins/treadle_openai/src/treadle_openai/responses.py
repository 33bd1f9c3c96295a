"""Between Treadle's messages and the JSON of OpenAI's Responses API. Pure: no SDK, no network, no clock.

Nothing is kept at the server (``store: false``): every request holds the whole conversation. Reasoning goes back as
it came, encrypted, without the ids that only a server that stores could look up.

https://platform.openai.com/docs/api-reference/responses
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from treadle.assembly import tool_call_part, with_unique_ids
from treadle.errors import ProviderError, ResponseError, UnsupportedError
from treadle.messages import (
    AssistantMessage,
    AssistantPart,
    Citation,
    HostedTool,
    HostedToolPart,
    MediaPart,
    Message,
    ModelRequest,
    ModelResponse,
    NamedTool,
    ReasoningPart,
    Source,
    StopReason,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolSpec,
    Usage,
    UserMessage,
)
from treadle_http.history import History
from treadle_http.status_errors import body_error
from treadle_openai.checks import WEB_SEARCH, responses_media_refusal
from treadle_openai.convert import (
    NO_PARAMETERS,
    count_of,
    mapping_of,
    output_shape,
    raw_arguments,
    short_id,
    text_of,
)
from treadle_openai.models import is_reasoning_model, takes_effort, takes_parallel_calls

__all__ = ["failed", "items_of", "request_body", "response_of", "without_reasoning"]

_INCOMPLETE: Mapping[str, StopReason] = {
    "max_output_tokens": StopReason.MAX_TOKENS,
    "content_filter": StopReason.REFUSAL,
}


# --- requests ---------------------------------------------------------------------------------------


def request_body(request: ModelRequest, *, provider: str, history: History | None = None) -> dict[str, Any]:
    """The JSON of a request.

    :param history: what :func:`items_of` has made of earlier calls.
    :raises UnsupportedError: the request holds what the Responses API cannot say.
    """
    reasons = is_reasoning_model(request.model)
    history = history or History(partial(items_of, provider=provider))
    items = history.converted(request.messages)
    body: dict[str, Any] = {
        "model": request.model,
        "input": items if reasons else [each for each in items if each.get("type") != "reasoning"],
        "store": False,
    }
    include = []
    if reasons:
        include.append("reasoning.encrypted_content")
    if any(hosted.tool == WEB_SEARCH for hosted in request.hosted_tools):
        include.append("web_search_call.action.sources")
    if include:
        body["include"] = include
    _add_tools(body, request)
    if request.output is not None:
        schema = request.output.schema
        shape = {"type": "json_object"}
        if schema is not None:
            shape = {"type": "json_schema", **output_shape(request.output, schema)}
        body["text"] = {"format": shape}
    if request.max_tokens is not None:
        body["max_output_tokens"] = request.max_tokens
    if request.temperature is not None and not reasons:
        body["temperature"] = request.temperature
    if request.reasoning is not None and takes_effort(request.model):
        thinking: dict[str, str] = {}
        if request.reasoning.level:
            thinking["effort"] = request.reasoning.level
        if request.reasoning.capture:
            thinking["summary"] = "auto"
        if thinking:
            body["reasoning"] = thinking
    options = request.provider_options.get(provider)
    if isinstance(options, Mapping):
        body.update(options)
    if request.stream:
        body["stream"] = True
    return body


def _add_tools(body: dict[str, Any], request: ModelRequest) -> None:
    tools = [*map(_tool, request.tools), *map(_web_search, request.hosted_tools)]
    if not tools:
        return
    body["tools"] = tools
    if isinstance(request.tool_choice, NamedTool):
        body["tool_choice"] = {"type": "function", "name": request.tool_choice.name}
    elif request.tool_choice != "auto":
        body["tool_choice"] = request.tool_choice
    if request.tools and request.parallel_tool_calls is not None and takes_parallel_calls(request.model):
        body["parallel_tool_calls"] = request.parallel_tool_calls
    uses = [each for hosted in request.hosted_tools if (each := hosted.options.get("max_uses")) is not None]
    if uses:
        body["max_tool_calls"] = uses[0]  # of the tools that the server runs; the search is the only one


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function: dict[str, Any] = {
        "type": "function",
        "name": tool.name,
        "parameters": dict(tool.parameters) or NO_PARAMETERS,
        "strict": False,  # what is left out means True here
    }
    if tool.description:
        function["description"] = tool.description
    return function


def _web_search(hosted: HostedTool) -> dict[str, Any]:
    tool: dict[str, Any] = {"type": WEB_SEARCH}
    filters = {
        name: list(domains) for name in ("allowed_domains", "blocked_domains") if (domains := hosted.options.get(name))
    }
    if filters:
        tool["filters"] = filters
    if isinstance(place := hosted.options.get("user_location"), Mapping):
        tool["user_location"] = {"type": "approximate", **place}
    if size := hosted.options.get("search_context_size"):
        tool["search_context_size"] = size
    return tool


def without_reasoning(body: Mapping[str, Any]) -> dict[str, Any] | None:
    """A request's JSON without the reasoning of earlier turns, None where it holds none."""
    items = [item for item in body["input"] if item.get("type") != "reasoning"]
    return None if len(items) == len(body["input"]) else {**body, "input": items}


def items_of(message: Message, *, provider: str) -> Iterator[dict[str, Any]]:
    """One message as the API takes it; reasoning and each call and result are items of their own."""
    if isinstance(message, SystemMessage):
        yield {"role": "system", "content": message.text}
    elif isinstance(message, UserMessage):
        yield {"role": "user", "content": _user_content(message, provider)}
    elif isinstance(message, AssistantMessage):
        yield from _assistant(message, provider)
    else:
        for result in message.results:
            output: str | list[dict[str, Any]] = result.content
            if result.media:
                text = [{"type": "input_text", "text": result.content}] if result.content else []
                output = [*text, *(_media(media, provider) for media in result.media)]
            yield {"type": "function_call_output", "call_id": short_id(result.call_id), "output": output}


def _user_content(message: UserMessage, provider: str) -> str | list[dict[str, Any]]:
    # The API has no field for a speaker's name, so it stands before what is said.
    named = f"[{message.name}] " if message.name else ""
    if len(message.parts) == 1 and isinstance(message.parts[0], TextPart):
        return named + message.parts[0].text
    content = []
    for part in message.parts:
        if isinstance(part, MediaPart):
            content.append(_media(part, provider))
        else:
            content.append({"type": "input_text", "text": named + part.text})
            named = ""
    return content


def _media(media: MediaPart, provider: str) -> dict[str, Any]:
    if refusal := responses_media_refusal(media):
        raise UnsupportedError(refusal, provider=provider)
    address = media.url
    if media.data is not None:
        address = f"data:{media.media_type};base64,{base64.b64encode(media.data).decode('ascii')}"
    if media.type == "image":
        return {"type": "input_image", "image_url": address, "detail": "auto"}
    if media.data is None:
        return {"type": "input_file", "file_url": address}
    return {"type": "input_file", "filename": "attachment.pdf", "file_data": address}


def _assistant(message: AssistantMessage, provider: str) -> Iterator[dict[str, Any]]:
    named = f"[{message.name}] " if message.name else ""
    for part in message.parts:
        if isinstance(part, TextPart):
            if part.text:
                content = [{"type": "output_text", "text": named + part.text}]
                named = ""
                phase = mapping_of(part.provider_data.get(provider)).get("phase")
                yield {"role": "assistant", "content": content, **({"phase": phase} if phase else {})}
        elif isinstance(part, ToolCallPart):
            yield {
                "type": "function_call",
                "call_id": short_id(part.call_id),
                "name": part.tool_name,
                "arguments": raw_arguments(part),
            }
        elif isinstance(part, ReasoningPart):
            opaque = mapping_of(part.provider_data.get(provider))
            if opaque.get("encrypted_content"):
                yield {"type": "reasoning", **opaque}
        # What the server ran itself is not sent back: it is known only where it is stored.


# --- replies ----------------------------------------------------------------------------------------


def response_of(
    data: Any,
    *,
    provider: str,
    model: str,
    request_id: str | None = None,
    keep_reasoning: bool = True,
    secrets: Iterable[str] = (),
) -> ModelResponse:
    """The response in the JSON of a whole reply.

    :param model: the model asked for, where the reply names none.
    :param keep_reasoning: keep readable reasoning. What must go back to the server is kept in any case.
    :param secrets: taken out of error texts.
    :raises ProviderError: the JSON is not that of a response, or it is one that failed.
    """
    items = data.get("output") if isinstance(data, Mapping) else None
    if not isinstance(data, Mapping) or not (isinstance(items, list) or data.get("status") == "failed"):
        raise ResponseError(
            f"provider '{provider}' answered without an output",
            provider=provider,
            request_id=request_id,
            phase="body",
            request_sent=True,
        )
    if data.get("status") == "failed":
        raise failed(data, provider, request_id, secrets=secrets)
    parts, refused = _parts(items if isinstance(items, list) else [], provider, keep_reasoning=keep_reasoning)
    stop, finish = _stop(data, has_calls=any(isinstance(part, ToolCallPart) for part in parts), refused=refused)
    return ModelResponse(
        message=AssistantMessage(parts=parts),
        stop_reason=stop,
        finish_reason=finish,
        usage=_usage(data.get("usage")),
        model=text_of(data.get("model")) or model,
        provider=provider,
        request_id=request_id,
    )


def failed(
    data: Mapping[str, Any], provider: str, request_id: str | None, *, secrets: Iterable[str] = ()
) -> ProviderError:
    """The error of a response whose status is ``failed``."""
    error = body_error({"error": data.get("error") or "it does not say why"}, {}, provider, secrets=secrets)
    error.request_id = request_id
    return error


def _stop(data: Mapping[str, Any], *, has_calls: bool, refused: bool) -> tuple[StopReason, str | None]:
    """Why the model stopped, in our word and in the server's own."""
    status = text_of(data.get("status")) or None
    reason = text_of(mapping_of(data.get("incomplete_details")).get("reason"))
    if status == "incomplete":
        return _INCOMPLETE.get(reason, StopReason.UNKNOWN), reason or status
    if status != "completed":
        return StopReason.UNKNOWN, status
    if has_calls:
        return StopReason.TOOL_USE, status
    return StopReason.REFUSAL if refused else StopReason.END_TURN, status


def _parts(items: Sequence[Any], provider: str, *, keep_reasoning: bool) -> tuple[tuple[AssistantPart, ...], bool]:
    parts: list[AssistantPart] = []
    refused = False
    for item in items:
        if not isinstance(item, Mapping):
            continue
        kind = item.get("type")
        if kind == "message":
            for part, is_refusal in _texts(item, provider):
                parts.append(part)
                refused = refused or is_refusal
        elif kind == "function_call":
            parts.append(_call(item))
        elif kind == "reasoning":
            parts.append(_reasoning(item, provider, keep_text=keep_reasoning))
        elif isinstance(kind, str):
            parts.append(_hosted(kind, item, provider))
    unique = iter(with_unique_ids(part for part in parts if isinstance(part, ToolCallPart)))
    return tuple(next(unique) if isinstance(part, ToolCallPart) else part for part in parts), refused


def _texts(item: Mapping[str, Any], provider: str) -> Iterator[tuple[TextPart, bool]]:
    # Later models want to be told again which message was commentary and which the answer.
    opaque = {provider: {"phase": item["phase"]}} if item.get("phase") else {}
    content = item.get("content")
    for each in content if isinstance(content, list) else ():
        if not isinstance(each, Mapping):
            continue
        if each.get("type") == "refusal":
            yield TextPart(text=text_of(each.get("refusal")), provider_data=opaque), True
        elif text := text_of(each.get("text")):
            citations = _citations(each.get("annotations"))
            yield TextPart(text=text, citations=citations, provider_data=opaque), False


def _citations(annotations: Any) -> tuple[Citation, ...]:
    return tuple(
        Citation(url=each.get("url"), title=each.get("title"), start=each.get("start_index"), end=each.get("end_index"))
        for each in (annotations if isinstance(annotations, list) else ())
        if isinstance(each, Mapping) and each.get("type") == "url_citation"
    )


def _call(item: Mapping[str, Any]) -> ToolCallPart:
    return tool_call_part(text_of(item.get("call_id")), text_of(item.get("name")), text_of(item.get("arguments")))


def _reasoning(item: Mapping[str, Any], provider: str, *, keep_text: bool) -> ReasoningPart:
    pieces = [
        text_of(each.get("text"))
        for key in ("summary", "content")
        for each in (item.get(key) or ())
        if isinstance(each, Mapping)
    ]
    opaque = {key: value for key, value in item.items() if key not in ("type", "id", "status") and value is not None}
    opaque.setdefault("summary", [])
    return ReasoningPart(text="\n\n".join(pieces) if keep_text else "", provider_data={provider: opaque})


def _hosted(kind: str, item: Mapping[str, Any], provider: str) -> HostedToolPart:
    action = mapping_of(item.get("action"))
    query = text_of(action.get("query")) or text_of((action.get("queries") or [None])[0]) or None
    sources = [
        Source(url=text_of(each.get("url")), title=text_of(each.get("title")) or None)
        for each in (action.get("sources") or ())
        if isinstance(each, Mapping) and each.get("url")
    ]
    if not sources and action.get("url"):  # a page that was opened, or looked through
        sources = [Source(url=text_of(action["url"]))]
    status = item.get("status")
    return HostedToolPart(
        tool=kind.removesuffix("_call"),
        call_id=text_of(item.get("id")) or None,
        query=query or text_of(action.get("pattern")) or None,
        sources=tuple(sources),
        error=f"it ended as {status}" if status in ("failed", "incomplete") else None,
        provider_data={provider: dict(item)},
    )


def _usage(usage: Any) -> Usage:
    """Tokens as the API counts them: the input with its cached part, the output with its reasoning."""
    found = mapping_of(usage)
    read, written = mapping_of(found.get("input_tokens_details")), mapping_of(found.get("output_tokens_details"))
    return Usage(
        input_tokens=count_of(found.get("input_tokens")),
        output_tokens=count_of(found.get("output_tokens")),
        cache_read_tokens=count_of(read.get("cached_tokens")),
        cache_write_tokens=count_of(read.get("cache_write_tokens")),
        reasoning_tokens=count_of(written.get("reasoning_tokens")),
    )
