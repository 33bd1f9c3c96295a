"""The fetchers: each kind of source, the limits, and what is said when one cannot be had."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from treadle import AttachmentRequest, HttpReply, MediaPart, SandboxError, ToolError
from treadle.testing import FakeSandbox, check_attachment_fetcher, check_plugin
from treadle_attachments.files import FileFetcher
from treadle_attachments.inline import DataFetcher
from treadle_attachments.parts import shown
from treadle_attachments.web import WebFetcher

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
PDF = b"%PDF-1.4\n%%EOF\n"
MEGA = 1024 * 1024
URL = "https://pics.test/a"


def box(**options: Any) -> FakeSandbox:
    return FakeSandbox(**{"urls": {URL: PNG}, "files": {"scans/a.png": PNG}, "refuses": ["https://evil"], **options})


def answering(body: bytes, status: int = 200, url: str = URL, **headers: str) -> FakeSandbox:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return box(urls={URL: HttpReply(status_code=status, headers=named, body=body, url=url)})


async def web(sandbox: FakeSandbox, source: str = URL, **options: Any) -> MediaPart:
    return await WebFetcher().fetch(AttachmentRequest(source=source, **options), sandbox)


async def data(source: str, **options: Any) -> MediaPart:
    return await DataFetcher().fetch(AttachmentRequest(source=source, **options), box())


async def file(source: str, sandbox: FakeSandbox | None = None, **options: Any) -> MediaPart:
    return await FileFetcher().fetch(AttachmentRequest(source=source, **options), sandbox or box())


# --- the contract -----------------------------------------------------------------------------------------


async def test_the_plugin_keeps_the_contract() -> None:
    await check_plugin("treadle_attachments.plugin", offers={"attachment_fetcher": ["data", "file", "http", "https"]})


async def test_every_fetcher_passes_the_suite() -> None:
    missing = {"missing": "https://pics.test/b", "refused": "https://evil/x"}
    await check_attachment_fetcher(WebFetcher, AttachmentRequest(source=URL), sandbox=box, expect=PNG, **missing)
    source = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    await check_attachment_fetcher(DataFetcher, AttachmentRequest(source=source), sandbox=box, expect=PNG)
    request = AttachmentRequest(source="scans/a.png")
    await check_attachment_fetcher(FileFetcher, request, sandbox=box, expect=PNG, missing="scans/b.png")
    request = AttachmentRequest(source=base64.b64encode(PNG).decode())
    await check_attachment_fetcher(FileFetcher, request, sandbox=box, expect=PNG)


@pytest.mark.parametrize(
    ("source", "scheme"),
    [
        ("https://x/y", "https"),
        ("HTTP://x/y", "http"),
        ("s3://bucket/key", "s3"),
        ("DATA:,x", "data"),
        ("a/b.png", "file"),
        ("c:\\scans\\a.png", "file"),
        ("file:///a.png", "file"),
        ("notes: a.png", "file"),
    ],
)
def test_the_scheme_of_a_source(source: str, scheme: str) -> None:
    assert AttachmentRequest(source=source).scheme == scheme


# --- the web ----------------------------------------------------------------------------------------------


async def test_a_download_is_asked_for_with_its_limits() -> None:
    sandbox = box()
    part = await web(sandbox)
    assert (part.type, part.media_type, part.data, part.url) == ("image", "image/png", PNG, None)
    ((purpose, request),) = sandbox.requests
    assert purpose == "attachment"
    assert (request.method, request.url) == ("GET", URL)
    assert (request.timeout, request.max_redirects, request.max_bytes) == (30, 5, 20 * MEGA)


async def test_the_header_tells_and_then_the_extension_of_where_it_came_from() -> None:
    assert (await web(answering(b"x", content_type="image/webp; q=1"))).media_type == "image/webp"
    assert (await web(answering(b"x", url="https://cdn.test/b.gif?c=d.jpg"))).media_type == "image/gif"
    assert (await web(answering(b"x"))).media_type == "image/png"
    assert (await web(answering(b"x"), type="audio")).media_type == "audio/wav"
    assert (await web(answering(b"x"), type="pdf")).media_type == "application/pdf"


async def test_a_page_where_an_image_was_meant_fails() -> None:
    with pytest.raises(ToolError, match=r"'https://pics.test/a' is text/html, which contradicts type: image; only ima"):
        await web(answering(b"<p>not here</p>", content_type="text/html; charset=utf-8"))


@pytest.mark.parametrize(("status", "transient"), [(404, False), (403, False), (304, False), (429, True), (503, True)])
async def test_a_status_that_is_an_error_fails_and_says_whether_it_may_pass(status: int, transient: bool) -> None:
    with pytest.raises(ToolError) as caught:
        await web(answering(b"no", status), f"{URL}")
    assert str(caught.value) == f"'https://pics.test/a' could not be downloaded: the server answered {status}"
    assert caught.value.transient is transient


async def test_a_download_takes_30_seconds_at_most(autojump_clock: Any) -> None:
    class Slow(FakeSandbox):
        async def _send(self, *_: Any) -> HttpReply:
            await trio.sleep_forever()
            raise AssertionError

    started = trio.current_time()
    with pytest.raises(ToolError, match="could not be downloaded in 30 s") as caught:
        await web(Slow())
    assert trio.current_time() - started == pytest.approx(30)
    assert caught.value.transient


async def test_an_address_for_the_provider_is_checked_and_not_fetched() -> None:
    sandbox = box()
    part = await web(sandbox, fetch="provider", media_type="image/jpg")
    assert (part.data, part.url, part.media_type) == (None, URL, "image/jpeg")
    assert not sandbox.requests
    with pytest.raises(SandboxError, match="sandbox refuses the URL https://evil/a"):
        await web(sandbox, "https://evil/a", fetch="provider")
    with pytest.raises(ToolError, match="is application/pdf, which contradicts type: image; set type: pdf"):
        await web(sandbox, fetch="provider", media_type="application/pdf")


# --- data: URLs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "media_type", "content"),
    [
        ("data:image/png;base64,aGVsbG8=", "image/png", b"hello"),
        ("data:image/png;base64,aGVsbG8", "image/png", b"hello"),
        ("DATA:IMAGE/JPG;name=x;BASE64,aGVs bG8%3D", "image/jpeg", b"hello"),
        ("data:image/svg+xml,%3Csvg%2F%3E", "image/svg+xml", b"<svg/>"),
        ("data:;base64,R0lGODlh", "image/gif", b"GIF89a"),
    ],
)
async def test_a_data_url_is_decoded(source: str, media_type: str, content: bytes) -> None:
    part = await data(source)
    assert (part.media_type, part.data) == (media_type, content)


async def test_the_own_type_of_a_data_url_wins() -> None:
    assert (await data("data:image/gif;base64,aGVsbG8=", media_type="application/pdf")).media_type == "image/gif"
    assert (await data("data:;base64,aGVsbG8=", media_type="image/webp")).media_type == "image/webp"
    with pytest.raises(
        ToolError, match=r"'data:application/pdf;base64,...' is application/pdf, which contradicts type: i"
    ):
        await data("data:application/pdf;base64,aGVsbG8=", media_type="image/png")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("data:image/png;base64", "is no data: URL; a comma ends its head"),
        ("data:image/png;base64,a!b", "'data:image/png;base64,...' does not hold base64"),
        ("data:image/png;base64,", "is empty"),
    ],
)
async def test_a_wrong_data_url_fails_for_good(source: str, message: str) -> None:
    with pytest.raises(ToolError, match=message) as caught:
        await data(source)
    assert not caught.value.transient


@given(st.binary(min_size=1, max_size=200))
def test_whatever_is_written_as_a_data_url_comes_out_again(content: bytes) -> None:
    source = f"data:audio/ogg;base64,{base64.b64encode(content).decode()}"
    assert trio.run(lambda: data(source, type="audio")).data == content


# --- files and base64 -------------------------------------------------------------------------------------


async def test_a_file_is_read_through_the_sandbox_by_path_or_address() -> None:
    sandbox = box(files={"scans/a.png": PNG, "/b c.pdf": PDF})
    assert (await file("scans/a.png", sandbox)).data == PNG
    assert (await file("file:///b%20c.pdf", sandbox, type="pdf")).media_type == "application/pdf"
    assert sandbox.reads == ["scans/a.png", "/b c.pdf"]
    with pytest.raises(ToolError, match="names a file of another machine; a file here is file:///path"):
        await file("file://elsewhere/a.png", sandbox)


async def test_the_bytes_of_a_file_tell_and_then_its_extension() -> None:
    sandbox = box(files={"a.jpg": PNG, "b.jpg": b"words", "c": b"words"})
    assert (await file("a.jpg", sandbox)).media_type == "image/png"
    assert (await file("b.jpg", sandbox)).media_type == "image/jpeg"
    assert (await file("c", sandbox)).media_type == "image/png"
    with pytest.raises(ToolError, match=r"'b.jpg' is image/jpeg, which contradicts type: pdf; set type: image"):
        await file("b.jpg", sandbox, type="pdf")


async def test_a_file_that_is_not_there_fails_for_good() -> None:
    with pytest.raises(ToolError, match=r"'scans/b.png': there is no such file") as caught:
        await file("scans/b.png")
    assert not caught.value.transient


async def test_a_refused_file_is_the_sandboxs_refusal() -> None:
    with pytest.raises(SandboxError, match=r"sandbox refuses the path scans/a.png"):
        await file("scans/a.png", box(refuses="*"))


async def test_a_base64_text_is_taken_for_what_it_holds() -> None:
    text = base64.b64encode(PNG).decode()
    sandbox = box()
    for source in (text, text.rstrip("="), f"{text[:40]}\n  {text[40:]}", base64.urlsafe_b64encode(PNG).decode()):
        assert (await file(source, sandbox)).data == PNG
    unknown = base64.b64encode(b"words" * 40).decode()
    assert (await file(unknown, sandbox, media_type="audio/x-wav", type="audio")).media_type == "audio/wav"
    assert not sandbox.used


@pytest.mark.parametrize("path", ["scans/receipts/2026/may/first", "a" * 199, "iVBORw0KGgo", "scans/a b"])
async def test_a_path_is_not_taken_for_base64(path: str) -> None:
    with pytest.raises(ToolError, match="there is no such file"):
        await file(path)


# --- limits and messages ----------------------------------------------------------------------------------


async def test_nothing_larger_than_20_mb_is_attached() -> None:
    most, more = b"\xff\xd8\xff" + b"\0" * (20 * MEGA - 3), b"\xff\xd8\xff" + b"\0" * (20 * MEGA - 2)
    assert len((await file("a", box(files={"a": most}))).data or b"") == 20 * MEGA
    for source in (f"data:image/jpeg;base64,{base64.b64encode(more).decode()}", "data:image/jpeg," + "a" * len(more)):
        with pytest.raises(ToolError, match=r"'data:image/jpeg[^ ]*' is larger than 20 MB") as caught:
            await data(source)
        assert not caught.value.transient
    with pytest.raises(ToolError, match="is larger than 20 MB"):
        await file(base64.b64encode(more).decode())
    with pytest.raises(ToolError, match="more than 20971520"):
        await file("a", box(files={"a": more}))
    with pytest.raises(ToolError, match="more than 20971520"):
        await web(box(urls={URL: more}))


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("https://me:word@pics.test/a?key=secret", "https://pics.test/a"),
        ("data:image/png;base64,iVBORw0KGgo", "data:image/png;base64,..."),
        ("x" * 200, "x" * 80 + "..."),
        ("https://[bad?key=secret", "https://[bad"),
        ("a/b.png", "a/b.png"),
    ],
)
def test_a_message_shows_a_source_short_and_without_secrets(source: str, text: str) -> None:
    assert shown(source) == text
