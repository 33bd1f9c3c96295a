"""What ``treadle plugins check`` and the tests hold this plugin to. Nothing else imports it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from acme_attachment_fetcher.fetcher import AcmeAttachmentFetcher
from acme_attachment_fetcher.preview import preview
from treadle import AttachmentRequest
from treadle.testing import FakeSandbox, check_attachment_fetcher, check_tool

__all__ = ["contract_checks"]


DOT = b"GIF89a..."


def contract_checks() -> Mapping[str, Callable[[], Awaitable[None]]]:
    """Each check with what it is about."""
    request = AttachmentRequest(source="my-attachment-fetcher:dot.gif")
    return {
        "attachment fetcher my_attachment_fetcher": lambda: check_attachment_fetcher(
            AcmeAttachmentFetcher,
            request,
            sandbox=sandbox,
            expect=DOT,
            missing="my-attachment-fetcher:none.gif",
            refused="my-attachment-fetcher:private.gif",
        ),
        "tool my_attachment_fetcher_preview": lambda: check_tool(
            preview,
            {"source": request.source},
            sandbox=sandbox,
            expect={"type": "image", "media_type": "image/gif", "bytes": len(DOT)},
            failing=[{}, {"source": "my-attachment-fetcher:none.gif"}],
        ),
    }


def sandbox() -> FakeSandbox:
    """A world of two files, one of which may not be read."""
    return FakeSandbox(files={"media/dot.gif": DOT, "media/private.gif": DOT}, refuses=["media/private.gif"])
