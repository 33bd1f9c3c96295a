"""Treadle's messages as llama.cpp's server takes them, and its chunks as Treadle's events. Pure: no I/O, no llama.cpp.

The shape is that of OpenAI's Chat Completions with llama.cpp's additions,
https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from treadle.errors import BadRequestError, ContextLengthError, ProviderError, ResponseError, UnavailableError
from treadle.messages import (
    AssistantMessage,
    AssistantPart,
    MediaPart,
    Message,
    ModelRequest,
    ModelResponse,
    OutputSchema,
    ReasoningDelta,
    ReasoningPart,
    StopReason,
    SystemMessage,
    TextDelta,
    TextPart,
    ToolCallPart,
    ToolMessage,
    Usage,
    UserMessage,
)
from treadle_local.grammar import grammar_schema

__all__ = ["OPTIONS", "Reply", "encode", "problems", "refusal", "request_body", "thrown"]

OPTIONS = frozenset(
    {
        "chat_template_kwargs",
        "frequency_penalty",
        "min_p",
        "presence_penalty",
        "repeat_last_n",
        "repeat_penalty",
        "seed",
        "top_k",
        "top_p",
        "typical_p",
    }
)
"""What ``provider_options`` may hold for this provider; the names and meanings are llama.cpp's."""

_STOP_REASONS = {
    "stop": StopReason.END_TURN,
    "length": StopReason.MAX_TOKENS,
    "tool_calls": StopReason.TOOL_USE,
}


# --- there ------------------------------------------------------------------------------------------


def problems(request: ModelRequest, options: Mapping[str, Any]) -> Iterator[str]:
    """What this provider cannot do of the request."""
    if request.tools:
        yield "a local model cannot call tools"
    if request.hosted_tools:
        yield "a local model has no hosted tools"
    if request.reasoning is not None:
        yield "a local model cannot be told how much to think"
    kinds = sorted(
        {
            part.type
            for message in request.messages
            if isinstance(message, UserMessage | ToolMessage)
            for part in _media(message)
        }
    )
    if kinds:
        yield f"a local model takes text only, not attachments ({', '.join(kinds)})"
    unknown = sorted(set(options) - OPTIONS)
    if unknown:
        yield f"unknown provider options: {', '.join(unknown)}; there are {', '.join(sorted(OPTIONS))}"


def _media(message: UserMessage | ToolMessage) -> Iterator[MediaPart]:
    if isinstance(message, ToolMessage):
        for result in message.results:
            yield from result.media
    else:
        yield from (part for part in message.parts if isinstance(part, MediaPart))


