"""One turn of an agent: a model call with the agent's settings, tools and agents below it, checked before it counts."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

import trio

from treadle import (
    BudgetExceededError,
    ModelRequest,
    NotInstalledError,
    OutputError,
    Pending,
    StepContext,
    StepError,
    Template,
    ToolCallPart,
    ToolResultPart,
    TreadleError,
)
from treadle.contracts.results import json_value
from treadle.nurseries import open_nursery
from treadle_agent.definition import MESSAGE, AgentDefinition, AgentTool, agent_spec
from treadle_agent.spending import Spending
from treadle_loop.arguments import ArgumentCheck
from treadle_loop.drivers import drive
from treadle_loop.loop import LoopSettings, Outcome, converse
from treadle_loop.opening import Opening, open_turn
from treadle_loop.shapes import Shape
from treadle_loop.tools import FINAL_TOOL, LoopTool, failure, final_tool, result_of
from treadle_loop.turn import StepTools, loop_tool

__all__ = ["AgentReply", "AgentTurn", "Approve", "CannotStartError", "PausedTurn"]

Approve = Callable[[ToolCallPart], Awaitable[bool]]
"""Asks a person whether a call may run."""

_MOST_TOLD = 500
_UNNAMED = re.compile(r"[^\w.-]")


class CannotStartError(StepError):
    """A turn that cannot begin: a missing tool, a broken template, a schema that does not load."""


class PausedTurn(Exception):
    """A turn cannot go on before somebody has allowed, or not, some of its calls. Every other call has been made."""

    def __init__(self, pending: Sequence[Pending]) -> None:
        super().__init__()
        self.pending = tuple(pending)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReply:
    """What a turn came to.

    :param value: the typed reply, or the text without an ``output_schema``.
    :param text: what goes into the conversation: the text, or the typed reply as JSON.
    """

    value: Any
    text: str
    outcome: Outcome
    spending: Spending


@dataclass(slots=True, kw_only=True)
class AgentTurn:
    """A turn about to be taken.

    :param key: under which its model calls are recorded: the step's id, ``<step>::<tool>#<n>`` below.
    :param definitions: gives the definition of an agent named by its file.
    :param model: for an agent that names none.
    :param names: bare names for the templates, besides the state.
    :param stream: whether the text may be passed on as it is written.
    :param above: what the turn that called this agent has spent.
    :param approve: asks a person; without it calls that need one pause the step.
    :param may_pause: whether a person can answer later; such calls are refused without.
    """

    ctx: StepContext
    definition: AgentDefinition
    definitions: Callable[[str], AgentDefinition]
    key: str
    model: str
    names: Mapping[str, Any] = field(default_factory=dict)
    stream: bool = False
    above: Spending | None = None
    approve: Approve | None = None
    may_pause: bool = False
    _begun: list[str] = field(init=False, default_factory=list)
    _waiting: dict[str, Sequence[Pending]] = field(init=False, default_factory=dict)
    _asked: count[int] = field(init=False, default_factory=partial(count, 1))
    _shape: Shape | None = field(init=False, default=None)
    _tools: dict[str, LoopTool] = field(init=False, default_factory=dict)
    _numbers: dict[str, count[int]] = field(init=False, default_factory=dict)
    _spending: Spending = field(init=False)
    _registered: StepTools = field(init=False)

    def prepare(self) -> str | None:
        """Look up everything that the turn needs, of agents below it too, and render the system prompt.

        :raises CannotStartError: something is not there. No model has been called then.
        """
        definition = self.definition
        self._spending = Spending(definition.name, definition.constraints.max_cost_usd, self.ctx.warn, self.above)
        self._hold_to_limit()
        self._registered = StepTools(self.ctx)
        try:
            self._require_tools()
            if definition.output_schema is not None:
                self._shape = definition.output_schema.shape(definition.name)
                if definition.tools and self._shape.parameters.get("type", "object") != "object":
                    raise CannotStartError(f"agent '{definition.name}': its output_schema must describe an object")
            return self._rendered(definition.system_prompt)
        except CannotStartError:
            raise
        except TreadleError as error:
            raise CannotStartError(f"agent '{definition.name}': {error.message}", hint=error.hint) from error

    def _hold_to_limit(self) -> None:
        """Let calls that go out at once, those of agents below included, wait where together they could break it."""
        limit = self.definition.constraints.max_cost_usd
        if limit:
            with suppress(NotInstalledError):  # then what was spent is looked at before and after each call
                self.ctx = self.ctx.within_budget(limit, whose=self._whose, soft=True)

    @property
    def _whose(self) -> str:
        return f"agent '{self.definition.name}' (max_cost_usd)"

    async def take(self, opening: Opening) -> AgentReply:
        """Ask the model until it has answered, and hold the answer to the agent's rules.

        :raises StepError: permanent: a broken constraint, the cap, no valid typed reply. Transient: out of time.
        :raises PausedTurn: a person must be asked, and the turn goes on another time.
        """
        definition = self.definition
        most = definition.constraints.max_latency_ms
        with trio.move_on_after(math.inf if most is None else most / 1000) as limit:
            outcome = await drive(
                converse(self._request(opening), self._settings()), complete=self._complete, run_tool=self._run_tool
            )
            self._pause_if_waiting()
            return self._reply(outcome)
        assert limit.cancelled_caught
        raise StepError(
            f"agent '{definition.name}': the turn took longer than constraints.max_latency_ms ({most:g} ms)",
            transient=True,
        )

    # --- what is asked ---

    def _request(self, opening: Opening) -> ModelRequest:
        definition = self.definition
        return ModelRequest(
            key=self.key,
            model=definition.model or self.model,
            messages=opening.messages,
            tool_choice="required" if self._is_final else "auto",
            temperature=definition.temperature,
            max_tokens=definition.max_tokens,
            stream=self.stream and not self.is_checked,
            output=None if self._shape is None or self._is_final else self._shape.output,
        )

    def _settings(self) -> LoopSettings:
        policy, shape = self.definition.loop_policy, self._shape
        final = accept = None
        if shape is not None and self._is_final:
            final = final_tool(shape)
        elif shape is not None:
            accept = lambda response: shape.read(response.text)  # noqa: E731  # one line, named by what it is for
        return LoopSettings(
            max_iterations=policy.max_iterations,
            tools=self._tools,
            tool_choice_after="required" if final is not None else "auto",
            final=final,
            accept=accept,
            answer_at_cap=policy.on_max_iterations == "answer" and shape is None,
            note_remaining=policy.note_remaining,
            watch=self._spending.add,
        )

    @property
    def _is_final(self) -> bool:
        """Whether the reply is given by a tool: a shape and tools together."""
        return self.definition.output_schema is not None and bool(self.definition.tools)

    @property
    def is_checked(self) -> bool:
        """Whether nobody may see the text before it has passed."""
        return self.definition.output_schema is not None or bool(self.definition.constraints.forbidden_patterns)

    def _pause_if_waiting(self) -> None:
        if self._waiting:
            raise PausedTurn([each for call_id in self._begun for each in self._waiting.get(call_id, ())])

    async def _complete(self, request: ModelRequest) -> Any:
        self._pause_if_waiting()
        self._spending.check(before_a_call=True)
        return await self.ctx.complete(request)

    # --- tools ---

    def _require_tools(self) -> None:
        """The agent's tools; and those of agents below must be there too, before anything is paid for."""
        for _, tool in self.definition.registered_tools:
            self._tools[tool.name] = loop_tool(
                self._registered_tool(self.definition, tool.name), max_calls=tool.max_calls
            )
        for _, other in self.definition.agent_tools:
            told = self._definition_of(other).description if other.description is None else other.description
            self._tools[other.name] = LoopTool(
                spec=agent_spec(other.name, told),
                check=ArgumentCheck(other.name, MESSAGE),
                max_calls=other.max_calls,
            )
            self._numbers[other.name] = count(1)
        # The model sees them in the order of the definition.
        self._tools = {name: self._tools[name] for name in self.definition.tool_names}
        if self.above is None:
            self._require_below()

    def _require_below(self) -> None:
        pending = [self._definition_of(other) for _, other in self.definition.agent_tools]
        seen = {id(self.definition)}
        while pending:
            definition = pending.pop()
            if id(definition) in seen:
                continue
            seen.add(id(definition))
            for _, tool in definition.registered_tools:
                self._registered_tool(definition, tool.name)
            pending += [self._definition_of(other) for _, other in definition.agent_tools]

    def _registered_tool(self, definition: AgentDefinition, name: str) -> Any:
        try:
            return self.ctx.tool(name)
        except NotInstalledError as error:
            raise CannotStartError(f"agent '{definition.name}': {error.message}", hint=error.hint) from error

    def _definition_of(self, other: AgentTool) -> AgentDefinition:
        return other.agent if isinstance(other.agent, AgentDefinition) else self.definitions(other.agent)

    def _run_tool(self, call: ToolCallPart) -> Awaitable[ToolResultPart]:
        """Begin a call; its number is taken now, in the order of the reply."""
        self._begun.append(call.call_id)
        other = next((each for _, each in self.definition.agent_tools if each.name == call.tool_name), None)
        running: Callable[[], Awaitable[ToolResultPart]] = partial(self._registered.run, call)
        if other is not None:
            running = partial(self._ask, other, call, next(self._numbers[other.name]))
        if call.tool_name in self.definition.approve:
            return self._approved(call, running, next(self._asked))
        return running() if self._tools[call.tool_name].parallel_safe else self._in_turn(call, running)

    async def _in_turn(self, call: ToolCallPart, running: Callable[[], Awaitable[ToolResultPart]]) -> ToolResultPart:
        """A call that must not run before those that stand before it in the reply."""
        return _not_yet(call) if self._waiting else await running()

    async def _approved(
        self, call: ToolCallPart, running: Callable[[], Awaitable[ToolResultPart]], number: int
    ) -> ToolResultPart:
        if self.approve is not None:
            allowed: bool | None = await self.approve(call)
        elif self.may_pause:
            question = self._question(call, number)
            answer = self.ctx.answer(question)
            if answer is None:
                self._waiting[call.call_id] = (question,)
                return _not_yet(call)
            allowed = answer == "approved"
        else:
            return failure(call, f"'{call.tool_name}' needs a person's approval, and nobody can be asked here; not run")
        if not allowed:
            return failure(call, f"a person did not allow this call of '{call.tool_name}'; it was not run")
        return await running()

    def _question(self, call: ToolCallPart, number: int) -> Pending:
        """What a person is asked. Its name is the same when the turn is gone through again."""
        below = self.key.split("::")[1:]
        arguments = call.arguments or {}
        told = json.dumps(arguments, ensure_ascii=False, default=str)
        told = told if len(told) <= _MOST_TOLD else f"{told[:_MOST_TOLD]}..."
        return Pending(
            question=f"may agent '{self.definition.name}' call '{call.tool_name}' with {told}?",
            choices=("approved", "rejected"),
            name=_UNNAMED.sub("-", ".".join([*below, f"{call.tool_name}-{number}"])),
            tool_name=call.tool_name,
            details={"arguments": arguments},
        )

    async def _ask(self, other: AgentTool, call: ToolCallPart, number: int) -> ToolResultPart:
        """A turn of another agent, in a task of its own: stacks would grow with the depth of agents."""
        result: list[ToolResultPart] = []

        async def ask() -> None:
            result.append(await self._turn_of(other, call, number))

        async with open_nursery() as nursery:
            nursery.start_soon(ask)
        return result[0]

    async def _turn_of(self, other: AgentTool, call: ToolCallPart, number: int) -> ToolResultPart:
        message = str((call.arguments or {})["message"])
        turn = AgentTurn(
            ctx=self.ctx,
            definition=self._definition_of(other),
            definitions=self.definitions,
            key=f"{self.key}::{other.name}#{number}",
            model=self.ctx.config.model or "",
            names={"message": message},
            above=self._spending,
            approve=self.approve,
            may_pause=self.may_pause,
        )
        system_prompt = turn.prepare()
        try:
            opening = await open_turn(self.ctx, prompt=message, system_prompt=system_prompt, model=turn.model)
            reply = await turn.take(opening)
        except PausedTurn as paused:
            self._waiting[call.call_id] = paused.pending
            return _not_yet(call)
        except TreadleError as error:
            # What stops the whole step, whoever asked: it may do better when it is tried again, or cannot begin at all.
            if error.transient or isinstance(error, CannotStartError):
                raise
            if isinstance(error, BudgetExceededError) and error.whose != turn._whose:
                raise
            self._spending.check()
            return failure(call, f"{error.message}; {error.hint}" if error.hint else error.message)
        return result_of(call, reply.text)

    # --- the reply ---

    def _reply(self, outcome: Outcome) -> AgentReply:
        name, policy = self.definition.name, self.definition.loop_policy
        value, text = outcome.value, outcome.text
        if outcome.stop != "answer":
            text = value = self._text_at_the_end(outcome)
        elif self._shape is None:
            value = text
        elif self._is_final:
            text = json.dumps(json_value(value), ensure_ascii=False)
        if outcome.stop == "iterations" and policy.on_max_iterations == "warn_and_return":
            self.ctx.warn(f"agent '{name}' reached {_calls(policy.max_iterations)} and gave its last text")
        self._check_patterns(value)
        self._spending.check()
        return AgentReply(value=value, text=text, outcome=outcome, spending=self._spending)

    def _text_at_the_end(self, outcome: Outcome) -> str:
        """The text of a turn that ended without an answer, where the agent's rules let it count."""
        name, policy = self.definition.name, self.definition.loop_policy
        if outcome.stop == "refused":
            raise StepError(f"agent '{name}': the model refused: {outcome.text.strip()[:200]}")
        why = (
            f"it went on calling '{outcome.detail}' with the same result"
            if outcome.stop == "stalled"
            else f"it has not answered within {_calls(policy.max_iterations)}"
        )
        if self._shape is not None:
            complaint = outcome.complaint or f"'{FINAL_TOOL}' was not called"
            raise OutputError(f"agent '{name}' gave no valid reply: {complaint} ({why})")
        answered = outcome.stop == "iterations" and policy.on_max_iterations == "answer"
        if policy.on_max_iterations == "error" or not (policy.on_max_iterations == "warn_and_return" or answered):
            raise StepError(f"agent '{name}': {why}", hint="raise loop_policy.max_iterations, or set on_max_iterations")
        if not outcome.text.strip():
            raise StepError(f"agent '{name}': {why}, and its last reply has no text")
        return outcome.text

    def _check_patterns(self, value: Any) -> None:
        patterns = self.definition.constraints.forbidden_patterns
        if not patterns:
            return
        for text in _texts(json_value(value)):
            for pattern in patterns:
                if pattern.casefold() in text.casefold():
                    raise StepError(
                        f"agent '{self.definition.name}': the reply contains {pattern!r}, which is forbidden"
                    )

    def _rendered(self, template: Template | None) -> str | None:
        return None if template is None else self.ctx.render(template, self.names)


def _not_yet(call: ToolCallPart) -> ToolResultPart:
    """Stands where a result will be when the turn is gone on with; no model hears it."""
    return failure(call, "not run yet: it waits for a person")


def _calls(most: int) -> str:
    return "1 model call" if most == 1 else f"{most} model calls"


def _texts(value: Any) -> list[str]:
    """Every text in plain data."""
    found: list[str] = []
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, str):
            found.append(each)
        elif isinstance(each, Mapping):
            pending.extend(each.values())
        elif isinstance(each, list | tuple):
            pending.extend(each)
    return found
