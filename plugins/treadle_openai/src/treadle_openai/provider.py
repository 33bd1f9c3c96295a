"""The two providers.

Nothing heavy is imported here, as checking a document builds a provider too: the loop and the HTTP client when the
provider is entered, the SDK on the first exchange, both in a worker thread.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from treadle.contracts.provider import Exchange, Features, ProviderSettings
from treadle.errors import BadRequestError, ConfigurationError
from treadle.messages import Completed, EmbedRequest, EmbedResponse, ModelRequest, StreamEvent, Usage
from treadle_http.providers import SdkProvider
from treadle_http.reply_events import ReplyEvents
from treadle_http.sendable import optional_key, sendable_key
from treadle_http.status_errors import request_id
from treadle_openai.convert import embed_body, embed_response
from treadle_openai.dialects import COMPLETIONS, RESPONSES, Dialect
from treadle_openai.settings import OPENAI_BASE_URL, GenericOpenAISettings, OpenAISettings

if TYPE_CHECKING:
    import httpx2

    from treadle_openai.sdk import Client

__all__ = ["GenericOpenAIProvider", "OpenAIProvider"]

_EMBEDDINGS = "embeddings"
_EMBED_BATCH = 2048
"""Most inputs of one request: https://platform.openai.com/docs/api-reference/embeddings/create"""

_OPENAI_MODELS = re.compile(r"(gpt-|chatgpt-|o\d|codex-|computer-use-|text-embedding-|davinci-|babbage-|ft:)")

_NOWHERE = "no base_url says where the server is"

_REASONING_LEFT_OUT = (
    "the server could not read the encrypted reasoning of earlier turns (it may be another account's, or too old); "
    "it was asked again without it"
)


