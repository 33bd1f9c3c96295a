"""Doubles for the engine's tests: steps that do what a test says, a provider, observers, a journal, a sandbox."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import trio
from pydantic import BaseModel

import treadle
from treadle._plugins import Host
from treadle.contracts.journal import Journal, JournalEntry
from treadle.contracts.offers import LayerOffer, Offer, ProviderOffer
from treadle.contracts.provider import Features, Provider
from treadle.contracts.results import RunResult
from treadle.contracts.sandbox import Sandbox
from treadle.contracts.step import Step, StepContext, StepOutcome
from treadle.hookspecs import hookimpl
from treadle.messages import (
    AssistantMessage,
    Completed,
    ModelRequest,
    ModelResponse,
    StopReason,
    StreamEvent,
    TextDelta,
    Usage,
    UserMessage,
)
from treadle.testing import RecordingObserver

Behaviour = Callable[[StepContext], Awaitable[Any]]


# --- steps ----------------------------------------------------------------------------------------


class Act(Step):
    """Does what the test wrote for its id; without that it gives ``value`` and makes the writes in ``writing``."""

    behaviours: ClassVar[Mapping[str, Behaviour]] = {}
    value: Any = None
    writing: dict[str, Any] = {}  # noqa: RUF012 - pydantic copies defaults

    async def run(self, ctx: StepContext) -> StepOutcome:
        behaviour = self.behaviours.get(self.id)
        if behaviour is None:
            return StepOutcome(value=self.value, writes=self.writing)
        made = await behaviour(ctx)
        return made if isinstance(made, StepOutcome) else StepOutcome(value=made)


class Pick(Step):
    """A router: of ``choices``, those in ``take`` run. Fails where the test says so."""

    choices: tuple[str, ...]
    take: tuple[str, ...] = ()
    fails: bool = False

    def targets(self) -> Mapping[str, str]:
        return dict.fromkeys(self.choices, "")

    def target_fields(self) -> Mapping[str, str]:
        return {f"choices.{position}": target for position, target in enumerate(self.choices)}

    async def run(self, ctx: StepContext) -> StepOutcome:
        if self.fails:
            raise ValueError("cannot choose")
        return StepOutcome(value=",".join(self.take), not_taken=frozenset(self.choices) - frozenset(self.take))


def acting(behaviours: Mapping[str, Behaviour]) -> type[Act]:
    """The step type ``act`` with these behaviours, by step id."""
    return type("Act", (Act,), {"behaviours": behaviours, "__module__": __name__})


# --- hosts and runs -------------------------------------------------------------------------------


def host_of(
    behaviours: Mapping[str, Behaviour] | None = None,
    *,
    provider: type[Provider] | None = None,
    default_model: str | None = "offered-model",
    layers: Mapping[str, LayerOffer] | None = None,
    tools: Mapping[str, Callable[..., Any]] | None = None,
    observers: Mapping[str, Callable[..., Any]] | None = None,
    sandbox: type[Sandbox] | None = None,
    prices: Mapping[str, Callable[..., Any]] | None = None,
) -> Host:
    """A host of one plugin, ``lab``, with what a test needs."""

    def hook(name: str, offers: Mapping[str, Offer]) -> tuple[str, Callable[[], Mapping[str, Offer]]]:
        def implementation() -> Mapping[str, Offer]:
            return offers

        implementation.__name__ = name
        return name, hookimpl(implementation)

    def offers(things: Mapping[str, Callable[..., Any]] | None) -> Mapping[str, Offer]:
        return {name: Offer(thing, "for tests") for name, thing in (things or {}).items()}

    hooks = [
        hook("treadle_step_types", offers({"act": acting(behaviours or {}), "pick": Pick})),
        hook("treadle_provider_layers", layers or {}),
        hook("treadle_tools", offers(tools)),
        hook("treadle_observers", offers(observers)),
        hook("treadle_price_sources", offers(prices)),
        hook("treadle_sandboxes", offers({"fake": sandbox} if sandbox else None)),
    ]
    if provider is not None:
        offer = ProviderOffer(provider, "for tests", default_model=default_model, is_default=True)
        hooks.append(hook("treadle_providers", {"double": offer}))
    plugin = ModuleType("lab")
    vars(plugin).update(hooks)
    return Host.of({"lab": plugin})


def act(step_id: str, *depends_on: str, **fields: Any) -> dict[str, Any]:
    """A step of type ``act``, as a document has it."""
    return {"id": step_id, "type": "act", "depends_on": list(depends_on), **fields}


def pick(step_id: str, *depends_on: str, **fields: Any) -> dict[str, Any]:
    """A router, as a document has it."""
    return {"id": step_id, "type": "pick", "depends_on": list(depends_on), **fields}


def flow(host: Host, *steps: Mapping[str, Any], **document: Any) -> treadle.Workflow:
    """A checked workflow of these steps. Failed steps are not tried again unless the test says so."""
    config = {"max_retries": 0, **document.pop("config", {})}
    return treadle.build_workflow({"name": "flow", "config": config, "steps": steps, **document}, host=host)


async def run(workflow: treadle.Workflow, **how: Any) -> RunResult:
    """Run the workflow in a session of its own."""
    journal = how.pop("journal", None)
    async with treadle.open(host=workflow.host, journal=journal) as session:
        return await session.run(workflow, **how)


def statuses(result: RunResult) -> dict[str, str]:
    """Step id -> status."""
    return {step_id: str(each.status) for step_id, each in result.step_results.items()}


def failing(times: int, error: Callable[[], Exception], value: Any = None, at: list[float] | None = None) -> Behaviour:
    """Fails so many times, then gives the value. ``at`` receives the time of each attempt."""
    left = [times]

    async def behave(ctx: StepContext) -> Any:
        if at is not None:
            at.append(trio.current_time())
        if left[0]:
            left[0] -= 1
            raise error()
        return value

    return behave


# --- a provider -----------------------------------------------------------------------------------

Answer = Callable[[ModelRequest], AsyncIterator[StreamEvent]]


def response(text: str = "hello there", **fields: Any) -> ModelResponse:
    """A whole response."""
    defaults: dict[str, Any] = {
        "message": AssistantMessage.of(text),
        "stop_reason": StopReason.END_TURN,
        "finish_reason": "stop",
        "usage": Usage(input_tokens=10, output_tokens=5),
        "model": "double-1",
        "provider": "double",
    }
    return ModelResponse(**{**defaults, **fields})


async def talk(request: ModelRequest) -> AsyncIterator[StreamEvent]:
    """Two words, one by one where the request is streamed, then the whole."""
    if request.stream:
        for word in ("hello", " there"):
            await trio.lowlevel.checkpoint()
            yield TextDelta(word)
    await trio.lowlevel.checkpoint()
    yield Completed(response())


class DoubleProvider(Provider):
    """Answers by ``answer`` and counts what is open."""

    answer: ClassVar[Answer]
    cost: ClassVar[float | None]
    requests: ClassVar[list[ModelRequest]]
    log: ClassVar[list[str]]
    open_exchanges: ClassVar[int]

    async def __aenter__(self) -> DoubleProvider:
        self.log.append("opened")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.log.append("closed")

    @asynccontextmanager
    async def exchange(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        cls = type(self)
        cls.requests.append(request)
        cls.open_exchanges += 1
        try:
            await trio.lowlevel.checkpoint()
            events = cls.answer(request)
            try:
                yield events
            finally:
                with trio.CancelScope(shield=True):
                    await events.aclose()  # type: ignore[attr-defined] # every answer is an async generator
        finally:
            cls.open_exchanges -= 1

    def known_cost(self, response_model: str) -> float | None:
        return self.cost


def provider_of(answer: Answer = talk, *, cost: float | None = 0.0, **attributes: Any) -> type[DoubleProvider]:
    """A provider class of its own: its counters are the test's."""
    everything = Features(
        streaming=True, tools=True, tool_choice=True, output_schemas=True, json_objects=True, embeddings=True
    )
    fields = {"cost": cost, "requests": [], "log": [], "open_exchanges": 0, "features": everything}
    return type("Double", (DoubleProvider,), {"answer": staticmethod(answer), **fields, **attributes})


