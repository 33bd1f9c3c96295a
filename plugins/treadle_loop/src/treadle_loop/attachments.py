"""Attachments of a turn: the field, what load checks see of it, and the fetching."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from treadle import AttachmentRequest, MediaPart, Reference, Right, StepContext, StepError, Template

__all__ = ["Attachment", "attachment_references", "attachment_rights", "fetch_attachments", "stand_ins"]

_MEDIA_TYPE = re.compile(r"\s*[\w!#$&^.+-]+/[\w!#$&^.+-]+\s*(;.*)?", re.ASCII)
_SOME_TYPE: Mapping[str, str] = {"image": "image/png", "pdf": "application/pdf", "audio": "audio/wav"}
"""One that every provider takes which takes the type at all."""
_BEGINNING = re.compile(r"(?:[a-z][a-z0-9+.-]*(?::/?)?)?", re.IGNORECASE)
"""What may become a scheme, or part of one, by what a template puts after it."""
_PATH = 200
"""Characters from which a source without a scheme is rather base64."""


class Attachment(BaseModel):
    """An image, PDF or audio that goes with the prompt."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    type: Literal["image", "pdf", "audio"] = Field(default="image", description="what it is")
    source: Template = Field(description="a URL, a file, a data: URL or a base64 text; a template")
    media_type: str | None = Field(
        default=None, description="its MIME type; found out without it. The own type of a data: URL wins over it"
    )
    fetch: Literal["local", "provider"] = Field(
        default="local", description="for URLs: who fetches it, Treadle or the model provider"
    )

    @field_validator("media_type")
    @classmethod
    def _is_a_media_type(cls, given: str | None) -> str | None:
        if given is not None and not _MEDIA_TYPE.fullmatch(given):
            raise ValueError(f"{given!r} is not a MIME type such as image/jpeg")
        return given

    @field_validator("source")
    @classmethod
    def _is_something(cls, given: Template) -> Template:
        if not given.source.strip():
            raise ValueError("is empty; name a URL, a file, a data: URL or a base64 text")
        return given

    def known_scheme(self) -> str | None:
        """The scheme of the source as far as the document tells; None where a template decides."""
        source = self.source.source.strip()
        scheme = AttachmentRequest(source=source).scheme
        open_end = self.source.references and _BEGINNING.fullmatch(source.partition("{")[0])
        return None if scheme == "file" and open_end else scheme


def attachment_references(attachments: Sequence[Attachment], field: str = "attachments") -> Iterator[Reference]:
    """What reads them, to be looked up when the document is checked."""
    for index, each in enumerate(attachments):
        scheme = each.known_scheme()
        if scheme is not None:
            yield Reference(role="attachment_fetcher", name=scheme, field=f"{field}.{index}.source")


def attachment_rights(attachments: Iterable[Attachment]) -> Iterator[Right]:
    """What they ask for: files to read and hosts to reach, as they are written; both where a template decides."""
    for each in attachments:
        source, scheme = each.source.source.strip(), each.known_scheme()
        if scheme in (None, "file") and len(source) < _PATH:
            yield Right(kind="read", name=source)
        if scheme not in ("data", "file"):
            rest = source.partition("://")[2]
            host = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]
            yield Right(kind="host", name=re.sub(r":\d+$", "", host) or source)


def stand_ins(attachments: Iterable[Attachment]) -> tuple[MediaPart, ...]:
    """Parts of the same types, for a provider to say what it would refuse. Who fetches is told where it is known."""
    return tuple(
        MediaPart(type=each.type, url="https://stand.in/")
        if each.fetch == "provider" and each.known_scheme() in ("http", "https")
        else MediaPart(type=each.type, media_type=_SOME_TYPE[each.type], data=b"")
        for each in attachments
    )


async def fetch_attachments(ctx: StepContext, attachments: Sequence[Attachment]) -> tuple[MediaPart, ...]:
    """Fetch them all at once; the parts come in the order of the attachments.

    :raises TemplateError: a source misses a value under ``config.strict_templates``.
    :raises NotInstalledError: nothing reads such a source.
    :raises SandboxError: the sandbox refuses one.
    :raises ToolError: one cannot be had, is too large or of another type.
    """
    if not attachments:
        return ()
    from treadle.nurseries import open_nursery  # which brings trio: checking a document needs none

    requests = [
        AttachmentRequest(
            source=ctx.render(each.source).strip(), type=each.type, media_type=each.media_type, fetch=each.fetch
        )
        for each in attachments
    ]
    for index, request in enumerate(requests):
        if not request.source:
            text = f"attachments.{index}: the source is empty: {attachments[index].source.source!r} gave nothing"
            raise StepError(text)
    parts: dict[int, MediaPart] = {}

    async def fetch(index: int) -> None:
        try:
            parts[index] = await ctx.attachment(requests[index])
        except StepError as error:
            placed = copy.copy(error)
            placed.message = f"attachments.{index}: {error.message}"
            placed.args = (placed.message,)
            raise placed from error

    async with open_nursery() as nursery:
        for index in range(len(requests)):
            nursery.start_soon(fetch, index)
    return tuple(parts[index] for index in range(len(requests)))
