"""The suite of providers passes good ones, and has a sentence for each fault."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, ClassVar

import pytest
import trio
import trio.lowlevel

from treadle import (
    Completed,
    EmbedRequest,
    EmbedResponse,
    Features,
    ModelRequest,
    ModelResponse,
    Provider,
    ProviderSettings,
    RateLimitError,
    SecretRef,
    StreamEvent,
    TextDelta,
    Usage,
)
from treadle.errors import AuthenticationError, ProviderError, UnavailableError
from treadle.testing import EchoProvider, check_provider, reply, scripted


class Good(Provider):
    """Answers "a b c", and is broken in the way that a test says."""

    features = Features(streaming=True)
    response: ClassVar[ModelResponse] = reply("a b c", provider="good")

    @asynccontextmanager
    async def exchange(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        await trio.lowlevel.checkpoint()
        async with aclosing(self.events(request.stream)) as events:
            yield events

    async def events(self, stream: bool) -> AsyncGenerator[StreamEvent, None]:
        if stream:
            for word in ("a", " b", " c"):
                await trio.lowlevel.checkpoint()
                yield TextDelta(word)
        yield Completed(self.response)


def make(kind: Callable[..., Provider], name: str = "good") -> Callable[[], Provider]:
    return lambda: kind(name, ProviderSettings())


async def test_good_providers_pass() -> None:
    await check_provider(make(Good), expect="a b c")
    await check_provider(make(EchoProvider, "scripted"))
    await check_provider(make(Good), usage=Good.response.usage)


class Vectors(Good):
    features = Features(embeddings=True)

    async def embed(self, request: EmbedRequest) -> EmbedResponse:
        vectors = tuple((float(len(text)), 1.0) for text in request.inputs)
        return EmbedResponse(vectors=vectors, model="m", provider=self.name)


async def test_embeddings_and_errors_of_a_good_provider_pass() -> None:
    limited = RateLimitError("slow down", provider="scripted", status_code=429, retry_after=1)
    many = make(scripted(*[limited] * 9), "scripted")
    await check_provider(
        make(Vectors), embed=EmbedRequest(model="m", inputs=("a", "bb")), failing=[(many, RateLimitError)]
    )


def answering(**changes: Any) -> type[Good]:
    return type("Changed", (Good,), {"response": replace(Good.response, **changes)})


class NoEnd(Good):
    async def events(self, stream: bool) -> AsyncGenerator[StreamEvent, None]:
        yield TextDelta("a b c")


class TwoEnds(Good):
    async def events(self, stream: bool) -> AsyncGenerator[StreamEvent, None]:
        yield Completed(self.response)
        if stream:
            yield TextDelta("a b c")


class DeltasOfPlain(Good):
    async def events(self, stream: bool) -> AsyncGenerator[StreamEvent, None]:
        yield TextDelta("a b c")
        yield Completed(self.response)


class LostPiece(Good):
    async def events(self, stream: bool) -> AsyncGenerator[StreamEvent, None]:
        if stream:
            yield TextDelta("a b")
        yield Completed(self.response)


class Swallows(Good):
    async def events(self, stream: bool) -> AsyncGenerator[StreamEvent, None]:
        with suppress(trio.Cancelled):
            await trio.lowlevel.checkpoint()
        if stream:
            yield TextDelta("a b c")
        yield Completed(self.response)


class Wraps(Good):
    @asynccontextmanager
    async def exchange(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        try:
            await trio.lowlevel.checkpoint()
        except BaseException as error:
            raise UnavailableError("lost", provider=self.name) from error
        async with aclosing(self.events(request.stream)) as events:
            yield events


class OneAtATime(Good):
    """Breaks when it is asked by two at once."""

    busy = False

    @asynccontextmanager
    async def exchange(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        if self.busy:
            raise UnavailableError("one at a time", provider=self.name)
        self.busy = True
        await trio.lowlevel.checkpoint()
        self.busy = False
        async with aclosing(self.events(request.stream)) as events:
            yield events


class OnceOnly(Good):
    """Cannot be used after a stream that was left early."""

    broken = False

    async def events(self, stream: bool) -> AsyncGenerator[StreamEvent, None]:
        if self.broken:
            raise UnavailableError("gone", provider=self.name)
        self.broken = stream
        if stream:
            yield TextDelta("a b c")
            self.broken = False
        yield Completed(self.response)


class LeavesATask(Good):
    async def __aenter__(self) -> LeavesATask:
        trio.lowlevel.spawn_system_task(trio.sleep_forever, name="reader")
        return self


class LeavesSocket(Good):
    async def __aenter__(self) -> LeavesSocket:
        self.socket = socket.socket()
        return self


class SecretSettings(ProviderSettings):
    api_key: str | None = None


class SafeSettings(ProviderSettings):
    api_key: SecretRef | None = None


class OwnField(ProviderSettings):
    priority: int = 0


class HiddenVectors(Vectors):
    features = Features()


class TurnsVectors(Vectors):
    async def embed(self, request: EmbedRequest) -> EmbedResponse:
        there = await super().embed(request)
        return replace(there, vectors=there.vectors[::-1])


class LosesAVector(Vectors):
    async def embed(self, request: EmbedRequest) -> EmbedResponse:
        return EmbedResponse(vectors=((1.0,),), model="m", provider=self.name)


class Picky(Good):
    def check(self, request: ModelRequest) -> list[str]:
        return ["it takes no text"]


FAULTS = [
    (NoEnd, "a reply that is not streamed is one event, Completed; it gave TextDelta"),
    (DeltasOfPlain, "is one event, Completed; it gave TextDelta, Completed"),
    (TwoEnds, "Completed must be the last event of a stream, and come once; it gave Completed, TextDelta"),
    (LostPiece, "the pieces of the text joined are 'a b', and the whole response says 'a b c'"),
    (answering(usage=Usage(input_tokens=0, output_tokens=3)), "0 tokens were read; .* is None, never 0"),
    (answering(usage=Usage(input_tokens=3, output_tokens=0)), "0 tokens were written; .* is None, never 0"),
    (
        answering(usage=Usage(input_tokens=3, output_tokens=1, cache_read_tokens=4)),
        "cache_read_tokens is 4, more than the 3 input_tokens",
    ),
    (answering(provider="other"), "its response calls the provider 'other'; it must be the name it was given"),
    (answering(model=""), "does not say which model answered"),
    (answering(cost_usd=1.0), "set cost_usd to 1.0; the engine does that"),
    (Swallows, "provider 'good' swallowed a cancellation at its checkpoint"),
    (Wraps, "came out as UnavailableError: lost"),
    (OneAtATime, "the example failed with UnavailableError: one at a time"),
    (LeavesSocket, "left something open: unclosed <socket"),
    (OnceOnly, "cannot be used after a stream that was left early: gone"),
    (LeavesATask, "left tasks behind: reader"),
    (type("Open", (Good,), {"settings_model": SecretSettings}), "SecretSettings.api_key holds a secret as itself"),
    (type("Own", (Good,), {"settings_model": OwnField}), "has the field 'priority', which is the kernel's own"),
    (type("Odd", (Good,), {"settings_model": dict}), "Odd.settings_model is no subclass of treadle.ProviderSettings"),
    (type("Odd", (Good,), {"features": {}}), "Odd.features is dict; it must be treadle.Features"),
    (HiddenVectors, "has embeddings and does not declare them"),
    (Picky, "refuses the example request: it takes no text"),
]


@pytest.mark.parametrize(("kind", "sentence"), FAULTS, ids=range(len(FAULTS)))
async def test_each_fault_has_its_sentence(kind: type[Provider], sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        await check_provider(make(kind))


async def test_a_secret_by_reference_passes() -> None:
    await check_provider(lambda: type("Safe", (Good,), {"settings_model": SafeSettings})("good", SafeSettings()))


async def test_expectations_are_compared() -> None:
    with pytest.raises(AssertionError, match="answered 'a b c', and 'x' was expected"):
        await check_provider(make(Good), expect="x")
    with pytest.raises(AssertionError, match="unknown is None, never 0"):
        await check_provider(make(answering(usage=Usage.ZERO)), usage=Usage())
    with pytest.raises(AssertionError, match="gave 1 vectors for 2 texts"):
        await check_provider(make(LosesAVector), embed=EmbedRequest(model="m", inputs=("a", "b")))
    with pytest.raises(AssertionError, match="its vectors are not in the order of the texts"):
        await check_provider(make(TurnsVectors), embed=EmbedRequest(model="m", inputs=("a", "bb")))


@pytest.mark.parametrize(
    ("raised", "sentence"),
    [
        (ValueError("boom"), "must fail with RateLimitError failed with ValueError: boom, which is no ProviderError"),
        (AuthenticationError("no", provider="good"), "failed with AuthenticationError: no"),
        (ProviderError("no", provider="good"), "failed with ProviderError: no"),
        (RateLimitError("no", provider="other"), "its error calls the provider 'other'"),
        (RateLimitError("no", provider="good", transient=False), "RateLimitError is transient, and its error says"),
        ("fine", "must fail with RateLimitError was answered"),
    ],
)
async def test_a_wrong_error_is_named(raised: Any, sentence: str) -> None:
    failing = make(scripted(raised, raised))
    with pytest.raises(AssertionError, match=sentence):
        await check_provider(make(Good), failing=[(failing, RateLimitError)])
