"""What a deployment may set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field

from treadle.contracts.provider import FromEnv, ProviderSettings
from treadle.contracts.secrets import SecretRef
from treadle_http.sendable import http_url, sendable_headers

__all__ = ["OLLAMA_BASE_URL", "OllamaSettings", "server_url"]

OLLAMA_BASE_URL = "http://localhost:11434"


def server_url(url: str) -> str:
    """Where the server is: without the ``/api`` or ``/v1`` that the pages of its two APIs write behind it.

    :raises ValueError: it is no http(s) URL.
    """
    return http_url(url).removesuffix("/api").removesuffix("/v1")


class OllamaSettings(ProviderSettings):
    """Settings of provider ``ollama``. Without a key that is set, none is sent."""

    base_url: Annotated[Annotated[str, AfterValidator(server_url)], FromEnv("OLLAMA_BASE_URL")] = Field(
        default=OLLAMA_BASE_URL, description="address of the server"
    )
    api_key: SecretRef | None = Field(
        default=SecretRef("env:OLLAMA_API_KEY"),
        description="where the key is, for servers that want one: env:NAME or file:PATH; may be unset",
    )
    headers: Annotated[Mapping[str, str], AfterValidator(sendable_headers)] = Field(
        default_factory=dict, description="further headers of every request"
    )
    timeout: float = Field(
        default=300.0, gt=0, description="longest silence of the server, in seconds; loading a model is one"
    )
    keep_alive: str | int | None = Field(
        default=None,
        description="how long the model stays in memory after a request: seconds, or a text such as 10m; -1 for ever",
    )
