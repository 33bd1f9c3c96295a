"""Between Treadle's messages and the JSON of Ollama's chat API. Pure: no network, no clock.

https://docs.ollama.com/api/chat, https://docs.ollama.com/api/embed
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from treadle.errors import ResponseError, UnsupportedError
from treadle.messages import (
    AssistantMessage,
    EmbedRequest,
    EmbedResponse,
    MediaPart,
    Message,
    ModelRequest,
    NamedTool,
    ReasoningPart,
    StopReason,
    SystemMessage,
    TextPart,
    ToolMessage,
    ToolSpec,
    Usage,
    UserMessage,
)
from treadle.schemas import schema_problems
from treadle_http.history import History
from treadle_ollama.schema import format_schema

__all__ = [
    "API_NAME",
    "count_of",
    "embed_body",
    "embed_response",
    "ignored",
    "messages_of",
    "options_of",
    "problems",
    "request_body",
    "stop_reason",
]

API_NAME = "ollama"
"""Under which ``provider_data`` is kept."""

_TOP_LEVEL = frozenset({"format", "keep_alive", "logprobs", "options", "shift", "think", "top_logprobs", "truncate"})
"""What the chat API takes beside ``options``; every other option is one of the model's."""

_OURS = frozenset({"messages", "model", "stream", "tools"})
"""What a request says by itself, and no option may say otherwise."""

_STOP_REASONS: Mapping[str, StopReason] = {
    "stop": StopReason.END_TURN,
    "length": StopReason.MAX_TOKENS,
    # The model was loaded or unloaded and nothing was asked of it: it has said all that it will.
    "load": StopReason.END_TURN,
    "unload": StopReason.END_TURN,
}


# --- what cannot be sent, and what is not ------------------------------------------------------------


def options_of(request: ModelRequest, provider: str) -> Mapping[str, Any]:
    """The request's options for this provider, by its name here or by ``ollama``."""
    options = request.provider_options.get(provider) or request.provider_options.get(API_NAME) or {}
    return options if isinstance(options, Mapping) else {}


def problems(request: ModelRequest, *, provider: str) -> Iterator[str]:
    """What is wrong with the request, known before anything is sent."""
    for media in _media(request.messages):
        if media.type != "image":
            yield f"Ollama takes no {media.type} attachments"
        elif media.data is None:
            yield "Ollama takes images as bytes, not by URL"
    for hosted in request.hosted_tools:
        yield f"Ollama has no hosted tool '{hosted.tool}'"
    if isinstance(request.tool_choice, NamedTool) and request.tool_choice.name not in {t.name for t in request.tools}:
        yield f"tool_choice names '{request.tool_choice.name}', which is not among the tools"
    for tool in request.tools:
        for problem in schema_problems(tool.parameters):
            yield f"tool '{tool.name}': {problem}"
    options = options_of(request, provider)
    for name in sorted(_OURS & set(options)):
        yield f"the option '{name}' is no option: the request says it"
    if not isinstance(options.get("options", {}), Mapping):
        yield "the option 'options' is a mapping of the model's options"


def ignored(request: ModelRequest) -> tuple[str, ...]:
    """What the request asks for and Ollama has no way to say."""
    found = []
    if request.tools and request.tool_choice == "none":
        found.append("tool_choice is ignored: Ollama has none; the tools are left out instead")
    elif request.tools and request.tool_choice != "auto":
        found.append("tool_choice is ignored: Ollama has none")
    if request.tools and request.parallel_tool_calls is False:
        found.append("parallel_tool_calls is ignored: Ollama has none")
    if request.reasoning is not None and request.reasoning.budget_tokens is not None:
        found.append("thinking.budget_tokens is ignored: Ollama takes a level")
    return tuple(found)


def _media(messages: Sequence[Message]) -> Iterator[MediaPart]:
    for message in messages:
        if isinstance(message, UserMessage):
            yield from (part for part in message.parts if isinstance(part, MediaPart))
        elif isinstance(message, ToolMessage):
            yield from (part for result in message.results for part in result.media)


# --- requests ---------------------------------------------------------------------------------------


def request_body(
    request: ModelRequest, *, provider: str, keep_alive: str | int | None = None, history: History | None = None
) -> dict[str, Any]:
    """The JSON of a request.

    :param history: what :func:`messages_of` has made of earlier calls.
    :param keep_alive: how long the model stays in memory, where the request's options do not say.
    :raises UnsupportedError: the request holds what the chat API cannot say.
    """
    history = history or History(partial(messages_of, provider=provider))
    body: dict[str, Any] = {"model": request.model, "messages": history.converted(request.messages)}
    if request.tools and request.tool_choice != "none":
        body["tools"] = [_tool(tool) for tool in request.tools]
    if request.output is not None:
        body["format"] = "json" if request.output.schema is None else format_schema(request.output.schema)
    if request.reasoning is not None:
        body["think"] = request.reasoning.level or True
    if keep_alive is not None:
        body["keep_alive"] = keep_alive
    options: dict[str, Any] = {}
    if request.temperature is not None:
        options["temperature"] = request.temperature
    if request.max_tokens is not None:
        options["num_predict"] = request.max_tokens
    if request.stop_sequences:
        options["stop"] = list(request.stop_sequences)
    for name, value in options_of(request, provider).items():
        if name == "options" and isinstance(value, Mapping):
            options.update(value)
        elif name in _TOP_LEVEL:
            body[name] = value
        elif name not in _OURS:
            options[name] = value
    if options:
        body["options"] = options
    body["stream"] = request.stream  # the API streams where nothing is said
    return body


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)},
    }


