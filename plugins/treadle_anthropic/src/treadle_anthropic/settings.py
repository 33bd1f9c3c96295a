"""What a deployment may set."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field

from treadle.contracts.provider import FromEnv, ProviderSettings
from treadle.contracts.secrets import SecretRef
from treadle_http.sendable import http_url, sendable_headers

__all__ = ["ANTHROPIC_BASE_URL", "AnthropicSettings", "api_root"]

ANTHROPIC_BASE_URL = "https://api.anthropic.com"

_BETA = re.compile(r"[A-Za-z0-9._-]+")


def api_root(url: str) -> str:
    """What stands before ``/v1/messages``: a ``/v1`` at the end is taken off, as the SDK adds its own.

    :raises ValueError: it is no http(s) URL.
    """
    return http_url(url).removesuffix("/v1")


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
    headers: Annotated[Mapping[str, str], AfterValidator(sendable_headers)] = Field(
        default_factory=dict, description="further headers of every request"
    )
    betas: Annotated[tuple[str, ...], AfterValidator(_known_form)] = Field(
        default=(), description="betas to take part in: the names that go into the anthropic-beta header"
    )
    timeout: float = Field(default=600.0, gt=0, description="longest silence of the server, in seconds")
