"""What a deployment may set."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from treadle.contracts.provider import FromEnv, ProviderSettings
from treadle.contracts.secrets import SecretRef

__all__ = ["ANTHROPIC_BASE_URL", "AnthropicSettings", "api_root"]

ANTHROPIC_BASE_URL = "https://api.anthropic.com"

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # a token of RFC 9110, 5.6.2
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")
_BETA = re.compile(r"[A-Za-z0-9._-]+")


def api_root(url: str) -> str:
    """What stands before ``/v1/messages``: a ``/v1`` at the end is taken off, as the SDK adds its own.

    :raises ValueError: it is no http(s) URL.
    """
    text = url.strip().rstrip("/")
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("a base URL begins with http:// or https:// and a host")
    return text.removesuffix("/v1")


def _sendable(headers: Mapping[str, str]) -> Mapping[str, str]:
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of an HTTP header")
        if not _HEADER_VALUE.fullmatch(value):  # the value may be a secret: not shown
            raise ValueError(f"the value of header {name!r} holds characters that a header cannot carry")
    return headers


def _known_form(betas: tuple[str, ...]) -> tuple[str, ...]:
    for beta in betas:
        if not _BETA.fullmatch(beta):
            raise ValueError(f"{beta!r} is not the name of a beta; one is like files-api-2025-04-14")
    return betas


class AnthropicSettings(ProviderSettings):
    """Settings of provider ``anthropic``."""

    api_key: SecretRef = Field(
        default=SecretRef("env:ANTHROPIC_API_KEY"), description="where the key is: env:NAME or file:PATH"
    )
    base_url: Annotated[Annotated[str, AfterValidator(api_root)] | None, FromEnv("ANTHROPIC_BASE_URL")] = Field(
        default=None, description="another address of the API; what stands before /v1/messages"
    )
    headers: Annotated[Mapping[str, str], AfterValidator(_sendable)] = Field(
        default_factory=dict, description="further headers of every request"
    )
    betas: Annotated[tuple[str, ...], AfterValidator(_known_form)] = Field(
        default=(), description="betas to take part in: the names that go into the anthropic-beta header"
    )
    timeout: float = Field(default=600.0, gt=0, description="longest silence of the server, in seconds")
