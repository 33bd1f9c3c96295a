"""An agent: a client, tools and limits, put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self, TypedDict, Unpack

from treadle_loop.conversations.running import (
    DEFAULT_DEADLINE_SECONDS,
    DEFAULT_MAX_ITERATIONS,
    DEFAULT_MAX_TOKENS,
    run_conversation_result,
    run_conversation_result_async,
)
from treadle_loop.conversations.settings import Settings, build_client
from treadle_loop.conversations.summaries import ConversationResult, SummaryOptions
from treadle_loop.conversations.toolbox import Deps, HostedTool, Registry, ToolSpec, check_client, check_tools
from treadle_loop.errors import ConfigurationError
from treadle_loop.transcript import Transcript

__all__ = ["Agent"]


class Labels(TypedDict, total=False):
    """What a conversation may be called. Nothing is done with it."""

    conversation_id: str | None
    correlation_id: str | None
    parent_id: str | None


class Agent:
    """Answers prompts with the help of tools.

    :param tools: made by ``@tool``, and hosted ones.
    :param client: what :func:`build_client` gives, or one of your own.
    :param deps: what tools are handed, and who may run; :class:`Deps` without it.
    :param trace: traces; need a package that is not there yet.
    :param metrics: metrics; the same.
    :raises ConfigurationError: the client cannot run a hosted tool, a local tool is named like one, or traces or
        metrics are asked for.
    """

    def __init__(
        self,
        tools: Sequence[ToolSpec | HostedTool],
        *,
        client: Any,
        system: str | None = None,
        deps: Any = None,
        observer: Any = None,
        name: str = "agentloop",
        trace: bool = False,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        max_iterations: int = DEFAULT_MAX_ITERATIONS,
        deadline_seconds: float | None = DEFAULT_DEADLINE_SECONDS,
        summary_options: SummaryOptions | None = None,
        metrics: bool = False,
    ) -> None:
        for wanted, what in ((trace, "trace"), (metrics, "metrics")):
            if wanted:
                raise ConfigurationError(f"{what}=True needs the package treadle-otel", hint="pip install treadle-otel")
        for each in tools:
            if not isinstance(each, ToolSpec | HostedTool):
                raise ConfigurationError(
                    f"a tool is what @tool makes, a ToolSpec or a HostedTool, not {type(each).__name__}"
                )
        check_client(client)
        self.name = name
        self.client = client
        self.registry = Registry([each for each in tools if isinstance(each, ToolSpec)])
        self.hosted_tools = tuple(each for each in tools if isinstance(each, HostedTool))
        check_tools(client, self.registry, self.hosted_tools)
        self.deps = Deps() if deps is None else deps
        self._owns_client = False
        self._settings: dict[str, Any] = {
            "system": system,
            "max_tokens": max_tokens,
            "max_iterations": max_iterations,
            "deadline_seconds": deadline_seconds,
            "observer": observer,
            "hosted_tools": self.hosted_tools,
            "agent_name": name,
            "summary_options": summary_options,
        }

    @classmethod
    def from_env(
        cls,
        environment: Mapping[str, str],
        tools: Sequence[ToolSpec | HostedTool],
        *,
        http_client: Any = None,
        **settings: Any,
    ) -> Self:
        """An agent with a client of its own, from a mapping like ``os.environ``. Close it when it is done with.

        :raises ValidationError: a variable's value will not do (pydantic's, a ``ValueError``).
        :raises AuthError: the key is not set.
        """
        client = build_client(Settings.from_env(environment), http_client=http_client)
        try:
            agent = cls(tools, client=client, **settings)
        except BaseException:
            client.close()
            raise
        agent._owns_client = True
        return agent

    # --- a prompt ---

    def run(self, prompt: str, **labels: Unpack[Labels]) -> str:
        """The answer to a prompt, in a conversation of its own.

        :param labels: ``conversation_id``, ``correlation_id``, ``parent_id``: of the summary and the events. Every
            method that runs a conversation takes them.
        """
        return self.run_result(prompt, **labels).text

    def run_result(self, prompt: str, **labels: Unpack[Labels]) -> ConversationResult:
        """The same, with transcript and summary."""
        return self.converse_result(_asked(prompt), **labels)

    async def run_async(self, prompt: str, **labels: Unpack[Labels]) -> str:
        """As :meth:`run`, on trio or asyncio."""
        return (await self.run_result_async(prompt, **labels)).text

    async def run_result_async(self, prompt: str, **labels: Unpack[Labels]) -> ConversationResult:
        """As :meth:`run_result`, on trio or asyncio."""
        return await self.converse_result_async(_asked(prompt), **labels)

    # --- a transcript ---

    def converse(self, transcript: Transcript, **labels: Unpack[Labels]) -> Transcript:
        """Go on with a conversation, which grows in place."""
        return self.converse_result(transcript, **labels).transcript

    def converse_result(self, transcript: Transcript, **labels: Unpack[Labels]) -> ConversationResult:
        """The same, with the summary."""
        return run_conversation_result(transcript, self.client, self.registry, self.deps, **self._settings, **labels)

    async def converse_async(self, transcript: Transcript, **labels: Unpack[Labels]) -> Transcript:
        """As :meth:`converse`, on trio or asyncio."""
        return (await self.converse_result_async(transcript, **labels)).transcript

    async def converse_result_async(self, transcript: Transcript, **labels: Unpack[Labels]) -> ConversationResult:
        """As :meth:`converse_result`, on trio or asyncio."""
        return await run_conversation_result_async(
            transcript, self.client, self.registry, self.deps, **self._settings, **labels
        )

    # --- its end ---

    def close(self) -> None:
        """Close the client, where this agent made it."""
        if self._owns_client:
            self.client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def _asked(prompt: str) -> Transcript:
    transcript = Transcript()
    transcript.add_user_message(prompt)
    return transcript