def asking(stream: bool = False, **fields: Any) -> Behaviour:
    """A step that asks the model once and gives the text."""

    async def behave(ctx: StepContext) -> Any:
        return (await ctx.complete(request(ctx.step_id, stream=stream, **fields))).text

    return behave


def request(key: str = "k", **fields: Any) -> ModelRequest:
    """A request of one user turn; without a model, so that the default is used."""
    return ModelRequest(**{"model": "", "messages": (UserMessage.of("hi"),), "key": key, **fields})


# --- observers, journals, sandboxes ---------------------------------------------------------------


class Recorder(RecordingObserver):
    """The observer of the test kit, which keeps everything, with its events in words."""

    events: list[Any]

    def told(self) -> list[str]:
        """Each event's type, with the step where there is one."""
        return [
            " ".join(filter(None, (type(event).__name__, getattr(event, "step_id", None)))) for event in self.events
        ]


class RecordingJournal(Journal):
    """Keeps every entry; raises OSError for those that ``refuses`` picks."""

    def __init__(self, refuses: Callable[[JournalEntry], bool] = lambda entry: False) -> None:
        self.kept: list[JournalEntry] = []
        self.closed = 0
        self._refuses = refuses

    def append(self, entry: JournalEntry) -> None:
        if self._refuses(entry):
            raise OSError(28, "No space left on device")
        self.kept.append(entry)

    def entries(self, run_id: str) -> Iterator[JournalEntry]:
        return (entry for entry in self.kept if entry.run_id == run_id)

    def close(self) -> None:
        self.closed += 1

    def facts(self) -> list[str]:
        """Kind and step of each entry."""
        return [f"{entry.kind} {entry.step}".strip() for entry in self.kept]


