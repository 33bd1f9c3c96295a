"""What model calls share - the loop, reading replies, checking their shape - and conversations in Python.

``from treadle_loop import Agent, tool, run_conversation, ...``: each name is loaded when it is first touched, so that
importing the package loads no SDK, no HTTP client and no trio.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "treadle_loop.conversations.agent": "Agent",
    "treadle_loop.conversations.events": """
        BudgetWarning CallRepeated ConversationEvent ConversationFinished ModelRequested ModelResponded ModelRetried
        ReplyDiscarded TextDelta ToolFinished ToolStarted
    """,
    "treadle_loop.conversations.observers": """
        ConsoleObserver EventTraceObserver ListObserver LoopObserver MultiObserver NullObserver
    """,
    "treadle_loop.conversations.running": """
        DEFAULT_DEADLINE_SECONDS DEFAULT_MAX_ITERATIONS DEFAULT_MAX_TOKENS DEFAULT_OUTPUT_RETRIES MAX_TOKENS_CEILING
        run_conversation run_conversation_async run_conversation_result run_conversation_result_async
        run_conversation_typed run_conversation_typed_async stream_conversation stream_conversation_async
    """,
    "treadle_loop.conversations.settings": "Settings build_client",
    "treadle_loop.conversations.streaming": "AsyncConversationStream ConversationStream",
    "treadle_loop.conversations.summaries": """
        ConversationContext ConversationResult ConversationStatus ConversationSummary FailureCount SummaryCollector
        SummaryOptions TurnRecord
    """,
    "treadle_loop.conversations.toolbox": "Deps HostedTool Registry ToolDeps ToolSpec allow_all tool",
    "treadle_loop.errors": """
        AgentLoopError AuthError BadRequestError ConfigurationError ContextLengthExceeded InsufficientCredits
        LoopBudgetExceeded ModelNotFound OutputInvalid ProviderError ProviderTimeout ProviderUnavailable
        ProviderUnreachable RateLimited ResponseInvalid ToolError TranscriptError UnexpectedRedirect
    """,
    "treadle_loop.fallback": "FallbackClient",
    "treadle_loop.provider": "AttemptRecord Client ModelRequest ModelResponse StopReason Usage",
    "treadle_loop.providers.fake": "FakeClient",
    "treadle_loop.retry": "RetryPolicy RetryingClient",
    "treadle_loop.transcript": """
        Citation HostedToolPart Message Origin Source TextPart ThinkingPart ToolCallPart ToolResultPart Transcript
        final_text from_jsonl join_text to_jsonl
    """,
    "treadle_loop.trimming": "TrimmingClient",
}
"""Where each name of the package lives; the same names stand in `__init__.pyi`, for type checkers."""

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}
__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'treadle_loop' has no attribute '{name}'")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
