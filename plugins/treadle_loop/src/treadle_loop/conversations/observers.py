"""Watching a conversation. Observers are called in line, in the thread of the conversation, and cannot harm it."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from datetime import UTC, datetime
from typing import Any, Literal, Protocol, TextIO, runtime_checkable

from treadle_loop.conversations.summaries import ConversationContext, ConversationSummary
from treadle_loop.errors import ConfigurationError, ProviderError
from treadle_loop.provider import ModelRequest, ModelResponse
from treadle_loop.transcript import Message, ToolCallPart, ToolResultPart

__all__ = [
    "ConsoleObserver",
    "EventTraceObserver",
    "ListObserver",
    "LoopObserver",
    "MultiObserver",
    "NullObserver",
    "entered",
    "notify",
    "wants_text",
]

_log = logging.getLogger("treadle_loop")


@runtime_checkable
class LoopObserver(Protocol):
    """What an observer may have. A hook that it lacks is passed over; one that raises is logged and ignored.

    ``on_discard(response)`` is called too where an observer has it: the last reply was cut before it was of use, and is
    asked for again. It is not listed, so that an observer written for agentloop is one here.
    """

    def conversation(self, context: ConversationContext) -> AbstractContextManager[Any]:
        """Stands around the whole conversation. What it raises is not caught."""
        ...

    def on_conversation_start(self, context: ConversationContext) -> None:
        """It begins."""
        ...

    def on_conversation_end(self, summary: ConversationSummary) -> None:
        """It ended, in whatever way."""
        ...

    def on_request(self, request: ModelRequest) -> None:
        """The model is about to be asked."""
        ...

    def on_response(self, response: ModelResponse) -> None:
        """It answered."""
        ...

    def on_retry(self, attempt: int, error: ProviderError, wait_seconds: float) -> None:
        """An attempt failed, and there will be another."""
        ...

    def on_model_error(self, error: BaseException) -> None:
        """The model was asked in vain: there is no further attempt."""
        ...

    def on_tool_start(self, call: ToolCallPart) -> None:
        """A tool is about to be called. One that does not exist is named ``<unregistered>``."""
        ...

    def on_tool_end(self, call: ToolCallPart, result: ToolResultPart) -> None:
        """It has a result."""
        ...

    def on_budget_warning(self, kind: Literal["iterations", "deadline"], used: float, limit: float) -> None:
        """A fraction of ``SummaryOptions.warn_at`` is reached."""
        ...

    def on_stall(self, call: ToolCallPart, count: int) -> None:
        """The same call was made so often; the conversation goes on."""
        ...

    def on_text_delta(self, text: str) -> None:
        """More of the reply's text, where the client can stream.

        Replies are streamed for observers that define this. It may be called in a thread of the client's, and for a
        reply that is then dropped or fails: ``on_response`` has what counts. A reply whose text has begun is not asked
        for again when it fails.
        """
        ...


def notify(observer: Any, hook: str, *facts: Any) -> None:
    """Call a hook, where the observer has it. What it raises is logged and goes no further."""
    called = getattr(observer, hook, None)
    if called is None:
        return
    try:
        called(*facts)
    except Exception:
        _log.exception("observer %s failed in %s", type(observer).__name__, hook)


def entered(observer: Any, context: ConversationContext) -> AbstractContextManager[Any]:
    """What stands around the conversation, where the observer has something."""
    around = getattr(observer, "conversation", None)
    if around is None:
        return nullcontext()
    given: AbstractContextManager[Any] = around(context)
    return given


def wants_text(observer: Any) -> bool:
    """Whether it has a hook of its own for text as it is written."""
    if isinstance(observer, MultiObserver):
        return any(map(wants_text, observer.observers))
    hook = getattr(type(observer), "on_text_delta", None)
    return hook is not None and hook is not LoopObserver.on_text_delta


class NullObserver:
    """Watches nothing."""


class ListObserver:
    """Keeps requests, responses, retries and tool starts and ends, for tests and debugging.

    ``events`` holds ``(kind, payload)`` in order; a payload of more than one thing is a tuple.
    """

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    def kinds(self) -> list[str]:
        """The names alone."""
        return [kind for kind, _ in self.events]

    def on_request(self, request: ModelRequest) -> None:
        """Keep it."""
        self.events.append(("request", request))

    def on_response(self, response: ModelResponse) -> None:
        """Keep it."""
        self.events.append(("response", response))

    def on_retry(self, attempt: int, error: ProviderError, wait_seconds: float) -> None:
        """Keep it."""
        self.events.append(("retry", (attempt, error, wait_seconds)))

    def on_tool_start(self, call: ToolCallPart) -> None:
        """Keep it."""
        self.events.append(("tool_start", call))

    def on_tool_end(self, call: ToolCallPart, result: ToolResultPart) -> None:
        """Keep it."""
        self.events.append(("tool_end", (call, result)))


class ConsoleObserver:
    """Writes a line for each event.

    :param stream: where; standard error without one, so that a program's output stays its own.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    def _say(self, text: str) -> None:
        print(text, file=self._stream or sys.stderr, flush=True)

    def on_request(self, request: ModelRequest) -> None:
        """How much is sent."""
        self._say(f"-> model: {len(request.messages)} messages, {len(request.tools)} tools")

    def on_response(self, response: ModelResponse) -> None:
        """What came back."""
        usage = response.usage
        tokens = f"{_known(usage.input_tokens)} in, {_known(usage.output_tokens)} out"
        self._say(f"<- {response.model or 'model'}: {response.stop_reason}, {tokens}")

    def on_retry(self, attempt: int, error: ProviderError, wait_seconds: float) -> None:
        """Why."""
        self._say(f"   attempt {attempt} failed ({type(error).__name__}); again in {wait_seconds:.1f} s")

    def on_model_error(self, error: BaseException) -> None:
        """Which."""
        self._say(f"<- {type(error).__name__}: {error}")

    def on_tool_start(self, call: ToolCallPart) -> None:
        """Which."""
        self._say(f"   {call.tool_name} {call.arguments}")

    def on_tool_end(self, call: ToolCallPart, result: ToolResultPart) -> None:
        """How it went."""
        said = result.content if len(result.content) <= 200 else f"{result.content[:200]}..."
        self._say(f"   {call.tool_name} {'failed' if result.is_error else 'gave'}: {said}")

    def on_budget_warning(self, kind: str, used: float, limit: float) -> None:
        """Which."""
        self._say(f"   {used:g} of {limit:g} ({kind}) are used")

    def on_stall(self, call: ToolCallPart, count: int) -> None:
        """Which."""
        self._say(f"   {call.tool_name} was called {count} times with the same arguments")

    def on_conversation_end(self, summary: ConversationSummary) -> None:
        """The counts."""
        self._say(f"{summary.status}: {summary.iterations} model calls in {summary.elapsed_seconds:.1f} s")