class Block(BaseModel):
    """The sandbox block of the fake sandbox."""

    enabled: bool = False


class FakeSandbox(Sandbox):
    """Counts how often it is opened and closed; can do nothing."""

    block_model = Block
    log: ClassVar[list[str]]

    async def __aenter__(self) -> FakeSandbox:
        await trio.lowlevel.checkpoint()
        self.log.append(f"opened by {trio.lowlevel.current_task().name}")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.log.append("closed")

    @classmethod
    def combine(cls, parent: BaseModel, child: BaseModel) -> BaseModel:
        raise NotImplementedError

    def check_path(self, path: str, *, write: bool) -> Path:
        raise NotImplementedError

    def check_command(self, command: str, *, cwd: str) -> None:
        raise NotImplementedError

    async def check_url(self, url: str, *, purpose: Any) -> None:
        raise NotImplementedError

    async def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        raise NotImplementedError

    async def write(self, path: str, data: bytes) -> Path:
        raise NotImplementedError

    async def run(
        self, command: str, *, cwd: str = ".", timeout: float | None = None, max_bytes: int | None = None
    ) -> Any:
        raise NotImplementedError

    def http(self, purpose: Any) -> Any:
        raise NotImplementedError


def sandbox_class() -> type[FakeSandbox]:
    """A fake sandbox class with a log of its own."""
    return type("Fake", (FakeSandbox,), {"log": []})


def chain(count: int, **fields: Any) -> Sequence[dict[str, Any]]:
    """Steps ``s0`` to ``s<count-1>``, each after the one before."""
    return [act(f"s{n}", *([f"s{n - 1}"] if n else []), **fields) for n in range(count)]


async def ask_once(provider: Any, behaviour: Any = None, **how: Any) -> tuple[Any, Recorder, RecordingJournal]:
    """Run one step `a` that asks the provider: the run's result, its events, its journal."""
    recorder, journal = Recorder(), RecordingJournal()
    host = host_of({"a": behaviour or asking()}, provider=provider, **how)
    result = await run(flow(host, act("a")), observers=[recorder], journal=journal)
    return result, recorder, journal


def heard(recorder: Recorder, kind: type) -> list[Any]:
    return [event for event in recorder.events if isinstance(event, kind)]
