"""The way of a model call: candidates in turn, layers around each and all, every event metered and journalled."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, cast

import trio

from treadle._dataclasses import dataclass
from treadle._engine.fallback import AttemptFailure, all_failed, fallback_warning
from treadle._engine.journal import settle
from treadle._engine.spending import Reservation
from treadle._settings.candidates import Candidate, candidates_for
from treadle._settings.providers import refused, with_model
from treadle.contracts.events import ModelCallFailed, ModelCallFinished, ModelCallStarted
from treadle.errors import (
    ConfigurationError,
    CredentialError,
    ProviderError,
    ResponseError,
    TreadleError,
    UnsupportedError,
)
from treadle.messages import (
    Completed,
    EmbedRequest,
    EmbedResponse,
    ModelRequest,
    ModelResponse,
    StreamEvent,
    TextDelta,
    Usage,
)
from treadle.nurseries import lone_error

if TYPE_CHECKING:
    from treadle._engine.meter import Meter
    from treadle._engine.resuming import StepRecord
    from treadle._engine.run import Run
    from treadle._engine.session import Session
    from treadle.contracts.budget import Budget
    from treadle.contracts.provider import Exchange, Provider, ProviderLayer

__all__ = ["CallSite", "Gateway"]


_Prepared = tuple["Provider", ModelRequest]


@dataclass(slots=True)
class CallSite:
    """Who calls: a step of a run, in one attempt. ``ordinals`` numbers the attempt's calls from 1.

    One for each call; ``kept`` is the record of an attempt that an earlier process began, ``asked`` what the step asked
    before any layer or fallback changed it, and ``answered`` says whether a response has been counted in it.
    ``budgets`` hold the call, outermost first.
    """

    run: Run
    step_id: str
    attempt: int
    meter: Meter
    ordinals: Iterator[int]
    budgets: Sequence[Budget] = ()
    kept: StepRecord | None = None
    asked: ModelRequest | None = None
    answered: bool = False


class Gateway:
    """Calls models for one run."""

    def __init__(self, session: Session, provider_name: str | None, overrides: dict[str, dict[str, Any]]) -> None:
        self._session = session
        self._provider_name = provider_name
        self._overrides = overrides

    def provider_name(self) -> str:
        """The provider of this run, by the name that it has here.

        :raises ConfigurationError: none is named and none is the default.
        """
        host = self._session.host
        return host.resolve("provider", self._provider_name or host.default_provider())

    @asynccontextmanager
    async def exchange(self, request: ModelRequest, site: CallSite) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        """One model call; see :meth:`Provider.exchange`."""
        layers = self._session.call_layers
        own = self._session.built_provider(self.provider_name(), self._overrides)
        request = site.asked = with_model(self._session.host, request, own)
        recalled = _recall(site, request)
        if isinstance(recalled, ModelResponse):
            async with aclosing(_alone(Completed(recalled))) as only:
                yield only
            return
        events = _Call(site, own, request=request)
        try:
            async with _through(layers, partial(self._attempts, own, site))(request) as events.source:
                yield events if layers else events.source
        except BaseException as error:
            cause = lone_error(error)
            if isinstance(cause, CredentialError) and self._provider_name is None:
                # Whoever has not asked for this provider may not want it.
                hint = f"{cause.hint or 'set it'}, or name another provider than '{own.name}', which is the default"
                raise CredentialError(cause.message, hint=hint) from cause
            _raise_lone(error)

    @asynccontextmanager
    async def _attempts(self, own: Provider, site: CallSite, request: ModelRequest) -> AsyncIterator[_Metered]:
        """Candidates in turn, until one gives its first event; what follows is that one's.

        The first event is waited for here and not when the step asks for it: a layer's nursery or time limit that was
        opened in the middle of the step's own could not be closed after it.
        """
        build, named = partial(self._session.built_provider, overrides={}), self._provider_name is not None
        candidates = candidates_for(self._session.host, own, request.model, build, named=named)
        only = len(candidates) == 1
        failures: list[AttemptFailure] = []
        for each in candidates:
            # Errors of these classes ask the next one. Who cannot be opened is passed over, whatever the error.
            passing: tuple[type[Exception], ...] = () if only else (Exception,)
            try:
                provider, asked = await self._prepared(each, own, request, site.run)
                passing = () if only else (ProviderError, ConfigurationError)
                async with self._attempt(provider, asked, site) as events:
                    if not only:
                        await events.look_ahead()
                    passing = ()
                    if failures:
                        site.run.warn(site.step_id, fallback_warning(failures, each))
                    yield events
            except passing as error:
                failures.append(AttemptFailure(each, error))
            else:
                return
        raise all_failed(failures) from failures[-1].error

    async def _prepared(self, candidate: Candidate, own: Provider, request: ModelRequest, run: Run) -> _Prepared:
        """The open provider and the request as it takes it.

        :raises UnsupportedError: it does not; then it is not opened.
        """
        name, built = candidate.name, candidate.provider
        if built is None:
            assert candidate.error is not None
            raise candidate.error
        if candidate.model is None:
            reason = f"it has no model '{request.model}', and no fallback_model is set for it"
            raise UnsupportedError(refused(name, [reason]), provider=name)
        stream = request.stream and built.features.streaming  # how a reply comes is a wish, not a need
        if candidate.model != request.model or stream != request.stream:
            request = replace(request, model=candidate.model, stream=stream)
        if refusals := built.refusals(request):
            raise UnsupportedError(refused(name, refusals), provider=name)
        # What a workflow sets for its own provider is not sent along to another one of that kind.
        return await self._opened(name, self._overrides if name == own.name else {}, run), request

    async def _opened(self, name: str, overrides: dict[str, dict[str, Any]], run: Run) -> Provider:
        """The provider, which knows what it has answered in the run so far."""
        provider = await self._session.provider(name, overrides)
        if (earlier := run._root._earlier) is not None:
            earlier.tell(provider)
        return provider

    @asynccontextmanager
    async def _attempt(self, provider: Provider, request: ModelRequest, site: CallSite) -> AsyncIterator[_Metered]:
        """One provider asked once, through the layers of each candidate."""
        events = _Metered(site, provider)
        if site.budgets:
            events.reserved = await Reservation.of(provider, request, site)
            request = cast(ModelRequest, events.reserved.call.request)
        try:
            events.begin(request)
            await settle(site.run)
            self._session.expect_price(provider, request.model)
            layers = self._session.layers_around(provider.name)
            async with _through(layers, provider.exchange)(request) as events.source:
                yield events
            if events.is_awaited and not events.begun:
                raise _incomplete(provider.name)  # a layer has swallowed what happened
            if events.response is None:
                site.meter.add(Usage(), events.known_usd)  # the step left before the end
        except BaseException as error:
            cause = lone_error(error)
            if events.response is None:
                self._failed(cause, events)
            _raise_lone(error)
        finally:
            events.settle(None)  # where it has not been

    def _failed(self, error: BaseException, events: _Metered) -> None:
        site, run = events.site, events.site.run
        may_have_cost = events.begun or _may_have_cost(error)
        data: dict[str, Any] = {"error": f"{type(error).__name__}: {error}", "may_have_cost": may_have_cost}
        if may_have_cost:
            site.meter.add(Usage(), events.known_usd)
            data |= _reserved(events.reserved)
        events.settle(None if may_have_cost else 0.0)
        if not isinstance(error, Exception):
            return  # cancelled: in the journal, a call without an end is one whose outcome is unknown
        run.record("model_call_finished", site.step_id, site.attempt, events.ordinal, data)
        if events.is_told:
            seconds, name = trio.current_time() - events.started, events.provider.name
            failed = ModelCallFailed(
                run_id=run.run_id, step_id=site.step_id, provider=name, error=data["error"], seconds=seconds
            )
            run.hub.send(failed)

    async def embed(self, request: EmbedRequest, site: CallSite) -> EmbedResponse:
        """Turn texts into vectors; see :meth:`Provider.embed`."""
        recalled = _recall(site, request)
        if isinstance(recalled, EmbedResponse):
            return recalled
        provider = await self._opened(self.provider_name(), self._overrides, site.run)
        run, meter, events = site.run, site.meter, _Metered(site, provider)
        events.reserved = await Reservation.of(provider, request, site) if site.budgets else None
        try:
            events.begin(request)
            await settle(run)
            response = await provider.embed(request)
        except BaseException as error:
            self._failed(error, events)
            raise
        if response.cost_usd is None:
            response = replace(response, cost_usd=await self._session.price(provider, response.model, response.usage))
        events.settle(response.cost_usd, response.usage)
        meter.add(response.usage, response.cost_usd)
        meter.model, meter.provider = response.model, response.provider
        for warning in response.warnings:
            run.warn(site.step_id, warning)
        run.record("model_call_finished", site.step_id, site.attempt, events.ordinal, {"response": response})
        await settle(run)
        return response


def _reserved(reservation: Reservation | None) -> dict[str, Any]:
    """For the journal: a call that is never heard of again is taken to have cost what was reserved."""
    return {} if reservation is None else {"reserved_usd": reservation.call.reserved_usd}


def _recall(site: CallSite, request: ModelRequest | EmbedRequest) -> ModelResponse | EmbedResponse | None:
    """What an earlier process was answered; None where it was not. Its cost was counted as the step went on."""
    response = site.kept.recall_response(request, site.run.redactor) if site.kept else None
    if response is not None:
        site.meter.model, site.meter.provider = response.model, response.provider
    if isinstance(response, ModelResponse):
        site.meter.finish_reason = response.finish_reason
    return response


async def _alone(event: StreamEvent) -> AsyncGenerator[StreamEvent, None]:
    yield event


def _may_have_cost(error: BaseException) -> bool:
    """Whether a call that ended without a response may have been charged for all the same.

    Not where a server answered with an error or was never asked. An error that is not ours says nothing of that.
    """
    if isinstance(error, ProviderError) and not isinstance(error, UnsupportedError):
        return error.status_code is None and error.request_sent is not False
    return not isinstance(error, TreadleError)


def _through(
    layers: Sequence[ProviderLayer], innermost: Callable[[ModelRequest], Exchange]
) -> Callable[[ModelRequest], Exchange]:
    """The call wrapped in its layers, the first one outermost."""
    proceed = innermost
    for layer in reversed(layers):
        proceed = _wrapped(layer, proceed)
    return proceed


def _wrapped(layer: ProviderLayer, proceed: Callable[[ModelRequest], Exchange]) -> Callable[[ModelRequest], Exchange]:
    return lambda request: layer.exchange(request, proceed)


def _raise_lone(error: BaseException) -> NoReturn:
    """Raise an error again, out of the groups that layers' nurseries put around it. For use where it is caught."""
    cause = lone_error(error)
    if cause is error:
        raise
    raise cause from cause.__cause__


