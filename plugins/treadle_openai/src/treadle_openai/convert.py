"""Between Treadle's messages and Chat Completions' JSON. Pure: no SDK, no network, no clock.

https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from treadle.assembly import tool_call_part, with_unique_ids
from treadle.errors import ResponseError, UnsupportedError
from treadle.messages import (
    AssistantMessage,
    AssistantPart,
    Citation,
    EmbedRequest,
    EmbedResponse,
    MediaPart,
    Message,
    ModelRequest,
    ModelResponse,
    NamedTool,
    OutputSchema,
    ReasoningPart,
    StopReason,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolSpec,
    Usage,
    UserMessage,
)
from treadle_http.history import History
from treadle_openai.checks import AUDIO_FORMATS, NAME_LIMIT, chat_media_refusal
from treadle_openai.models import is_reasoning_model, takes_effort, takes_parallel_calls
from treadle_openai.schema import strict_schema

__all__ = [
    "NO_PARAMETERS",
    "citations_of",
    "clean_name",
    "count_of",
    "embed_body",
    "embed_response",
    "mapping_of",
    "merged_details",
    "messages_of",
    "output_shape",
    "raw_arguments",
    "request_body",
    "response_of",
    "short_id",
    "stop_reason",
    "text_of",
    "tool_call_fragment",
    "usage_of",
]

NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}
_ID_LIMIT = 40  # longest tool call id that OpenAI takes back
_STOP_REASONS: Mapping[str, StopReason] = {
    "stop": StopReason.END_TURN,
    "length": StopReason.MAX_TOKENS,
    "tool_calls": StopReason.TOOL_USE,
    "function_call": StopReason.TOOL_USE,
    "content_filter": StopReason.REFUSAL,
    "error": StopReason.ERROR,  # OpenRouter, where the model behind it failed
}


# --- requests ---------------------------------------------------------------------------------------


def request_body(request: ModelRequest, *, provider: str, history: History | None = None) -> dict[str, Any]:
    """The JSON of a request.

    :param history: what :func:`messages_of` has made of earlier calls.
    :raises UnsupportedError: the request holds what Chat Completions cannot say.
    """
    reasons = is_reasoning_model(request.model)
    history = history or History(partial(messages_of, provider=provider))
    body: dict[str, Any] = {"model": request.model, "messages": history.converted(request.messages)}
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        if isinstance(request.tool_choice, NamedTool):
            body["tool_choice"] = {"type": "function", "function": {"name": request.tool_choice.name}}
        elif request.tool_choice != "auto":
            body["tool_choice"] = request.tool_choice
        if request.parallel_tool_calls is not None and takes_parallel_calls(request.model):
            body["parallel_tool_calls"] = request.parallel_tool_calls
    if request.output is not None:
        body["response_format"] = _response_format(request.output)
    if request.max_tokens is not None:
        body["max_completion_tokens" if reasons else "max_tokens"] = request.max_tokens
    if request.temperature is not None and not reasons:
        body["temperature"] = request.temperature
    if request.reasoning is not None and request.reasoning.level and takes_effort(request.model):
        body["reasoning_effort"] = request.reasoning.level
    if request.stop_sequences:
        body["stop"] = list(request.stop_sequences)
    options = request.provider_options.get(provider)
    if isinstance(options, Mapping):
        body.update(options)
    if request.stream:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
    return body


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name, "parameters": dict(tool.parameters) or NO_PARAMETERS}
    if tool.description:
        function["description"] = tool.description
    return {"type": "function", "function": function}


def _response_format(output: OutputSchema) -> dict[str, Any]:
    if output.schema is None:
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": output_shape(output, output.schema)}


def output_shape(output: OutputSchema, schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema for the reply, in strict mode where that is asked for and can say it."""
    closed = strict_schema(schema) if output.strict else None
    shape: dict[str, Any] = {
        "name": clean_name(output.name, r"[^a-zA-Z0-9_-]") or "reply",
        "schema": dict(schema) if closed is None else closed,
        "strict": closed is not None,
    }
    if output.description:
        shape["description"] = output.description
    return shape


