"""The suite of attachment fetchers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import trio

from treadle.contracts.sandbox import Sandbox
from treadle.contracts.sources import AttachmentFetcher, AttachmentRequest
from treadle.errors import SandboxError, ToolError, TreadleError
from treadle.messages import MediaPart
from treadle.testing.cancellation import check_cancellation, in_sentences, leaving_nothing
from treadle.testing.sandbox import FakeSandbox

__all__ = ["check_attachment_fetcher", "check_fetcher_class"]

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+")


@in_sentences
async def check_attachment_fetcher(
    make: Callable[[], AttachmentFetcher],
    request: AttachmentRequest,
    *,
    sandbox: Callable[[], Sandbox] = FakeSandbox,
    expect: bytes | None = None,
    missing: str | None = None,
    refused: str | None = None,
) -> None:
    """Hold an attachment fetcher to its contract: what it gives, limits, errors, the sandbox, cancellation.

    :param make: gives a fetcher.
    :param request: names an attachment that is there.
    :param sandbox: gives the sandbox of each fetch, such as ``lambda: FakeSandbox(urls={...}, files={...})``.
    :param expect: the attachment's bytes.
    :param missing: a source that is not there.
    :param refused: a source that the sandbox refuses; with a ``FakeSandbox`` that was used, everything is tried.
    :raises AssertionError: with what it did, and what the contract says of that.
    """
    what = f"attachment fetcher '{type(make()).__name__}'"
    check_fetcher_class(type(make()))
    scheme = request.source.partition(":")[0].lower() if ":" in request.source else ""
    if scheme and scheme not in make().schemes:
        raise AssertionError(f"{what} does not declare the scheme '{scheme}' of the example")
    async with leaving_nothing(what):
        box = sandbox()
        part = await _fetch(make(), request, box)
        _check_part(part, request, expect, what)
        fetcher = make()
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(_fetch, fetcher, request, sandbox())
        size = len(part.data or b"")
        await _must_fail(make, replace(request, max_bytes=size - 1), sandbox, f"{what} with one byte more than allowed")
        try:
            exact = await _fetch(make(), replace(request, max_bytes=size), sandbox())
        except TreadleError as error:
            raise AssertionError(
                f"{what} raised {type(error).__name__} where max_bytes was lowered to {size}, which is exactly what "
                f"the part holds: {error}; max_bytes is of what is given, not of what it is taken from"
            ) from error
        if exact.data != part.data:
            raise AssertionError(f"{what} gave other bytes where max_bytes is exactly their number")
        if missing is not None:
            await _must_fail(make, replace(request, source=missing), sandbox, f"{what} with a source that is not there")
        await _check_refusals(make, request, box, sandbox, refused, what)
    await check_cancellation(lambda: _fetch(make(), request, sandbox()), what=what)


def check_fetcher_class(kind: Any) -> None:
    """What can be said of a fetcher's class."""
    name = getattr(kind, "__name__", repr(kind))
    schemes = getattr(kind, "schemes", None)
    if not isinstance(schemes, frozenset | set | tuple | list) or not schemes:
        raise AssertionError(f"{name}.schemes is {schemes!r}; it must be a frozenset of the schemes that it reads")
    for scheme in schemes:
        if not isinstance(scheme, str) or not _SCHEME.fullmatch(scheme):
            raise AssertionError(f"{name}.schemes has {scheme!r}; a scheme is lower case and has no colon")
    if not callable(getattr(kind, "fetch", None)):
        raise AssertionError(f"{name} has no method fetch")


async def _fetch(fetcher: AttachmentFetcher, request: AttachmentRequest, sandbox: Sandbox) -> MediaPart:
    async with sandbox:
        return await fetcher.fetch(request, sandbox)


def _check_part(part: Any, request: AttachmentRequest, expect: bytes | None, what: str) -> None:
    if not isinstance(part, MediaPart):
        raise AssertionError(f"{what} gave {type(part).__name__}; a MediaPart is wanted")
    if part.data is None:
        raise AssertionError(f"{what} gave a URL; the bytes are wanted")
    if part.type != request.type:
        raise AssertionError(f"{what} gave a part of type {part.type}, and {request.type} was asked for")
    if not _MEDIA_TYPE.fullmatch(part.media_type or ""):
        raise AssertionError(f"{what} gave the media type {part.media_type!r}; it is lower case and has no parameters")
    if request.media_type is not None and part.media_type != request.media_type:
        raise AssertionError(f"{what} gave {part.media_type}, and the step says {request.media_type}")
    if expect is not None and part.data != expect:
        raise AssertionError(f"{what} gave {len(part.data)} bytes that are not those expected")


async def _must_fail(
    make: Callable[[], AttachmentFetcher], request: AttachmentRequest, sandbox: Callable[[], Sandbox], how: str
) -> TreadleError:
    try:
        await _fetch(make(), request, sandbox())
    except (ToolError, SandboxError) as error:
        return error
    except Exception as error:
        raise AssertionError(
            f"{how} raised {type(error).__name__}: {error}; ToolError or SandboxError is wanted"
        ) from error
    raise AssertionError(f"{how} succeeded; it must raise ToolError")


async def _check_refusals(
    make: Callable[[], AttachmentFetcher],
    request: AttachmentRequest,
    used: Sandbox,
    sandbox: Callable[[], Sandbox],
    refused: str | None,
    what: str,
) -> None:
    cases: list[tuple[AttachmentRequest, Callable[[], Sandbox]]] = []
    if refused is not None:
        cases.append((replace(request, source=refused), sandbox))
    if isinstance(used, FakeSandbox) and used.used:
        cases.append((request, lambda: FakeSandbox(refuses="*")))
        if purposes := {purpose for purpose, _ in used.requests} - {"attachment"}:
            raise AssertionError(f"{what} asked for http('{purposes.pop()}'); its purpose is 'attachment'")
    for each, make_sandbox in cases:
        how = f"{what} where the sandbox refuses"
        error = await _must_fail(make, each, make_sandbox, how)
        if not isinstance(error, SandboxError):
            raise AssertionError(f"{how} raised {type(error).__name__}: {error}; SandboxError must come out as itself")
