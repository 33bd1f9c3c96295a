"""The provider ``mock``: answers from a file or from settings, at a chosen speed."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager
from random import Random
from types import TracebackType
from typing import Any, Self

from treadle import (
    AssistantMessage,
    AssistantPart,
    BadRequestError,
    Completed,
    ConfigurationError,
    EmbedRequest,
    EmbedResponse,
    Exchange,
    Features,
    ModelRequest,
    ModelResponse,
    Provider,
    ProviderSettings,
    StopReason,
    StreamEvent,
    TextDelta,
    TextPart,
    ToolCallDelta,
    ToolCallPart,
    Usage,
)
from treadle_replay.example_value import NoExampleError, example_value
from treadle_replay.request_hash import request_hash
from treadle_replay.responses import RecordedReply, Responses, parse_responses, read_responses
from treadle_replay.settings import MockSettings

__all__ = ["MockProvider"]

_STOP_REASONS = {
    "stop": StopReason.END_TURN,
    "end_turn": StopReason.END_TURN,
    "completed": StopReason.END_TURN,
    "tool_calls": StopReason.TOOL_USE,
    "tool_use": StopReason.TOOL_USE,
    "length": StopReason.MAX_TOKENS,
    "max_tokens": StopReason.MAX_TOKENS,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "content_filter": StopReason.REFUSAL,
    "refusal": StopReason.REFUSAL,
    "safety": StopReason.REFUSAL,
}
"""Finish reasons, lower-case, of OpenAI, Anthropic and Google, as their API references list them."""

_DEFAULT_DIMENSIONS = 8


_CHANGED = "the reply for '{}' was recorded for another request"


class MockProvider(Provider):
    """Answers without a model: by the request's key, else by its hash, else with the default response.

    The default response to a request for structured output is a small value of its shape as JSON
    (:func:`treadle_replay.example_value.example_value`), so that a workflow can be tried offline before
    anything is recorded. With ``strict`` there is no default, and a reply recorded for another request is refused.

    Everything costs nothing, unless a reply says what it cost. ``calls`` holds every request, in order of arrival.
    """

    settings_model = MockSettings
    stands_alone = True  # a reply that is missing is what whoever replays wants to know of
    settings: MockSettings
    features = Features(
        streaming=True,
        tools=True,
        tool_choice=True,
        output_schemas=True,
        json_objects=True,
        reasoning=True,
        embeddings=True,
        media=frozenset({"image", "pdf", "audio"}),
        media_by_url=frozenset({"image", "pdf", "audio"}),
        hosted_tools=frozenset({"web_search"}),
    )

    def __init__(self, name: str, settings: ProviderSettings) -> None:
        if not isinstance(settings, MockSettings):
            raise TypeError(f"provider '{name}' takes MockSettings, not {type(settings).__name__}")
        super().__init__(name, settings)
        self.calls: list[ModelRequest | EmbedRequest] = []
        self._random = Random(settings.seed)
        self._loading = threading.Lock()
        self._loaded: Responses | None = None

    async def __aenter__(self) -> Self:
        """Read the file, off the loop.

        :raises ConfigurationError: it cannot be read or is not of the format.
        """
        import trio  # not above: checking a document builds a provider too, and needs no loop

        await trio.to_thread.run_sync(self._responses)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is open."""

    def check(self, request: ModelRequest) -> Iterable[str]:
        """What is wrong with the file of replies, so that it is found when a document is checked."""
        try:
            self._responses()
        except ConfigurationError as error:
            yield str(error)

    def known_cost(self, response_model: str) -> float | None:
        """Nothing."""
        return 0.0

    def exchange(self, request: ModelRequest) -> Exchange:
        """Give the reply, in pieces of a word where ``request.stream`` asks for it.

        :raises BadRequestError: strict, and there is no reply or it was recorded for another request.
        :raises ConfigurationError: the file of replies cannot be used.
        """
        return self._exchange(request)

    @asynccontextmanager
    async def _exchange(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        self.calls.append(request)
        reply = self._find(request)
        if reply is None:
            reply = RecordedReply(content=self._default_text(request))
        elif reply.is_embedding:
            raise BadRequestError(
                f"provider '{self.name}': the reply for '{request.key}' holds embeddings and no text",
                provider=self.name,
            )
        response = self._response(request, reply)
        async with aclosing(self._events(response, self._seconds(reply), stream=request.stream)) as events:
            yield events

    async def _events(
        self, response: ModelResponse, seconds: float, *, stream: bool
    ) -> AsyncGenerator[StreamEvent, None]:
        pieces: list[StreamEvent] = []
        if stream:
            pieces += [TextDelta(piece) for piece in re.findall(r"\S+\s*|\s+", response.text)]
            pieces += [
                ToolCallDelta(
                    index=index,
                    call_id=call.call_id,
                    tool_name=call.tool_name,
                    arguments=call.raw_arguments or json.dumps(call.arguments, ensure_ascii=False),
                )
                for index, call in enumerate(response.message.tool_calls)
            ]
        import trio

        for piece in pieces:
            await trio.sleep(seconds / len(pieces))
            yield piece
        if not pieces:
            await trio.sleep(seconds)
        yield Completed(response)

    async def embed(self, request: EmbedRequest) -> EmbedResponse:
        """The recorded vectors, else pseudo-vectors: numbers in [-1, 1] made from a hash of model and text.

        They are ``dimensions`` long, 8 without it, and the same for the same model and text every time.

        :raises BadRequestError: strict and nothing is recorded; or what is recorded does not fit the request.
        """
        import trio

        self.calls.append(request)
        reply = self._find(request)
        if reply is None:
            await trio.sleep(self._seconds(RecordedReply(content="")))
            length = _DEFAULT_DIMENSIONS if request.dimensions is None else request.dimensions
            vectors = tuple(_pseudo_vector(request.model, text, length) for text in request.inputs)
            return EmbedResponse(
                vectors=vectors, usage=Usage.ZERO, model=request.model, provider=self.name, cost_usd=0.0
            )
        if reply.embeddings is None or len(reply.embeddings) != len(request.inputs):
            held = "no embeddings" if reply.embeddings is None else f"{len(reply.embeddings)} embeddings"
            raise BadRequestError(
                f"provider '{self.name}': the reply for '{request.key}' holds {held}, and "
                f"{len(request.inputs)} are asked for",
                provider=self.name,
            )
        await trio.sleep(self._seconds(reply))
        return EmbedResponse(
            vectors=tuple(tuple(vector) for vector in reply.embeddings),
            usage=_usage(reply),
            model=reply.model or request.model,
            provider=self.name,
            cost_usd=reply.cost_usd or 0.0,
        )

    def _responses(self) -> Responses:
        with self._loading:
            if self._loaded is None:
                path, written = self.settings.responses_file, self.settings.responses
                replies = {} if path is None else read_responses(path)
                replies |= {} if written is None else parse_responses(written, source="responses")
                self._loaded = Responses(replies)
            return self._loaded

    def _find(self, request: ModelRequest | EmbedRequest) -> RecordedReply | None:
        responses = self._responses()
        reply = responses.next(request.key) if request.key else None
        if reply is not None:
            if _has_changed(reply, request):
                self._refuse_changed(request.key)
            return reply
        reply = responses.next(request_hash(request))
        if reply is None and self.settings.strict:
            key = request.key or request_hash(request)
            near = responses.near(key)
            raise BadRequestError(
                f"provider '{self.name}' is strict and has no reply for '{key}'",
                provider=self.name,
                hint=f"there are replies for {', '.join(near)}" if near else "it has no replies at all",
            )
        return reply

    def _refuse_changed(self, key: str) -> None:
        if self.settings.strict:
            raise BadRequestError(
                f"provider '{self.name}' is strict, and {_CHANGED.format(key)}",
                provider=self.name,
                hint="its prompt, system prompt, model or tools have changed; record it again",
            )

    def _default_text(self, request: ModelRequest) -> str:
        if request.output is None:
            return self.settings.default_response
        if request.output.schema is None:
            return "{}"
        try:
            value = example_value(request.output.schema, text=self.settings.default_response)
        except NoExampleError as error:
            raise BadRequestError(
                f"provider '{self.name}' cannot make up a value of the shape '{request.output.name}': {error}",
                provider=self.name,
                hint=f"write a reply for '{request.key}' in responses_file" if request.key else None,
            ) from error
        return json.dumps(value, ensure_ascii=False)

    def _response(self, request: ModelRequest, reply: RecordedReply) -> ModelResponse:
        calls = tuple(_call(recorded.id, recorded.name, recorded.arguments) for recorded in reply.tool_calls or ())
        finish_reason = reply.finish_reason or ("tool_calls" if calls else "stop")
        text: tuple[AssistantPart, ...] = (TextPart(text=reply.text),) if reply.text or not calls else ()
        return ModelResponse(
            message=AssistantMessage(parts=text + calls),
            stop_reason=_STOP_REASONS.get(finish_reason.lower(), StopReason.UNKNOWN),
            finish_reason=finish_reason,
            usage=_usage(reply),
            model=reply.model or request.model,
            provider=self.name,
            cost_usd=reply.cost_usd or 0.0,
            warnings=(_CHANGED.format(request.key),) if _has_changed(reply, request) else (),
        )

    def _seconds(self, reply: RecordedReply) -> float:
        milliseconds = self.settings.latency_ms
        if self.settings.latency_model == "normal":
            milliseconds = max(0.0, self._random.gauss(milliseconds, max(1.0, milliseconds / 10)))
        elif self.settings.latency_model == "replay" and reply.latency_ms is not None:
            milliseconds = reply.latency_ms
        return milliseconds / 1000


def _usage(reply: RecordedReply) -> Usage:
    if reply.usage is None:
        return Usage.ZERO
    return Usage(
        input_tokens=reply.usage.prompt_tokens,
        output_tokens=reply.usage.completion_tokens,
        cache_read_tokens=0,
        cache_write_tokens=0,
        cache_write_1h_tokens=0,
        reasoning_tokens=reply.usage.reasoning_tokens,
    )


def _call(call_id: str, name: str, arguments: Any) -> ToolCallPart:
    if not isinstance(arguments, str):
        return ToolCallPart(call_id=call_id, tool_name=name, arguments=arguments)
    problem: str | None = None
    parsed: Any = None
    try:
        parsed = json.loads(arguments)
        if not isinstance(parsed, dict):
            problem = f"not a JSON object but {type(parsed).__name__}"
    except json.JSONDecodeError as error:
        problem = f"not JSON: {error}"
    return ToolCallPart(
        call_id=call_id,
        tool_name=name,
        arguments=parsed if problem is None else None,
        raw_arguments=arguments,
        parse_error=problem,
    )


def _pseudo_vector(model: str, text: str, length: int) -> tuple[float, ...]:
    seed = f"{model}\0{text}".encode("utf-8", "surrogatepass")
    digest = hashlib.shake_256(seed).digest(4 * length)
    return tuple(
        int.from_bytes(digest[place : place + 4], "big") / 0xFFFFFFFF * 2 - 1 for place in range(0, 4 * length, 4)
    )


def _has_changed(reply: RecordedReply, request: ModelRequest | EmbedRequest) -> bool:
    """Whether the reply was recorded for another request under the same key."""
    return reply.request_hash is not None and reply.request_hash != request_hash(request)
