"""The attachment fetcher ``my_attachment_fetcher``: ``my-attachment-fetcher:NAME`` is the file NAME in ``media``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from treadle import AttachmentRequest, MediaPart, Sandbox, ToolError

__all__ = ["AcmeAttachmentFetcher"]

Kind = Literal["image", "pdf", "audio"]

# What files of a type begin with. A name may lie, and models refuse what is not what it says.
_SIGNATURES: Mapping[bytes, tuple[Kind, str]] = {
    b"\x89PNG\r\n\x1a\n": ("image", "image/png"),
    b"\xff\xd8\xff": ("image", "image/jpeg"),
    b"GIF8": ("image", "image/gif"),
    b"%PDF-": ("pdf", "application/pdf"),
    b"ID3": ("audio", "audio/mpeg"),
}


class AcmeAttachmentFetcher:
    """Reads attachments from the folder ``media``, through the sandbox and by no other way."""

    schemes: ClassVar[frozenset[str]] = frozenset({"my-attachment-fetcher"})

    async def fetch(self, request: AttachmentRequest, sandbox: Sandbox) -> MediaPart:
        """The file's bytes.

        :raises SandboxError: the sandbox refuses.
        :raises ToolError: there is no such file, it is too large, or of another type than was said.
        """
        name = request.source.partition(":")[2]
        if not name:
            raise ToolError(
                f"{request.source!r} names no file", hint="write my-attachment-fetcher:NAME", transient=False
            )
        try:
            data = await sandbox.read(f"media/{name}", max_bytes=request.max_bytes)
        except OSError as error:
            cause = error.strerror or str(error)
            raise ToolError(f"attachment {request.source!r} cannot be read: {cause}", transient=False) from error
        kind, media_type = _type_of(data)
        if kind != request.type:
            raise ToolError(
                f"attachment {request.source!r} is {media_type or 'of no known type'}, not of type {request.type}",
                transient=False,
            )
        return MediaPart(type=kind, media_type=request.media_type or media_type, data=data)


def _type_of(data: bytes) -> tuple[Kind | None, str | None]:
    for signature, found in _SIGNATURES.items():
        if data.startswith(signature):
            return found
    return None, None
