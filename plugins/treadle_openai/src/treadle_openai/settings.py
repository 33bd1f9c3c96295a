"""What a deployment may set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict, Field

from treadle.contracts.provider import FromEnv, ProviderSettings
from treadle.contracts.secrets import SecretRef
from treadle_http.sendable import http_url, sendable_headers

__all__ = ["OPENAI_BASE_URL", "GenericOpenAISettings", "OpenAISettings", "api_base"]

OPENAI_BASE_URL = "https://api.openai.com/v1"


def api_base(url: str) -> str:
    """Where the API begins: ``/v1`` is added to a bare host, and to nothing else.

    :raises ValueError: it is no http(s) URL.
    """
    text = http_url(url)
    parts = urlsplit(text)
    return text if parts.path or parts.query else f"{text}/v1"


BaseURL = Annotated[str, AfterValidator(api_base)]
Headers = Annotated[Mapping[str, str], AfterValidator(sendable_headers)]


_CONFIG = ConfigDict(hide_input_in_errors=True)  # what is wrong may be a key in the wrong place


class OpenAISettings(ProviderSettings):
    """Settings of provider ``openai``."""

    model_config = _CONFIG

    api_key: SecretRef = Field(
        default=SecretRef("env:OPENAI_API_KEY"), description="where the key is: env:NAME or file:PATH"
    )
    base_url: Annotated[BaseURL | None, FromEnv("OPENAI_BASE_URL")] = Field(
        default=None, description="another address of the API; /v1 is added to a bare host"
    )
    organization: Annotated[str | None, FromEnv("OPENAI_ORG_ID")] = Field(
        default=None, description="the organization that is billed"
    )
    project: Annotated[str | None, FromEnv("OPENAI_PROJECT_ID")] = Field(
        default=None, description="the project that is billed"
    )
    api: Annotated[Literal["completions", "responses"], FromEnv("OPENAI_API")] = Field(
        default="completions", description="which of OpenAI's APIs is spoken: Chat Completions or Responses"
    )
    headers: Headers = Field(default_factory=dict, description="further headers of every request")
    timeout: float = Field(default=300.0, gt=0, description="longest silence of the server, in seconds")


class GenericOpenAISettings(ProviderSettings):
    """Settings of provider ``generic_openai``. Without a key that is set, none is sent."""

    model_config = _CONFIG

    base_url: Annotated[BaseURL | None, FromEnv("GENERIC_OPENAI_BASE_URL")] = Field(
        default=None, description="address of the server; /v1 is added to a bare host"
    )
    api_key: SecretRef | None = Field(
        default=SecretRef("env:GENERIC_OPENAI_API_KEY"),
        description="where the key is: env:NAME or file:PATH; may be unset",
    )
    headers: Headers = Field(default_factory=dict, description="further headers of every request")
    timeout: float = Field(default=300.0, gt=0, description="longest silence of the server, in seconds")
