"""What Ollama's errors mean, and what to do about them.

https://docs.ollama.com/api/errors: an error is ``{"error": "text"}``, with a status or inside a stream.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from treadle.errors import ContextLengthError, ModelNotFoundError, ProviderError, UnavailableError
from treadle_http.status_errors import body_error, status_error

__all__ = ["ServerErrors"]

_TOO_LONG = re.compile(r"(exceeds?|longer than|beyond) .{0,40}context|context (length|size|window) .{0,20}exceeded")
_NO_MODEL = re.compile(r"model .{1,200} not found")


class ServerErrors:
    """Makes errors of one exchange.

    :param model: the model that was asked for, which a hint names.
    :param base_url: where the server is, for a hint.
    :param secrets: taken out of the server's words.
    """

    def __init__(self, *, provider: str, model: str, base_url: str, secrets: Iterable[str] = ()) -> None:
        self._provider = provider
        self._model = model
        self._base_url = base_url
        self._secrets = tuple(secrets)

    def of_status(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """An answer with a status of 300 or more."""
        return self._refined(status_error(status, headers, body, self._provider, secrets=self._secrets))

    def in_body(self, data: Mapping[str, Any], headers: Mapping[str, str]) -> ProviderError:
        """An error inside a good answer, or inside a stream."""
        return self._refined(body_error(data, headers, self._provider, secrets=self._secrets))

    def of_transport(self, error: BaseException) -> ProviderError:
        """No answer, or half of one."""
        from treadle_http.transport_errors import to_provider_error

        found = to_provider_error(error, self._provider, secrets=self._secrets)
        if isinstance(found, UnavailableError) and found.phase == "connect":
            found.hint = f"is Ollama running at {self._shown_url()}? Start it with: ollama serve"
        return found

    def _refined(self, error: ProviderError) -> ProviderError:
        text = error.message.lower()
        kind: type[ProviderError] = type(error)
        if _TOO_LONG.search(text):
            kind = ContextLengthError
        elif _NO_MODEL.search(text):
            kind = ModelNotFoundError
        if kind is not type(error):
            error = kind(
                error.message,
                provider=error.provider,
                status_code=error.status_code,
                retry_after=error.retry_after,
                request_id=error.request_id,
                phase=error.phase,
                request_sent=error.request_sent,
            )
        if isinstance(error, ModelNotFoundError):
            error.hint = f"ollama pull {self._model}"
        return error

    def _shown_url(self) -> str:
        from treadle_http.redaction import shown_url

        return shown_url(self._base_url)
