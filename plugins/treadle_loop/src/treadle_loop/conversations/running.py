"""Running a conversation: the loop over a transcript, a client and a registry of tools."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from treadle.threads import await_on_trio, is_asyncio_running, run_on_trio
from treadle_loop.conversations.conversation import MAX_TOKENS_CEILING, Conversation
from treadle_loop.conversations.summaries import ConversationResult, SummaryOptions
from treadle_loop.conversations.toolbox import HostedTool, Registry
from treadle_loop.transcript import Transcript

__all__ = [
    "DEFAULT_DEADLINE_SECONDS",
    "DEFAULT_MAX_ITERATIONS",
    "DEFAULT_MAX_TOKENS",
    "MAX_TOKENS_CEILING",
    "run_conversation",
    "run_conversation_async",
    "run_conversation_result",
    "run_conversation_result_async",
]

DEFAULT_MAX_TOKENS = 16_000
DEFAULT_MAX_ITERATIONS = 50
DEFAULT_DEADLINE_SECONDS = 600.0


def run_conversation_result(
    transcript: Transcript,
    client: Any,
    registry: Registry,
    deps: Any,
    *,
    system: str | None = None,
    max_tokens: int = DEFAULT_MAX_TOKENS,
    max_iterations: int = DEFAULT_MAX_ITERATIONS,
    deadline_seconds: float | None = DEFAULT_DEADLINE_SECONDS,
    observer: Any = None,
    hosted_tools: Sequence[HostedTool] = (),
    agent_name: str | None = None,
    conversation_id: str | None = None,
    correlation_id: str | None = None,
    parent_id: str | None = None,
    summary_options: SummaryOptions | None = None,
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
    conversation = Conversation(
        transcript,
        client,
        registry,
        deps,
        system=system,
        max_tokens=max_tokens,
        max_iterations=max_iterations,
        deadline_seconds=deadline_seconds,
        observer=observer,
        hosted_tools=hosted_tools,
        options=summary_options,
        labels=(agent_name, conversation_id, correlation_id, parent_id),
    )
    if not conversation.needs_a_loop():
        return conversation.run()
    if getattr(client, "loop", None) == "asyncio":
        return _on_asyncio(functools.partial(await_on_trio, conversation.run_on_trio))
    return run_on_trio(conversation.run_on_trio)


def run_conversation(
    transcript: Transcript,
    client: Any,
    registry: Registry,
    deps: Any,
    *,
    system: str | None = None,
    max_tokens: int = DEFAULT_MAX_TOKENS,
    max_iterations: int = DEFAULT_MAX_ITERATIONS,
    deadline_seconds: float | None = DEFAULT_DEADLINE_SECONDS,
    observer: Any = None,
    hosted_tools: Sequence[HostedTool] = (),
    agent_name: str | None = None,
    conversation_id: str | None = None,
    correlation_id: str | None = None,
    parent_id: str | None = None,
    summary_options: SummaryOptions | None = None,
) -> Transcript:
    """As :func:`run_conversation_result`, for the transcript that was given."""
    return run_conversation_result(
        transcript,
        client,
        registry,
        deps,
        system=system,
        max_tokens=max_tokens,
        max_iterations=max_iterations,
        deadline_seconds=deadline_seconds,
        observer=observer,
        hosted_tools=hosted_tools,
        agent_name=agent_name,
        conversation_id=conversation_id,
        correlation_id=correlation_id,
        parent_id=parent_id,
        summary_options=summary_options,
    ).transcript


async def run_conversation_result_async(
    transcript: Transcript,
    client: Any,
    registry: Registry,
    deps: Any,
    *,
    system: str | None = None,
    max_tokens: int = DEFAULT_MAX_TOKENS,
    max_iterations: int = DEFAULT_MAX_ITERATIONS,
    deadline_seconds: float | None = DEFAULT_DEADLINE_SECONDS,
    observer: Any = None,
    hosted_tools: Sequence[HostedTool] = (),
    agent_name: str | None = None,
    conversation_id: str | None = None,
    correlation_id: str | None = None,
    parent_id: str | None = None,
    summary_options: SummaryOptions | None = None,
) -> ConversationResult:
    """As :func:`run_conversation_result`, for programs on trio or asyncio, which go on meanwhile.

    Async tools and clients are awaited on the program's own loop, others run in threads. A cancellation ends the
    model call that is under way. Observers are called in line; under asyncio, in the thread of the conversation.
    """
    conversation = Conversation(
        transcript,
        client,
        registry,
        deps,
        system=system,
        max_tokens=max_tokens,
        max_iterations=max_iterations,
        deadline_seconds=deadline_seconds,
        observer=observer,
        hosted_tools=hosted_tools,
        options=summary_options,
        labels=(agent_name, conversation_id, correlation_id, parent_id),
    )
    return await await_on_trio(conversation.run_on_trio)


async def run_conversation_async(
    transcript: Transcript,
    client: Any,
    registry: Registry,
    deps: Any,
    *,
    system: str | None = None,
    max_tokens: int = DEFAULT_MAX_TOKENS,
    max_iterations: int = DEFAULT_MAX_ITERATIONS,
    deadline_seconds: float | None = DEFAULT_DEADLINE_SECONDS,
    observer: Any = None,
    hosted_tools: Sequence[HostedTool] = (),
    agent_name: str | None = None,
    conversation_id: str | None = None,
    correlation_id: str | None = None,
    parent_id: str | None = None,
    summary_options: SummaryOptions | None = None,
) -> Transcript:
    """As :func:`run_conversation_result_async`, for the transcript that was given."""
    result = await run_conversation_result_async(
        transcript,
        client,
        registry,
        deps,
        system=system,
        max_tokens=max_tokens,
        max_iterations=max_iterations,
        deadline_seconds=deadline_seconds,
        observer=observer,
        hosted_tools=hosted_tools,
        agent_name=agent_name,
        conversation_id=conversation_id,
        correlation_id=correlation_id,
        parent_id=parent_id,
        summary_options=summary_options,
    )
    return result.transcript


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
