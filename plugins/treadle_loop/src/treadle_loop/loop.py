"""The reason/act/observe loop: the model answers, or asks for tools, is told their results, and is asked again.

No input or output happens here. :func:`converse` is a generator: it yields what it needs (:mod:`treadle_loop.asks`),
a driver (:mod:`treadle_loop.drivers`) answers, and in the end it returns an :class:`Outcome`. So the same loop serves
steps on trio and plain synchronous programs, and a test can be its world.

What always holds, whatever a model replies:

- every tool call of a reply gets exactly one result, in the order of the calls, before the model is asked again;
- what will run of a reply is decided for all its calls before the first one starts;
- a call whose arguments were no JSON object, or did not fit, never runs;
- call ids are unique in the whole conversation;
- at most ``max_iterations`` replies are asked for, and one more where ``answer_at_cap`` says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from treadle import (
    AssistantMessage,
    Message,
    ModelRequest,
    ModelResponse,
    OutputError,
    StopReason,
    ToolCallPart,
    ToolChoice,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from treadle_loop.asks import Ask, AskModel, AskTime, RunTools
from treadle_loop.continuing import joined
from treadle_loop.stalling import StallPolicy, StallWatch
from treadle_loop.tools import FinalTool, LoopTool, failure, unreadable, with_note

__all__ = ["LoopSettings", "Outcome", "Stop", "converse", "pending_calls"]

Stop = Literal["answer", "iterations", "stalled", "refused", "max_tokens", "deadline", "misshapen"]
"""Why a loop ended: the model answered; the cap was reached; it went in circles; it refused; its reply was cut and may
not grow; time was up; too many answers would not do."""

_Steps = Generator[Ask, Any, "Outcome"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    """How a loop runs.

    :param max_iterations: most replies asked for.
    :param tools: by name; every other name is answered with the names there are.
    :param tool_choice_after: for the calls after the first, whose choice is the request's.
    :param final: the tool by which the answer is given; a plain reply is then sent back, unless ``accept`` is there too
        and takes it.
    :param accept: makes the answer's value of a reply without tool calls. Where it raises ``OutputError`` the model
        is told and asked again.
    :param answer_at_cap: at the cap, ask once more with tools off instead of leaving the model's calls unanswered.
    :param max_tokens_ceiling: a reply that was cut in a tool call or before any content is dropped and asked for again
        with twice the ``max_tokens``, up to so many; None takes it as it is.
    :param deadline_seconds: no reply is asked for later than this after the loop began.
    :param stall: None lets a model go in circles.
    :param note_remaining: tell the model with each result how many replies it has left.
    :param watch: called with every reply before anything acts on it; what it raises ends the loop.
    :param on_message: called with every message as it joins the conversation, and whether it takes the last one's
        place (a paused turn and its continuation; the word to a model whose reply was empty).
    :param hand_over: every call but one of ``final`` goes to whoever runs the tools as it came, unknown and unreadable
        ones too; nothing is checked or answered here.
    :param act_at_cap: the calls of the last reply run too.
    :param max_complaints: most answers that are sent back, by ``final`` or ``accept``; None bounds them by
        ``max_iterations`` alone.
    """

    max_iterations: int
    tools: Mapping[str, LoopTool] = field(default_factory=dict)
    tool_choice_after: ToolChoice = "auto"
    final: FinalTool | None = None
    accept: Callable[[ModelResponse], Any] | None = None
    answer_at_cap: bool = False
    max_tokens_ceiling: int | None = None
    deadline_seconds: float | None = None
    stall: StallPolicy | None = field(default_factory=StallPolicy)
    note_remaining: bool = False
    watch: Callable[[ModelResponse], None] | None = None
    on_message: Callable[[Message, bool], None] | None = None
    hand_over: bool = False
    act_at_cap: bool = False
    max_complaints: int | None = None

    def __post_init__(self) -> None:
        if self.max_iterations < 1:
            raise ValueError("max_iterations is at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a loop ended.

    :param response: the last reply that was not dropped; None where none was.
    :param message: the model's last turn, a paused one with its continuations.
    :param messages: the whole conversation, what it began with included. At the cap, the last turn's calls are open.
    :param value: the answer's value, with ``final`` or ``accept``.
    :param complaint: why the last answer would not do, where none was accepted.
    :param reasoning: the readable reasoning of every reply.
    :param detail: what the stop is about: the tool that stalled.
    """

    stop: Stop
    response: ModelResponse | None
    message: AssistantMessage | None
    messages: tuple[Message, ...]
    iterations: int
    value: Any = None
    complaint: str | None = None
    reasoning: str = ""
    detail: str | None = None

    @property
    def text(self) -> str:
        """The text of the model's last turn."""
        return self.message.text if self.message is not None else ""


