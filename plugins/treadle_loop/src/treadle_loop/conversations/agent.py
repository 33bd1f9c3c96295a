"""An agent: a client, tools and limits, put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypedDict, TypeVar, Unpack, overload

from treadle_loop.conversations.conversation import (
    DEFAULT_DEADLINE_SECONDS,
    DEFAULT_MAX_ITERATIONS,
    DEFAULT_MAX_TOKENS,
    Conversation,
)
from treadle_loop.conversations.running import run, run_async
from treadle_loop.conversations.settings import Settings, build_client
from treadle_loop.conversations.shaping import DEFAULT_OUTPUT_RETRIES
from treadle_loop.conversations.streaming import AsyncConversationStream, ConversationStream
from treadle_loop.conversations.summaries import ConversationResult, ConversationStatus, SummaryOptions
from treadle_loop.conversations.toolbox import (
    Deps,
    HostedTool,
    Registry,
    ToolSpec,
    check_client,
    check_deps,
    check_iterable,
    check_tools,
)
from treadle_loop.errors import ConfigurationError, OutputInvalid
from treadle_loop.transcript import Transcript

if TYPE_CHECKING:
    from treadle import TrimPolicy

__all__ = ["Agent"]

T = TypeVar("T")


class Labels(TypedDict, total=False):
    """What a conversation may be called. Nothing is done with it."""

    conversation_id: str | None
    correlation_id: str | None
    parent_id: str | None


class Asked(Labels, total=False):
    """Labels, and the shape that the answer is to have."""

    output_type: Any


class Agent:
    """Answers prompts with the help of tools.

    :param tools: made by ``@tool``, and hosted ones.
    :param client: what :func:`build_client` gives, or one of your own.
    :param deps: what tools are handed, and who may run; :class:`Deps` without it.
    :param trace: traces; need a package that is not there yet.
    :param metrics: metrics; the same.
    :param output_retries: how often a model that missed the shape asked for is told what is wrong and asked again.
    :param token_budget: most tokens of a conversation that are sent; see :class:`TrimmingClient`, whose policies are
        those of ``trim_policy``. None sends all.
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
        output_retries: int = DEFAULT_OUTPUT_RETRIES,
        token_budget: int | None = None,
        trim_policy: str | TrimPolicy = "drop_oldest",
    ) -> None:
        for wanted, what in ((trace, "trace"), (metrics, "metrics")):
            if wanted:
                raise ConfigurationError(f"{what}=True needs the package treadle-otel", hint="pip install treadle-otel")
        check_client(client)
        check_deps(deps)
        check_iterable(tools)
        self.name = name
        self.client = client
        self.registry = Registry([each for each in tools if not isinstance(each, HostedTool)])
        self.hosted_tools = tuple(each for each in tools if isinstance(each, HostedTool))
        check_tools(client, self.registry, self.hosted_tools)
        self.deps = Deps() if deps is None else deps
        self._owns_client = False
        self._asked = client
        if token_budget is not None:
            from treadle_loop.trimming import TrimmingClient

            self._asked = TrimmingClient(client, token_budget, trim_policy=trim_policy)
        self._output_retries = output_retries
        self._options = {
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
        prices: Any = None,
        **settings: Any,
    ) -> Self:
        """An agent with a client of its own, from a mapping like ``os.environ``. Close it when it is done with.

        :param prices: see :func:`build_client`.
        :raises ValidationError: a variable's value will not do (pydantic's, a ``ValueError``).
        :raises AuthError: the key is not set.
        """
        client = build_client(Settings.from_env(environment), http_client=http_client, prices=prices)
        try:
            agent = cls(tools, client=client, **settings)
        except BaseException:
            client.close()
            raise
        agent._owns_client = True
        return agent

    # --- a prompt ---

    @overload
    def run(self, prompt: str, **labels: Unpack[Labels]) -> str: ...
    @overload
    def run(self, prompt: str, *, output_type: type[T], **labels: Unpack[Labels]) -> T: ...
    @overload
    def run(self, prompt: str, *, output_type: Any, **labels: Unpack[Labels]) -> Any: ...
    def run(self, prompt: str, *, output_type: Any = None, **labels: Unpack[Labels]) -> Any:
        """The answer to a prompt, in a conversation of its own: its text, or with ``output_type`` its value.

        :param output_type: a pydantic model, a dataclass or another type, or a JSON Schema.
        :param labels: ``conversation_id``, ``correlation_id``, ``parent_id``: of the summary and the events. Every
            method that runs a conversation takes them.
        :raises OutputInvalid: the model gave nothing of that type, or refused to.
        """
        result = self.run_result(prompt, output_type=output_type, **labels)
        return result.text if output_type is None else _output_of(result)

    def run_result(self, prompt: str, **asked: Unpack[Asked]) -> ConversationResult:
        """The same, with transcript and summary; with ``output_type`` its value is the result's ``output``."""
        return self.converse_result(_transcript_of(prompt), **asked)

    def stream(self, prompt: str | Transcript, **asked: Unpack[Asked]) -> ConversationStream:
        """The same, as it happens; a transcript is gone on with, in place."""
        return ConversationStream(self._conversation(_transcript_of(prompt), **asked))

    @overload
    async def run_async(self, prompt: str, **labels: Unpack[Labels]) -> str: ...
    @overload
    async def run_async(self, prompt: str, *, output_type: type[T], **labels: Unpack[Labels]) -> T: ...
    @overload
    async def run_async(self, prompt: str, *, output_type: Any, **labels: Unpack[Labels]) -> Any: ...
    async def run_async(self, prompt: str, *, output_type: Any = None, **labels: Unpack[Labels]) -> Any:
        """As :meth:`run`, on trio or asyncio."""
        result = await self.run_result_async(prompt, output_type=output_type, **labels)
        return result.text if output_type is None else _output_of(result)

    async def run_result_async(self, prompt: str, **asked: Unpack[Asked]) -> ConversationResult:
        """As :meth:`run_result`, on trio or asyncio."""
        return await self.converse_result_async(_transcript_of(prompt), **asked)

    def stream_async(self, prompt: str | Transcript, **asked: Unpack[Asked]) -> AsyncConversationStream:
        """As :meth:`stream`, on trio or asyncio."""
        return AsyncConversationStream(self._conversation(_transcript_of(prompt), **asked))

    # --- a transcript ---

    def converse(self, transcript: Transcript, **labels: Unpack[Labels]) -> Transcript:
        """Go on with a conversation, which grows in place."""
        return self.converse_result(transcript, **labels).transcript

    def converse_result(self, transcript: Transcript, **asked: Unpack[Asked]) -> ConversationResult:
        """The same, with the summary, and with ``output_type`` a value."""
        return run(self._conversation(transcript, **asked))

    async def converse_async(self, transcript: Transcript, **labels: Unpack[Labels]) -> Transcript:
        """As :meth:`converse`, on trio or asyncio."""
        return (await self.converse_result_async(transcript, **labels)).transcript

    async def converse_result_async(self, transcript: Transcript, **asked: Unpack[Asked]) -> ConversationResult:
        """As :meth:`converse_result`, on trio or asyncio."""
        return await run_async(self._conversation(transcript, **asked))

    def _conversation(
        self,
        transcript: Transcript,
        *,
        output_type: Any = None,
        conversation_id: str | None = None,
        correlation_id: str | None = None,
        parent_id: str | None = None,
    ) -> Conversation:
        conversation = Conversation(
            transcript,
            self._asked,
            self.registry,
            self.deps,
            conversation_id=conversation_id,
            correlation_id=correlation_id,
            parent_id=parent_id,
            **self._options,
        )
        return conversation if output_type is None else conversation.ask_for(output_type, self._output_retries)

    # --- its end ---

    def close(self) -> None:
        """Close the client, where this agent made it."""
        if self._owns_client:
            self.client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def _output_of(result: ConversationResult) -> Any:
    if result.output is None and result.summary.status is ConversationStatus.REFUSED:
        error = OutputInvalid(f"the model refused: {result.text[:200]}")
        error.summary = result.summary
        raise error
    return result.output


def _transcript_of(prompt: str | Transcript) -> Transcript:
    if isinstance(prompt, Transcript):
        return prompt
    transcript = Transcript()
    transcript.add_user_message(prompt)
    return transcript
