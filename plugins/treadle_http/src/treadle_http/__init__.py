"""One HTTP stack for everything of Treadle that speaks to a server.

Every public name can be imported from here; each is loaded when it is first touched, so that a plugin may
use the tables of this package without loading an HTTP client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treadle_http.client import Timeouts, open_client, tls_context
    from treadle_http.connection import TotalTimeout
    from treadle_http.dialling import Dial
    from treadle_http.event_stream import EventStream
    from treadle_http.limits import BODY_LIMIT, BodyTooLargeError
    from treadle_http.ndjson import LINE_LIMIT, NDJSONDecoder
    from treadle_http.pinned import AddressRefusedError, open_pinned_client
    from treadle_http.proxies import Proxies
    from treadle_http.pump import Pumped, pumped
    from treadle_http.redaction import redact
    from treadle_http.sse import ServerSentEvent, SSEDecoder
    from treadle_http.status_errors import body_error, code_status, is_error_body, request_id, status_error
    from treadle_http.transport_errors import FACTS, Facts, facts_of, to_provider_error
    from treadle_http.waiting import retry_after

__all__ = [
    "BODY_LIMIT",
    "FACTS",
    "LINE_LIMIT",
    "AddressRefusedError",
    "BodyTooLargeError",
    "Dial",
    "EventStream",
    "Facts",
    "NDJSONDecoder",
    "Proxies",
    "Pumped",
    "SSEDecoder",
    "ServerSentEvent",
    "Timeouts",
    "TotalTimeout",
    "body_error",
    "code_status",
    "facts_of",
    "is_error_body",
    "open_client",
    "open_pinned_client",
    "pumped",
    "redact",
    "request_id",
    "retry_after",
    "status_error",
    "tls_context",
    "to_provider_error",
]

_HOMES = {
    "client": ("Timeouts", "open_client", "tls_context"),
    "connection": ("TotalTimeout",),
    "dialling": ("Dial",),
    "event_stream": ("EventStream",),
    "limits": ("BODY_LIMIT", "BodyTooLargeError"),
    "ndjson": ("LINE_LIMIT", "NDJSONDecoder"),
    "pinned": ("AddressRefusedError", "open_pinned_client"),
    "proxies": ("Proxies",),
    "pump": ("Pumped", "pumped"),
    "redaction": ("redact",),
    "waiting": ("retry_after",),
    "sse": ("SSEDecoder", "ServerSentEvent"),
    "status_errors": ("body_error", "code_status", "is_error_body", "request_id", "status_error"),
    "transport_errors": ("FACTS", "Facts", "facts_of", "to_provider_error"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'treadle_http' has no attribute '{name}'")
    return getattr(import_module(f"treadle_http.{_HOME_OF[name]}"), name)
