"""The tool ``http_request``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from treadle import HttpReply, HttpRequest, Right, ToolContext, ToolError
from treadle.contracts.tool import Effect
from treadle.tools import parse_arguments, schema_of
from treadle_tools.arguments import CheckedTool, ToolArguments, refusals_of, text_of

__all__ = ["HttpRequestTool"]

_METHODS = ("GET", "POST", "PUT", "DELETE")
_EFFECTS: Mapping[str, Effect] = {"GET": "pure", "PUT": "idempotent", "DELETE": "idempotent"}
"""RFC 9110, 9.2: GET is safe, PUT and DELETE are idempotent."""

_SECRET_WORDS = ("authorization", "cookie", "token", "secret", "key")


def _method(value: object) -> object:
    if isinstance(value, str):
        if value.upper() in _METHODS:
            return value.upper()
        raise ValueError(f"must be GET, POST, PUT or DELETE, not '{value}'")
    raise ValueError("must be a text: GET, POST, PUT or DELETE")


def _body(value: object) -> object:
    if not isinstance(value, str | Mapping):
        raise ValueError(f"must be a text or an object, not {type(value).__name__}")
    return value


_HeaderValue = Annotated[str, Field(coerce_numbers_to_str=True)]


class _Arguments(ToolArguments):
    url: str = Field(description="The URL, http or https.")
    method: Annotated[Literal["GET", "POST", "PUT", "DELETE"], BeforeValidator(_method)] = Field(
        default="GET", description="GET, POST, PUT or DELETE."
    )
    headers: dict[str, _HeaderValue] = Field(default={}, description="Request headers.")
    body: Annotated[Any, BeforeValidator(_body), WithJsonSchema({"type": ["string", "object"]})] = Field(
        default=None,
        description="The request body. A string is sent as it is (set a Content-Type header), an object as JSON.",
    )
    timeout: float = Field(
        default=30.0,
        gt=0,
        allow_inf_nan=False,
        description="Seconds for each phase of the request: connecting, sending, reading.",
    )


class HttpRequestTool(CheckedTool):
    """Sends one request and gives the reply, whatever its status.

    The result is ``{status_code, headers, body}``, the body as text: in the charset that the reply names, else
    UTF-8, with U+FFFD for what is not. Header names are lower-case, and headers whose names contain
    ``authorization``, ``cookie``, ``token``, ``secret`` or ``key`` are left out. Redirects are not followed.
    """

    name = "http_request"
    description = (
        "Send an HTTP request. Returns {status_code, headers, body}, the body as text. Any status is a result, not an "
        "error. Redirects are not followed."
    )
    model = _Arguments
    parameters: ClassVar[Mapping[str, Any]] = schema_of(_Arguments)
    effect = "once"

    def rights(self, arguments: Mapping[str, Any] | None) -> Iterable[Right]:
        """The host, without user name and port."""
        url = text_of(arguments, "url")
        _, whole, rest = url.partition("://")
        host = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2] if whole else url
        return (Right(kind="host", name=re.sub(r":\d+$", "", host)),)

    def effect_of(self, arguments: Mapping[str, Any]) -> Effect | None:
        """GET does nothing, PUT and DELETE nothing more than once; POST may."""
        return _EFFECTS.get(str(arguments.get("method") or "GET").upper(), "once")

    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        """Send it.

        :raises ToolError: permanent where the arguments are wrong, else as the sandbox's client raises.
        """
        given = parse_arguments(self.name, _Arguments, arguments)
        headers = dict(given.headers)
        content: bytes | None = None
        if isinstance(given.body, str):
            content = _utf8(given.body)
        elif given.body is not None:
            content = _utf8(_json(given.body))
            if "content-type" not in {name.lower() for name in headers}:
                headers["Content-Type"] = "application/json"
        request = HttpRequest(
            method=given.method, url=given.url, headers=headers, content=content, timeout=given.timeout
        )
        sandbox = context.require_sandbox(self.name)
        with refusals_of(self.name):
            async with sandbox.http("tool") as client:
                reply = await client.send(request)
        return {
            "status_code": reply.status_code,
            "headers": {name: value for name, value in reply.headers.items() if not _is_secret(name)},
            "body": _text(reply),
        }


def _json(body: Any) -> str:
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ToolError(f"http_request: argument 'body' cannot be written as JSON: {error}", transient=False) from error


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ToolError(
            f"http_request: argument 'body' is not text: {error.reason} at character {error.start}", transient=False
        ) from error


def _is_secret(header: str) -> bool:
    name = header.lower()
    return any(word in name for word in _SECRET_WORDS)


def _text(reply: HttpReply) -> str:
    for parameter in reply.headers.get("content-type", "").split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            try:
                return reply.body.decode(value.strip().strip("\"'"), "replace")
            except (LookupError, UnicodeError):
                break  # a charset that Python does not know
    return reply.body.decode("utf-8", "replace")