def pending_calls(messages: Sequence[Message]) -> tuple[ToolCallPart, ...]:
    """The calls at a conversation's end that have no results yet."""
    last = messages[-1] if messages else None
    return last.tool_calls if isinstance(last, AssistantMessage) else ()


def converse(request: ModelRequest, settings: LoopSettings) -> Generator[Ask, Any, Outcome]:
    """The loop over one request. Calls left open at the end of its messages run first.

    :param request: its ``tool_choice`` is the first reply's; its tools are those of ``settings``, in their order.
    """
    return _Loop(request, settings).run()


class _Loop:
    def __init__(self, request: ModelRequest, settings: LoopSettings) -> None:
        self.settings = settings
        self.request = request
        self.messages: list[Message] = list(request.messages)
        self.max_tokens = request.max_tokens
        self.iterations = 0
        self.response: ModelResponse | None = None
        self.message: AssistantMessage | None = None
        self.reasoning: list[str] = []
        self.complaint: str | None = None
        self.complaints = 0
        self.uses: Counter[str] = Counter()
        self.stall = StallWatch(settings.stall) if settings.stall is not None else None
        self.ids = {
            call.call_id for each in self.messages if isinstance(each, AssistantMessage) for call in each.tool_calls
        }

    def run(self) -> _Steps:
        settings = self.settings
        began = (yield AskTime()) if settings.deadline_seconds is not None else 0.0
        if pending := pending_calls(self.messages):
            yield from self.act(pending, cut=False)
        joining = False
        while self.iterations < settings.max_iterations:
            if settings.deadline_seconds is not None and (yield AskTime()) - began > settings.deadline_seconds:
                return self.outcome("deadline")
            if settings.max_complaints is not None and self.complaints > settings.max_complaints:
                return self.outcome("misshapen")
            response: ModelResponse = yield self.ask(self.choice())
            if settings.watch is not None:
                settings.watch(response)
            cut = response.stop_reason is StopReason.MAX_TOKENS
            if cut and settings.max_tokens_ceiling is not None and _is_unusable(response):
                if self.max_tokens is None or self.max_tokens >= settings.max_tokens_ceiling:
                    return self.outcome("max_tokens")
                self.max_tokens = min(2 * self.max_tokens, settings.max_tokens_ceiling)
                continue
            self.take(response, joining)
            joining = response.stop_reason is StopReason.PAUSED
            if joining:
                continue
            assert self.message is not None
            calls = self.message.tool_calls
            if settings.final is not None:
                accepted = self.final_value(settings.final, calls)
                if accepted is not None:
                    return self.outcome("answer", value=accepted[0])
            if not calls:
                ended = self.answered(response, cut)
                if ended is not None:
                    return ended
                continue
            if self.iterations == settings.max_iterations and not settings.act_at_cap:
                break
            yield from self.act(calls, cut=cut)
            if self.stall is not None and self.stall.stalled is not None:
                return self.outcome("stalled", detail=self.stall.stalled)
        if settings.answer_at_cap:
            yield from self.last_answer()
        return self.outcome("iterations")

    # --- asking ---

    def ask(self, choice: ToolChoice) -> AskModel:
        self.iterations += 1
        request = replace(
            self.request,
            messages=tuple(self.messages),
            tools=self.declared(),
            tool_choice=choice,
            max_tokens=self.max_tokens,
        )
        return AskModel(request, self.iterations)

    def choice(self) -> ToolChoice:
        """Of the request for the first reply. An unset choice is sent where tools are."""
        return self.request.tool_choice if self.iterations == 0 else self.settings.tool_choice_after

    def declared(self) -> tuple[Any, ...]:
        """What the model sees: a tool that is used up is not there any more."""
        left = tuple(
            tool.spec
            for name, tool in self.settings.tools.items()
            if tool.max_calls is None or self.uses[name] < tool.max_calls
        )
        return left if self.settings.final is None else (*left, self.settings.final.spec)

    # --- replies ---

    def take(self, response: ModelResponse, joining: bool) -> None:
        """The reply goes into the conversation, with ids that no call before it has."""
        message = self.with_new_ids(response.message)
        if message.reasoning:
            self.reasoning.append(message.reasoning)
        if joining:
            assert self.message is not None
            message = joined(self.message, message)
        self.put(message, in_place=joining)
        self.message = message
        self.response = response

    def put(self, message: Message, *, in_place: bool = False) -> None:
        """A message joins the conversation, or takes the place of its last one."""
        if in_place:
            self.messages[-1] = message
        else:
            self.messages.append(message)
        if self.settings.on_message is not None:
            self.settings.on_message(message, in_place)

    def with_new_ids(self, message: AssistantMessage) -> AssistantMessage:
        calls = message.tool_calls
        if not calls:
            return message
        renamed: dict[int, str] = {}
        for call in calls:
            call_id, n = call.call_id, 2
            while call_id in self.ids:
                call_id, n = f"{call.call_id}_{n}", n + 1
            self.ids.add(call_id)
            if call_id != call.call_id:
                renamed[id(call)] = call_id
        if not renamed:
            return message
        parts = tuple(
            replace(part, call_id=renamed[id(part)]) if isinstance(part, ToolCallPart) and id(part) in renamed else part
            for part in message.parts
        )
        return replace(message, parts=parts, provider_data={})  # the turn as it came over the wire has the old ids

    def answered(self, response: ModelResponse, cut: bool) -> Outcome | None:
        """The end, where a reply without calls is one; otherwise the model is told why not."""
        settings, message = self.settings, self.message
        assert message is not None
        if settings.final is not None:
            if response.stop_reason is StopReason.REFUSAL:
                return self.outcome("refused")
            how = f"Give your answer by calling the tool '{settings.final.spec.name}'; plain text is not read."
            if settings.accept is not None:
                try:
                    return self.outcome("answer", value=settings.accept(replace(response, message=message)))
                except OutputError as error:
                    self.complain(error.message)
                    self.tell(f"That will not do: {error.message}. {how}")
                    return None
            self.complain("the reply was plain text")
            self.tell(how)
            return None
        if settings.accept is None:
            return self.outcome("answer")
        try:
            value = settings.accept(replace(response, message=message))
        except OutputError as error:
            self.complain(f"{error.message}; it was cut at max_tokens" if cut else error.message)
            if response.stop_reason is StopReason.REFUSAL:
                return self.outcome("refused")
            self.tell(f"That will not do: {self.complaint}. Reply again, with the JSON alone.")
            return None
        self.complaint = None
        return self.outcome("answer", value=value)

    def final_value(self, final: FinalTool, calls: Sequence[ToolCallPart]) -> tuple[Any] | None:
        """The answer, where one of the calls gives a valid one."""
        for call in calls:
            if self.is_final(call):
                try:
                    return (final.value_in(call),)
                except OutputError as error:
                    self.complain(error.message)
        return None

    def complain(self, about: str) -> None:
        self.complaint = about
        self.complaints += 1

    def tell(self, text: str) -> None:
        """Speak as the user. It takes the place of a reply of nothing at all: vendors refuse to be sent one."""
        last = self.messages[-1]
        self.put(UserMessage.of(text), in_place=isinstance(last, AssistantMessage) and not _has_content(last))

    # --- tools ---

    def act(self, calls: Sequence[ToolCallPart], *, cut: bool) -> Generator[Ask, Any, None]:
        """Every call its result, in order."""
        decided: list[ToolCallPart | ToolResultPart] = [
            call
            if self.settings.hand_over and not self.is_final(call)
            else self.decide(call, cut=cut and call is calls[-1])
            for call in calls
        ]
        running = [each for each in decided if isinstance(each, ToolCallPart)]
        ran: list[ToolResultPart] = []
        if running:
            at_once = self.settings.hand_over or all(
                self.settings.tools[call.tool_name].parallel_safe for call in running
            )
            ran = list((yield RunTools(running, at_once)))
            if [each.call_id for each in ran] != [each.call_id for each in running]:
                raise RuntimeError("a driver gives one result for each call, in the order of the calls")
        by_id = {each.call_id: each for each in ran}
        results = [each if isinstance(each, ToolResultPart) else by_id[each.call_id] for each in decided]
        if self.stall is not None:
            results = [
                self.stall.note(call, result, exists=call.tool_name in self.settings.tools)
                for call, result in zip(calls, results, strict=True)
            ]
        if self.settings.note_remaining:
            left = self.settings.max_iterations - self.iterations
            results[-1] = with_note(results[-1], f"{left} of {self.settings.max_iterations} replies are left to you")
        self.put(ToolMessage(results=tuple(results)))

    def is_final(self, call: ToolCallPart) -> bool:
        return self.settings.final is not None and call.tool_name == self.settings.final.spec.name

    def decide(self, call: ToolCallPart, *, cut: bool) -> ToolCallPart | ToolResultPart:
        """The call as it will run, or the result that says why it does not."""
        settings, name = self.settings, call.tool_name
        if self.is_final(call):
            return failure(call, f"{self.complaint}; call '{name}' again with a valid answer")
        tool = settings.tools.get(name)
        if tool is None:
            names = [*settings.tools, *([settings.final.spec.name] if settings.final else [])]
            there_are = f"the tools are {', '.join(names)}" if names else "there are no tools"
            return failure(call, f"there is no tool '{name}' (it is not registered here); {there_are}")
        if tool.missing is not None:
            return failure(call, tool.missing)
        if cut and not (call.raw_arguments or "").strip() and not call.arguments:
            return failure(call, "the reply was cut at max_tokens inside this call, so it did not run; call it again")
        if call.arguments is None:
            remedy = f"; {tool.check.remedy()}" if tool.check else ""
            was_cut = "the reply was cut at max_tokens inside this call: " if cut else ""
            return failure(call, f"{was_cut}{unreadable(call)}{remedy}")
        if tool.check is not None:
            arguments, wrong = tool.check(call.arguments)
            if wrong is not None:
                return failure(call, wrong)
            if arguments is not call.arguments:
                call = replace(call, arguments=arguments)
        if tool.max_calls is not None and self.uses[name] >= tool.max_calls:
            return failure(call, f"'{name}' may be called {_times(tool.max_calls)} a turn, and has been")
        self.uses[name] += 1
        return call

    def last_answer(self) -> Generator[Ask, Any, None]:
        """One more reply, with the tools off, where the last one asked for tools."""
        settings = self.settings
        if not self.messages or not (calls := pending_calls(self.messages)):
            return
        limit = f"the limit of {settings.max_iterations} replies is reached"
        told = f"{limit}, so no tool runs any more; answer now with what you have"
        self.put(ToolMessage(results=tuple(failure(call, told) for call in calls)))
        response: ModelResponse = yield self.ask("none")
        if settings.watch is not None:
            settings.watch(response)
        if not response.message.tool_calls:
            self.take(response, joining=False)

    def outcome(self, stop: Stop, *, value: Any = None, detail: str | None = None) -> Outcome:
        return Outcome(
            stop=stop,
            response=self.response,
            message=self.message,
            messages=tuple(self.messages),
            iterations=self.iterations,
            value=value,
            complaint=self.complaint,
            reasoning="\n\n".join(self.reasoning),
            detail=detail,
        )


def _has_content(message: AssistantMessage) -> bool:
    return bool(message.text.strip() or message.tool_calls or message.provider_data) or any(
        part.kind == "hosted_tool" for part in message.parts
    )


def _is_unusable(response: ModelResponse) -> bool:
    """Whether a reply that was cut holds nothing that can be used."""
    return bool(response.message.tool_calls) or not response.text.strip()


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def __getattr__(name: str) -> Any:
    """agentloop has its functions and constants in its module ``loop``; here they are loaded when they are touched."""
    if not name.startswith("_"):
        from treadle_loop.conversations import running

        if name in running.__all__:
            return getattr(running, name)
    raise AttributeError(f"module 'treadle_loop.loop' has no attribute '{name}'")