def _incomplete(provider: str) -> ResponseError:
    message = f"the reply of provider '{provider}' ended before it was complete"
    return ResponseError(message, provider=provider, phase="body")


@dataclass(slots=True, eq=False)
class _Metered:
    """Events on their way to the step: the first text is timed; the response is priced, counted and journalled."""

    site: CallSite
    provider: Provider
    source: AsyncIterator[StreamEvent] = field(init=False)
    ordinal: int = 0
    started: float = field(default_factory=trio.current_time)
    is_awaited: bool = False
    begun: bool = False
    timed: bool = False
    response: ModelResponse | None = None
    reserved: Reservation | None = None
    known_usd: float | None = None
    """What the call costs where it is not heard to its end."""
    is_told: bool = False
    _ahead: StreamEvent | None = None

    def begin(self, request: ModelRequest | EmbedRequest) -> None:
        """Tell journal and observers of the call, which is about to be made."""
        site, run, provider = self.site, self.site.run, self.provider.name
        self.ordinal = next(site.ordinals)
        data: dict[str, Any] = {"request": request, "provider": provider, **_reserved(self.reserved)}
        if self.provider.known_cost(request.model) == 0 and not self.provider.cost_of(request):
            data["known_usd"] = self.known_usd = 0.0
        if site.asked is not request and site.asked is not None:
            data["asked"] = site.asked
        run.record("model_call_started", site.step_id, site.attempt, self.ordinal, data)
        if run.hub.active and isinstance(request, ModelRequest):
            self.is_told = True
            run.hub.send(ModelCallStarted(run_id=run.run_id, step_id=site.step_id, provider=provider, request=request))

    def settle(self, cost_usd: float | None, usage: Usage | None = None) -> None:
        """Say what the call has cost, to the budgets that hold it."""
        if self.reserved is not None:
            self.reserved.settle(cost_usd, usage)

    def __aiter__(self) -> _Metered:
        return self

    async def look_ahead(self) -> None:
        """Wait for the first event, which is then given out again."""
        self.is_awaited = True
        self._ahead = await self.__anext__()

    async def __anext__(self) -> StreamEvent:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            return ahead
        try:
            event = await self.source.__anext__()
        except StopAsyncIteration:
            if self.response is None:
                raise _incomplete(self.provider.name) from None
            raise
        if type(event) is Completed:
            event = await self._complete(event)
        elif not self.timed and type(event) is TextDelta:
            self.timed = True
            self.site.meter.time_to_first_token_ms = (trio.current_time() - self.started) * 1000
        self.begun = True
        return event

    async def _complete(self, event: Completed) -> Completed:
        response = event.response
        if response.cost_usd is None:
            price = self.site.run.session.price
            response = response.with_cost(await price(self.provider, response.model, response.usage))
        self.response = response
        self.settle(response.cost_usd, response.usage)
        site, run = self.site, self.site.run
        site.answered = True
        site.meter.add_response(response)
        for warning in response.warnings:
            run.warn(site.step_id, warning)
        run.record("model_call_finished", site.step_id, site.attempt, self.ordinal, {"response": response})
        await settle(run)
        if run.hub.active:
            seconds = trio.current_time() - self.started
            run.hub.send(ModelCallFinished(run_id=run.run_id, step_id=site.step_id, response=response, seconds=seconds))
        return event if response is event.response else Completed(response)


@dataclass(slots=True, eq=False)
class _Call(_Metered):
    """Events that have come through the layers of the whole call. What an attempt has counted is not counted again."""

    request: ModelRequest = field(kw_only=True)
    timed: bool = True  # an attempt's own time, where there was one

    async def _complete(self, event: Completed) -> Completed:
        if self.site.answered:
            self.response = event.response
            return event
        self.begin(self.request)  # a layer's own answer: the journal has every one that a step has heard
        return await _Metered._complete(self, event)
