"""What acme-chat-files offers. Nothing is imported from here until it is used."""

from __future__ import annotations

from collections.abc import Mapping

from treadle import Offer, hookimpl


@hookimpl
def treadle_memories() -> Mapping[str, Offer]:
    """The memory ``acme_chat_files``."""
    return {"acme_chat_files": Offer("acme_chat_files.memory:ChatFiles", "Keep each conversation in a file of its own")}
