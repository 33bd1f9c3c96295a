"""The tool ``http_request``."""

from functools import partial
from typing import Any

import pytest
import trio

from treadle import HttpReply, HttpRequest, ToolContext
from treadle_tools.http_request import HttpRequestTool

URL = "https://api.test/orders"


async def test_the_defaults_make_a_plain_get(recorded: ToolContext, recording: Any) -> None:
    await HttpRequestTool().call({"url": URL}, recorded)
    assert recording.requests == [HttpRequest(method="GET", url=URL, timeout=30.0, max_bytes=None, max_redirects=0)]
    assert recording.purposes == ["tool"]


async def test_null_means_not_given_and_a_number_may_be_text(recorded: ToolContext, recording: Any) -> None:
    nulls = dict.fromkeys(("method", "headers", "body"))
    await HttpRequestTool().call({"url": URL, "timeout": "2.5", **nulls}, recorded)
    assert recording.requests == [HttpRequest(method="GET", url=URL, timeout=2.5)]


@pytest.mark.parametrize("method", ["get", "Post", "PUT", "delete"])
async def test_methods_are_taken_in_any_case(recorded: ToolContext, recording: Any, method: str) -> None:
    await HttpRequestTool().call({"url": URL, "method": method}, recorded)
    assert recording.requests[0].method == method.upper()


async def test_a_text_is_sent_as_it_is(recorded: ToolContext, recording: Any) -> None:
    await HttpRequestTool().call({"url": URL, "method": "POST", "body": "ü", "headers": {"X-N": 5}}, recorded)
    assert recording.requests[0].content == "ü".encode()
    assert recording.requests[0].headers == {"X-N": "5"}


async def test_an_object_is_sent_as_json(recorded: ToolContext, recording: Any) -> None:
    await HttpRequestTool().call({"url": URL, "method": "POST", "body": {"a": ["ü", None]}}, recorded)
    assert recording.requests[0].content == '{"a": ["ü", null]}'.encode()
    assert recording.requests[0].headers == {"Content-Type": "application/json"}


async def test_a_content_type_that_is_given_stays(recorded: ToolContext, recording: Any) -> None:
    given = {"content-type": "application/ld+json"}
    await HttpRequestTool().call({"url": URL, "method": "PUT", "body": {}, "headers": given}, recorded)
    assert recording.requests[0].content == b"{}"
    assert recording.requests[0].headers == given


async def test_the_result_leaves_secret_headers_out(recorded: ToolContext, recording: Any) -> None:
    secret = ("set-cookie", "x-auth-token", "www-authorization", "client-secret", "x-api-key", "x-keyed")
    headers = {"content-type": "text/plain", "keep-alive": "1", "location": "/x", **dict.fromkeys(secret, "s3cret")}
    recording.reply = HttpReply(status_code=503, headers=headers, body=b"down", url=URL)
    assert await HttpRequestTool().call({"url": URL}, recorded) == {
        "status_code": 503,
        "headers": {"content-type": "text/plain", "keep-alive": "1", "location": "/x"},
        "body": "down",
    }


@pytest.mark.parametrize(
    ("content_type", "body", "text"),
    [
        (None, "ü😀".encode(), "ü😀"),
        ("text/html; Charset='ISO-8859-1'", "ü".encode("latin-1"), "ü"),
        ('text/html; a=b; charset="utf-16"', "ü".encode("utf-16"), "ü"),
        ("text/html; charset=klingon", "ü".encode(), "ü"),
        ("text/html; charset=hex", b"6162", "6162"),
        ("image/png", b"\xffa", "\ufffda"),
    ],
)
async def test_the_body_is_text_in_the_charset_it_says(
    recorded: ToolContext, recording: Any, content_type: str | None, body: bytes, text: str
) -> None:
    headers = {} if content_type is None else {"content-type": content_type}
    recording.reply = HttpReply(status_code=200, headers=headers, body=body, url=URL)
    assert (await HttpRequestTool().call({"url": URL}, recorded))["body"] == text


async def test_a_request_reaches_a_real_server(
    real: ToolContext, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(stream: trio.SocketStream) -> None:
        async with stream:
            head = await stream.receive_some()
            place = head.split()[1].decode()
            reply = f"HTTP/1.1 307 Temporary Redirect\r\nLocation: {place}/on\r\nContent-Length: 2\r\n\r\nno"
            await stream.send_all(reply.encode())

    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    listeners: Any = await nursery.start(partial(trio.serve_tcp, answer, 0, host="127.0.0.1"))
    url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/a"
    assert await HttpRequestTool().call({"url": url}, real) == {
        "status_code": 307,
        "headers": {"location": "/a/on", "content-length": "2"},
        "body": "no",
    }
    nursery.cancel_scope.cancel()
