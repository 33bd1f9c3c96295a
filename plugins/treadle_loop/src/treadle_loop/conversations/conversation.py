"""One run of a conversation: the loop's settings, what it asks, and everyone who is told."""

from __future__ import annotations

import functools
import inspect
import logging
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self, TypedDict

import treadle
from treadle import messages as kernel
from treadle_loop.asks import Ask, RunTools
from treadle_loop.conversations.executing import Executor
from treadle_loop.conversations.listening import listening
from treadle_loop.conversations.observers import MultiObserver, entered, notify, wants_text
from treadle_loop.conversations.shaping import DEFAULT_OUTPUT_RETRIES, WantedOutput
from treadle_loop.conversations.summaries import (
    UNREGISTERED,
    ConversationContext,
    ConversationResult,
    SummaryCollector,
    SummaryOptions,
    status_after,
    status_of,
)
from treadle_loop.conversations.toolbox import HostedTool, Registry, check_client, check_deps, check_tools
from treadle_loop.conversations.wire import as_response, call_of, from_reply, kernel_request, message_of, sent
from treadle_loop.drivers import drive, drive_sync
from treadle_loop.errors import AgentLoopError, ConfigurationError, LoopBudgetExceeded, OutputInvalid, ProviderError
from treadle_loop.loop import LoopSettings, Outcome, converse
from treadle_loop.provider import ModelRequest, ModelResponse, StopReason
from treadle_loop.transcript import Message, ToolCallPart, ToolResultPart, Transcript
from treadle_loop.wrapping import complete_on_trio, is_async

__all__ = [
    "DEFAULT_DEADLINE_SECONDS",
    "DEFAULT_MAX_ITERATIONS",
    "DEFAULT_MAX_TOKENS",
    "MAX_TOKENS_CEILING",
    "Conversation",
    "ConversationOptions",
]

DEFAULT_MAX_TOKENS = 16_000
MAX_TOKENS_CEILING = 64_000
DEFAULT_MAX_ITERATIONS = 50
DEFAULT_DEADLINE_SECONDS = 600.0

_log = logging.getLogger("treadle_loop")


class ConversationOptions(TypedDict, total=False):
    """What a conversation may be told besides its four parts; what is left out is as :class:`Conversation` has it."""

    system: str | None
    max_tokens: int
    max_iterations: int
    deadline_seconds: float | None
    observer: Any
    hosted_tools: Sequence[HostedTool]
    agent_name: str | None
    conversation_id: str | None
    correlation_id: str | None
    parent_id: str | None
    summary_options: SummaryOptions | None


