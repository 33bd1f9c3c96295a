"""The way of a model call: provider chosen, layers around it, every event metered and journalled."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import trio

from treadle._settings.providers import refused, with_model
from treadle.contracts.events import ModelCallFailed, ModelCallFinished, ModelCallStarted
from treadle.errors import CredentialError, ProviderError, ResponseError, TreadleError, UnsupportedError
from treadle.messages import (
    Completed,
    EmbedRequest,
    EmbedResponse,
    ModelRequest,
    ModelResponse,
    StreamEvent,
    TextDelta,
)
from treadle.nurseries import lone_error

if TYPE_CHECKING:
    from treadle._engine.meter import Meter
    from treadle._engine.run import Run
    from treadle._engine.session import Session
    from treadle.contracts.provider import Exchange, Provider, ProviderLayer

__all__ = ["CallSite", "Gateway"]


@dataclass(slots=True)
class CallSite:
    """Who calls: a step of a run, in one attempt. ``ordinals`` numbers the attempt's calls from 1."""

    run: Run
    step_id: str
    attempt: int
    meter: Meter
    ordinals: Iterator[int]


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
        name = self.provider_name()
        provider = await self._session.provider(name, self._overrides)
        request = with_model(self._session.host, request, provider)
        if request.stream and not provider.features.streaming:
            request = replace(request, stream=False)  # how a reply comes is a wish, not a need
        if refusals := provider.refusals(request):
            raise UnsupportedError(refused(name, refusals), provider=name)
        run, meter = site.run, site.meter
        ordinal = next(site.ordinals)
        run.record("model_call_started", site.step_id, site.attempt, ordinal, {"request": request, "provider": name})
        if run.hub.active:
            run.hub.send(ModelCallStarted(run_id=run.run_id, step_id=site.step_id, provider=name, request=request))
        events = _Metered(site, ordinal, name, lambda response: self._priced(response, provider))
        try:
            async with _through(self._session.layers, provider.exchange)(request) as source:
                events.source = source
                yield events
            if events.response is None:
                meter.add_unknown()  # the step left before the end
        except BaseException as error:
            cause = lone_error(error)
            if events.response is None:
                self._failed(cause, events)
            if isinstance(cause, CredentialError) and self._provider_name is None:
                # Whoever has not asked for this provider may not want it.
                hint = f"{cause.hint or 'set it'}, or name another provider than '{name}', which is the default"
                raise CredentialError(cause.message, hint=hint) from cause
            if cause is error:
                raise
            raise cause from cause.__cause__

    def _failed(self, error: BaseException, events: _Metered) -> None:
        site, run = events.site, events.site.run
        if events.begun or _may_have_cost(error):
            site.meter.add_unknown()
        if not isinstance(error, Exception):
            return  # cancelled: in the journal, a call without an end is one whose outcome is unknown
        text = _error_text(error)
        run.record("model_call_finished", site.step_id, site.attempt, events.ordinal, {"error": text})
        if run.hub.active:
            seconds = trio.current_time() - events.started
            run.hub.send(
                ModelCallFailed(
                    run_id=run.run_id, step_id=site.step_id, provider=events.provider_name, error=text, seconds=seconds
                )
            )

    async def embed(self, request: EmbedRequest, site: CallSite) -> EmbedResponse:
        """Turn texts into vectors; see :meth:`Provider.embed`."""
        name = self.provider_name()
        provider = await self._session.provider(name, self._overrides)
        run, meter, ordinal = site.run, site.meter, next(site.ordinals)
        run.record("model_call_started", site.step_id, site.attempt, ordinal, {"request": request, "provider": name})
        try:
            response = await provider.embed(request)
        except BaseException as error:
            if _may_have_cost(error):
                meter.add_unknown()
            if isinstance(error, Exception):
                data = {"error": _error_text(error)}
                run.record("model_call_finished", site.step_id, site.attempt, ordinal, data)
            raise
        if response.cost_usd is None:
            cost = self._session.price(provider, response.model, response.usage)
            response = replace(response, cost_usd=cost)
        meter.add(response.usage, response.cost_usd)
        meter.model, meter.provider = response.model, response.provider
        run.record("model_call_finished", site.step_id, site.attempt, ordinal, {"response": response})
        return response

    def _priced(self, response: ModelResponse, provider: Provider) -> ModelResponse:
        if response.cost_usd is not None:
            return response
        return response.with_cost(self._session.price(provider, response.model, response.usage))


def _may_have_cost(error: BaseException) -> bool:
    """Whether a call that ended without a response may have been charged for all the same.

    Not where a server answered with an error or was never asked. An error that is not ours says nothing of that.
    """
    if isinstance(error, ProviderError) and not isinstance(error, UnsupportedError):
        return error.status_code is None and error.request_sent is not False
    return not isinstance(error, TreadleError)


def _error_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


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


class _Metered:
    """Events on their way to the step: the first text is timed; the response is priced, counted and journalled."""

    __slots__ = ("_price", "begun", "ordinal", "provider_name", "response", "site", "source", "started", "timed")

    def __init__(
        self, site: CallSite, ordinal: int, provider_name: str, price: Callable[[ModelResponse], ModelResponse]
    ) -> None:
        self.site = site
        self.ordinal = ordinal
        self.provider_name = provider_name
        self.started = trio.current_time()
        self.source: AsyncIterator[StreamEvent]
        self.begun = False
        self.timed = False
        self.response: ModelResponse | None = None
        self._price = price

    def __aiter__(self) -> _Metered:
        return self

    async def __anext__(self) -> StreamEvent:
        try:
            event = await self.source.__anext__()
        except StopAsyncIteration:
            if self.response is None:
                raise ResponseError(
                    f"the reply of provider '{self.provider_name}' ended before it was complete",
                    provider=self.provider_name,
                    phase="body",
                ) from None
            raise
        if type(event) is Completed:
            event = self._complete(event)
        elif not self.timed and type(event) is TextDelta:
            self.timed = True
            self.site.meter.time_to_first_token_ms = (trio.current_time() - self.started) * 1000
        self.begun = True
        return event

    def _complete(self, event: Completed) -> Completed:
        response = self.response = self._price(event.response)
        site, run = self.site, self.site.run
        site.meter.add_response(response)
        for warning in response.warnings:
            run.warn(site.step_id, warning)
        run.record("model_call_finished", site.step_id, site.attempt, self.ordinal, {"response": response})
        if run.hub.active:
            seconds = trio.current_time() - self.started
            run.hub.send(ModelCallFinished(run_id=run.run_id, step_id=site.step_id, response=response, seconds=seconds))
        return event if response is event.response else Completed(response)
