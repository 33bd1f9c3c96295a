"""The provider ``my_provider``. Put your vendor's API where the reply is made up."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Annotated

from pydantic import Field

from treadle import (
    AssistantMessage,
    BadRequestError,
    Completed,
    Features,
    FromEnv,
    ModelRequest,
    ModelResponse,
    Provider,
    ProviderSettings,
    StopReason,
    StreamEvent,
    TextDelta,
    Usage,
    UserMessage,
)

__all__ = ["AcmeProvider", "AcmeProviderSettings"]


class AcmeProviderSettings(ProviderSettings):
    """What ``providers.my_provider`` in treadle.yaml takes. A secret would be a field of type ``SecretRef``."""

    greeting: Annotated[str, FromEnv("MY_PROVIDER_GREETING")] = Field(
        default="You said:", description="what each reply begins with"
    )


class AcmeProvider(Provider):
    """Repeats what it is told.

    Building one must be cheap: no SDK, no key, nothing opened. Clients are opened in ``__aenter__``.
    """

    settings_model = AcmeProviderSettings
    # What is not declared here is refused before any request: tools, schemas, attachments and so on.
    features = Features(streaming=True)
    settings: AcmeProviderSettings

    def supports_model(self, model: str) -> bool:
        """There is one model."""
        return model == "parrot-1"

    def check(self, request: ModelRequest) -> Iterable[str]:
        """What would be refused, known without a network. ``treadle validate`` asks, and so does every exchange."""
        if request.temperature is not None:
            yield "a parrot has no temperature"

    @asynccontextmanager
    async def exchange(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        """Ask, and give the events of the reply. Leaving early must end the request at the server."""
        for refusal in self.check(request):
            raise BadRequestError(refusal, provider=self.name)
        # Closed as soon as it is left: a generator that is merely dropped keeps its connection.
        async with aclosing(self._events(request)) as events:
            yield events

    async def _events(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        pieces = list(self._pieces(request))
        if request.stream:
            for piece in pieces:
                yield TextDelta(piece)
        yield Completed(
            ModelResponse(
                message=AssistantMessage.of("".join(pieces)),
                stop_reason=StopReason.END_TURN,
                finish_reason="stop",
                # Tokens as the vendor reports them; None is unknown, and never 0.
                usage=Usage(input_tokens=sum(map(_words, request.messages)), output_tokens=len(pieces)),
                model=request.model,
                provider=self.name,
            )
        )

    def _pieces(self, request: ModelRequest) -> Iterator[str]:
        said = next((each.text for each in reversed(request.messages) if isinstance(each, UserMessage)), "")
        yield self.settings.greeting
        for word in said.split(" "):
            yield f" {word}"


def _words(message: object) -> int:
    return len(str(getattr(message, "text", "")).split())
