"""Attachments that the source itself holds: ``data:`` URLs (RFC 2397) and base64."""

from __future__ import annotations

import base64
import binascii
import re
from typing import ClassVar
from urllib.parse import unquote_to_bytes

import trio

from treadle import AttachmentRequest, MediaPart, Sandbox, ToolError
from treadle_attachments.media_types import sniffed
from treadle_attachments.parts import check_size, media_part, shown

__all__ = ["DataFetcher", "base64_attachment"]

_WHITESPACE = re.compile(r"\s+")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]+|[A-Za-z0-9_-]+)={0,2}")
_LONG = 200
"""Characters from which a text in the alphabet of base64 is no path."""
_TELLING = 24
"""Characters from which it is none where the bytes show a known type."""


class DataFetcher:
    """Decodes ``data:`` URLs. Their own media type wins over the step's."""

    schemes: ClassVar[frozenset[str]] = frozenset({"data"})

    async def fetch(self, request: AttachmentRequest, sandbox: Sandbox) -> MediaPart:
        """The bytes.

        :raises ToolError: permanent: it is no ``data:`` URL, too large or not of the attachment's ``type``.
        """
        await trio.lowlevel.checkpoint()
        head, comma, body = request.source[len("data:") :].partition(",")
        if not comma:
            raise ToolError(f"'{shown(request.source)}' is no data: URL; a comma ends its head", transient=False)
        media_type, *parameters = (each.strip() for each in head.split(";"))
        if parameters and parameters[-1].lower() == "base64":
            check_size(len(body) // 4 * 3 - 2, request)
            data = _decoded(unquote_to_bytes(body).decode("latin-1"))
            if data is None:
                raise ToolError(f"'{shown(request.source)}' does not hold base64", transient=False)
        else:
            data = unquote_to_bytes(body)
        return media_part(request, data, own_type=media_type or None)


def base64_attachment(request: AttachmentRequest) -> MediaPart | None:
    """The attachment that a base64 text holds; None where the text is rather a path.

    It is taken for base64 where it is long and in its alphabet, or shorter and its bytes are of a known type.

    :raises ToolError: permanent: it is too large or not of the attachment's ``type``.
    """
    text = _WHITESPACE.sub("", request.source)
    if len(text) < _TELLING or not _BASE64.fullmatch(text):
        return None
    check_size(len(text) // 4 * 3 - 2, request)
    data = _decoded(text)
    if data is None or (len(text) < _LONG and sniffed(data) is None):
        return None
    return media_part(request, data)


def _decoded(text: str) -> bytes | None:
    """The bytes; None where it is not base64. The alphabet for URLs is read too, and padding may be missing."""
    plain = _WHITESPACE.sub("", text).rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
