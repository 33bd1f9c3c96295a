"""A session: what runs share - open providers, tools, prices, the journal."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from treadle._arguments import expect
from treadle._document import Workflow, load_workflow
from treadle._document.estimating import CallEstimate, estimate
from treadle._engine.going_on import record_answers
from treadle._engine.journal import MemoryJournal
from treadle._engine.observers import CallbackObserver
from treadle._engine.resources import Resource
from treadle._engine.resuming import Record
from treadle._engine.run import Run
from treadle._engine.streaming import RunStream, stream
from treadle._plugins.objects import GivenProvider, given_tools
from treadle._settings.blocks import journal_of, layers_of, prices_of
from treadle._settings.providers import build_provider
from treadle.contracts.budget import Budget, BudgetTerms
from treadle.contracts.events import Observer, RunEvent
from treadle.contracts.journal import Journal
from treadle.contracts.memory import TokenCounter
from treadle.contracts.offers import LayerOffer, LayerScope, Role
from treadle.contracts.provider import Provider, ProviderLayer
from treadle.contracts.results import RunResult
from treadle.contracts.sources import PriceSource
from treadle.contracts.tool import Tool
from treadle.messages import ModelRequest, Usage
from treadle.nurseries import open_nursery

if TYPE_CHECKING:
    from treadle._plugins import Host

__all__ = ["Session", "open_session"]


class Session:
    """Runs workflows one after another or at once. Made by :func:`treadle.open`, and closed with it.

    Clients, connection pools and a loaded model are opened on first use and shared by all runs.
    """

    def __init__(self, nursery: trio.Nursery, host: Host, journal: Journal) -> None:
        self.host = host
        self.journal = journal
        self._settles = type(journal).settle is not Journal.settle
        if self._settles:
            journal.will_settle()
        self.call_layers: Sequence[ProviderLayer] = [layer for _, layer in _layers(host, "call")]
        self._around: dict[str, Sequence[ProviderLayer]] = {}
        self._shared = _layers(host, "candidate")
        self._nursery = nursery
        self._providers: dict[tuple[str, str], Resource[Provider]] = {}
        self._built: dict[tuple[str, str], Provider] = {}
        self._singles: dict[tuple[str, str], Any] = {}
        self._prices: Sequence[PriceSource] | None = None
        self._price_sources: Resource[Sequence[PriceSource]] = Resource(nursery, partial(_price_sources, host))

    @property
    def waits_for_journal(self) -> bool:
        """Whether something was appended that may not be kept yet."""
        return self._settles and not self.journal.is_settled

    async def run(
        self,
        workflow: Workflow | str | os.PathLike[str],
        *,
        state: Mapping[str, Any] | None = None,
        on_event: Callable[[RunEvent], object] | None = None,
        observers: Sequence[Observer] = (),
        tools: Iterable[Tool] = (),
        run_id: str | None = None,
    ) -> RunResult:
        """Run a workflow, or the file of one, to its end.

        :param state: initial values that win over the workflow's own, key by key.
        :param tools: those of this run alone, which win over the session's.
        :param on_event: called with every event of the run; see :mod:`treadle.contracts.events`.
        :raises DocumentError: the file has problems.
        :raises StateError: a value of ``state`` cannot be kept in a state.
        """
        how: dict[str, Any] = {"state": state, "on_event": on_event, "observers": observers}
        return await self.start(workflow, **how, tools=tools, run_id=run_id).execute()

    def stream(
        self,
        workflow: Workflow | str | os.PathLike[str],
        *,
        state: Mapping[str, Any] | None = None,
        observers: Sequence[Observer] = (),
        run_id: str | None = None,
    ) -> AbstractAsyncContextManager[RunStream]:
        """Run a workflow, or the file of one, and iterate over its events as they come.

        .. code-block:: python

            async with session.stream(workflow) as run:
                async for event in run:
                    print(event)
            print(run.result.status)

        Leaving the context before the last event ends the run, whose result then says that it was cancelled.

        :raises DocumentError: the file has problems.
        :raises StateError: a value of ``state`` cannot be kept in a state.
        """
        reader = RunStream()
        return stream(reader, self.start(workflow, state=state, observers=[*observers, reader], run_id=run_id))

    def start(
        self,
        workflow: Workflow | str | os.PathLike[str],
        *,
        state: Mapping[str, Any] | None = None,
        on_event: Callable[[RunEvent], object] | None = None,
        observers: Sequence[Observer] = (),
        tools: Iterable[Tool] = (),
        run_id: str | None = None,
        earlier: Record | None = None,
        budget: Budget | None = None,
    ) -> Run:
        """A run that is ready: ``await run.execute()`` runs it, ``run.cancel()`` ends it early with a result.

        :param earlier: the record of a run that this one goes on with; see :meth:`resume`.
        :param budget: one that it spends from besides its own; see :meth:`new_budget`.
        """
        expect(Mapping | None, "a mapping of keys to values", state=state)
        expect(Callable | None, "a function of one event", on_event=on_event)
        tools = given_tools(tools)
        workflow = self._loaded(workflow, state or ())
        installed = [registered.load()() for registered in self.host.registry.all("observer").values()]
        given = [*observers, *([CallbackObserver(on_event)] if on_event else [])]
        run_id = earlier.run_id if earlier else run_id
        how: dict[str, Any] = {"state": state, "tools": tools, "run_id": run_id, "earlier": earlier, "budget": budget}
        return Run(self, workflow, observers=[*installed, *given], **how)

    async def resume(
        self,
        run_id: str,
        *,
        workflow: Workflow | str | os.PathLike[str] | None = None,
        state: Mapping[str, Any] | None = None,
        assume: Mapping[str, str] | None = None,
        answers: Mapping[str, str] | None = None,
        on_event: Callable[[RunEvent], object] | None = None,
        observers: Sequence[Observer] = (),
        tools: Iterable[Tool] = (),
    ) -> RunResult:
        """Go on with a run that was interrupted, paused or failed, as this session's journal tells it.

        Steps that succeeded are not run again, and finished calls of models and tools are not made again in the
        attempts that were under way. What failed is tried anew. Usage, cost, attempts and time go on.

        :param workflow: another form of it to go on with; the one that was run without it.
        :param state: values that were redacted in the record, or are to be others.
        :param assume: of ``once`` calls that may have had their effect, by call id: ``done`` or ``not-done``. Without
            it such a step pauses, and lists its calls.
        :param answers: to what paused steps wait for, by gate (``Pending.gate``); an empty name is the only one.
            They are recorded: whoever goes on later is not asked again.
        :raises ConfigurationError: there is no such run, it has succeeded, or something it needs is not given, such
            as a tool that it had; or one of the answers is none.
        """
        record = Record.of(self.journal, run_id, given=state or {}, assume=assume, answers=answers)
        if workflow is not None:
            workflow = self._loaded(workflow, state or ())
        tools = self._tools_of(record, workflow, tools)
        known = record.checked_workflow(self.host) if workflow is None else workflow
        how: dict[str, Any] = {"state": state, "on_event": on_event, "observers": observers, "tools": tools}
        return await self.start(known, **how, earlier=record).execute()

    async def fork(
        self,
        run_id: str,
        *,
        at: str,
        workflow: Workflow | str | os.PathLike[str] | None = None,
        state: Mapping[str, Any] | None = None,
        on_event: Callable[[RunEvent], object] | None = None,
        observers: Sequence[Observer] = (),
        tools: Iterable[Tool] = (),
    ) -> RunResult:
        """Begin a new run in the middle of another one, as this session's journal tells it.

        Finished steps are kept with their results, but for the step ``at`` and all that comes after it: these run
        anew. The other run is not changed, and may be one that has succeeded.

        :param workflow: another form of it to go on with; the one that was run without it.
        :param state: whole values by key, which win over what the run had and what the kept steps wrote.
        :raises ConfigurationError: there is no such run or step, or something it needs is not given: a value that was
            redacted, a tool that it had.
        """
        earlier = Record(run_id, self.journal.entries(run_id))
        if workflow is not None:
            workflow = self._loaded(workflow, (*earlier.state, *(state or ())))
        tools = self._tools_of(earlier, workflow, tools)
        known = earlier.checked_workflow(self.host) if workflow is None else workflow
        record = earlier.fork(self.journal, known, at, state)
        how: dict[str, Any] = {"on_event": on_event, "observers": observers, "tools": tools}
        return await self.start(known, **how, earlier=record).execute()

    async def answer(self, run_id: str, answers: Mapping[str, str]) -> None:
        """Record answers to what a paused run waits for, without going on with it; :meth:`resume` does that.

        Nothing comes between reading the record and this: of two answers to a gate in one process the first is taken.

        The tools that the run had need not be there: whoever goes on has to give them.

        :raises ConfigurationError: as :meth:`resume` has it, but for these.
        """
        record = Record.of(self.journal, run_id, given=None, answers=answers)
        record_answers(self.start(record.checked_workflow(self.host), earlier=record))

    # --- for runs -------------------------------------------------------------------------------------

    async def provider(self, name: str, overrides: Mapping[str, Mapping[str, Any]]) -> Provider:
        """The provider of that name, opened on first use; ``overrides`` are settings by kind of provider."""
        own, key = self._overrides(name, overrides)
        resource = self._providers.get(key)
        if resource is None:
            build = partial(build_provider, self.host, name, own)
            resource = self._providers[key] = Resource(self._nursery, build)
        return await resource.get()

    def built_provider(self, name: str, overrides: Mapping[str, Mapping[str, Any]]) -> Provider:
        """The same, to be asked what it takes; it is not opened.

        :raises ConfigurationError: it cannot be built.
        """
        own, key = self._overrides(name, overrides)
        if key not in self._built:
            self._built[key] = build_provider(self.host, name, own)
        return self._built[key]

    def tool(self, name: str) -> Tool:
        """The tool of that name.

        :raises NotInstalledError: there is none.
        """
        tool: Tool = self._single("tool", name)
        return tool

    def role(self, role: Role, needed_by: str, name: str | None = None) -> Any:
        """What serves a role: under that name, or the one that the deployment has."""
        return self._single(role, self.host.sole(role, needed_by).name if name is None else name)

    def new_budget(self, terms: BudgetTerms) -> Budget:
        """A budget; several runs may share one, see :meth:`start`.

        :raises NotInstalledError: nothing installed keeps budgets.
        """
        budget: Budget = self.host.sole("budget", f"budget_usd of {terms.whose}").load()(terms)
        return budget

    def token_counter(self) -> TokenCounter | None:
        """What counts tokens here, None where nothing does or several could."""
        chosen, names = self.host.settings.roles.token_counter, self.host.registry.names("token_counter")
        if chosen is None and len(names) != 1:
            return None
        counter: TokenCounter = self._single("token_counter", chosen or next(iter(names)))
        return counter

    def layers_around(self, provider: str) -> Sequence[ProviderLayer]:
        """The layers around each attempt at that provider, outermost first.

        :raises PluginError: one of them cannot be imported.
        :raises ConfigurationError: the provider's limits are not valid.
        """
        found = self._around.get(provider)
        if found is None:
            limited = layers_of(self.host, provider)
            both = sorted([*self._shared, *limited], key=lambda each: each[0]) if limited else self._shared
            found = self._around[provider] = [layer for _, layer in both]
        return found

    def expect_price(self, provider: Provider, model: str) -> None:
        """Begin to load the price sources, where a call of that model will have to be priced."""
        if self._prices is None and provider.known_cost(model) is None:
            self._price_sources.begin()

    async def price(self, provider: Provider, model: str, usage: Usage) -> float | None:
        """What a call cost, None where nobody knows."""
        known = provider.known_cost(model)
        if known is not None:
            return known
        if self._prices is None:
            self._prices = await self._price_sources.get()
        if not self._prices:
            return None
        kind = self.host.get("provider", provider.name).name
        base_url = getattr(provider.settings, "base_url", None)
        for source in self._prices:
            price = source.price(provider=provider.name, model=model, usage=usage, kind=kind, base_url=base_url)
            if price is not None:
                return price
        return None

    async def estimate(self, workflow: Workflow, request: ModelRequest) -> CallEstimate:
        """What a call of that workflow would come to. None is made: no provider is opened, no key is read.

        :raises ConfigurationError: there is no such provider, or it has no model.
        """
        return await estimate(self, workflow, request)

    def close(self) -> None:
        """Let everything that was opened end; the session's nursery waits for it."""
        for resource in self._providers.values():
            resource.close()
        self._price_sources.close()

    def _loaded(self, workflow: Workflow | str | os.PathLike[str], state_keys: Iterable[str]) -> Workflow:
        if isinstance(workflow, Workflow):
            return workflow
        return load_workflow(workflow, host=self.host, state_keys=state_keys)

    def _tools_of(self, record: Record, workflow: Workflow | None, tools: Iterable[Tool]) -> Sequence[Tool]:
        """The tools to go on with.

        :raises ConfigurationError: one that the run had is missing.
        """
        tools = given_tools(tools)
        if record.facts.get("tools"):
            hint = "give it in tools=, or go on without it with another form of the workflow, workflow="
            record.check_tools({*self.host.names("tool"), *(each.name for each in tools)}, workflow, hint=hint)
        return tools

    def _overrides(self, name: str, overrides: Mapping[str, Mapping[str, Any]]) -> tuple[Any, tuple[str, str]]:
        """What is overridden for that provider, and the key under which one of these settings is kept."""
        own = overrides.get(self.host.get("provider", name).name) if overrides else None
        if own and isinstance(self.host.load("provider", name), GivenProvider):
            own = None  # there is one of it, which has its settings
        return own, (name, repr(own) if own else "")

    def _single(self, role: Role, name: str) -> Any:
        found = self._singles.get((role, name))
        if found is None:
            loaded = self.host.load(role, name)
            found = self._singles[role, name] = loaded if isinstance(loaded, Tool) else loaded()
        return found