def _known(count: int | None) -> str:
    return "?" if count is None else str(count)


class MultiObserver:
    """Several observers, each guarded from the others."""

    def __init__(self, *observers: Any) -> None:
        listed = observers[0] if len(observers) == 1 and isinstance(observers[0], list | tuple) else observers
        self.observers: tuple[Any, ...] = tuple(listed)

    @contextmanager
    def conversation(self, context: ConversationContext) -> Iterator[None]:
        """All of theirs, the first outermost."""
        with ExitStack() as stack:
            for each in self.observers:
                stack.enter_context(entered(each, context))
            yield

    def __getattr__(self, hook: str) -> Callable[..., None]:
        if not hook.startswith("on_"):
            raise AttributeError(hook)

        def all_of_them(*facts: Any) -> None:
            for each in self.observers:
                notify(each, hook, *facts)

        return all_of_them


class EventTraceObserver:
    """Writes each event as one line of JSON.

    :param write: called with each line.
    :param capture_content: whether what was said is written too. That needs ``redact``, or ``allow_unredacted``.
    :param redact: called with every text before it is cut and written; where it raises, the content is left out.
    :param max_string_chars: longer texts are cut.
    :raises ConfigurationError: content would be written as it is, and nobody said that it may be.
    """

    def __init__(
        self,
        write: Callable[[str], Any],
        capture_content: bool = False,
        redact: Callable[[str], str] | None = None,
        allow_unredacted: bool = False,
        max_string_chars: int = 2000,
        terminator: str = "\n",
    ) -> None:
        if capture_content and redact is None and not allow_unredacted:
            raise ConfigurationError(
                "capture_content=True writes what was said as it is",
                hint="give redact=, or allow_unredacted=True where that is meant",
            )
        self._write = write
        self._captures = capture_content
        self._redact = redact
        self._most = max_string_chars
        self._terminator = terminator
        self._seq = 0
        self._began = time.monotonic()
        self._ids: dict[str, Any] = {}
        self._written = 0

    def on_conversation_start(self, context: ConversationContext) -> None:
        """Its labels and bounds."""
        self._began = time.monotonic()
        self._written = 0
        self._ids = {
            name: value
            for name in ("conversation_id", "correlation_id", "parent_id")
            if (value := getattr(context, name)) is not None
        }
        facts = context.model_dump(exclude={"conversation_id", "correlation_id", "parent_id"})
        self._event("conversation_start", **facts)

    def on_request(self, request: ModelRequest) -> None:
        """How much is sent; what of it is new, with content."""
        new, self._written = request.messages[self._written :], len(request.messages)
        self._event(
            "request",
            content=lambda: {"system": request.system, "messages": [_plain(each) for each in new]},
            messages=len(request.messages),
            tools=[each.name for each in request.tools],
            max_tokens=request.max_tokens,
        )

    def on_response(self, response: ModelResponse) -> None:
        """How it stopped, and what it took."""
        self._event(
            "response",
            content=lambda: {"message": _plain(Message(role="assistant", content=response.content))},
            stop_reason=str(response.stop_reason),
            model=response.model,
            request_id=response.request_id,
            attempts=response.attempts,
            usage=response.usage.model_dump(),
            tool_calls=len(response.tool_calls),
        )

    def on_retry(self, attempt: int, error: ProviderError, wait_seconds: float) -> None:
        """Which attempt failed, of what."""
        self._event("retry", attempt=attempt, wait_seconds=wait_seconds, **_facts(error))

    def on_model_error(self, error: BaseException) -> None:
        """Of what."""
        self._event("model_error", content=lambda: {"error": str(error)}, **_facts(error))

    def on_tool_start(self, call: ToolCallPart) -> None:
        """Which."""
        self._event(
            "tool_start",
            content=lambda: {"arguments": call.raw_arguments if call.parse_error else call.arguments},
            tool=call.tool_name,
            call_id=call.id,
        )

    def on_tool_end(self, call: ToolCallPart, result: ToolResultPart) -> None:
        """How it went."""
        self._event(
            "tool_end",
            content=lambda: {"result": result.content},
            tool=call.tool_name,
            call_id=call.id,
            is_error=result.is_error,
        )

    def on_stall(self, call: ToolCallPart, count: int) -> None:
        """Which call, how often."""
        self._event("stall", tool=call.tool_name, count=count)

    def on_budget_warning(self, kind: str, used: float, limit: float) -> None:
        """Which budget."""
        self._event("budget_warning", kind=kind, used=used, limit=limit)

    def on_conversation_end(self, summary: ConversationSummary) -> None:
        """The counts."""
        self._event("conversation_end", summary=summary.model_dump(mode="json"))

    def _event(self, event: str, *, content: Callable[[], Mapping[str, Any]] | None = None, **facts: Any) -> None:
        import json

        if content is not None and self._captures:
            try:
                facts |= {name: self._shown(value) for name, value in content().items()}
            except Exception:
                _log.exception("redact failed; what was said is left out of event %s", event)
        self._seq += 1
        line = {
            "seq": self._seq,
            "ts": datetime.now(UTC).isoformat(),
            "t": round(time.monotonic() - self._began, 6),
            "event": event,
            **self._ids,
            **facts,
        }
        self._write(json.dumps(line, ensure_ascii=False, default=str) + self._terminator)

    def _shown(self, value: Any) -> Any:
        """Redacted, then cut: a secret that is cut in half would not be found any more."""
        if isinstance(value, str):
            text = self._redact(value) if self._redact is not None else value
            return text if len(text) <= self._most else f"{text[: self._most]}..."
        if isinstance(value, Mapping):
            return {self._shown(str(name)): self._shown(each) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return [self._shown(each) for each in value]
        return value


def _plain(message: Message) -> Any:
    """A message without what is opaque in it: that is the provider's own, and may be anything."""
    return message.model_dump(
        mode="json", exclude={"origin": True, "content": {"__all__": {"raw", "signature"}}}, exclude_none=True
    )


def _facts(error: BaseException) -> dict[str, Any]:
    """Of an error, what is no content."""
    names = ("status_code", "phase", "request_sent", "request_id", "attempts")
    facts = {name: value for name in names if (value := getattr(error, name, None)) is not None}
    return {"error_type": type(error).__name__, **facts}
