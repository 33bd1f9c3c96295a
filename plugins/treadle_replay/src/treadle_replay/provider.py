"""The provider ``mock``: answers from a file or from settings, at a chosen speed."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterable
from contextlib import aclosing, asynccontextmanager
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

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
    Part,
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
from treadle.messages import load
from treadle_replay.drift import REDACTED
from treadle_replay.errors import RecordingMismatchError
from treadle_replay.settings import MockSettings

if TYPE_CHECKING:
    from treadle_replay.pool import Choice, Pool
    from treadle_replay.responses import RecordedReply

__all__ = ["STOP_REASONS", "MockProvider"]

STOP_REASONS = {
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
_CALLS_KEPT = 1000


class MockProvider(Provider):
    """Answers without a model: by the request's key, else by its hash, else with the default response.

    The default response to a request for structured output is a small value of its shape as JSON
    (:func:`treadle_replay.example_value.example_value`), so that a workflow can be tried offline before
    anything is recorded. With ``strict`` there is no default, and a reply recorded for another request is refused.

    Everything costs nothing, unless a reply says what it cost. ``calls`` holds the last 1,000
    requests, in order of arrival.
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
        self.calls: deque[ModelRequest | EmbedRequest] = deque(maxlen=_CALLS_KEPT)
        self._random = Random(settings.seed)
        self._loading = threading.Lock()
        self._loaded: Pool | None = None
        self._warned: set[str] = set()

    async def __aenter__(self) -> Self:
        """Read the file, off the loop.

        :raises ConfigurationError: it cannot be read or is not of the format.
        """
        import trio  # not above: checking a document builds a provider too, and needs no loop

        if self._has_replies:
            await trio.to_thread.run_sync(self.pool)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is open."""

    def check(self, request: ModelRequest) -> Iterable[str]:
        """What is wrong with the file of replies, so that it is found when a document is checked."""
        if not self._has_replies:
            return
        try:
            self.pool()
        except ConfigurationError as error:
            yield str(error)

    def check_steps(self, step_ids: Collection[str]) -> Iterable[tuple[str, str]]:
        """Replies that no call of the workflow will ask for."""
        if not self._has_replies:
            return
        try:
            unknown = list(self.pool().unknown_keys(step_ids))
        except ConfigurationError:
            return  # told by check
        for key, near in unknown:
            setting = "responses" if key in (self.settings.responses or ()) else "responses_file"
            place = f" in {self.pool().source}" if setting == "responses_file" else ""
            meant = f"; did you mean '{near}'?" if near else ""
            yield setting, f"there is a reply for '{key}'{place}, and no such step{meant}"

    @property
    def _has_replies(self) -> bool:
        """Whether there may be any but the default. What reads them is imported only then, or by a run."""
        settings = self.settings
        return self._loaded is not None or settings.responses_file is not None or settings.responses is not None

    def catch_up(self, requests: Iterable[ModelRequest | EmbedRequest]) -> None:
        """Go on in lists of replies where an earlier process of the run has stopped."""
        if self._has_replies:
            self.pool().catch_up(requests)

    def known_cost(self, response_model: str) -> float | None:
        """Nothing."""
        return 0.0

    def cost_of(self, request: ModelRequest | EmbedRequest) -> float | None:
        """The most that a reply which is left for the request says that it cost."""
        return self.pool().most_cost(request) if self._has_replies else 0.0

    def exchange(self, request: ModelRequest) -> Exchange:
        """Give the reply, in pieces of a word where ``request.stream`` asks for it.

        :raises RecordingMismatchError: strict, and there is no reply or it was recorded for another request.
        :raises ConfigurationError: the file of replies cannot be used.
        """
        return self._exchange(request)

    @asynccontextmanager
    async def _exchange(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        self.calls.append(request)
        reply, warnings = self._find(request)
        if reply is not None and reply.is_embedding:
            raise RecordingMismatchError(
                f"provider '{self.name}': the reply for '{request.key}' holds embeddings and no text",
                provider=self.name,
            )
        response = self._default(request, warnings) if reply is None else self._response(request, reply, warnings)
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
        reply, warnings = self._find(request)
        if reply is None:
            await trio.sleep(self._seconds(None))
            length = _DEFAULT_DIMENSIONS if request.dimensions is None else request.dimensions
            vectors = tuple(_pseudo_vector(request.model, text, length) for text in request.inputs)
            return EmbedResponse(
                vectors=vectors,
                usage=Usage.ZERO,
                model=request.model,
                provider=self.name,
                cost_usd=0.0,
                warnings=warnings,
            )
        if reply.embeddings is None or len(reply.embeddings) != len(request.inputs):
            held = "no embeddings" if reply.embeddings is None else f"{len(reply.embeddings)} embeddings"
            raise RecordingMismatchError(
                f"provider '{self.name}': the reply for '{request.key}' holds {held}, and "
                f"{len(request.inputs)} are asked for",
                provider=self.name,
            )
        await trio.sleep(self._seconds(reply))
        return EmbedResponse(
            vectors=tuple(tuple(vector) for vector in reply.embeddings),
            usage=_usage(reply),
            model=reply.model or request.model,
            provider=reply.provider or self.name,
            cost_usd=reply.cost_usd,
            warnings=warnings,
        )

    def pool(self) -> Pool:
        """The replies, read on first use.

        :raises ConfigurationError: the file cannot be read or is not of the format.
        """
        from treadle_replay.pool import Pool
        from treadle_replay.responses import Recording, parse_recording, read_recording

        with self._loading:
            if self._loaded is None:
                path, written = self.settings.responses_file, self.settings.responses
                recording = Recording(replies={}) if path is None else read_recording(path)
                if written is not None:
                    more = parse_recording(written, source="responses").replies
                    recording = recording.model_copy(update={"replies": {**recording.replies, **more}})
                self._loaded = Pool(recording, "" if path is None else str(path))
            return self._loaded

    def _find(self, request: ModelRequest | EmbedRequest) -> tuple[RecordedReply | None, tuple[str, ...]]:
        """The reply, None for the default one, and what is to be warned of."""
        if not self._has_replies and not self._must_have(request):
            return None, ()
        pool = self.pool()
        choice = pool.choose(request)
        if choice is None:
            if self._must_have(request):
                self._refuse_missing(request, pool)
            return None, self._once(
                f"there is no reply for '{request.key}'{_in(pool)}; a default was given", bool(pool)
            )
        if self.settings.strict:
            self._refuse_drift(choice, pool)
        return choice.reply, self._once(choice.drift, bool(choice.drift))

    def _must_have(self, request: ModelRequest | EmbedRequest) -> bool:
        """Whether a request without a recorded reply fails."""
        return self.settings.strict

    def _once(self, warning: str, is_due: bool) -> tuple[str, ...]:
        if not is_due or warning in self._warned:
            return ()
        self._warned.add(warning)
        return (warning,)

    def _refuse_missing(self, request: ModelRequest | EmbedRequest, pool: Pool) -> None:
        from treadle_replay.request_hash import request_hash

        key = request.key or request_hash(request)
        near = pool.near(key)
        raise RecordingMismatchError(
            f"provider '{self.name}' is strict and has no reply for '{key}'",
            provider=self.name,
            hint=f"there are replies for {', '.join(near)}" if near else "it has no replies at all",
        )

    def _refuse_drift(self, choice: Choice, pool: Pool) -> None:
        hint = "record it again"
        if choice.only_tools and not pool.recording.has_tools:
            hint = "record it again with --record-tools, and tools are not run when it is replayed"
        if choice.drift:
            raise RecordingMismatchError(choice.drift, provider=self.name, hint=hint)
        if choice.reply.text.strip() == REDACTED:
            raise RecordingMismatchError(
                "the reply was redacted when it was recorded", provider=self.name, hint="write one in its place"
            )

    def _default_text(self, request: ModelRequest) -> str:
        if request.output is None:
            return self.settings.default_response
        if request.output.schema is None:
            return "{}"
        from treadle_replay.example_value import NoExampleError, example_value

        try:
            value = example_value(request.output.schema, text=self.settings.default_response)
        except NoExampleError as error:
            raise BadRequestError(
                f"provider '{self.name}' cannot make up a value of the shape '{request.output.name}': {error}",
                provider=self.name,
                hint=f"write a reply for '{request.key}' in responses_file" if request.key else None,
            ) from error
        return json.dumps(value, ensure_ascii=False)

    def _default(self, request: ModelRequest, warnings: tuple[str, ...]) -> ModelResponse:
        return ModelResponse(
            message=AssistantMessage.of(self._default_text(request)),
            stop_reason=StopReason.END_TURN,
            finish_reason="stop",
            usage=Usage.ZERO,
            model=request.model,
            provider=self.name,
            cost_usd=0.0,
            warnings=warnings,
        )

    def _response(self, request: ModelRequest, reply: RecordedReply, warnings: tuple[str, ...]) -> ModelResponse:
        calls = tuple(_call(recorded.id, recorded.name, recorded.arguments) for recorded in reply.tool_calls or ())
        finish_reason = reply.finish_reason or ("tool_calls" if calls else "stop")
        text: tuple[AssistantPart, ...] = (TextPart(text=reply.text),) if reply.text or not calls else ()
        parts: tuple[AssistantPart, ...] = tuple(load(Part, each) for each in reply.parts or ()) or text + calls
        return ModelResponse(
            message=AssistantMessage(parts=parts),
            stop_reason=reply.stop_reason or STOP_REASONS.get(finish_reason.lower(), StopReason.UNKNOWN),
            finish_reason=finish_reason,
            usage=_usage(reply),
            model=reply.model or request.model,
            provider=reply.provider or self.name,
            cost_usd=reply.cost_usd,
            warnings=warnings,
        )

    def _seconds(self, reply: RecordedReply | None) -> float:
        milliseconds = self.settings.latency_ms
        if self.settings.latency_model == "normal":
            milliseconds = max(0.0, self._random.gauss(milliseconds, max(1.0, milliseconds / 10)))
        elif self.settings.latency_model == "replay" and reply is not None and reply.latency_ms is not None:
            milliseconds = reply.latency_ms
        return milliseconds / 1000


def _usage(reply: RecordedReply) -> Usage:
    if reply.usage is None:
        return Usage.ZERO
    return Usage(
        input_tokens=reply.usage.prompt_tokens,
        output_tokens=reply.usage.completion_tokens,
        cache_read_tokens=reply.usage.cache_read_tokens,
        cache_write_tokens=reply.usage.cache_write_tokens,
        cache_write_1h_tokens=reply.usage.cache_write_1h_tokens,
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


def _in(pool: Pool) -> str:
    return f" in {pool.source}" if pool.source else ""
