"""Provider ``ollama``.

Nothing heavy is imported here, as checking a document builds a provider too: the loop and the HTTP client come when
the provider is entered, in a worker thread.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

from treadle.contracts.provider import Exchange, Features, ProviderSettings
from treadle.messages import Completed, EmbedRequest, EmbedResponse, ModelRequest, StreamEvent, Usage
from treadle_http.history import History, encoded
from treadle_http.limits import BodyTooLargeError
from treadle_http.providers import HttpProvider
from treadle_http.reply_events import ReplyEvents
from treadle_http.sendable import optional_key
from treadle_http.status_errors import is_error_body
from treadle_ollama.convert import embed_body, embed_response, messages_of, problems, request_body
from treadle_ollama.errors import ServerErrors
from treadle_ollama.reply import OllamaReply
from treadle_ollama.settings import OllamaSettings

__all__ = ["OllamaProvider"]

_CHAT = "/api/chat"
_EMBED = "/api/embed"
_EMBED_BATCH = 512
"""Inputs of one request. The API has no limit; this keeps a request short and its silence too."""


class OllamaProvider(HttpProvider):
    """Models of an Ollama server."""

    settings_model = OllamaSettings
    settings: OllamaSettings
    features = Features(
        streaming=True,
        tools=True,
        tool_choice=True,  # let through, and ignored with a warning: the API has none
        output_schemas=True,
        json_objects=True,
        reasoning=True,
        embeddings=True,
        media=frozenset({"image"}),
    )

    def __init__(self, name: str, settings: ProviderSettings) -> None:
        super().__init__(name, settings)
        self._history = History(partial(messages_of, provider=name))

    def check(self, request: ModelRequest) -> Iterable[str]:
        """What cannot be sent."""
        return tuple(problems(request, provider=self.name))

    def known_cost(self, response_model: str) -> float | None:
        """Nothing: the server is one's own."""
        return 0.0

    def exchange(self, request: ModelRequest) -> Exchange:
        """Send the request and give its events."""
        return self._streamed(request) if request.stream else self._plain(request)

    async def embed(self, request: EmbedRequest) -> EmbedResponse:
        """Turn texts into vectors, 512 at a time."""
        headers = self._headers()
        errors = self._errors(request.model, headers)
        vectors: list[tuple[float, ...]] = []
        usage, model = Usage.ZERO, request.model
        for start in range(0, len(request.inputs), _EMBED_BATCH):
            batch = request.inputs[start : start + _EMBED_BATCH]
            body = embed_body(request, batch, keep_alive=self.settings.keep_alive)
            answer, answered = await self._post(_EMBED, body, headers, errors)
            data = self._json(answer)
            if is_error_body(data):
                raise errors.in_body(data, answered)
            part = embed_response(data, provider=self.name, model=request.model, count=len(batch))
            vectors.extend(part.vectors)
            usage, model = usage + part.usage, part.model
        return EmbedResponse(vectors=tuple(vectors), usage=usage, model=model, provider=self.name)

    @asynccontextmanager
    async def _plain(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        headers = self._headers()
        errors = self._errors(request.model, headers)
        body = request_body(request, provider=self.name, keep_alive=self.settings.keep_alive, history=self._history)
        answer, answered = await self._post(_CHAT, body, headers, errors)
        reply = OllamaReply(request, provider=self.name, errors=errors)
        reply.begin(answered)
        events = reply.whole(self._json(answer))
        yield ReplyEvents(event for event in events if isinstance(event, Completed))

    @asynccontextmanager
    async def _streamed(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        from treadle_http.pump import pumped

        http, headers = self._entered(), self._headers()
        errors = self._errors(request.model, headers)
        body = request_body(request, provider=self.name, keep_alive=self.settings.keep_alive, history=self._history)
        reply = OllamaReply(request, provider=self.name, errors=errors)

        @asynccontextmanager
        async def source() -> AsyncIterator[AsyncIterator[bytes]]:
            with _translated(errors):
                async with http.stream("POST", self._url(_CHAT), content=encoded(body), headers=headers) as response:
                    if response.status_code >= 300:
                        raise errors.of_status(response.status_code, response.headers, await response.aread())
                    reply.begin(response.headers)
                    yield response.aiter_bytes()

        async with pumped(source) as pieces:
            yield ReplyEvents(pieces=pieces, reply=reply)

    async def _post(
        self, path: str, body: Mapping[str, Any], headers: Mapping[str, str], errors: ServerErrors
    ) -> tuple[bytes, Mapping[str, str]]:
        http = self._entered()
        with _translated(errors):
            response = await http.post(self._url(path), content=encoded(body), headers=headers)
        if response.status_code >= 300:
            raise errors.of_status(response.status_code, response.headers, response.content)
        return response.content, response.headers

    def _url(self, path: str) -> str:
        return f"{self.settings.base_url}{path}"

    def _headers(self) -> Mapping[str, str]:
        key = optional_key(self.settings, self.settings.api_key)
        return {
            "Content-Type": "application/json",
            **({"Authorization": f"Bearer {key}"} if key else {}),
            **self.settings.headers,
        }

    def _errors(self, model: str, headers: Mapping[str, str]) -> ServerErrors:
        secrets = {value.removeprefix("Bearer ") for name, value in headers.items() if name != "Content-Type"}
        return ServerErrors(provider=self.name, model=model, base_url=self.settings.base_url, secrets=secrets)


@contextmanager
def _translated(errors: ServerErrors) -> Iterator[None]:
    """What the HTTP client raises, as the provider's errors."""
    import httpx2

    client = (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, httpx2.CookieConflict, OSError)
    try:
        yield
    except (*client, BodyTooLargeError) as error:
        # Without the cause: its text may hold what is taken out of ours.
        raise errors.of_transport(error) from None
