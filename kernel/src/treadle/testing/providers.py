"""The suite of model providers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import trio
from pydantic import BaseModel

from treadle.contracts.provider import Features, Provider, ProviderSettings
from treadle.contracts.secrets import SecretRef
from treadle.errors import CredentialError, ProviderError, UnsupportedError
from treadle.messages import (
    Completed,
    EmbedRequest,
    EmbedResponse,
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
    Usage,
    UserMessage,
    dump,
    load,
)
from treadle.testing.cancellation import check_cancellation, in_sentences, leaving_nothing

__all__ = ["check_provider", "check_provider_class", "secrets_in_the_open"]

UNICODE = "Grüße, 世界 🙂 \u202e"
_SECRET_WORDS = ("key", "token", "secret", "password")


@in_sentences
async def check_provider(
    make: Callable[[], Provider],
    request: ModelRequest | None = None,
    *,
    expect: str | None = None,
    usage: Usage | None = None,
    embed: EmbedRequest | None = None,
    failing: Sequence[tuple[Callable[[], Provider], type[ProviderError]]] = (),
) -> None:
    """Hold a provider to its contract: plain and streamed replies, usage, early ends, cancellation, closing, errors.

    It is asked about thirty to a hundred times, so that what answers should be a double or a local server.

    :param make: gives a provider that has not been entered.
    :param request: one that it answers; a greeting in several scripts without it.
    :param expect: the text of the answer.
    :param usage: what the answer's usage must be, such as ``Usage()`` where the server says nothing of it.
    :param embed: texts to turn into vectors, where the provider declares embeddings.
    :param failing: providers whose server fails, each with the class of error that must come out.
    :raises AssertionError: with what it did, and what the contract says of that.
    """
    asked = request or ModelRequest(model="test-model", messages=(UserMessage.of(UNICODE),))
    what = f"provider '{make().name}'"
    check_provider_class(type(make()))
    _check_unopened(make(), asked, what)
    async with leaving_nothing(what):
        await _check_replies(make, asked, what, expect=expect, usage=usage)
        await _check_embeddings(make, embed, what, usage)
    for stream in (False, True) if make().features.streaming else (False,):
        await check_cancellation(_whole_life(make, asked, stream), what=f"{what}{' streaming' if stream else ''}")
    for make_failing, kind in failing:
        await _check_failure(make_failing, asked, kind, what)


async def _check_replies(
    make: Callable[[], Provider], asked: ModelRequest, what: str, *, expect: str | None, usage: Usage | None
) -> None:
    async with make() as provider:
        _check_response(provider, await _plain(provider, asked, what), what, expect=expect, usage=usage)
        if provider.features.streaming:
            _check_response(provider, await _streamed(provider, asked, what), what, expect=expect, usage=usage)
            await _leave_early(provider, asked, what)
        await _at_once(provider, asked, what)


def check_provider_class(kind: Any) -> None:
    """What can be said of a provider without making one."""
    name = getattr(kind, "__name__", repr(kind))
    if not (isinstance(kind, type) and issubclass(kind, Provider)):
        raise AssertionError(f"{name} is no subclass of treadle.Provider")
    if missing := sorted(getattr(kind, "__abstractmethods__", ())):
        raise AssertionError(f"{name} lacks {', '.join(missing)}")
    if not isinstance(kind.features, Features):
        raise AssertionError(f"{name}.features is {type(kind.features).__name__}; it must be treadle.Features")
    model: Any = kind.settings_model
    if not (isinstance(model, type) and issubclass(model, ProviderSettings)):
        raise AssertionError(f"{name}.settings_model is no subclass of treadle.ProviderSettings")
    if taken := sorted(model.model_fields.keys() & {"kind", "models", "priority", "fallback", "fallback_model"}):
        raise AssertionError(f"{model.__name__} has the field '{taken[0]}', which is the kernel's own")
    if field := next(secrets_in_the_open(model), None):
        raise AssertionError(f"{model.__name__}.{field} holds a secret as itself; make it a treadle.SecretRef")
    model.model_json_schema()


def secrets_in_the_open(model: type[BaseModel]) -> Iterator[str]:
    """The fields whose name says that they are secret, and whose type does not."""
    for name, field in model.model_fields.items():
        words = name.lower().split("_")
        kinds = {field.annotation, *getattr(field.annotation, "__args__", ())}
        if words[-1] in _SECRET_WORDS and str in kinds and SecretRef not in kinds:
            yield name


def _check_unopened(provider: Provider, asked: ModelRequest, what: str) -> None:
    """What must be known without SDK, key or network."""
    default: Any = provider.default_model()
    if default is not None and not isinstance(default, str):
        raise AssertionError(f"{what}: default_model() gave {type(default).__name__}; a name or None is wanted")
    if not isinstance(provider.supports_model(asked.model), bool):
        raise AssertionError(f"{what}: supports_model() must say True or False")
    refused = list(provider.refusals(asked))
    if not all(isinstance(each, str) for each in refused):
        raise AssertionError(f"{what}: check() must give texts")
    if refused:
        raise AssertionError(f"{what} refuses the example request: {'; '.join(refused)}")
    known = provider.known_cost(asked.model)
    if known is not None and known < 0:
        raise AssertionError(f"{what}: known_cost() is {known}; a cost is never below 0")


async def _plain(provider: Provider, asked: ModelRequest, what: str) -> ModelResponse:
    events = await _events(provider, _like(asked, stream=False))
    if len(events) != 1 or not isinstance(events[0], Completed):
        raise AssertionError(
            f"{what}: a reply that is not streamed is one event, Completed; it gave {_names(events) or 'nothing'}"
        )
    return events[0].response


async def _streamed(provider: Provider, asked: ModelRequest, what: str) -> ModelResponse:
    events = await _events(provider, _like(asked, stream=True))
    ends = [number for number, event in enumerate(events) if isinstance(event, Completed)]
    if ends != [len(events) - 1]:
        gave = _names(events) or "nothing"
        raise AssertionError(f"{what}: Completed must be the last event of a stream, and come once; it gave {gave}")
    *deltas, last = events
    assert isinstance(last, Completed)
    response = last.response
    text = "".join(event.text for event in deltas if isinstance(event, TextDelta))
    if text != response.text:
        raise AssertionError(
            f"{what}: the pieces of the text joined are {text!r}, and the whole response says {response.text!r}"
        )
    reasoning = "".join(event.text for event in deltas if isinstance(event, ReasoningDelta))
    if reasoning != response.message.reasoning:
        raise AssertionError(f"{what}: the pieces of the reasoning joined are not the reasoning of the whole response")
    calls = {event.index for event in deltas if isinstance(event, ToolCallDelta)}
    if calls and len(calls) != len(response.message.tool_calls):
        raise AssertionError(
            f"{what}: the stream told of {len(calls)} tool calls, and the whole response has "
            f"{len(response.message.tool_calls)}"
        )
    return response


def _check_response(
    provider: Provider, response: ModelResponse, what: str, *, expect: str | None, usage: Usage | None
) -> None:
    if response.provider != provider.name:
        raise AssertionError(
            f"{what}: its response calls the provider '{response.provider}'; it must be the name it was given"
        )
    if not response.model:
        raise AssertionError(f"{what}: its response does not say which model answered")
    if expect is not None and response.text != expect:
        raise AssertionError(f"{what} answered {response.text!r}, and {expect!r} was expected")
    if response.cost_usd is not None and provider.known_cost(response.model) is None:
        raise AssertionError(f"{what} set cost_usd to {response.cost_usd}; the engine does that, from price sources")
    _check_usage(response, what, usage)
    ids = [call.call_id for call in response.message.tool_calls]
    if not all(ids) or len(set(ids)) != len(ids):
        raise AssertionError(f"{what}: tool calls need ids, each its own; it gave {ids}")
    again: ModelResponse = load(ModelResponse, dump(response))
    if again != response:
        raise AssertionError(f"{what}: its response does not go through JSON and back unchanged")


def _check_usage(response: ModelResponse, what: str, wanted: Usage | None) -> None:
    usage = response.usage
    if wanted is not None:
        if usage != wanted:
            raise AssertionError(f"{what}: its usage is {usage}, and {wanted} was expected; unknown is None, never 0")
        return
    # A request has at least one token, and so has a text: a 0 stands for what is not known.
    if usage.input_tokens == 0:
        raise AssertionError(f"{what} says that 0 tokens were read; what a server does not say is None, never 0")
    if usage.output_tokens == 0 and response.text:
        raise AssertionError(f"{what} says that 0 tokens were written; what a server does not say is None, never 0")
    for part, whole in (
        ("cache_read_tokens", "input_tokens"),
        ("cache_write_tokens", "input_tokens"),
        ("reasoning_tokens", "output_tokens"),
    ):
        some, every = getattr(usage, part), getattr(usage, whole)
        if some is not None and every is not None and some > every:
            raise AssertionError(f"{what}: {part} is {some}, more than the {every} {whole} that must include them")


async def _leave_early(provider: Provider, asked: ModelRequest, what: str) -> None:
    request = _like(asked, stream=True)
    async with provider.exchange(request):
        pass  # entered and left without a look
    async with provider.exchange(request) as events:
        async for _ in events:
            break
    try:
        await _plain(provider, asked, what)
    except ProviderError as error:
        raise AssertionError(f"{what} cannot be used after a stream that was left early: {error}") from error


async def _at_once(provider: Provider, asked: ModelRequest, what: str) -> None:
    answers: list[ModelResponse] = []

    async def ask() -> None:
        answers.append(await _plain(provider, asked, what))

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(ask)
    if len(answers) != 3:
        raise AssertionError(f"{what} answered {len(answers)} of 3 requests made at once")


async def _check_embeddings(
    make: Callable[[], Provider], embed: EmbedRequest | None, what: str, usage: Usage | None
) -> None:
    async with make() as provider:
        if not provider.features.embeddings:
            try:
                await provider.embed(EmbedRequest(model="test-model", inputs=("one",)))
            except UnsupportedError:
                return
            raise AssertionError(f"{what} has embeddings and does not declare them in its features")
        if embed is None:
            return
        response = await provider.embed(embed)
        alone = [(await provider.embed(replace(embed, inputs=(text,)))).vectors[0] for text in embed.inputs]
    _check_vectors(response, embed, what)
    if response.usage.input_tokens == 0 and usage is None:
        raise AssertionError(f"{what} says that 0 tokens were embedded; what a server does not say is None, never 0")
    # A text may get slightly another vector each time; it is still nearer to itself than to the others.
    for number, vector in enumerate(alone):
        nearest = min(range(len(alone)), key=[_distance(vector, each) for each in response.vectors].__getitem__)
        if embed.inputs[nearest] != embed.inputs[number]:
            raise AssertionError(f"{what}: its vectors are not in the order of the texts")


def _distance(one: Sequence[float], other: Sequence[float]) -> float:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


def _check_vectors(response: EmbedResponse, embed: EmbedRequest, what: str) -> None:
    if len(response.vectors) != len(embed.inputs):
        raise AssertionError(f"{what} gave {len(response.vectors)} vectors for {len(embed.inputs)} texts")
    if len({len(vector) for vector in response.vectors}) > 1:
        raise AssertionError(f"{what} gave vectors of different lengths")


def _whole_life(make: Callable[[], Provider], asked: ModelRequest, stream: bool) -> Callable[[], Any]:
    async def live() -> None:
        async with make() as provider, provider.exchange(_like(asked, stream=stream)) as events:
            async for _ in events:
                pass

    return live


async def _check_failure(
    make: Callable[[], Provider], asked: ModelRequest, kind: type[ProviderError], what: str
) -> None:
    provider = make()
    for stream in (False, True) if provider.features.streaming else (False,):
        how = "a streamed request" if stream else "a request"
        try:
            async with make() as opened:
                await _events(opened, _like(asked, stream=stream))
        except (ProviderError, CredentialError) as error:
            if type(error) is not kind:
                raise AssertionError(
                    f"{what}: {how} that must fail with {kind.__name__} failed with {type(error).__name__}: {error}"
                ) from error
            if isinstance(error, ProviderError):
                _check_error(error, provider, kind, what)
        except Exception as error:
            shown = f"{type(error).__name__}: {error}"
            raise AssertionError(
                f"{what}: {how} that must fail with {kind.__name__} failed with {shown}, which is no ProviderError"
            ) from error
        else:
            raise AssertionError(f"{what}: {how} that must fail with {kind.__name__} was answered")


def _check_error(error: ProviderError, provider: Provider, kind: type[ProviderError], what: str) -> None:
    if error.provider != provider.name:
        raise AssertionError(f"{what}: its error calls the provider '{error.provider}'")
    if error.transient != kind.transient and error.retry_after is None:
        asked = "transient" if kind.transient else "permanent"
        raise AssertionError(f"{what}: {kind.__name__} is {asked}, and its error says otherwise")


async def _events(provider: Provider, request: ModelRequest) -> list[StreamEvent]:
    async with provider.exchange(request) as events:
        return [event async for event in events]


def _like(request: ModelRequest, *, stream: bool) -> ModelRequest:
    return replace(request, stream=stream)


def _names(events: Iterable[StreamEvent]) -> str:
    return ", ".join(type(event).__name__ for event in events)
