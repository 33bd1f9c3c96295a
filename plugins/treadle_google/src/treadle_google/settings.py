"""What a deployment may set."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field

from treadle.contracts.provider import FromEnv, ProviderSettings
from treadle.contracts.secrets import SecretRef
from treadle_http.sendable import http_url, sendable_headers

__all__ = ["API_VERSION", "GOOGLE_BASE_URL", "GoogleSettings", "split_version"]

GOOGLE_BASE_URL = "https://generativelanguage.googleapis.com"
API_VERSION = "v1beta"
"""Of the API, where the base URL names none: https://ai.google.dev/gemini-api/docs/api-versions"""

_VERSIONED = re.compile(r"(.*)/(v\d+(?:alpha|beta)?\d*)")


def split_version(base_url: str) -> tuple[str, str]:
    """The server's address and the version of the API, which the address may end in."""
    found = _VERSIONED.fullmatch(base_url)
    return (found[1], found[2]) if found else (base_url, API_VERSION)


class GoogleSettings(ProviderSettings):
    """Settings of provider ``google``."""

    api_key: SecretRef = Field(
        default=SecretRef("env:GOOGLE_API_KEY"), description="where the key is: env:NAME or file:PATH"
    )
    base_url: Annotated[Annotated[str, AfterValidator(http_url)], FromEnv("GOOGLE_BASE_URL")] = Field(
        default=GOOGLE_BASE_URL, description="another address of the API; it may end in a version, such as /v1beta"
    )
    headers: Annotated[Mapping[str, str], AfterValidator(sendable_headers)] = Field(
        default_factory=dict, description="further headers of every request"
    )
    timeout: float = Field(default=300.0, gt=0, description="longest silence of the server, in seconds")
