"""Attachments from the web."""

from __future__ import annotations

from typing import ClassVar
from urllib.parse import unquote, urlsplit

import trio

from treadle import AttachmentRequest, HttpReply, HttpRequest, MediaPart, Sandbox, ToolError
from treadle_attachments.media_types import type_of_name
from treadle_attachments.parts import media_part, said_type, shown

__all__ = ["MOST_REDIRECTS", "SECONDS", "WebFetcher"]

SECONDS = 30.0
"""Most time of a download, redirects included."""
MOST_REDIRECTS = 5

_TRANSIENT = frozenset({408, 425, 429})
"""Besides 5xx, what another try may mend: time-outs and too many requests."""


class WebFetcher:
    """Downloads attachments, or checks the address of those that the model provider is to fetch itself."""

    schemes: ClassVar[frozenset[str]] = frozenset({"http", "https"})

    async def fetch(self, request: AttachmentRequest, sandbox: Sandbox) -> MediaPart:
        """The bytes, or with ``fetch: provider`` the address.

        :raises SandboxError: the sandbox refuses the address or that of a redirect.
        :raises ToolError: it cannot be downloaded, is too large or not of the attachment's ``type``.
        """
        if request.fetch == "provider":
            media_type = said_type(request)
            await sandbox.check_url(request.source, purpose="attachment")
            return MediaPart(type=request.type, media_type=media_type, url=request.source)
        reply = await _download(request, sandbox)
        header = reply.headers.get("content-type")
        names = (unquote(urlsplit(each).path) for each in (reply.url, request.source))
        name = next((each for each in names if type_of_name(each)), None)
        return media_part(request, reply.body, header=header, name=name)


async def _download(request: AttachmentRequest, sandbox: Sandbox) -> HttpReply:
    with trio.move_on_after(SECONDS) as limit:
        async with sandbox.http("attachment") as client:
            reply = await client.send(
                HttpRequest(
                    method="GET",
                    url=request.source,
                    timeout=SECONDS,
                    max_bytes=request.max_bytes,
                    max_redirects=MOST_REDIRECTS,
                )
            )
    if limit.cancelled_caught:
        raise ToolError(f"'{shown(request.source)}' could not be downloaded in {SECONDS:g} s")
    if not 200 <= reply.status_code < 300:
        status = reply.status_code
        raise ToolError(
            f"'{shown(request.source)}' could not be downloaded: the server answered {status}",
            transient=status >= 500 or status in _TRANSIENT,
        )
    return reply