def clean_name(name: str, unwanted: str) -> str:
    """A name as the API takes it: short, and without the characters that the pattern names."""
    return re.sub(unwanted, "_", name)[:NAME_LIMIT]


def messages_of(message: Message, *, provider: str) -> Iterable[dict[str, Any]]:
    """One message as the API takes it; the results of several calls are as many."""
    if isinstance(message, SystemMessage):
        return ({"role": "system", "content": message.text},)
    if isinstance(message, UserMessage):
        return (_user(message, provider),)
    if isinstance(message, AssistantMessage):
        return (_assistant(message, provider),)
    return _tool_results(message, provider)


def _user(message: UserMessage, provider: str) -> dict[str, Any]:
    content: str | list[dict[str, Any]]
    if len(message.parts) == 1 and isinstance(message.parts[0], TextPart):
        content = message.parts[0].text
    else:
        content = [
            {"type": "text", "text": part.text} if isinstance(part, TextPart) else _media_part(part, provider)
            for part in message.parts
        ]
    return _with_name({"role": "user", "content": content}, message.name)


def _with_name(message: dict[str, Any], name: str | None) -> dict[str, Any]:
    # The API takes no white space and none of <|\/> in a speaker's name.
    if name and (clean := clean_name(name, r"[\s<|\\/>]")):
        message["name"] = clean
    return message


def _media_part(media: MediaPart, provider: str) -> dict[str, Any]:
    if refusal := chat_media_refusal(media):
        raise UnsupportedError(refusal, provider=provider)
    if media.data is None:
        return {"type": "image_url", "image_url": {"url": media.url}}
    encoded = base64.b64encode(media.data).decode("ascii")
    if media.type == "audio":
        return {
            "type": "input_audio",
            "input_audio": {"data": encoded, "format": AUDIO_FORMATS[media.media_type or ""]},
        }
    return {"type": "image_url", "image_url": {"url": f"data:{media.media_type};base64,{encoded}"}}


def _assistant(message: AssistantMessage, provider: str) -> dict[str, Any]:
    # Readable reasoning and hosted activity stay out: the API does not take them back.
    text = "".join(part.text for part in message.parts if isinstance(part, TextPart))
    calls = [
        {
            "id": short_id(call.call_id),
            "type": "function",
            "function": {"name": call.tool_name, "arguments": raw_arguments(call)},
            **_kept(call.provider_data, provider, "extra_content"),
        }
        for call in message.tool_calls
    ]
    converted: dict[str, Any] = {"role": "assistant", "content": None if calls and not text else text}
    if calls:
        converted["tool_calls"] = calls
    for part in message.parts:  # what a gateway (OpenRouter) must get back as it came
        if isinstance(part, ReasoningPart):
            converted.update(_kept(part.provider_data, provider, "reasoning_details"))
    return _with_name(converted, message.name)


def _kept(provider_data: Mapping[str, Any], provider: str, key: str) -> dict[str, Any]:
    value = mapping_of(provider_data.get(provider)).get(key)
    return {} if value is None else {key: value}


def raw_arguments(call: ToolCallPart) -> str:
    """A call's arguments as JSON text."""
    if call.arguments is None:
        return call.raw_arguments or ""
    # The model's own text where there is one: prompt caches compare it byte for byte.
    return call.raw_arguments if call.raw_arguments and call.raw_arguments.strip() else json.dumps(call.arguments)


def short_id(call_id: str) -> str:
    """The id as the API takes it: another vendor's long one becomes a short one, the same each time."""
    if len(call_id) <= _ID_LIMIT:
        return call_id
    return "call_" + hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[: _ID_LIMIT - 5]


def _tool_results(message: ToolMessage, provider: str) -> Iterator[dict[str, Any]]:
    attached: list[dict[str, Any]] = []
    for result in message.results:
        yield {"role": "tool", "tool_call_id": short_id(result.call_id), "content": result.content}
        if result.media:
            attached.append({"type": "text", "text": f"What {result.tool_name} returned besides its text:"})
            attached.extend(_media_part(media, provider) for media in result.media)
    if attached:  # a tool message holds text only, and nothing may stand between the results
        yield {"role": "user", "content": attached}


