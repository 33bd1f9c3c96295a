"""Small services: attachments by scheme, and prices."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

from treadle._dataclasses import dataclass
from treadle.messages import MediaPart, Usage

if TYPE_CHECKING:
    from treadle.contracts.sandbox import Sandbox

__all__ = ["AttachmentFetcher", "AttachmentRequest", "PriceSource"]


_SCHEME = re.compile(r"data(?=:)|[a-z][a-z0-9+.-]+(?=://)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachmentRequest:
    """An attachment as a step names it, its ``source`` rendered.

    :param media_type: what the step says it is; None where that is to be found out.
    :param fetch: ``provider`` for an address that the model provider is to fetch itself.
    :param max_bytes: bounds its size.
    """

    source: str
    type: Literal["image", "pdf", "audio"] = "image"
    media_type: str | None = None
    fetch: Literal["local", "provider"] = "local"
    max_bytes: int = 20 * 1024 * 1024

    @property
    def scheme(self) -> str:
        """What stands before ``://`` in the source, in small letters, or ``data``; ``file`` where there is neither.

        A fetcher that is installed also gets what begins with its scheme and a colon alone.
        """
        found = _SCHEME.match(self.source)
        return found[0].lower() if found else "file"


class AttachmentFetcher(Protocol):
    """Reads attachments from sources of its own kind, through the sandbox.

    It is offered once for each scheme, under the scheme's name: ``{"s3": Offer(...)}``. One object serves a session.
    The fetcher ``file`` also gets every source that has no scheme.

    :cvar schemes: those it reads.
    """

    schemes: ClassVar[frozenset[str]]

    async def fetch(self, request: AttachmentRequest, sandbox: Sandbox) -> MediaPart:
        """The attachment's bytes with their type; its address where ``request.fetch`` asks for that.

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
