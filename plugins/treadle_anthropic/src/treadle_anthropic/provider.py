"""The provider.

Nothing heavy is imported here, as checking a document builds a provider too: the loop and the HTTP client when the
provider is entered, the SDK on the first exchange, both in a worker thread.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from treadle.contracts.provider import Exchange, Features
from treadle.errors import BadRequestError
from treadle.messages import Completed, ModelRequest, StreamEvent
from treadle_anthropic.convert import Prepared, prepare, problems
from treadle_anthropic.errors import refuses_signature
from treadle_anthropic.replies import Asked, response_of
from treadle_anthropic.search import WEB_SEARCH
from treadle_anthropic.settings import ANTHROPIC_BASE_URL, AnthropicSettings
from treadle_anthropic.stream import StreamedReply
from treadle_http.providers import SdkProvider
from treadle_http.reply_events import ReplyEvents
from treadle_http.sendable import sendable_key
from treadle_http.status_errors import request_id

if TYPE_CHECKING:
    import httpx2

    from treadle_anthropic.sdk import MessagesClient

__all__ = ["AnthropicProvider"]

_DROPPED = "Anthropic refused the signature of an earlier turn's reasoning; the request was repeated without it"


class AnthropicProvider(SdkProvider["MessagesClient"]):
    """Anthropic's Messages API, or what ``base_url`` puts in its place."""

    settings_model = AnthropicSettings
    settings: AnthropicSettings
    sdk_module = "treadle_anthropic.sdk"
    sdk_vendor = "Anthropic"
    features = Features(
        streaming=True,
        tools=True,
        tool_choice=True,
        output_schemas=True,
        json_objects=True,
        reasoning=True,
        media=frozenset({"image", "pdf"}),
        media_by_url=frozenset({"image"}),
        hosted_tools=frozenset({WEB_SEARCH}),
    )

    def supports_model(self, model: str) -> bool:
        """Anthropic's names hold ``claude``; behind another base URL, any name."""
        return self._base_url() != ANTHROPIC_BASE_URL or "claude" in model.lower()

    def check(self, request: ModelRequest) -> Iterable[str]:
        """What cannot be sent."""
        return tuple(problems(request, provider=self.name))

    def exchange(self, request: ModelRequest) -> Exchange:
        """Send the request and give its events."""
        return self._streamed(request) if request.stream else self._plain(request)

    # --- exchanges ---

    @asynccontextmanager
    async def _plain(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        client = await self._ready()
        prepared, data, headers = await self._post(client, request)
        response = response_of(data, self._asked(request, prepared, client), request_id=request_id(headers))
        yield ReplyEvents([Completed(response)])

    async def _post(self, client: MessagesClient, request: ModelRequest) -> tuple[Prepared, Any, Mapping[str, str]]:
        prepared = prepare(request, provider=self.name)
        try:
            return prepared, *await client.post(prepared)
        except BadRequestError as error:
            again = self._without_thinking(request, prepared, error)
            if again is None:
                raise
        return again, *await client.post(again)

    @asynccontextmanager
    async def _streamed(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        from treadle_http.pump import pumped

        client = await self._ready()
        prepared = prepare(request, provider=self.name)
        reply = StreamedReply(self._asked(request, prepared, client))

        @asynccontextmanager
        async def answered(prepared: Prepared) -> AsyncIterator[AsyncIterator[bytes]]:
            async with client.stream(prepared) as response:
                reply.asked = self._asked(request, prepared, client)
                reply.begin(response.headers)
                yield response.aiter_bytes()

        async def first_good(stack: AsyncExitStack) -> AsyncIterator[bytes]:
            try:
                return await stack.enter_async_context(answered(prepared))
            except BadRequestError as error:
                again = self._without_thinking(request, prepared, error)
                if again is None:
                    raise
            return await stack.enter_async_context(answered(again))

        @asynccontextmanager
        async def source() -> AsyncIterator[AsyncIterator[bytes]]:
            async with AsyncExitStack() as stack:
                yield await first_good(stack)

        async with pumped(source) as pieces:
            yield ReplyEvents(pieces=pieces, reply=reply)

    def _without_thinking(self, request: ModelRequest, sent: Prepared, error: BadRequestError) -> Prepared | None:
        """The request without the blocks that were refused, where that is what it was refused for."""
        if not sent.has_thinking or not refuses_signature(error):
            return None
        again = prepare(request, provider=self.name, with_thinking=False)
        return replace(again, warnings=(*again.warnings, _DROPPED))

    def _asked(self, request: ModelRequest, prepared: Prepared, client: MessagesClient) -> Asked:
        return Asked(
            provider=self.name,
            model=request.model,
            keep_reasoning=request.reasoning is None or request.reasoning.capture,
            answer_tool=prepared.answer_tool,
            warnings=prepared.warnings,
            secrets=client.secrets,
        )

    # --- the client ---

    def _base_url(self) -> str:
        return self.settings.base_url or ANTHROPIC_BASE_URL

    def _credentials(self) -> str:
        return sendable_key(self.settings.api_key)

    async def _connect(self, sdk: Any, http: httpx2.AsyncClient, credentials: str) -> MessagesClient:
        client: MessagesClient = sdk.MessagesClient(
            http,
            provider=self.name,
            base_url=self._base_url(),
            key=credentials,
            headers=self.settings.headers,
            betas=self.settings.betas,
        )
        return client
