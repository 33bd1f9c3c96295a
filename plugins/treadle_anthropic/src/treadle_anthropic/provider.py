"""The provider.

Nothing heavy is imported here, as checking a document builds a provider too: the loop and the HTTP client when the
provider is entered, the SDK on the first exchange, both in a worker thread.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from treadle.contracts.provider import Exchange, Features, Provider, ProviderSettings
from treadle.errors import BadRequestError, PluginError
from treadle.messages import Completed, ModelRequest, StreamEvent
from treadle_anthropic.convert import Prepared, prepare, problems
from treadle_anthropic.errors import refuses_signature
from treadle_anthropic.replies import Asked, response_of
from treadle_anthropic.search import WEB_SEARCH
from treadle_anthropic.settings import ANTHROPIC_BASE_URL, AnthropicSettings
from treadle_anthropic.stream import StreamedReply
from treadle_http.reply_events import ReplyEvents
from treadle_http.sendable import sendable_key
from treadle_http.status_errors import request_id

if TYPE_CHECKING:
    import httpx2
    import trio

    from treadle_anthropic.sdk import MessagesClient

__all__ = ["AnthropicProvider"]

_DROPPED = "Anthropic refused the signature of an earlier turn's reasoning; the request was repeated without it"


class AnthropicProvider(Provider):
    """Anthropic's Messages API, or what ``base_url`` puts in its place."""

    settings_model = AnthropicSettings
    settings: AnthropicSettings
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

    def __init__(self, name: str, settings: ProviderSettings) -> None:
        super().__init__(name, settings)
        self._opened = AsyncExitStack()
        self._http: httpx2.AsyncClient | None = None
        self._client: MessagesClient | None = None
        self._building: trio.Lock

    async def __aenter__(self) -> Self:
        """Open the connection pool. It lives until the provider is left."""
        import trio

        self._building = trio.Lock()
        http = await trio.to_thread.run_sync(import_module, "treadle_http.client")
        timeouts = http.Timeouts(read=self.settings.timeout)
        self._http = await self._opened.enter_async_context(http.open_client(timeouts=timeouts))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Close the pool."""
        self._client = self._http = None
        return await self._opened.__aexit__(kind, error, trace)

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
                reply.begin(self._asked(request, prepared, client), response.headers)
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

    async def _ready(self) -> MessagesClient:
        """The SDK's client, built once. A missing key is told before the SDK is imported."""
        client = self._client
        if client is None:
            key = sendable_key(self.settings.api_key)
            http = self._require_entered()
            async with self._building:  # another task may have built it meanwhile
                client = self._client = self._built() or await self._build(http, key)
        return client

    def _built(self) -> MessagesClient | None:
        return self._client

    def _require_entered(self) -> httpx2.AsyncClient:
        if self._http is None:
            raise RuntimeError(f"provider '{self.name}' is used before it is entered, or after it was left")
        return self._http

    async def _build(self, http: httpx2.AsyncClient, key: str) -> MessagesClient:
        import trio

        try:
            sdk = await trio.to_thread.run_sync(import_module, "treadle_anthropic.sdk")
        except ImportError as error:
            raise PluginError(
                f"provider '{self.name}' cannot load the Anthropic SDK: {error}",
                hint="pip install --upgrade treadle-anthropic",
            ) from error
        client: MessagesClient = sdk.MessagesClient(
            http,
            provider=self.name,
            base_url=self._base_url(),
            key=key,
            headers=self.settings.headers,
            betas=self.settings.betas,
        )
        return client
