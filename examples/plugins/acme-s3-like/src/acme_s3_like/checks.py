"""What ``treadle plugins check`` and the tests hold this plugin to. Nothing else imports it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from acme_s3_like.fetcher import BucketFetcher
from treadle import AttachmentRequest
from treadle.testing import FakeSandbox, check_attachment_fetcher

__all__ = ["contract_checks"]


def _store() -> FakeSandbox:
    return FakeSandbox(files={"buckets/scans/2026/a.png": b"\x89PNG\r\n\x1a\n"})


def contract_checks() -> Mapping[str, Callable[[], Awaitable[None]]]:
    """Each check with what it is about."""
    request = AttachmentRequest(source="s3-like://scans/2026/a.png")

    async def check() -> None:
        await check_attachment_fetcher(
            BucketFetcher, request, sandbox=_store, expect=b"\x89PNG\r\n\x1a\n", missing="s3-like://scans/b.png"
        )

    return {"attachment fetcher s3-like": check}