# --- replies ----------------------------------------------------------------------------------------


def response_of(
    data: Any, *, provider: str, model: str, request_id: str | None = None, keep_reasoning: bool = True
) -> ModelResponse:
    """The response in the JSON of a whole reply.

    :param model: the model asked for, where the reply names none.
    :param keep_reasoning: keep the readable reasoning that some compatible servers send.
    :raises ResponseError: the JSON is not that of a chat completion.
    """
    choices = data.get("choices") if isinstance(data, Mapping) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(data, Mapping) or not isinstance(choice, Mapping) or not isinstance(message, Mapping):
        raise ResponseError(
            f"provider '{provider}' answered without a message",
            provider=provider,
            request_id=request_id,
            phase="body",
            request_sent=True,
        )
    refusal = text_of(message.get("refusal"))
    details = message.get("reasoning_details")
    opaque = {provider: {"reasoning_details": details}} if isinstance(details, list) and details else {}
    reasoning = text_of(message.get("reasoning_content")) or text_of(message.get("reasoning"))
    parts: list[AssistantPart] = []
    if (reasoning and keep_reasoning) or opaque:
        parts.append(ReasoningPart(text=reasoning if keep_reasoning else "", provider_data=opaque))
    if text := text_of(message.get("content")) or refusal:
        parts.append(TextPart(text=text, citations=citations_of(message.get("annotations"))))
    calls = with_unique_ids(_calls(message.get("tool_calls"), provider))
    finish = choice.get("finish_reason")
    finish = finish if isinstance(finish, str) else None
    return ModelResponse(
        message=AssistantMessage(parts=(*parts, *calls)),
        stop_reason=stop_reason(finish, has_calls=bool(calls), refused=bool(refusal)),
        finish_reason=finish,
        usage=usage_of(data.get("usage")),
        model=text_of(data.get("model")) or model,
        provider=provider,
        request_id=request_id,
    )


def _calls(found: Any, provider: str) -> Iterator[ToolCallPart]:
    for call in found if isinstance(found, list) else ():
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping):
            continue
        arguments = function.get("arguments")
        if arguments is None:
            arguments = ""
        elif not isinstance(arguments, str):  # some servers send the object itself
            arguments = json.dumps(arguments)
        fragment = tool_call_fragment(call, provider)
        yield tool_call_part(
            fragment["call_id"], fragment["tool_name"], arguments, provider_data=fragment["provider_data"]
        )


def tool_call_fragment(fragment: Mapping[str, Any], provider: str) -> dict[str, Any]:
    """One entry of ``tool_calls``, whole or in part, as an assembly takes it. What has an odd type counts as not sent.

    ``extra_content`` is what Gemini's compatible API must get back with the call: the signature of its thought.
    """
    function = fragment.get("function")
    function = function if isinstance(function, Mapping) else {}
    arguments, index = function.get("arguments"), fragment.get("index")
    if isinstance(arguments, Mapping):  # some servers send the object itself, in one piece
        arguments = json.dumps(arguments)
    extra = fragment.get("extra_content")
    return {
        "call_id": text_of(fragment.get("id")),
        "index": index if isinstance(index, int) else None,
        "tool_name": text_of(function.get("name")),
        "arguments": text_of(arguments),
        "provider_data": {provider: {"extra_content": extra}} if extra else None,
    }


def merged_details(fragments: Iterable[Any]) -> list[Any]:
    """The blocks of a streamed ``reasoning_details``: fragments with one type and index are pieces of one block.

    https://openrouter.ai/docs/use-cases/reasoning-tokens
    """
    blocks: list[Any] = []
    for each in fragments:
        last = blocks[-1] if blocks else None
        if (
            not isinstance(last, dict)
            or not isinstance(each, dict)
            or "index" not in each
            or _place(last) != _place(each)
        ):
            blocks.append(dict(each) if isinstance(each, dict) else each)
            continue
        for key, value in each.items():
            if key in ("text", "summary", "data") and isinstance(value, str):
                last[key] = (last.get(key) or "") + value
            elif value is not None:
                last[key] = value
    return blocks


