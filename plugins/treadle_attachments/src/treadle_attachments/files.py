"""Attachments from files."""

from __future__ import annotations

from typing import ClassVar
from urllib.parse import unquote, urlsplit

from treadle import AttachmentRequest, MediaPart, Sandbox, ToolError
from treadle_attachments.inline import base64_attachment
from treadle_attachments.parts import media_part, shown

__all__ = ["FileFetcher"]

_PERMANENT = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)


class FileFetcher:
    """Reads files, by path or ``file://`` address, and takes long base64 texts for what they hold."""

    schemes: ClassVar[frozenset[str]] = frozenset({"file"})

    async def fetch(self, request: AttachmentRequest, sandbox: Sandbox) -> MediaPart:
        """The bytes.

        :raises SandboxError: the sandbox does not let the file be read.
        :raises ToolError: it cannot be read, is too large or not of the attachment's ``type``.
        """
        path = _path(request.source)
        if path is None:
            made = base64_attachment(request)
            if made is not None:
                return made
            path = request.source
        try:
            data = await sandbox.read(path, max_bytes=request.max_bytes)
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            raise _unread(path, error) from error
        return media_part(request, data, name=path)


def _path(source: str) -> str | None:
    """The path of a ``file://`` address (RFC 8089); None where the source is not one."""
    if source[:7].lower() != "file://":
        return None
    try:
        parts = urlsplit(source)
    except ValueError as error:
        raise ToolError(f"'{shown(source)}' is no file: URL: {error}", transient=False) from error
    if parts.netloc not in ("", "localhost"):
        raise ToolError(
            f"'{shown(source)}' names a file of another machine",
            hint="a file here is file:///path, or the path alone",
            transient=False,
        )
    return unquote(parts.path)


def _unread(path: str, error: OSError | ValueError) -> ToolError:
    if isinstance(error, FileNotFoundError):
        cause = "there is no such file"
    else:
        cause = f"it cannot be read: {getattr(error, 'strerror', None) or error}"
    return ToolError(f"'{shown(path)}': {cause}", transient=not isinstance(error, (*_PERMANENT, ValueError)))