def request_body(
    request: ModelRequest,
    *,
    max_tokens: int,
    temperature: float | None,
    seed: int | None,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """The request's body. The keyword arguments are the defaults for what the request leaves open.

    It always asks for a stream, and for news of the prompt's progress: each piece is a chance to stop.
    """
    body: dict[str, Any] = {
        "messages": [turn for message in request.messages for turn in _turns(message)],
        "max_tokens": max_tokens if request.max_tokens is None else request.max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_progress": True,
    }
    if (chosen := temperature if request.temperature is None else request.temperature) is not None:
        body["temperature"] = chosen
    if seed is not None:
        body["seed"] = seed
    if request.stop_sequences:
        body["stop"] = list(request.stop_sequences)
    if request.output is not None:
        body["response_format"] = _response_format(request.output)
    return body | dict(options)


def _response_format(output: OutputSchema) -> dict[str, Any]:
    schema = {"type": "object"} if output.schema is None else grammar_schema(dict(output.schema))
    return {"type": "json_schema", "json_schema": {"name": output.name, "schema": schema}}


def _turns(message: Message) -> Iterable[dict[str, Any]]:
    """One message as the server's turns. Templates show no speaker's name, so it stands before the text."""
    match message:
        case SystemMessage():
            yield {"role": "system", "content": message.text}
        case UserMessage():
            yield {"role": "user", "content": _said(message)}
        case AssistantMessage():
            turn: dict[str, Any] = {"role": "assistant", "content": _said(message)}
            if message.tool_calls:
                turn["tool_calls"] = [_tool_call(call) for call in message.tool_calls]
            yield turn
        case ToolMessage():
            for result in message.results:
                yield {
                    "role": "tool",
                    "tool_call_id": result.call_id,
                    "name": result.tool_name,
                    "content": result.content,
                }


def _said(message: UserMessage | AssistantMessage) -> str:
    if not message.name:
        return message.text
    return f"[{message.name}] {message.text}" if message.text else f"[{message.name}]"


def _tool_call(call: ToolCallPart) -> dict[str, Any]:
    # What the model wrote may not be JSON, and a template may parse it: it goes back as a JSON string then.
    arguments = json.dumps(call.raw_arguments or "" if call.arguments is None else dict(call.arguments))
    return {"id": call.call_id, "type": "function", "function": {"name": call.tool_name, "arguments": arguments}}


def encode(body: Mapping[str, Any], *, provider: str) -> bytes:
    """The body as UTF-8 JSON.

    :raises BadRequestError: a text holds half of a surrogate pair, which no encoding of Unicode has, or an option
        is no JSON value.
    """
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise BadRequestError(
            "a text of the request is no valid Unicode: it holds a lone surrogate", provider=provider
        ) from error
    except (TypeError, ValueError) as error:
        raise BadRequestError(f"the request cannot be written as JSON: {error}", provider=provider) from error


# --- and back ---------------------------------------------------------------------------------------


class Reply:
    """A reply as it comes in, chunk by chunk."""

    def __init__(self, *, provider: str, model: str) -> None:
        self._provider = provider
        self._model = model
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._finish_reason: str | None = None
        self._usage = Usage()
        self._request_id: str | None = None

    def feed(self, chunk: bytes) -> Iterator[TextDelta | ReasoningDelta]:
        """Take one chunk, and give what it adds to the reply.

        :raises ProviderError: it is the server's refusal, or cannot be read.
        """
        try:
            data = json.loads(chunk)
            if "error" in data:
                raise refusal(data["error"], provider=self._provider)
            self._request_id = data.get("id") or self._request_id
            if (usage := data.get("usage")) is not None:
                self._usage = _usage(usage)
            for choice in data.get("choices", ()):
                self._finish_reason = choice.get("finish_reason") or self._finish_reason
                delta = choice.get("delta") or {}
                if thought := delta.get("reasoning_content"):
                    self._reasoning.append(thought)
                    yield ReasoningDelta(thought)
                if text := delta.get("content"):
                    self._text.append(text)
                    yield TextDelta(text)
        except (ValueError, TypeError, AttributeError) as error:
            raise ResponseError(
                f"llama.cpp sent a piece that cannot be read: {error}", provider=self._provider
            ) from error

    def response(self) -> ModelResponse:
        """The whole response, after the last chunk.

        :raises ResponseError: it never came to its end.
        """
        if self._finish_reason is None:
            raise ResponseError("the reply ended before it was finished", provider=self._provider)
        parts: list[AssistantPart] = []
        if self._reasoning:
            parts.append(ReasoningPart(text="".join(self._reasoning)))
        parts.append(TextPart(text="".join(self._text)))
        return ModelResponse(
            message=AssistantMessage(parts=tuple(parts)),
            stop_reason=_STOP_REASONS.get(self._finish_reason, StopReason.UNKNOWN),
            finish_reason=self._finish_reason,
            usage=self._usage,
            model=self._model,
            provider=self._provider,
            request_id=self._request_id,
        )


def _usage(data: Mapping[str, Any]) -> Usage:
    """``prompt_tokens`` counts what was taken from the cache too; llama.cpp says how much that was."""
    return Usage(
        input_tokens=data.get("prompt_tokens"),
        output_tokens=data.get("completion_tokens"),
        cache_read_tokens=(data.get("prompt_tokens_details") or {}).get("cached_tokens"),
    )


def refusal(error: Any, *, provider: str) -> ProviderError:
    """The error that llama.cpp's ``error`` object stands for."""
    if not isinstance(error, Mapping):
        return ResponseError(f"llama.cpp failed: {error}", provider=provider)
    kind, code, message = error.get("type"), error.get("code"), error.get("message")
    if kind == "exceed_context_size_error":
        return ContextLengthError(
            f"the request has {error.get('n_prompt_tokens', 'too many')} tokens, "
            f"the context holds {error.get('n_ctx', 'fewer')}",
            provider=provider,
            hint="shorten it, or raise the provider's setting 'context'",
        )
    if kind in ("invalid_request_error", "not_supported_error") or code == 400:
        return BadRequestError(f"llama.cpp refused the request: {message}", provider=provider)
    if kind == "unavailable_error" or code == 503:
        return UnavailableError(f"llama.cpp is not ready: {message}", provider=provider)
    return ResponseError(f"llama.cpp failed: {message}", provider=provider)


def thrown(error: Exception, *, provider: str) -> ProviderError:
    """The error that an exception out of llama.cpp stands for.

    The binding turns ``std::invalid_argument`` (a bad request, a schema that no grammar can hold) into ValueError
    and nearly everything else into RuntimeError.
    """
    text = " ".join(str(error).split())
    at = text.find("JSON schema")
    if isinstance(error, ValueError) and at >= 0:
        return BadRequestError(f"the reply cannot be held to this schema: {text[at:]}", provider=provider)
    if isinstance(error, ValueError) or "template" in text.lower():
        return BadRequestError(f"llama.cpp refused the request: {text}", provider=provider)
    return ResponseError(f"llama.cpp failed: {text}", provider=provider)
