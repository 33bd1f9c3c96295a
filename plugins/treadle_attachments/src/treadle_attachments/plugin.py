"""What treadle-attachments offers."""

from __future__ import annotations

from collections.abc import Mapping

from treadle import Offer, hookimpl


@hookimpl
def treadle_attachment_fetchers() -> Mapping[str, Offer]:
    """One for each scheme."""
    web = "treadle_attachments.web:WebFetcher"
    return {
        "data": Offer("treadle_attachments.inline:DataFetcher", "Attachments written out as data: URLs"),
        "file": Offer("treadle_attachments.files:FileFetcher", "Attachments from files, and base64 texts"),
        "http": Offer(web, "Attachments from the web"),
        "https": Offer(web, "Attachments from the web, over TLS"),
    }