def _place(block: Mapping[str, Any]) -> tuple[Any, Any]:
    return block.get("type"), block.get("index")


def text_of(content: Any) -> str:
    """A reply's text: a string, or the text parts of a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(text_of(part.get("text")) for part in content if isinstance(part, Mapping))
    return ""


def citations_of(annotations: Any) -> tuple[Citation, ...]:
    """Pages that a reply's text comes from, as gateways and search models annotate it."""
    found = []
    for each in annotations if isinstance(annotations, list) else ():
        cited = each.get("url_citation") if isinstance(each, Mapping) else None
        if isinstance(cited, Mapping):
            found.append(
                Citation(
                    url=cited.get("url"),
                    title=cited.get("title"),
                    start=cited.get("start_index"),
                    end=cited.get("end_index"),
                )
            )
    return tuple(found)


def stop_reason(finish: str | None, *, has_calls: bool, refused: bool = False) -> StopReason:
    """Why the model stopped. Calls are acted on whatever the server says of them, unless they were cut off."""
    reason = _STOP_REASONS.get(finish or "", StopReason.UNKNOWN)
    if has_calls and reason is not StopReason.MAX_TOKENS:
        return StopReason.TOOL_USE
    return StopReason.REFUSAL if refused else reason


def usage_of(usage: Any) -> Usage:
    """Tokens as the API counts them: the input with its cached part, the output with its reasoning."""
    if not isinstance(usage, Mapping):
        return Usage()
    read, written = mapping_of(usage.get("prompt_tokens_details")), mapping_of(usage.get("completion_tokens_details"))
    return Usage(
        input_tokens=count_of(usage.get("prompt_tokens")),
        output_tokens=count_of(usage.get("completion_tokens")),
        cache_read_tokens=count_of(read.get("cached_tokens")),
        cache_write_tokens=count_of(read.get("cache_write_tokens")),
        reasoning_tokens=count_of(written.get("reasoning_tokens")),
    )


def mapping_of(value: Any) -> Mapping[str, Any]:
    """The value, or nothing where it is no object."""
    return value if isinstance(value, Mapping) else {}


def count_of(value: Any) -> int | None:
    """A number of tokens, None where that is not what it is."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


# --- embeddings -------------------------------------------------------------------------------------


def embed_body(request: EmbedRequest, inputs: Sequence[str]) -> dict[str, Any]:
    """The JSON of a request for the vectors of one batch of inputs."""
    body: dict[str, Any] = {"model": request.model, "input": list(inputs), "encoding_format": "float"}
    if request.dimensions is not None:
        body["dimensions"] = request.dimensions
    return body


def embed_response(data: Any, *, provider: str, model: str, count: int) -> EmbedResponse:
    """The vectors of one batch, put back in the order of its inputs by their index.

    :raises ResponseError: they are not exactly ``count`` vectors of numbers, one for each input.
    """
    rows = data.get("data") if isinstance(data, Mapping) else None
    vectors: list[tuple[float, ...] | None] = [None] * count
    for position, row in enumerate(rows if isinstance(rows, list) else ()):
        index = row.get("index", position) if isinstance(row, Mapping) else None
        numbers = row.get("embedding") if isinstance(row, Mapping) else None
        if not isinstance(numbers, list) or not all(isinstance(number, int | float) for number in numbers):
            continue
        if isinstance(index, int) and 0 <= index < count:
            vectors[index] = tuple(map(float, numbers))
    whole = tuple(vector for vector in vectors if vector is not None)
    if len(whole) != count:
        raise ResponseError(
            f"provider '{provider}' answered with {len(whole)} vectors for {count} inputs",
            provider=provider,
            phase="body",
            request_sent=True,
        )
    read = usage_of(mapping_of(data).get("usage")).input_tokens
    return EmbedResponse(
        vectors=whole,
        usage=Usage(input_tokens=read, output_tokens=None if read is None else 0),
        model=text_of(mapping_of(data).get("model")) or model,
        provider=provider,
    )
