"""What acme-attachment-fetcher offers. Nothing is imported from here until it is used."""

from __future__ import annotations

from collections.abc import Mapping

from treadle import Offer, hookimpl


@hookimpl
def treadle_attachment_fetchers() -> Mapping[str, Offer]:
    """The attachment fetcher, under the scheme that it reads."""
    return {
        "my-attachment-fetcher": Offer(
            "acme_attachment_fetcher.fetcher:AcmeAttachmentFetcher", "Read attachments from the folder media"
        )
    }


@hookimpl
def treadle_tools() -> Mapping[str, Offer]:
    """A tool that shows what the fetcher brings."""
    return {"my_attachment_fetcher_preview": Offer("acme_attachment_fetcher.preview:preview", "Describe an attachment")}
