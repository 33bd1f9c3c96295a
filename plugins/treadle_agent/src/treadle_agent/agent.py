"""Agents in programs: a turn without a workflow around it."""

from __future__ import annotations

import copy
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from pydantic import PrivateAttr

import treadle
from treadle import DocumentError, StepContext, StepOutcome, Tool, ToolCallPart, TreadleError, Usage
from treadle.threads import run_on_trio
from treadle_agent import plugin
from treadle_agent.definition import AgentDefinition
from treadle_agent.step import AgentStep

if TYPE_CHECKING:
    from treadle import Host, RunEvent, Session
    from treadle_agent.turn import AgentReply

__all__ = ["Agent", "AgentError", "AgentResult"]

Ask = Callable[[str, Mapping[str, Any]], bool | Awaitable[bool]]
"""Whether a call of that tool with those arguments may run. Async functions run on trio, others in a thread."""

_STEP = "turn"


class AgentError(TreadleError):
    """A turn failed, or could not start.

    :ivar cost_usd: what it spent; None where nobody knows.
    :ivar usage: the tokens that it took; None where it could not start.
    """

    cost_usd: float | None = 0.0
    usage: Usage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentResult:
    """What a turn came to.

    :param reply: the text, or with an ``output_schema`` its value.
    :param conversation: the conversation with the new turns, to be passed to the next one; None where nothing that
        keeps conversations is installed and none was given.
    :param cost_usd: what the turn spent, agents used as tools included; None where nobody knows.
    :param iterations: the agent's own model calls.
    :param warnings: what did not stop the turn.
    """

    reply: Any
    conversation: Any
    cost_usd: float | None
    iterations: int
    usage: Usage
    warnings: tuple[str, ...] = ()


class _Invocation(AgentStep):
    """The one step of an agent's turn; it keeps what its result does not hold."""

    _approve: Ask | None = PrivateAttr(default=None)
    _replies: list[AgentReply] = PrivateAttr(default_factory=list)

    async def run(self, ctx: StepContext) -> StepOutcome:
        reply, outcome = await self.take(ctx, partial(_asked, self._approve) if self._approve is not None else None)
        self._replies.append(reply)
        return outcome


async def _asked(ask: Ask, call: ToolCallPart) -> bool:
    import trio

    answer = await trio.to_thread.run_sync(ask, call.tool_name, call.arguments or {}, abandon_on_cancel=True)
    return bool(await answer if isawaitable(answer) else answer)