class Conversation:
    """What a run needs and counts. It runs once.

    Its parameters are those of every function that runs one; :func:`run_conversation_result` says what they mean.
    """

    def __init__(
        self,
        transcript: Transcript,
        client: Any,
        registry: Registry,
        deps: Any,
        *,
        system: str | None = None,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        max_iterations: int = DEFAULT_MAX_ITERATIONS,
        deadline_seconds: float | None = DEFAULT_DEADLINE_SECONDS,
        observer: Any = None,
        hosted_tools: Sequence[HostedTool] = (),
        agent_name: str | None = None,
        conversation_id: str | None = None,
        correlation_id: str | None = None,
        parent_id: str | None = None,
        summary_options: SummaryOptions | None = None,
    ) -> None:
        if not isinstance(transcript, Transcript):
            raise TypeError(f"a conversation goes on with a Transcript, not with {type(transcript).__name__}")
        if not isinstance(registry, Registry):
            raise TypeError(f"tools come as a Registry([...]), not as {type(registry).__name__}")
        check_client(client)
        for name, limit in (("max_iterations", max_iterations), ("max_tokens", max_tokens)):
            if not isinstance(limit, int):
                raise TypeError(f"{name} is a whole number, not {type(limit).__name__}")
        check_deps(deps)
        if max_iterations < 1 or max_tokens < 1:
            raise ConfigurationError("max_iterations and max_tokens are at least 1")
        self.transcript = transcript
        self.client = client
        self.registry = registry
        self.deps = deps
        self.system = system
        self.max_tokens = max_tokens
        self.hosted_tools = tuple(hosted_tools)
        self.observer = observer
        self.wanted: WantedOutput | None = None
        self.options = summary_options or SummaryOptions()
        self.context = ConversationContext(
            agent_name=agent_name,
            conversation_id=conversation_id,
            correlation_id=correlation_id,
            parent_id=parent_id,
            provider=client.name,
            model=client.model,
            iteration_limit=max_iterations,
            deadline_seconds=deadline_seconds,
        )
        self.clock: Callable[[], float] = time.monotonic
        self.collector: SummaryCollector
        self.executor = Executor(registry, deps, began=self.tool_began, ended=self.tool_ended)
        self.warned: set[tuple[str, float]] = set()
        self.response: ModelResponse | None = None
        self.is_taken = True

    def ask_for(self, output_type: Any, retries: int = DEFAULT_OUTPUT_RETRIES) -> Self:
        """Hold the answer to a shape.

        :raises ConfigurationError: it is none, or a tool has the name of the one by which it is given.
        """
        self.wanted = WantedOutput(
            output_type, self.client, self.registry, retries=retries, beside_tools=bool(self.hosted_tools)
        )
        return self

    def also_tell(self, observer: Any) -> Self:
        """One more observer."""
        self.observer = observer if self.observer is None else MultiObserver(self.observer, observer)
        return self

    def needs_a_loop(self) -> bool:
        """Whether something is awaited."""
        called = [getattr(self.deps, "before_tool", None), *(spec.handler for spec in self.registry.schemas())]
        return is_async(self.client) or any(map(inspect.iscoroutinefunction, called))

    # --- the two ways to run it ---

    def run(self) -> ConversationResult:
        """In this thread."""
        with self.observed():
            return self.result(
                drive_sync(self.loop(), complete=self.complete, run_tools=self.run_tools, clock=self.clock)
            )

    async def run_on_trio(self) -> ConversationResult:
        """On trio."""
        import trio

        self.clock = trio.current_time
        limiter = trio.CapacityLimiter(8)

        async def run_tools(ask: RunTools) -> list[kernel.ToolResultPart]:
            began = self.clock()
            results = await self.executor.run_on_trio([call_of(call) for call in ask.calls], limiter)
            return self.results(results, began)

        with self.observed():
            return self.result(await drive(self.loop(), complete=self.complete_on_trio, run_tools=run_tools))

    def loop(self) -> Generator[Ask, Any, Outcome]:
        """The loop over the transcript as it is now."""
        check_tools(self.client, self.registry, self.hosted_tools)
        assert self.context.iteration_limit is not None
        request = kernel_request(
            model=self.client.model,
            messages=tuple(one for each in self.transcript.messages for one in sent(each)),
            system=self.system,
            max_tokens=self.max_tokens,
            tool_choice="auto" if self.wanted is None else self.wanted.tool_choice,
        )
        return converse(
            request,
            LoopSettings(
                max_iterations=self.context.iteration_limit,
                max_tokens_ceiling=MAX_TOKENS_CEILING,
                deadline_seconds=self.context.deadline_seconds,
                stall=None,
                hand_over=True,
                act_at_cap=True,
                on_message=self.keep,
                **({} if self.wanted is None else self.wanted.loop_settings()),
            ),
        )

    @contextmanager
    def observed(self) -> Iterator[None]:
        """Everyone is told of the beginning and of the end, and an error leaves with the summary."""
        with entered(self.observer, self.context):
            self.collector = SummaryCollector(self.context, self.options, self.clock)
            notify(self.observer, "on_conversation_start", self.context)
            try:
                yield
            except BaseException as error:
                self.note_discarded()
                summary = self.collector.summary(status_of(error), error)
                if isinstance(error, treadle.TreadleError):
                    error.summary = summary  # type: ignore[attr-defined]  # AgentLoopError declares it
                notify(self.observer, "on_conversation_end", summary)
                raise

    def result(self, outcome: Outcome) -> ConversationResult:
        """What the end of the loop means."""
        if outcome.stop in ("answer", "refused"):
            assert self.response is not None
            if self.wanted is not None and outcome.stop == "answer":
                self.transcript.messages[-1] = self.wanted.as_text(self.transcript.messages[-1])
            summary = self.collector.summary(status_after(self.response.stop_reason))
            notify(self.observer, "on_conversation_end", summary)
            return ConversationResult(self.transcript, summary, outcome.value)
        if outcome.stop == "misshapen":
            assert self.wanted is not None
            raise OutputInvalid(
                f"the model gave no answer of the shape asked for in {self.wanted.retries + 1} tries: "
                f"{outcome.complaint}"
            )
        context = self.context
        if outcome.stop == "iterations":
            limit = float(context.iteration_limit or 0)
            raise LoopBudgetExceeded(
                f"the model was asked {limit:g} times and has not answered; raise max_iterations",
                kind="iterations",
                limit=limit,
                actual=self.collector.iterations,
            )
        if outcome.stop == "deadline":
            raise LoopBudgetExceeded(
                f"the deadline of {context.deadline_seconds:g} s is over; raise deadline_seconds",
                kind="deadline",
                limit=context.deadline_seconds or 0.0,
                actual=self.collector.elapsed(),
            )
        raise LoopBudgetExceeded(
            f"the reply was cut at {self.max_tokens} tokens before it was of use; raise max_tokens, or ask for less",
            kind="max_tokens",
            limit=max(MAX_TOKENS_CEILING, self.max_tokens),
            actual=self.max_tokens,
        )

    # --- the model ---

    def complete(self, asked: kernel.ModelRequest) -> kernel.ModelResponse:
        """Ask the client."""
        request, began = self.about_to_ask(asked)
        try:
            with listening(self.retried, self.on_text()):
                given = self.client.complete(request)
            response = as_response(given, api=getattr(self.client, "api", None))
        except BaseException as error:
            self.failed(error, began)
            raise
        return self.answered(response, began)

    async def complete_on_trio(self, asked: kernel.ModelRequest) -> kernel.ModelResponse:
        """Ask the client, on trio."""
        request, began = self.about_to_ask(asked)
        try:
            with listening(self.retried, self.on_text()):
                given = await complete_on_trio(self.client, request)
            response = as_response(given, api=getattr(self.client, "api", None))
        except BaseException as error:
            self.failed(error, began)
            raise
        return self.answered(response, began)

    def about_to_ask(self, asked: kernel.ModelRequest) -> tuple[ModelRequest, float]:
        """What is sent, and when. The transcript is looked at once: the loop itself keeps it in order."""
        self.note_discarded()
        if self.collector.iterations == 0:
            self.transcript.check_invariants()
        self.warn()
        assert asked.max_tokens is not None
        self.max_tokens = asked.max_tokens
        request = ModelRequest(
            messages=tuple(self.transcript.messages),
            system=self.system,
            tools=(*self.registry.schemas(), *(() if self.wanted is None else self.wanted.tools)),
            tool_choice="required" if asked.tool_choice == "required" else "auto",
            max_tokens=asked.max_tokens,
            hosted_tools=self.hosted_tools,
            output=None if self.wanted is None else self.wanted.output,
        )
        notify(self.observer, "on_request", request)
        self.collector.iterations += 1
        return request, self.clock()

    def answered(self, response: ModelResponse, began: float) -> kernel.ModelResponse:
        """Count the reply and tell of it."""
        self.response, self.is_taken = response, False
        self.collector.response(response, self.clock() - began)
        notify(self.observer, "on_response", response)
        if response.stop_reason is StopReason.ERROR:
            raise ProviderError(
                f"provider '{self.client.name}' broke its reply off with an error",
                provider=self.client.name,
                request_id=response.request_id,
                request_sent=True,
                phase="body",
            )
        if response.stop_reason is StopReason.UNKNOWN:
            _log.warning(
                "%s stopped for a reason that is not known (%s); the conversation ends here",
                self.client.name,
                response.raw_stop_reason,
            )
        return from_reply(response, model=self.client.model, provider=self.client.name)

    def failed(self, error: BaseException, began: float) -> None:
        """The client raised."""
        self.collector.model_error(error, self.clock() - began)
        if isinstance(error, Exception):
            notify(self.observer, "on_model_error", error)

    def retried(self, attempt: int, error: AgentLoopError, wait: float) -> None:
        """The client tries again."""
        notify(self.observer, "on_retry", attempt, error, wait)

    def on_text(self) -> Callable[[str], None] | None:
        """Where text goes as it is written, if somebody wants it."""
        return functools.partial(notify, self.observer, "on_text_delta") if wants_text(self.observer) else None

    def warn(self) -> None:
        """Of fractions that are reached, each once."""
        budgets = (
            ("iterations", float(self.collector.iterations), self.context.iteration_limit),
            ("deadline", self.collector.elapsed(), self.context.deadline_seconds),
        )
        for kind, used, limit in budgets:
            for fraction in self.options.warn_at:
                if limit is not None and used >= fraction * limit and (kind, fraction) not in self.warned:
                    self.warned.add((kind, fraction))
                    notify(self.observer, "on_budget_warning", kind, used, limit)

    # --- the transcript ---

    def keep(self, message: kernel.Message, in_place: bool) -> None:
        """What joins the conversation joins the transcript."""
        kept = self.as_kept(message)
        if message.role == "assistant":
            self.is_taken = True
        if in_place:
            self.transcript.messages[-1] = kept
        else:
            self.transcript.messages.append(kept)

    def as_kept(self, message: kernel.Message) -> Message:
        response = self.response
        model = response.model if response is not None else None
        api = getattr(self.client, "api", None)
        if response is not None and response.origin is not None:
            api = response.origin.api  # of several clients, the one that answered
        return message_of(message, api=api, model=model or self.client.model)

    def note_discarded(self) -> None:
        """A reply that did not join the conversation was dropped by the loop."""
        if not self.is_taken:
            self.collector.discarded()
            self.is_taken = True
            notify(self.observer, "on_discard", self.response)

    # --- tools ---

    def run_tools(self, ask: RunTools) -> list[kernel.ToolResultPart]:
        """Run the calls of a reply."""
        began = self.clock()
        return self.results(self.executor.run([call_of(call) for call in ask.calls]), began)

    def results(self, results: Sequence[ToolResultPart], began: float) -> list[kernel.ToolResultPart]:
        self.collector.batch_ended(self.clock() - began)
        return [
            treadle.ToolResultPart(
                call_id=each.call_id, tool_name=each.tool_name, content=each.content, is_error=each.is_error
            )
            for each in results
        ]

    def tool_began(self, call: ToolCallPart, seen: ToolCallPart) -> None:
        notify(self.observer, "on_tool_start", seen)
        stalled = self.collector.tool_began(call, seen.tool_name)
        if stalled is not None:
            notify(self.observer, "on_stall", seen, stalled)

    def tool_ended(self, seen: ToolCallPart, result: ToolResultPart, seconds: float) -> None:
        self.collector.tool_ended(seen.tool_name, result, seconds)
        if seen.tool_name == UNREGISTERED:
            result = result.model_copy(update={"tool_name": UNREGISTERED})
        notify(self.observer, "on_tool_end", seen, result)
