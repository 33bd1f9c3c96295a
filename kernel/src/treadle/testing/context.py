"""A step's context without an engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import trio

from treadle._language import ArgumentTree, Expression, StatePath, Template
from treadle._language.paths import MISSING, assign
from treadle.contracts.config import RunConfig
from treadle.contracts.offers import Role
from treadle.contracts.provider import Exchange, ProviderSettings
from treadle.contracts.results import Pending
from treadle.contracts.step import StepContext
from treadle.contracts.tool import Tool, ToolContext
from treadle.errors import NotInstalledError
from treadle.messages import (
    Completed,
    EmbedRequest,
    EmbedResponse,
    ModelRequest,
    ModelResponse,
    StreamEvent,
    TextDelta,
)
from treadle.testing.doubles import EchoProvider, Reply, scripted

__all__ = ["FakeContext"]


class FakeContext(StepContext):
    """What a step may use, in a test of one step or memory: nothing is journalled, metered or retried.

    What happened is in ``requests``, ``texts`` and ``warnings``.

    :param replies: what the model answers, in order; it repeats the last user text without them.
    :param tools: what :meth:`call_tool` finds, by the name of each.
    :param roles: what :meth:`role` gives: the object, or a mapping of objects by name.
    :param answers: what :meth:`answer` finds, by the name of a question or its text.
    """

    def __init__(
        self,
        state: Mapping[str, Any] | None = None,
        *,
        replies: Sequence[Reply] | None = None,
        tools: Iterable[Tool] = (),
        roles: Mapping[Role, Any] | None = None,
        answers: Mapping[str, str] | None = None,
        config: RunConfig | None = None,
    ) -> None:
        self.run_id, self.step_id, self.attempt = "run", "step", 1
        self.config = config or RunConfig()
        self.requests: list[ModelRequest] = []
        self.texts: list[str] = []
        self.warnings: list[str] = []
        self._state = dict(state or {})
        self._tools = {tool.name: tool for tool in tools}
        self._roles: Mapping[Any, Any] = roles or {}
        self._answers = answers or {}
        kind = EchoProvider if replies is None else scripted(*replies)
        self._provider = kind("scripted", ProviderSettings())

    @property
    def state(self) -> Mapping[str, Any]:
        """The state that was given, and what :meth:`apply` wrote."""
        return self._state

    def apply(self, writes: Mapping[str, Any]) -> None:
        """Write values by path, as the engine does when a step succeeds."""
        for text, value in writes.items():
            path = StatePath.parse_state(text)
            root = str(path.parts[0])
            self._state[root] = assign(self._state.get(root, MISSING), path, value)

    def render(self, template: Template, names: Mapping[str, Any] | None = None) -> str:
        """The template's text."""
        return template.render(self._state, names, strict=self.config.strict_templates, warn=self.warn)

    def render_arguments(self, arguments: ArgumentTree) -> dict[str, Any]:
        """Arguments with their templates filled in."""
        rendered: dict[str, Any] = arguments.render(self._state, strict=self.config.strict_templates, warn=self.warn)
        return rendered

    def evaluate(self, expression: Expression, names: Mapping[str, Any] | None = None) -> Any:
        """The expression's value; ``steps`` is empty."""
        return expression.evaluate({"state": self._state, "steps": {}, **(names or {})})

    def exchange(self, request: ModelRequest) -> Exchange:
        """Ask the model."""
        return self._exchange(request)

    @asynccontextmanager
    async def _exchange(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        await trio.lowlevel.checkpoint()
        self.requests.append(request)
        async with self._provider.exchange(request) as events:
            yield events

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Ask the model and wait."""
        response: ModelResponse | None = None
        async with self.exchange(request) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    self.emit_text(event.text)
                elif isinstance(event, Completed):
                    response = event.response
        assert response is not None, "a double ends with its response"
        return response

    async def embed(self, request: EmbedRequest) -> EmbedResponse:
        """Refused, as the doubles have no embeddings."""
        return await self._provider.embed(request)

    async def call_tool(self, name: str, arguments: Mapping[str, Any], *, call_id: str | None = None) -> Any:
        """Call one of the tools that were given."""
        context = ToolContext(run_id=self.run_id, step_id=self.step_id, call_id=call_id or "call", warn=self.warn)
        return await self.tool(name).call(arguments, context)

    def within_budget(self, limit_usd: float, *, whose: str, soft: bool = False) -> StepContext:
        """This context: nothing costs anything here."""
        return self

    def tool(self, name: str) -> Tool:
        """One of the tools that were given."""
        if name not in self._tools:
            raise NotInstalledError(f"no tool '{name}'", hint="give it to FakeContext(tools=[...])")
        return self._tools[name]

    def answer(self, pending: Pending) -> str | None:
        """What was given for the question."""
        return self._answers.get(pending.name or pending.question, self._answers.get(pending.question))

    def was_asked(self, pending: Pending) -> bool:
        """Whether there is an answer."""
        return self.answer(pending) is not None

    def emit_text(self, text: str) -> None:
        """Keep it."""
        self.texts.append(text)

    def warn(self, message: str) -> None:
        """Keep it."""
        self.warnings.append(message)

    def role(self, role: Role, name: str | None = None) -> Any:
        """What was given for the role."""
        found = self._roles.get(role)
        if isinstance(found, Mapping):
            found = next(iter(found.values()), None) if name is None else found.get(name)
        if found is None:
            raise NotInstalledError(
                f"no {role.replace('_', ' ')}{f' {name!r}' if name else ''}", hint="give it to FakeContext(roles={...})"
            )
        return found
