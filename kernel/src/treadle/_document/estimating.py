"""What a call would come to, without making it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from treadle._dataclasses import dataclass
from treadle._document.envelope import provider_overrides
from treadle._settings.providers import with_model
from treadle.messages import AssistantMessage, Message, ModelRequest, ToolMessage, Usage, dump

if TYPE_CHECKING:
    from treadle._document.workflow import Workflow
    from treadle.contracts.memory import TokenCounter
    from treadle.contracts.provider import Provider

__all__ = ["CallEstimate", "estimate"]

_CHARACTERS = 4


class Pricing(Protocol):
    """What of a session is asked."""

    def built_provider(self, name: str, overrides: Mapping[str, Mapping[str, Any]]) -> Provider: ...

    def token_counter(self) -> TokenCounter | None: ...

    async def price(self, provider: Provider, model: str, usage: Usage) -> float | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEstimate:
    """One call of a model, estimated. What nobody knows is None.

    :param input_tokens: by the deployment's token counter; a token for four characters where it has none, and of tools
        and the shape of the reply. Attachments are not counted.
    :param most_output_tokens: the request's ``max_tokens``.
    :param input_usd: what reading costs.
    :param most_usd: what the call costs with a reply of ``most_output_tokens``.
    """

    provider: str
    model: str
    input_tokens: int
    most_output_tokens: int | None
    input_usd: float | None
    most_usd: float | None


async def estimate(session: Pricing, workflow: Workflow, request: ModelRequest) -> CallEstimate:
    """The call as the workflow's own provider would be asked; no provider is opened and no key is read.

    :raises ConfigurationError: there is no such provider, or it has no model.
    """
    host, config = workflow.host, workflow.config
    name = host.resolve("provider", config.provider or host.default_provider())
    provider = session.built_provider(name, provider_overrides(host, config))
    request = with_model(host, request, provider)
    counter = session.token_counter()
    read = (
        sum(map(_tokens, request.messages)) if counter is None else counter.count(request.messages, model=request.model)
    )
    beside = [dump(each) for each in (*request.tools, request.output) if each is not None]
    read += len(json.dumps(beside)) // _CHARACTERS if beside else 0
    most = request.max_tokens

    async def price(written: int) -> float | None:
        usage = Usage(**{**dump(Usage.ZERO), "input_tokens": read, "output_tokens": written})
        return await session.price(provider, request.model, usage)

    return CallEstimate(
        provider=name,
        model=request.model,
        input_tokens=read,
        most_output_tokens=most,
        input_usd=await price(0),
        most_usd=0.0 if provider.known_cost(request.model) == 0 else None if most is None else await price(most),
    )


def _tokens(message: Message) -> int:
    if isinstance(message, ToolMessage):
        return sum(len(each.content) for each in message.results) // _CHARACTERS
    calls = message.tool_calls if isinstance(message, AssistantMessage) else ()
    return (len(message.text) + sum(len(str(each.arguments)) for each in calls)) // _CHARACTERS
