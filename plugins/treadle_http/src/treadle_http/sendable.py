"""What a deployment sets, in a form that can be sent: addresses, headers and keys. Loads no HTTP client."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from treadle.errors import CredentialError

if TYPE_CHECKING:
    from treadle.contracts.provider import ProviderSettings
    from treadle.contracts.secrets import SecretRef

__all__ = ["http_url", "optional_key", "sendable_headers", "sendable_key"]

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # a token of RFC 9110, 5.6.2
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")


def http_url(url: str) -> str:
    """The URL of a server without white space around it and slashes behind it.

    :raises ValueError: it is no http(s) URL.
    """
    text = url.strip().rstrip("/")
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("a base URL begins with http:// or https:// and a host")
    return text


def sendable_headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    """The headers as they are.

    :raises ValueError: one cannot be sent. Its value, which may be a secret, is not repeated.
    """
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of an HTTP header")
        if not _HEADER_VALUE.fullmatch(value):
            raise ValueError(f"the value of header {name!r} holds characters that a header cannot carry")
    return headers


def sendable_key(reference: SecretRef) -> str:
    """The key that is referred to.

    :raises CredentialError: it is not set, or no header can carry it (the client's own complaint would quote it).
    """
    key = reference.reveal()
    if not all("!" <= character <= "~" for character in key):
        raise CredentialError(f"the key in {reference.reference} holds white space or characters that no key has")
    return key


def optional_key(settings: ProviderSettings, reference: SecretRef | None) -> str | None:
    """The key in a setting ``api_key`` that need not be set; None where nobody asked for one, as servers of one's own
    want none.

    :raises CredentialError: it was asked for and is not set, or no header can carry it.
    """
    if reference is None or ("api_key" not in settings.model_fields_set and not reference.is_set()):
        return None
    return sendable_key(reference)
