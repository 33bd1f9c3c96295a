"""Small services: attachments by scheme, and prices."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

from treadle._dataclasses import dataclass
from treadle.messages import MediaPart, Usage

if TYPE_CHECKING:
    from treadle.contracts.sandbox import Sandbox

__all__ = ["AttachmentFetcher", "AttachmentRequest", "PriceSource"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachmentRequest:
    """An attachment as a step names it. ``type`` is ``image``, ``pdf`` or ``audio``; ``max_bytes`` bounds its size."""

    source: str
    type: str = "image"
    media_type: str | None = None
    max_bytes: int = 20_000_000


class AttachmentFetcher(Protocol):
    """Reads attachments from sources of its own kind, through the sandbox."""

    schemes: ClassVar[frozenset[str]]

    async def fetch(self, request: AttachmentRequest, sandbox: Sandbox) -> MediaPart:
        """The attachment's bytes with their type.

        :raises SandboxError: the sandbox refuses. ``ToolError``: it cannot be had, is too large or of another type.
        """
        ...


class PriceSource(Protocol):
    """Knows what model calls cost."""

    def price(self, *, provider: str, model: str, usage: Usage) -> float | None:
        """US dollars, or None where this source does not know the model or a count it needs."""
        ...