class Agent:
    """A model with its instructions, tools and rules.

    .. code-block:: python

        agent = Agent.from_yaml("desk.yaml")
        result = await agent.invoke("My bill seems wrong")
        result = await agent.invoke("And now?", conversation=result.conversation)

    There is no engine around a turn: it is not tried again, and no budget but its own holds.

    :param definition: as its file has it: an :class:`AgentDefinition`, or a mapping of its fields.
    :param gateway: the session (``treadle.open()``) whose providers are asked; a session of its own for each turn
        without one.
    :param tool_registry: tools that need not be installed; they win over those that are.
    :param model: for a definition that names none, and for agents below it that do not; the provider's own without it.
    :param provider: the provider; without it the deployment's.
    :param approve: asked about each call of the tools that the definition lists under ``approve``.
    :raises DocumentError: the mapping has problems, each told by its dotted field.
    :raises TypeError: something is of the wrong kind; it is named.
    """

    def __init__(
        self,
        definition: AgentDefinition | Mapping[str, Any],
        *,
        gateway: Session | None = None,
        tool_registry: Iterable[Tool] | None = None,
        model: str | None = None,
        provider: str | None = None,
        approve: Ask | None = None,
    ) -> None:
        _check_kinds(
            ("tool_registry", tool_registry, Iterable, "a list of tools, or a ToolRegistry"),
            ("model", model, str, "the name of a model"),
            ("provider", provider, str, "the name of a provider"),
            ("approve", approve, Callable, "a function of a tool's name and arguments"),
        )
        if gateway is not None and not hasattr(gateway, "host"):
            raise TypeError(f"gateway: takes a session of treadle.open(), not {type(gateway).__name__}")
        if isinstance(definition, str | os.PathLike):
            raise TypeError(f"definition: Agent.from_yaml({os.fspath(definition)!r}) reads a file")
        if not isinstance(definition, AgentDefinition):
            _check_kinds(("definition", definition, Mapping, "an AgentDefinition, or a mapping of its fields"))
            definition = treadle.read_document(definition, AgentDefinition)
        self.definition = definition
        self._gateway = gateway
        self._tools: Sequence[Tool] = tuple(tool_registry or ())
        self._model = model or definition.model  # agents below that name none have it too
        self._provider = provider
        self._approve = approve

    @classmethod
    def from_yaml(cls, path: str | os.PathLike[str], **options: Any) -> Agent:
        """An agent from its file; ``options`` are those of the class.

        :raises DocumentError: the file has problems, each told where it stands.
        """
        _check_kinds(("path", path, (str, os.PathLike), "the path of a file; Agent(...) takes a mapping"))
        return cls(treadle.read_document(os.fspath(path), AgentDefinition), **options)

    async def invoke(
        self,
        prompt: str,
        *,
        conversation: Any = None,
        state: Mapping[str, Any] | None = None,
        on_event: Callable[[RunEvent], object] | None = None,
    ) -> AgentResult:
        """Take one turn. Works under trio and under asyncio.

        :param conversation: what an earlier turn gave; it is copied, not changed.
        :param state: what the system prompt's templates read.
        :param on_event: called with what happens in the turn; text comes piece by piece where the agent may stream.
        :raises AgentError: the prompt is empty, nothing names a model, the turn could not start, or it failed.
        """
        _check_kinds(
            ("prompt", prompt, str, "a text"),
            ("state", state, Mapping, "a mapping of keys to values"),
            ("on_event", on_event, Callable, "a function of one event"),
        )
        if isinstance(conversation, AgentResult):
            raise TypeError("conversation: takes what an earlier turn gave as result.conversation, not its result")
        if not prompt.strip():
            raise AgentError(f"agent '{self.definition.name}': the prompt is empty")
        async with AsyncExitStack() as stack:
            session = self._gateway
            if session is None:
                session = await stack.enter_async_context(treadle.open())
            try:
                return await self._turn(session, prompt, conversation, state or {}, on_event)
            except AgentError:
                raise
            except DocumentError as error:
                if missing := next((each.message for each in error.problems if each.code == "no-model"), None):
                    raise AgentError(
                        f"agent '{self.definition.name}': {missing}", hint="set it in its file, or pass model=..."
                    ) from error
                raise AgentError(error.message, hint=error.hint) from error
            except TreadleError as error:
                raise AgentError(error.message, hint=error.hint, transient=error.transient) from error

    def invoke_sync(
        self, prompt: str, *, conversation: Any = None, state: Mapping[str, Any] | None = None
    ) -> AgentResult:
        """The same, for programs that are not asynchronous, and for notebooks, whose asyncio loop stands still.

        Not with a ``gateway``, which belongs to a program that is asynchronous.

        :raises RuntimeError: trio is running.
        """
        import trio

        if trio.lowlevel.in_trio_run():
            raise RuntimeError("invoke_sync would bring this program's trio to a stop; write await agent.invoke(...)")
        if self._gateway is not None:
            raise AgentError("an agent with a gateway is for asynchronous programs; leave gateway= out")
        return run_on_trio(partial(self.invoke, prompt, conversation=conversation, state=state))

    async def _turn(
        self,
        session: Session,
        prompt: str,
        conversation: Any,
        state: Mapping[str, Any],
        on_event: Callable[[RunEvent], object] | None,
    ) -> AgentResult:
        host = session.host
        keeps = conversation is not None or bool(host.names("memory"))
        key = _free_key("conversation", state)
        workflow, step = self._workflow(host, prompt, key if keeps else None, state, stream=on_event is not None)
        given = {**state, key: copy.deepcopy(conversation)} if conversation is not None else dict(state)
        result = await session.run(workflow, state=given, tools=self._tools, on_event=on_event)
        turn = result.step_results[_STEP]
        if not step._replies or not result.ok:
            error = AgentError(
                turn.error or result.error or "the turn was cancelled",
                transient=turn.error_classification == "transient",
            )
            error.cost_usd, error.usage = turn.cost_usd, turn.usage
            raise error from turn.exception
        (reply,) = step._replies
        return AgentResult(
            reply=reply.value,
            conversation=result.final_state.get(key) if keeps else None,
            cost_usd=turn.cost_usd,
            iterations=reply.outcome.iterations,
            usage=turn.usage,
            warnings=tuple(each.message for each in result.warnings),
        )

    def _workflow(
        self, host: Host, prompt: str, conversation: str | None, state: Mapping[str, Any], *, stream: bool
    ) -> tuple[treadle.Workflow, _Invocation]:
        """A workflow of one step. The prompt is text and no template: it comes from the program's user."""
        config = {name: each for name, each in (("provider", self._provider), ("model", self._model)) if each}
        key = _free_key("prompt", state)
        fields: dict[str, Any] = {"id": _STEP, "type": "agent", "agent": self.definition, "prompt": f"{{state.{key}}}"}
        if conversation is not None:
            fields["conversation"] = f"state.{conversation}"
        step = _Invocation.model_validate({**fields, "retry": {"max_retries": 0}})
        step._approve = self._approve
        known = host if "agent" in host.names("step_type") else host.extended({"treadle-agent": plugin})
        checked = treadle.build_workflow(
            {
                "name": self.definition.name,
                "config": {**config, "stream": stream},
                "state": {**state, key: prompt},
                "steps": [
                    {**fields, "agent": self.definition.model_dump(mode="json", by_alias=True, exclude_unset=True)}
                ],
            },
            host=known,
        )
        return replace(checked, steps=(step,)), step


def _check_kinds(*arguments: tuple[str, Any, Any, str]) -> None:
    """Refuse what is of another kind than it says: name, value, kind, and the kind in words."""
    for name, value, kind, takes in arguments:
        is_left_out = value is None and name not in ("prompt", "path", "definition")
        if not is_left_out and (not isinstance(value, kind) or (kind is Iterable and isinstance(value, str))):
            raise TypeError(f"{name}: takes {takes}, not {type(value).__name__}")


def _free_key(name: str, state: Mapping[str, Any]) -> str:
    """A state key that the caller does not use."""
    while name in state:
        name += "_"
    return name
