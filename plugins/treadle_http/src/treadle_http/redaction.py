"""Keys are taken out of whatever a server says before a person reads it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

__all__ = ["origin", "redact", "shown_url"]

_SHORTEST_SECRET = 6
"""A shorter "secret" is a placeholder such as ``none``; taking it out would only garble words."""

_KEYLIKE = re.compile(r"\b(?:sk|rk|pk|gsk|xai)-[\w*.-]{6,}|(?<=Bearer )[^\s\"',;]{4,}", re.IGNORECASE)


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without the secrets given, and without anything that looks like a key of a known vendor."""
    for secret in secrets:
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "***")
    return _KEYLIKE.sub("***", text)


def origin(url: str) -> str:
    """``host:port`` of a URL, for messages; without user name, password, path and query."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return "an invalid address"
    if not host:
        return "an address without a host"
    if ":" in host:
        host = f"[{host}]"
    return f"{host}:{port or {'http': 80, 'https': 443}.get(parts.scheme, 0)}".removesuffix(":0")


def shown_url(url: str) -> str:
    """A URL for messages: without user name, password, query and fragment, any of which may hold a key."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "an invalid address"
    place = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{place}{f':{port}' if port else ''}{parts.path}"
