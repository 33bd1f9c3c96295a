"""From bytes to an attachment: its size, its type, and how it is called in messages."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from treadle import AttachmentRequest, MediaPart, ToolError
from treadle_attachments.media_types import find_type, kind_of

__all__ = ["check_size", "media_part", "said_type", "shown"]

_FALLBACK: Mapping[str, str] = {"image": "image/png", "pdf": "application/pdf", "audio": "audio/wav"}
_SHOWN = 80


def shown(source: str) -> str:
    """The source in a message: short, and without what may be secret, as a user name or the query of an address."""
    if source[:5].lower() == "data:":
        return f"{source.partition(',')[0][:_SHOWN]},..."
    if "://" in source[:_SHOWN]:
        try:
            parts = urlsplit(source)
            source = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        except ValueError:
            source = source.partition("?")[0].rpartition("@")[2]
    return source if len(source) <= _SHOWN else f"{source[:_SHOWN]}..."


def check_size(size: int, request: AttachmentRequest) -> None:
    """Return if that many bytes may be attached.

    :raises ToolError: permanent: there are too many.
    """
    if size > request.max_bytes:
        mega, rest = divmod(request.max_bytes, 1024 * 1024)
        limit = f"{mega} MB" if mega and not rest else f"{request.max_bytes} bytes"
        raise ToolError(f"'{shown(request.source)}' is larger than {limit}", transient=False)


def said_type(request: AttachmentRequest) -> str | None:
    """The media type that the step says, in its plain form.

    :raises ToolError: permanent: it contradicts the attachment's ``type``.
    """
    found = find_type(b"", explicit=request.media_type)
    if found is not None:
        _check_kind(found, request)
    return found


def media_part(
    request: AttachmentRequest,
    data: bytes,
    *,
    own_type: str | None = None,
    header: str | None = None,
    name: str | None = None,
) -> MediaPart:
    """The attachment of these bytes, with the media type that :func:`find_type` finds.

    Where nothing tells, it is ``image/png``, ``application/pdf`` or ``audio/wav``, after the attachment's ``type``.

    :param own_type: what the source itself says, which wins over the step's ``media_type``.
    :param header: the ``Content-Type`` that came along.
    :param name: whose extension may tell: a file, or an address without its query.
    :raises ToolError: permanent: there are no bytes, too many of them, or they are not of the attachment's ``type``.
    """
    check_size(len(data), request)
    if not data:
        raise ToolError(f"'{shown(request.source)}' is empty", transient=False)
    found = find_type(data, own=own_type, explicit=request.media_type, header=header, name=name)
    media_type = found or _FALLBACK[request.type]
    _check_kind(media_type, request)
    return MediaPart(type=request.type, media_type=media_type, data=data)


def _check_kind(media_type: str, request: AttachmentRequest) -> None:
    kind = kind_of(media_type)
    if kind == request.type:
        return
    hint = f"set type: {kind}" if kind else "only images, PDFs and audio can be attached"
    message = f"'{shown(request.source)}' is {media_type}, which contradicts type: {request.type}"
    raise ToolError(message, hint=hint, transient=False)
