"""Running a conversation: the loop over a transcript, a client and a registry of tools."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, Unpack

from treadle.threads import await_on_trio, is_asyncio_running, run_on_trio
from treadle_loop.conversations.conversation import (
    DEFAULT_DEADLINE_SECONDS,
    DEFAULT_MAX_ITERATIONS,
    DEFAULT_MAX_TOKENS,
    MAX_TOKENS_CEILING,
    Conversation,
    ConversationOptions,
)
from treadle_loop.conversations.shaping import DEFAULT_OUTPUT_RETRIES
from treadle_loop.conversations.streaming import AsyncConversationStream, ConversationStream
from treadle_loop.conversations.summaries import ConversationResult
from treadle_loop.conversations.toolbox import Registry
from treadle_loop.transcript import Transcript

__all__ = [
    "DEFAULT_DEADLINE_SECONDS",
    "DEFAULT_MAX_ITERATIONS",
    "DEFAULT_MAX_TOKENS",
    "DEFAULT_OUTPUT_RETRIES",
    "MAX_TOKENS_CEILING",
    "run_conversation",
    "run_conversation_async",
    "run_conversation_result",
    "run_conversation_result_async",
    "run_conversation_typed",
    "run_conversation_typed_async",
    "stream_conversation",
    "stream_conversation_async",
]

F = TypeVar("F", bound=Callable[..., Any])


def _spelled_out(function: F) -> F:
    """Show, in ``help()`` and to whoever inspects it, the options with their defaults in place of ``**options``."""
    own = inspect.signature(function)
    kept = [each for each in own.parameters.values() if each.kind is not each.VAR_KEYWORD]
    options = [each for each in inspect.signature(Conversation).parameters.values() if each.kind is each.KEYWORD_ONLY]
    function.__signature__ = own.replace(parameters=[*kept, *options])  # type: ignore[attr-defined]  # what inspect looks for
    return function


@_spelled_out
def run_conversation_result(
    transcript: Transcript, client: Any, registry: Registry, deps: Any, **options: Unpack[ConversationOptions]
) -> ConversationResult:
    """Run the loop until the model answers, and say what it took.

    Where the client or a tool is async, the conversation runs on trio for as long as it lasts (on asyncio where the
    client says ``loop = "asyncio"``).

    :param transcript: grows in place, whatever the end.
    :param max_tokens: of each reply; doubled up to ``MAX_TOKENS_CEILING`` where one is cut before it is of use.
    :param deadline_seconds: looked at before each model call; None is no deadline.
    :raises LoopBudgetExceeded: iterations, the deadline or the tokens are used up.
    :raises TranscriptError: the messages are in an order that no provider takes.
    :raises ProviderError: the model was asked in vain. This and the other two have the ``summary``.
    """
    return run(Conversation(transcript, client, registry, deps, **options))


@_spelled_out
def run_conversation(
    transcript: Transcript, client: Any, registry: Registry, deps: Any, **options: Unpack[ConversationOptions]
) -> Transcript:
    """As :func:`run_conversation_result`, for the transcript that was given."""
    return run_conversation_result(transcript, client, registry, deps, **options).transcript


@_spelled_out
def run_conversation_typed(
    transcript: Transcript,
    client: Any,
    registry: Registry,
    deps: Any,
    output_type: Any,
    *,
    output_retries: int = DEFAULT_OUTPUT_RETRIES,
    **options: Unpack[ConversationOptions],
) -> ConversationResult:
    """As :func:`run_conversation_result`, with an answer of a shape, which is the result's ``output``.

    :param output_type: a pydantic model, a dataclass or another type, or a JSON Schema.
    :param output_retries: how often a model that missed it is told what is wrong and asked again.
    :raises OutputInvalid: it missed it all the same.
    """
    return run(Conversation(transcript, client, registry, deps, **options).ask_for(output_type, output_retries))


@_spelled_out
def stream_conversation(
    transcript: Transcript, client: Any, registry: Registry, deps: Any, **options: Unpack[ConversationOptions]
) -> ConversationStream:
    """As :func:`run_conversation_result`, told as it happens: ``with`` it, iterate it for events, or its ``text``."""
    return ConversationStream(Conversation(transcript, client, registry, deps, **options))


@_spelled_out
async def run_conversation_result_async(
    transcript: Transcript, client: Any, registry: Registry, deps: Any, **options: Unpack[ConversationOptions]
) -> ConversationResult:
    """As :func:`run_conversation_result`, for programs on trio or asyncio, which go on meanwhile.

    Async tools and clients are awaited on the program's own loop, others run in threads. A cancellation ends the
    model call that is under way. Observers are called in line; under asyncio, in the thread of the conversation.
    """
    return await run_async(Conversation(transcript, client, registry, deps, **options))


@_spelled_out
async def run_conversation_async(
    transcript: Transcript, client: Any, registry: Registry, deps: Any, **options: Unpack[ConversationOptions]
) -> Transcript:
    """As :func:`run_conversation_result_async`, for the transcript that was given."""
    return (await run_conversation_result_async(transcript, client, registry, deps, **options)).transcript


@_spelled_out
async def run_conversation_typed_async(
    transcript: Transcript,
    client: Any,
    registry: Registry,
    deps: Any,
    output_type: Any,
    *,
    output_retries: int = DEFAULT_OUTPUT_RETRIES,
    **options: Unpack[ConversationOptions],
) -> ConversationResult:
    """As :func:`run_conversation_typed`, for programs on trio or asyncio."""
    conversation = Conversation(transcript, client, registry, deps, **options)
    return await run_async(conversation.ask_for(output_type, output_retries))


@_spelled_out
def stream_conversation_async(
    transcript: Transcript, client: Any, registry: Registry, deps: Any, **options: Unpack[ConversationOptions]
) -> AsyncConversationStream:
    """As :func:`stream_conversation`, with ``async with`` and ``async for``, on trio or asyncio."""
    return AsyncConversationStream(Conversation(transcript, client, registry, deps, **options))


def run(conversation: Conversation) -> ConversationResult:
    """Run it to its end, in this thread where nothing is to be awaited."""
    if not conversation.needs_a_loop():
        return conversation.run()
    if getattr(conversation.client, "loop", None) == "asyncio":
        return _on_asyncio(functools.partial(await_on_trio, conversation.run_on_trio))
    return run_on_trio(conversation.run_on_trio)


async def run_async(conversation: Conversation) -> ConversationResult:
    """The same, for programs on trio or asyncio."""
    return await await_on_trio(conversation.run_on_trio)


def _on_asyncio(main: Callable[[], Coroutine[Any, Any, ConversationResult]]) -> ConversationResult:
    """Run it on an asyncio loop of its own: in a thread where one is running here."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    def run() -> ConversationResult:
        return asyncio.run(main())

    if not is_asyncio_running():
        return run()
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result()