_Placed = tuple[tuple[int, str], ProviderLayer]
"""A layer with its place among others."""


def _layers(host: Host, scope: LayerScope) -> list[_Placed]:
    """The provider layers of a scope, outermost first, but for those of one provider."""
    found = [
        ((each.offer.order, each.name), each.load()())
        for each in host.registry.all("provider_layer").values()
        if isinstance(each.offer, LayerOffer) and each.offer.scope == scope and not each.offer.limits
    ]
    return sorted(found, key=lambda placed: placed[0])


@asynccontextmanager
async def _price_sources(host: Host) -> AsyncIterator[Sequence[PriceSource]]:
    yield await trio.to_thread.run_sync(prices_of, host)


@asynccontextmanager
async def open_session(host: Host, journal: Journal | None = None) -> AsyncIterator[Session]:
    """A session for as long as the context lasts. Leaving it waits until everything opened has been closed."""
    expect(Journal | None, "a Journal, as treadle.installed_journal(host) opens one", journal=journal)
    chosen = host.settings.roles.journal
    kept = (MemoryJournal() if chosen is None else journal_of(host, chosen)) if journal is None else journal
    try:
        async with open_nursery() as nursery:
            session = Session(nursery, host, kept)
            try:
                yield session
            finally:
                session.close()
    finally:
        kept.close()
