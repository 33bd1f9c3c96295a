"""Asking another client when one fails."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Self

import treadle
from treadle_loop.attempts import continued
from treadle_loop.conversations.listening import ON_RETRY, has_begun
from treadle_loop.conversations.toolbox import check_client
from treadle_loop.conversations.wire import as_response
from treadle_loop.errors import AgentLoopError, BadRequestError, ConfigurationError, ProviderError, translated
from treadle_loop.provider import AttemptRecord, ModelRequest, ModelResponse
from treadle_loop.wrapping import complete_on_loop, complete_on_trio, is_async

__all__ = ["FallbackClient"]

_log = logging.getLogger("treadle_loop")

_Ended = ModelResponse | AgentLoopError


class FallbackClient:
    """Asks its clients in turn, until one answers.

    Each is asked as it is: with its own model, and with its retries where it is a :class:`RetryingClient`, as those of
    ``build_client`` are. A failure of the provider or of the configuration asks the next one, unless text of the reply
    has been passed on already. A client that cannot run a hosted tool of the request is passed over.

    :param clients: the one to be preferred first.
    :raises ConfigurationError: there is none.
    """

    def __init__(self, clients: Iterable[Any]) -> None:
        if not isinstance(clients, Iterable):
            raise TypeError(f"a FallbackClient takes a list of clients, not one {type(clients).__name__}")
        self.clients = tuple(clients)
        if not self.clients:
            raise ConfigurationError("a FallbackClient has no clients; give it at least one")
        for each in self.clients:
            check_client(each)

    @property
    def name(self) -> str:
        """That of the first one. A response's ``provider`` says who answered."""
        return str(self.clients[0].name)

    @property
    def model(self) -> str:
        """That of the first one."""
        return str(self.clients[0].model)

    @property
    def hosted_tools(self) -> tuple[str, ...]:
        """What any of them can run."""
        return tuple(sorted({kind for each in self.clients for kind in getattr(each, "hosted_tools", ())}))

    @property
    def output_schemas(self) -> bool:
        """Whether every one of them holds replies to a schema."""
        return all(getattr(each, "output_schemas", False) for each in self.clients)

    @property
    def loop(self) -> str | None:
        """``asyncio`` where one of them needs that."""
        return next((each.loop for each in self.clients if getattr(each, "loop", None) is not None), None)

    @property
    def is_async(self) -> bool:
        """Whether what ``complete`` gives is awaited."""
        return any(map(is_async, self.clients))

    def complete(self, request: ModelRequest) -> Any:
        """The answer of the first one that gives one. Awaited where one of them is async.

        :raises ProviderError: none does. Of several it says in the message and in ``attempt_log`` what befell each.
        """
        if self.is_async:
            return self._on_a_loop(request, complete_on_loop)
        turns = _Turns(self.clients, request)
        while (client := turns.client) is not None:
            try:
                turns.answered(client.complete(request))
            except (treadle.ProviderError, treadle.ConfigurationError) as error:
                turns.failed(error)
        return turns.response

    async def complete_async(self, request: ModelRequest) -> ModelResponse:
        """The same on trio."""
        return await self._on_a_loop(request, complete_on_trio)

    async def _on_a_loop(self, request: ModelRequest, complete: Any) -> ModelResponse:
        turns = _Turns(self.clients, request)
        while (client := turns.client) is not None:
            try:
                turns.answered(await complete(client, request))
            except (treadle.ProviderError, treadle.ConfigurationError) as error:
                turns.failed(error)
        return turns.response

    def close(self) -> None:
        """Close all of them, also where closing one fails."""
        from contextlib import ExitStack

        with ExitStack() as stack:
            for each in self.clients:
                if (close := getattr(each, "close", None)) is not None:
                    stack.callback(close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


class _Turns:
    """Whose turn it is, and what befell those before."""

    def __init__(self, clients: tuple[Any, ...], request: ModelRequest) -> None:
        self._waiting = list(clients)
        self._request = request
        self._failures: list[tuple[Any, AgentLoopError]] = []
        self._log: tuple[AttemptRecord, ...] = ()
        self._waited = 0.0
        self.client: Any = None
        self.response: ModelResponse
        self._go_on()

    def answered(self, given: Any) -> None:
        """The client gave this: the response, with everything that was tried before it."""
        client = self.client
        response = as_response(given, api=getattr(client, "api", None))
        log = continued(self._log, response, provider=client.name)
        self.response = response.model_copy(
            update={
                "provider": response.provider or client.name,
                "model": response.model or client.model,
                "attempts": len(log),
                "attempt_log": log,
                "retry_wait_seconds": self._waited + response.retry_wait_seconds,
            }
        )
        self.client = None

    def failed(self, raised: treadle.TreadleError) -> None:
        """The client raised this. The next one's turn.

        :raises ProviderError: there is no next one, or text of the reply has been passed on.
        """
        error = translated(raised, provider=self.client.name)
        self._log = continued(self._log, error, provider=self.client.name)
        self._waited += getattr(error, "retry_wait_seconds", 0.0)
        if has_begun():
            if isinstance(error, ProviderError):
                self._sign(error)
            raise error
        self._failures.append((self.client, error))
        self._go_on()

    def _go_on(self) -> None:
        before = self._failures[-1][1] if self._failures else None
        while self._waiting:
            self.client = self._waiting.pop(0)
            lacking = {each.kind for each in self._request.hosted_tools} - {*getattr(self.client, "hosted_tools", ())}
            if lacking:
                what = f"it cannot run the hosted tool {', '.join(sorted(lacking))}"
                refusal = BadRequestError(what, provider=self.client.name, request_sent=False, phase=None)
                self._failures.append((self.client, refusal))
                continue
            if before is not None:
                _log.warning("%s is asked instead of %s: %s", _who(self.client), *self._told(before))
                if (listener := ON_RETRY.get()) is not None:
                    listener(len(self._log), before, 0.0)
            return
        raise self._of_all() from self._failures[-1][1]

    def _told(self, error: AgentLoopError) -> tuple[str, str]:
        client = next(client for client, each in self._failures if each is error)
        return _who(client), f"{type(error).__name__}: {error}"

    def _of_all(self) -> AgentLoopError:
        """The one error about all of them: of one, its own.

        Retryable where any of them is, after the shortest time that those ask for. A fact that all share is told.
        """
        errors = [error for _, error in self._failures]
        if len(errors) == 1:
            return errors[0]
        text = "; ".join(f"{_who(client)}: {type(error).__name__}: {error}" for client, error in self._failures)
        retryable = [each for each in errors if each.transient]
        waits: list[Any] = [getattr(each, "retry_after", None) for each in retryable]
        kind = BadRequestError if all(isinstance(each, BadRequestError) for each in errors) else ProviderError
        error = kind(
            f"none of {len(errors)} clients answered: {text}",
            provider=self._failures[0][0].name,
            status_code=_shared(errors, "status_code"),
            phase=_shared(errors, "phase"),
            request_sent=_shared(errors, "request_sent"),
            retry_after=None if None in waits else min(waits, default=None),
            transient=bool(retryable),
        )
        self._sign(error)
        return error

    def _sign(self, error: ProviderError) -> None:
        error.attempts, error.attempt_log, error.retry_wait_seconds = len(self._log), self._log, self._waited


def _who(client: Any) -> str:
    return f"{client.name} ({client.model})"


def _shared(errors: list[AgentLoopError], fact: str) -> Any:
    """What they all say of it; None where they differ."""
    said = [getattr(each, fact, None) for each in errors]
    return said[0] if all(each == said[0] for each in said) else None