def messages_of(message: Message, *, provider: str) -> Iterator[dict[str, Any]]:
    """One message as the API takes it; the results of several calls are as many."""
    if isinstance(message, SystemMessage):
        yield {"role": "system", "content": message.text}
    elif isinstance(message, UserMessage):
        yield _user(message, provider)
    elif isinstance(message, AssistantMessage):
        yield _assistant(message)
    else:
        yield from _tool_results(message, provider)


def _spoken(name: str | None, text: str) -> str:
    """The API knows no speakers: who speaks is written before the words."""
    return f"[{name}] {text}" if name else text


def _user(message: UserMessage, provider: str) -> dict[str, Any]:
    text = "\n".join(part.text for part in message.parts if isinstance(part, TextPart))
    said: dict[str, Any] = {"role": "user", "content": _spoken(message.name, text)}
    if images := [_image(part, provider) for part in message.parts if isinstance(part, MediaPart)]:
        said["images"] = images
    return said


def _image(media: MediaPart, provider: str) -> str:
    if media.type != "image" or media.data is None:
        what = f"{media.type} attachments" if media.data is not None else "attachments by URL"
        raise UnsupportedError(f"Ollama takes no {what}", provider=provider)
    return base64.b64encode(media.data).decode("ascii")


def _assistant(message: AssistantMessage) -> dict[str, Any]:
    said: dict[str, Any] = {"role": "assistant", "content": _spoken(message.name, message.text)}
    # Models that think between two calls of tools want to read their own thoughts, not another model's.
    thoughts = [part for part in message.parts if isinstance(part, ReasoningPart) and API_NAME in part.provider_data]
    if thinking := "".join(part.text for part in thoughts):
        said["thinking"] = thinking
    if calls := message.tool_calls:
        said["tool_calls"] = [
            {"function": {"name": call.tool_name, "arguments": dict(call.arguments or {})}} for call in calls
        ]
    return said


def _tool_results(message: ToolMessage, provider: str) -> Iterator[dict[str, Any]]:
    for result in message.results:
        yield {"role": "tool", "tool_name": result.tool_name, "content": result.content}
    for result in message.results:  # a model's template reads the images of a user's turn
        if result.media:
            images = [_image(media, provider) for media in result.media]
            yield {"role": "user", "content": f"What {result.tool_name} returned besides its text:", "images": images}


# --- replies ----------------------------------------------------------------------------------------


def stop_reason(finish: str | None, *, has_calls: bool) -> StopReason:
    """Why the model stopped. Calls are acted on whatever the server says of them, unless they were cut off."""
    reason = _STOP_REASONS.get(finish or "", StopReason.UNKNOWN)
    return StopReason.TOOL_USE if has_calls and reason is not StopReason.MAX_TOKENS else reason


def count_of(value: Any) -> int | None:
    """A number of tokens; None where it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


# --- embeddings -------------------------------------------------------------------------------------


def embed_body(request: EmbedRequest, inputs: Sequence[str], *, keep_alive: str | int | None = None) -> dict[str, Any]:
    """The JSON of a request for the vectors of one batch of inputs."""
    body: dict[str, Any] = {"model": request.model, "input": list(inputs)}
    if request.dimensions is not None:
        body["dimensions"] = request.dimensions
    if keep_alive is not None:
        body["keep_alive"] = keep_alive
    return body


def embed_response(data: Any, *, provider: str, model: str, count: int) -> EmbedResponse:
    """The vectors of one batch, which come in the order of the inputs.

    :raises ResponseError: they are not exactly ``count`` vectors of numbers.
    """
    rows = data.get("embeddings") if isinstance(data, Mapping) else None
    vectors = tuple(
        tuple(map(float, row))
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, list) and all(isinstance(number, int | float) for number in row)
    )
    if len(vectors) != count:
        raise ResponseError(
            f"provider '{provider}' answered with {len(vectors)} vectors for {count} inputs",
            provider=provider,
            phase="body",
            request_sent=True,
        )
    read = count_of(data.get("prompt_eval_count"))
    named = data.get("model")
    return EmbedResponse(
        vectors=vectors,
        usage=Usage(input_tokens=read, output_tokens=None if read is None else 0),
        model=named if isinstance(named, str) and named else model,
        provider=provider,
    )
