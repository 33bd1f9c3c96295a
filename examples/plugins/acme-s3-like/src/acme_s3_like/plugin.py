"""What acme-s3-like offers. Nothing is imported from here until it is used."""

from __future__ import annotations

from collections.abc import Mapping

from treadle import Offer, hookimpl


@hookimpl
def treadle_attachment_fetchers() -> Mapping[str, Offer]:
    """The fetcher of the scheme ``s3-like``."""
    return {"s3-like": Offer("acme_s3_like.fetcher:BucketFetcher", "Attachments from buckets")}
