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
    """Knows what model calls cost.

    It is made in a worker thread, once a session, when the first response is to be priced: what it brings along may
    be large. A class with a ``settings_model`` is called with the ``prices:`` block of ``treadle.yaml``, as an
    instance of that; any other with nothing. Its paths go from ``info.context["folder"]`` of its validators.
    """

    def price(
        self, *, provider: str, model: str, usage: Usage, kind: str = "", base_url: str | None = None
    ) -> float | None:
        """US dollars, or None where this source does not know the model or a count it needs.

        :param provider: by the name that it has here.
        :param model: the one that answered, which may be a dated form of the one asked for.
        :param kind: the provider that it is; its own name without it.
        :param base_url: the server that was asked, where that is a setting of the provider and set.
        """
        ...