class _OpenAICompatible(SdkProvider["Client"]):
    """What both have in common: everything but where the server is and what it is told of us."""

    sdk_module = "treadle_openai.sdk"
    sdk_vendor = "OpenAI"
    unsent_headers = ("x-stainless-",)
    features: Features = COMPLETIONS.features
    is_openai: ClassVar[bool]
    dialect: Dialect = COMPLETIONS

    def __init__(self, name: str, settings: ProviderSettings) -> None:
        super().__init__(name, settings)
        self._history = self.dialect.history(name)

    def check(self, request: ModelRequest) -> Iterable[str]:
        """What cannot be sent."""
        return tuple(self.dialect.problems(request, is_openai=self.is_openai))

    def exchange(self, request: ModelRequest) -> Exchange:
        """Send the request and give its events."""
        return self._streamed(request) if request.stream else self._plain(request)

    async def embed(self, request: EmbedRequest) -> EmbedResponse:
        """Turn texts into vectors, 2,048 at a time."""
        client = await self._ready()
        vectors: list[tuple[float, ...]] = []
        usage, model = Usage.ZERO, request.model
        for start in range(0, len(request.inputs), _EMBED_BATCH):
            batch = request.inputs[start : start + _EMBED_BATCH]
            data, _ = await client.post(_EMBEDDINGS, embed_body(request, batch))
            part = embed_response(data, provider=self.name, model=request.model, count=len(batch))
            vectors.extend(part.vectors)
            usage, model = usage + part.usage, part.model
        return EmbedResponse(vectors=tuple(vectors), usage=usage, model=model, provider=self.name)

    # --- what differs ---

    def _base_url(self) -> str:
        raise NotImplementedError

    def _key(self) -> str | None:
        raise NotImplementedError

    def _details(self) -> dict[str, Any]:
        raise NotImplementedError

    # --- exchanges ---

    @asynccontextmanager
    async def _plain(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        client, dialect = await self._ready(), self.dialect
        body = dialect.body(request, provider=self.name, history=self._history)
        warnings = tuple(dialect.ignored(request))
        try:
            data, headers = await client.post(dialect.path, body)
        except BadRequestError as error:
            shorter = dialect.body_without_reasoning(body) if client.is_stale(error) else None
            if shorter is None:
                raise
            data, headers = await client.post(dialect.path, shorter)
            warnings = (*warnings, _REASONING_LEFT_OUT)
        response = dialect.reply(
            data,
            provider=self.name,
            model=request.model,
            request_id=request_id(headers),
            keep_reasoning=_keeps_reasoning(request),
        )
        yield ReplyEvents([Completed(replace(response, warnings=warnings) if warnings else response)])

    @asynccontextmanager
    async def _streamed(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        from treadle_http.pump import pumped

        client, dialect = await self._ready(), self.dialect
        body = dialect.body(request, provider=self.name, history=self._history)
        reply = dialect.stream(
            provider=self.name,
            model=request.model,
            keep_reasoning=_keeps_reasoning(request),
            warnings=dialect.ignored(request),
            secrets=client.secrets,
        )

        @asynccontextmanager
        async def source() -> AsyncIterator[AsyncIterator[bytes]]:
            async with AsyncExitStack() as opened:
                try:
                    response = await opened.enter_async_context(client.stream(dialect.path, body))
                except BadRequestError as error:
                    shorter = dialect.body_without_reasoning(body) if client.is_stale(error) else None
                    if shorter is None:
                        raise
                    response = await opened.enter_async_context(client.stream(dialect.path, shorter))
                    reply.warnings = (*reply.warnings, _REASONING_LEFT_OUT)
                reply.begin(response.headers)
                yield response.aiter_bytes()

        async with pumped(source) as pieces:
            yield ReplyEvents(pieces=pieces, reply=reply)

    def _credentials(self) -> tuple[str | None, str]:
        return self._key(), self._base_url()

    async def _connect(self, sdk: Any, http: httpx2.AsyncClient, credentials: tuple[str | None, str]) -> Client:
        key, base_url = credentials
        client: Client = sdk.Client(
            http,
            provider=self.name,
            base_url=base_url,
            key=key,
            is_openai=self.is_openai,
            **self._details(),
        )
        return client


class OpenAIProvider(_OpenAICompatible):
    """OpenAI's own APIs, or what ``base_url`` puts in its place."""

    settings_model = OpenAISettings
    is_openai = True
    settings: OpenAISettings

    def __init__(self, name: str, settings: ProviderSettings) -> None:
        super().__init__(name, settings)
        if self.settings.api == "responses":
            self.dialect, self.features = RESPONSES, RESPONSES.features
            self._history = self.dialect.history(name)

    def supports_model(self, model: str) -> bool:
        """By the beginnings of OpenAI's names; behind another base URL, any name."""
        return self._base_url() != OPENAI_BASE_URL or _OPENAI_MODELS.match(model) is not None

    def _base_url(self) -> str:
        return self.settings.base_url or OPENAI_BASE_URL

    def _key(self) -> str:
        return sendable_key(self.settings.api_key)

    def _details(self) -> dict[str, Any]:
        return {
            "headers": self.settings.headers,
            "organization": self.settings.organization,
            "project": self.settings.project,
        }


class GenericOpenAIProvider(_OpenAICompatible):
    """Any server that speaks Chat Completions."""

    settings_model = GenericOpenAISettings
    is_openai = False
    settings: GenericOpenAISettings

    @property
    def _say_where(self) -> str:
        own = ", or GENERIC_OPENAI_BASE_URL" if self.name == "generic_openai" else ""  # which speaks to no other
        return f"set providers.{self.name}.base_url in treadle.yaml{own}"

    def check_steps(self, step_ids: Collection[str]) -> Iterable[tuple[str, str]]:
        """That nothing says where the server is: here, that is; where the workflow is run something may."""
        if self.settings.base_url is None:
            yield "base_url", f"{_NOWHERE}; {self._say_where}"

    def _base_url(self) -> str:
        if self.settings.base_url is None:
            raise ConfigurationError(f"provider '{self.name}': {_NOWHERE}", hint=self._say_where)
        return self.settings.base_url

    def _key(self) -> str | None:
        return optional_key(self.settings, self.settings.api_key)

    def _details(self) -> dict[str, Any]:
        return {"headers": self.settings.headers}


def _keeps_reasoning(request: ModelRequest) -> bool:
    return request.reasoning is None or request.reasoning.capture
