"""Model providers, and the layers around them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import ClassVar, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field

from treadle._dataclasses import dataclass
from treadle.errors import UnsupportedError
from treadle.messages import EmbedRequest, EmbedResponse, MediaPart, ModelRequest, StreamEvent, ToolMessage, UserMessage

__all__ = ["Exchange", "Features", "FromEnv", "Provider", "ProviderLayer", "ProviderSettings"]

Exchange = AbstractAsyncContextManager[AsyncIterator[StreamEvent]]
"""One call of a model: entered, iterated, left. The last event is ``Completed``; leaving early ends the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """What a provider can do. What is not declared is refused before any request.

    :param media: the attachment types it takes as bytes (``image``, ``pdf``, ``audio``).
    :param media_by_url: those it fetches itself.
    :param output_schemas: whether it holds a reply to a JSON Schema itself.
    :param json_objects: whether it holds a reply to being a JSON object.
    :param hosted_tools: tools that it runs itself, such as ``web_search``.
    """

    streaming: bool = False
    tools: bool = False
    tool_choice: bool = False
    output_schemas: bool = False
    json_objects: bool = False
    reasoning: bool = False
    embeddings: bool = False
    media: frozenset[str] = frozenset()
    media_by_url: frozenset[str] = frozenset()
    hosted_tools: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class FromEnv:
    """Marks a setting that an environment variable gives: ``Annotated[str | None, FromEnv("OPENAI_BASE_URL")]``.

    An environment variable wins over ``treadle.yaml`` and the workflow; an empty one counts as not set.
    """

    variable: str


class ProviderSettings(BaseModel):
    """Base of a provider's settings, as a deployment writes them. Secrets are ``SecretRef`` fields.

    ``kind``, ``models``, ``priority``, ``fallback``, ``fallback_model`` and ``limits`` are the kernel's own: no fields
    here.
    """

    # A key pasted into the wrong setting must not be repeated by the error about it.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, defer_build=True)

    default_model: str | None = Field(
        default=None, description="the model where neither workflow nor settings name one"
    )


class Provider(ABC):
    """Speaks to one vendor or server.

    Building one is cheap: no SDK is imported, no key is read, nothing is opened. The kernel enters it (``async with``)
    in a task of the session before the first exchange, so a nursery opened there lives as long as the session, and
    leaves it in the same task when the session ends. Exchanges run in many tasks at once.

    A provider does not retry, does not fall back and does not count money: layers and the engine do.
    """

    settings_model: ClassVar[type[ProviderSettings]] = ProviderSettings
    stands_alone: ClassVar[bool] = False
    """Whether a run that has chosen it asks no other one when it fails: so with doubles, whose failure is a result."""
    features: Features = Features()

    def __init__(self, name: str, settings: ProviderSettings) -> None:
        """``name`` is what this deployment calls it; ``settings`` is an instance of ``settings_model``."""
        self.name = name
        self.settings = settings

    async def __aenter__(self) -> Self:
        """Open what exchanges need."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Close it again. No exchange is under way."""
        return None

    def default_model(self) -> str | None:
        """The model used where neither the document nor the settings name one, beyond what the offer says."""
        return self.settings.default_model

    def supports_model(self, model: str) -> bool:
        """Whether a model of that name may be had here. A server that takes any name says True.

        Known without SDK, key or network, like what :meth:`check`, :meth:`refusals` and :meth:`default_model` say: all
        are asked of a provider that may never be entered.
        """
        return True

    def check(self, request: ModelRequest) -> Iterable[str]:
        """What is wrong with the request, known without SDK, key or network.

        Asked when a document is loaded (with texts not yet filled in) and before every exchange.
        """
        return ()

    def refusals(self, request: ModelRequest) -> list[str]:
        """Why the request cannot be sent: what the provider lacks, and what :meth:`check` says."""
        return [*(f"it has no {what}" for what in _lacking(self.features, request)), *self.check(request)]

    def check_steps(self, step_ids: Collection[str]) -> Iterable[tuple[str, str]]:
        """What is doubtful about its settings in a workflow of these steps: the setting, and why.

        Told as warnings when the workflow is checked. A step of a workflow below is there as ``outer.inner``.
        """
        return ()

    def catch_up(self, requests: Iterable[ModelRequest | EmbedRequest]) -> None:  # noqa: B027 - most need not know
        """What it was asked and has answered in a run that is gone on with, in order; in this process or in others.

        Told once for each such run, before its first exchange there. For doubles, whose replies follow on each other.
        """

    @abstractmethod
    def exchange(self, request: ModelRequest) -> Exchange:
        """Send the request and give its events.

        With ``request.stream``, text arrives as ``TextDelta`` as it is written; without it there is one event,
        ``Completed``. Leaving the context early, or a cancellation, ends the request at the server.

        :raises ProviderError: entering or iterating; the most specific class there is.
        """

    async def embed(self, request: EmbedRequest) -> EmbedResponse:
        """Turn texts into vectors.

        :raises ProviderError: as for an exchange.
        """
        raise UnsupportedError(f"provider '{self.name}' has no embeddings", provider=self.name)

    def known_cost(self, response_model: str) -> float | None:
        """What a call costs where that is known without prices, such as 0 for a model on this machine."""
        return None

    def cost_of(self, request: ModelRequest | EmbedRequest) -> float | None:
        """What this very call will cost, in US dollars, where that is known before it is made, as of a recording.

        Asked by budgets. None leaves it to an estimate.
        """
        return None


class ProviderLayer(Protocol):
    """Stands around model calls: breakers, limiters, recorders, caches.

    A layer sees the request and every event, and may answer itself, wait, refuse, or change either. One of scope
    ``candidate`` stands around each attempt at one provider: it sees that one's model, and a ``ProviderError`` or
    ``ConfigurationError`` that it raises before the first event passes the request on to the next candidate. Any other
    error ends the call. One of scope ``call`` stands around all attempts of a call: what it raises reaches the step,
    and what it answers itself is counted as a call.
    """

    def exchange(self, request: ModelRequest, proceed: Callable[[ModelRequest], Exchange]) -> Exchange:
        """Like :meth:`Provider.exchange`; ``proceed`` goes one layer further in."""
        ...


def _lacking(features: Features, request: ModelRequest) -> Iterator[str]:
    """What the request needs and the provider does not have."""
    if request.tools and not features.tools:
        yield "tools"
    if request.tool_choice != "auto" and not features.tool_choice:
        yield "choice of tools"
    if request.output is not None:
        if request.output.schema is None and not features.json_objects:
            yield "replies held to JSON"
        elif request.output.schema is not None and not features.output_schemas:
            yield "replies held to a JSON schema"
    media = list(_media(request))
    for kind in sorted({each.type for each in media if each.data is not None} - features.media):
        yield f"attachments of type {kind}"
    for kind in sorted({each.type for each in media if each.url is not None} - features.media_by_url):
        yield f"attachments of type {kind} by URL"
    for hosted in request.hosted_tools:
        if hosted.tool not in features.hosted_tools:
            yield f"the hosted tool '{hosted.tool}'"


def _media(request: ModelRequest) -> Iterator[MediaPart]:
    for message in request.messages:
        if type(message) is UserMessage:
            yield from (part for part in message.parts if isinstance(part, MediaPart))
        elif type(message) is ToolMessage:
            for result in message.results:
                yield from result.media
