"""Provider ``google``.

Nothing heavy is imported here, as checking a document builds a provider too: the loop and the HTTP client when the
provider is entered, the SDK on the first exchange, both in a worker thread.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from treadle.contracts.provider import Exchange, Features
from treadle.errors import ProviderError
from treadle.messages import Completed, EmbedRequest, EmbedResponse, ModelRequest, StreamEvent, Usage
from treadle_google.convert import embed_body, has_signatures, problems, request_body
from treadle_google.errors import is_bad_signature, reply_error
from treadle_google.reply import GeminiReply, embed_response
from treadle_google.settings import GOOGLE_BASE_URL, GoogleSettings, split_version
from treadle_http.providers import SdkProvider
from treadle_http.reply_events import ReplyEvents
from treadle_http.sendable import sendable_key
from treadle_http.status_errors import is_error_body

if TYPE_CHECKING:
    import httpx2

    from treadle_google.sdk import GeminiClient

__all__ = ["GoogleProvider"]

_EMBED_BATCH = 100
"""Most inputs of one request: https://ai.google.dev/api/embeddings#method:-models.batchembedcontents"""

_MODELS = re.compile(r"(models/|tunedModels/)?(gemini-|gemma-|learnlm-|text-embedding-|embedding-|aqa)|tunedModels/")
_UNSIGNED = "the API refused a signature of an earlier reply; it was asked again without signatures"


class GoogleProvider(SdkProvider["GeminiClient"]):
    """Gemini models, through Google's Gemini API."""

    settings_model = GoogleSettings
    settings: GoogleSettings
    sdk_module = "treadle_google.sdk"
    sdk_vendor = "Google"
    features = Features(
        streaming=True,
        tools=True,
        tool_choice=True,
        output_schemas=True,
        json_objects=True,
        reasoning=True,
        embeddings=True,
        media=frozenset({"image", "pdf", "audio"}),
    )

    def supports_model(self, model: str) -> bool:
        """By the beginnings of Google's names; behind another base URL, any name."""
        return split_version(self.settings.base_url)[0] != GOOGLE_BASE_URL or _MODELS.match(model) is not None

    def check(self, request: ModelRequest) -> Iterable[str]:
        """What cannot be sent."""
        return tuple(problems(request, provider=self.name))

    def exchange(self, request: ModelRequest) -> Exchange:
        """Send the request and give its events."""
        return self._streamed(request) if request.stream else self._plain(request)

    async def embed(self, request: EmbedRequest) -> EmbedResponse:
        """Turn texts into vectors, 100 at a time."""
        client = await self._ready()
        vectors: list[tuple[float, ...]] = []
        usage = Usage.ZERO
        for start in range(0, len(request.inputs), _EMBED_BATCH):
            batch = request.inputs[start : start + _EMBED_BATCH]
            async with client.embed(request.model, embed_body(request, batch)) as answer:
                data = self._json(await answer.aread())
            if is_error_body(data):
                raise reply_error(data, answer.headers, self.name, secrets=client.secrets)
            part = embed_response(data, provider=self.name, model=request.model, count=len(batch))
            vectors.extend(part.vectors)
            usage = usage + part.usage
        return EmbedResponse(vectors=tuple(vectors), usage=usage, model=request.model, provider=self.name)

    # --- exchanges ---

    @asynccontextmanager
    async def _plain(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        client = await self._ready()
        reply = GeminiReply(request, provider=self.name, secrets=client.secrets)
        async with self._answer(client, request, reply) as answer:
            reply.begin(answer.headers)
            body = await answer.aread()
        events = reply.in_one_piece(self._json(body))
        yield ReplyEvents(event for event in events if isinstance(event, Completed))

    @asynccontextmanager
    async def _streamed(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        from treadle_http.pump import pumped

        client = await self._ready()
        reply = GeminiReply(request, provider=self.name, secrets=client.secrets)

        @asynccontextmanager
        async def source() -> AsyncIterator[AsyncIterator[bytes]]:
            async with self._answer(client, request, reply) as answer:
                reply.begin(answer.headers)
                yield answer.aiter_bytes()

        async with pumped(source) as pieces:
            yield ReplyEvents(pieces=pieces, reply=reply)

    @asynccontextmanager
    async def _answer(
        self, client: GeminiClient, request: ModelRequest, reply: GeminiReply
    ) -> AsyncIterator[httpx2.Response]:
        """A good answer. Where a signature is refused, which another key or model may have made, it is asked once
        more without any."""
        generate = partial(client.generate, request.model, stream=request.stream)
        async with AsyncExitStack() as opened:
            try:
                answer = await opened.enter_async_context(generate(request_body(request, provider=self.name)))
            except ProviderError as error:
                if not (is_bad_signature(error) and has_signatures(request)):
                    raise
                reply.warn(_UNSIGNED)
                body = request_body(request, provider=self.name, signatures=False)
                answer = await opened.enter_async_context(generate(body))
            yield answer

    # --- the SDK ---

    def _credentials(self) -> str:
        return sendable_key(self.settings.api_key)

    async def _connect(self, sdk: Any, http: httpx2.AsyncClient, credentials: str) -> GeminiClient:
        import trio

        base_url, version = split_version(self.settings.base_url)
        build = partial(
            sdk.GeminiClient,
            http,
            provider=self.name,
            base_url=base_url,
            api_version=version,
            key=credentials,
            headers=self.settings.headers,
        )
        client: GeminiClient = await trio.to_thread.run_sync(build)
        self._opened.push_async_callback(client.aclose)
        return client
