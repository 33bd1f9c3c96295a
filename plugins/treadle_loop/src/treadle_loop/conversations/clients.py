"""A client over one of Treadle's providers."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

import treadle
from treadle_loop.conversations.listening import ON_TEXT, TextListener
from treadle_loop.conversations.portal import Portal
from treadle_loop.conversations.pricing import Prices
from treadle_loop.conversations.wire import as_response, kernel_request, sent
from treadle_loop.errors import BadRequestError, ConfigurationError, translated
from treadle_loop.provider import ModelRequest, ModelResponse
from treadle_loop.transcript import Message

if TYPE_CHECKING:
    from treadle import Provider
    from treadle import messages as kernel

__all__ = ["ProviderClient", "given_secret"]

_log = logging.getLogger("treadle_loop")


class ProviderClient:
    """Speaks to a provider from any thread, and keeps its connections between calls.

    Building one opens nothing, imports no SDK and reads no key. The first call starts a thread in which the provider
    lives; :meth:`close` ends both.

    :param kind: the provider that it is, for prices; its name without it.
    :param parallel_tool_calls: for requests with tools that leave it open.
    :param prices: see :class:`Prices`.
    """

    def __init__(
        self,
        provider: Provider,
        *,
        name: str,
        model: str,
        api: str | None = None,
        kind: str | None = None,
        parallel_tool_calls: bool | None = None,
        prices: Any = None,
    ) -> None:
        self.name = name
        self.model = model
        self.api = api
        self.hosted_tools: tuple[str, ...] = tuple(sorted(provider.features.hosted_tools))
        self.output_schemas = provider.features.output_schemas
        self._kind = kind or provider.name
        self._prices = prices if isinstance(prices, Prices) else Prices(prices)
        self._provider = provider
        self._parallel_tool_calls = parallel_tool_calls
        self._portal: Portal[Provider] = Portal(self._opened)
        self._known: Mapping[int, tuple[Message, tuple[kernel.Message, ...]]] = {}

    def complete(self, request: ModelRequest) -> ModelResponse:
        """Send a request, once.

        :raises ProviderError: the most specific class of :mod:`treadle_loop.errors`.
        """
        asked, on_text = self._asked(request), ON_TEXT.get()
        try:
            response = self._portal.call(lambda provider: self._exchange(provider, asked, on_text))
        except treadle.TreadleError as error:
            raise translated(error, provider=self.name) from error
        return self._answered(response)

    async def complete_async(self, request: ModelRequest) -> ModelResponse:
        """The same, awaited on trio. A cancellation ends the request."""
        asked, on_text = self._asked(request), ON_TEXT.get()
        try:
            response = await self._portal.call_on_trio(lambda provider: self._exchange(provider, asked, on_text))
        except treadle.TreadleError as error:
            raise translated(error, provider=self.name) from error
        return self._answered(response)

    def close(self) -> None:
        """Close its connections and end its thread. Another time it does nothing."""
        self._portal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[Provider]:
        """The provider, while what prices its replies is looked for."""
        from treadle.nurseries import open_nursery  # it imports trio

        async with self._provider as provider, open_nursery() as nursery:
            if provider.known_cost(self.model) is None:
                nursery.start_soon(self._prices.load)
            yield provider
            nursery.cancel_scope.cancel()

    async def _exchange(
        self, provider: Provider, request: treadle.ModelRequest, on_text: TextListener | None
    ) -> treadle.ModelResponse:
        """One reply, with its price. What its text was passed on to has it before."""
        response = await _reply(provider, request, on_text)
        if response.cost_usd is not None:
            return response
        cost = await self._prices.cost(provider, kind=self._kind, model=response.model, usage=response.usage)
        return response.with_cost(cost)

    def _answered(self, response: treadle.ModelResponse) -> ModelResponse:
        for warning in response.warnings:
            _log.warning("%s: %s", self.name, warning)
        return as_response(response, api=self.api)

    def _asked(self, request: ModelRequest) -> treadle.ModelRequest:
        parallel = request.parallel_tool_calls
        asked = kernel_request(
            model=self.model,
            messages=self._sent(request.messages),
            system=request.system,
            tools=request.tools,
            hosted_tools=request.hosted_tools,
            max_tokens=request.max_tokens,
            temperature=request.temperature,
            stop_sequences=request.stop_sequences,
            tool_choice=request.tool_choice,
            output=request.output,
            stream=ON_TEXT.get() is not None and self._provider.features.streaming,
            parallel_tool_calls=(parallel if parallel is not None or not request.tools else self._parallel_tool_calls),
        )
        if refusals := self._provider.refusals(asked):
            raise BadRequestError(
                f"provider '{self.name}' cannot take this request: {'; '.join(refusals)}",
                provider=self.name,
                request_sent=False,
            )
        return asked

    def _sent(self, messages: tuple[Message, ...]) -> tuple[kernel.Message, ...]:
        """The messages as the provider takes them. Those of the last request are known: most come again."""
        known = self._known
        now: dict[int, tuple[Message, tuple[kernel.Message, ...]]] = {}
        for each in messages:
            found = known.get(id(each))
            now[id(each)] = found if found is not None and found[0] is each else (each, sent(each))
        self._known = now
        return tuple(one for each in messages for one in now[id(each)][1])


async def _reply(
    provider: Provider, request: treadle.ModelRequest, on_text: TextListener | None
) -> treadle.ModelResponse:
    async with provider.exchange(request) as events:
        async for event in events:
            if isinstance(event, treadle.Completed):
                return event.response
            if on_text is not None and isinstance(event, treadle.TextDelta):
                on_text(event.text)
    raise treadle.ResponseError(f"provider '{provider.name}' ended without a reply", provider=provider.name)


def given_secret(value: str, name: str) -> treadle.SecretRef:
    """A secret that the program has already, as a reference to it."""
    if not all("!" <= character <= "~" for character in value):
        raise ConfigurationError(f"{name} holds white space or characters that no key has")
    return _Given(value, name)


class _Given(treadle.SecretRef):
    """A secret that is held here. Neither repr nor dump show it."""

    __slots__ = ("_value",)

    def __init__(self, value: str, name: str) -> None:
        super().__init__(f"env:{name}")
        self._value = value

    def reveal(self) -> str:
        return self._value
