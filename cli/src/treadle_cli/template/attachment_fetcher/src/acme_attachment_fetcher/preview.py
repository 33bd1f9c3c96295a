"""The tool ``my_attachment_fetcher_preview``: what the fetcher brings, without any model."""

from __future__ import annotations

from typing import Annotated, Literal

from acme_attachment_fetcher.fetcher import AcmeAttachmentFetcher
from treadle import AttachmentRequest, ToolContext, tool

__all__ = ["preview"]


@tool(name="my_attachment_fetcher_preview", effect="pure")
async def preview(
    source: Annotated[str, "such as my-attachment-fetcher:dot.gif"],
    context: ToolContext,
    kind: Literal["image", "pdf", "audio"] = "image",
) -> dict[str, str | int | None]:
    """Fetch an attachment and say of what type and how large it is."""
    sandbox = context.require_sandbox("my_attachment_fetcher_preview")
    part = await AcmeAttachmentFetcher().fetch(AttachmentRequest(source=source, type=kind), sandbox)
    return {"type": part.type, "media_type": part.media_type, "bytes": len(part.data or b"")}
