"""What a deployment may set."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict, Field

from treadle.contracts.provider import FromEnv, ProviderSettings
from treadle.contracts.secrets import SecretRef

__all__ = ["OPENAI_BASE_URL", "GenericOpenAISettings", "OpenAISettings", "api_base"]

OPENAI_BASE_URL = "https://api.openai.com/v1"

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # a token of RFC 9110, 5.6.2
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")


def api_base(url: str) -> str:
    """Where the API begins: ``/v1`` is added to a bare host, and to nothing else.

    :raises ValueError: it is no http(s) URL.
    """
    text = url.strip().rstrip("/")
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("a base URL begins with http:// or https:// and a host")
    return text if parts.path or parts.query else f"{text}/v1"


def _sendable(headers: Mapping[str, str]) -> Mapping[str, str]:
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of an HTTP header")
        if not _HEADER_VALUE.fullmatch(value):  # the value may be a secret: not shown
            raise ValueError(f"the value of header {name!r} holds characters that a header cannot carry")
    return headers


BaseURL = Annotated[str, AfterValidator(api_base)]
Headers = Annotated[Mapping[str, str], AfterValidator(_sendable)]


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
