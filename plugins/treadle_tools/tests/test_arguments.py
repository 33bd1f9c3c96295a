"""Wrong arguments: permanent errors that name what is wrong."""

from typing import Any

import pytest

from treadle import ToolContext, ToolError
from treadle_tools import plugin


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("http_request", {}, "http_request: argument 'url' is missing"),
        ("http_request", {"url": None}, "http_request: argument 'url': must be text"),
        ("http_request", {"url": 5}, "http_request: argument 'url': must be text"),
        (
            "http_request",
            {"url": "http://x.test", "metod": "GET"},
            "http_request: unknown argument 'metod'; did you mean 'method'?",
        ),
        (
            "http_request",
            {"url": "http://x.test", "zzz": None},
            "http_request: unknown argument 'zzz'; it takes url, method, headers, body, timeout",
        ),
        (
            "http_request",
            {"url": "http://x.test", "method": "PATCH"},
            "http_request: argument 'method': must be GET, POST, PUT or DELETE, not 'PATCH'",
        ),
        (
            "http_request",
            {"url": "http://x.test", "method": 5},
            "http_request: argument 'method': must be a text: GET, POST, PUT or DELETE",
        ),
        (
            "http_request",
            {"url": "http://x.test", "headers": {"X-A": ["b"]}},
            "http_request: argument 'headers.X-A': must be text",
        ),
        (
            "http_request",
            {"url": "http://x.test", "body": [1]},
            "http_request: argument 'body': must be a text or an object, not list",
        ),
        (
            "http_request",
            {"url": "http://x.test", "body": {"a": float("nan")}},
            "http_request: argument 'body' cannot be written as JSON: ",
        ),
        (
            "http_request",
            {"url": "http://x.test", "body": "a\ud800"},
            "http_request: argument 'body' is not text: surrogates not allowed at character 1",
        ),
        (
            "http_request",
            {"url": "http://x.test", "timeout": 0},
            "http_request: argument 'timeout': must be more than 0",
        ),
        ("shell_command", {"cmd": "ls"}, "shell_command: argument 'command' is missing; unknown argument 'cmd'; "),
        ("shell_command", {"command": "ls", "timeout": "soon"}, "shell_command: argument 'timeout': must be a number"),
        ("file_read", {"path": ""}, "file_read: argument 'path': must not be empty"),
        ("file_write", {"path": "a"}, "file_write: argument 'content' is missing"),
        ("file_write", {"path": "a", "content": 5}, "file_write: argument 'content': must be text"),
        (
            "file_write",
            {"path": "a", "content": None},
            "file_write: argument 'content': must be text",
        ),
        ("file_write", {"path": "a", "content": {}}, "file_write: argument 'content': must be text"),
    ],
)
async def test_a_wrong_argument_is_named_and_nothing_runs(
    name: str, arguments: dict[str, Any], text: str, recorded: ToolContext, recording: Any
) -> None:
    with pytest.raises(ToolError) as caught:
        await plugin.treadle_tools()[name].load()().call(arguments, recorded)
    assert str(caught.value).startswith(text)
    assert caught.value.transient is False
    assert (recording.requests, recording.commands) == ([], [])
