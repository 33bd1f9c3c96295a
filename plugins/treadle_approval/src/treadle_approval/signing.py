"""Signatures of webhooks: HMAC-SHA256 (RFC 2104) over the time of sending and the body."""

from __future__ import annotations

import hashlib
import hmac
import time

__all__ = ["SIGNATURE_HEADER", "TIMESTAMP_HEADER", "signature", "verify"]

SIGNATURE_HEADER = "X-Treadle-Signature"
TIMESTAMP_HEADER = "X-Treadle-Timestamp"


def signature(key: str, timestamp: str, body: bytes) -> str:
    """``sha256=`` and the hexadecimal HMAC of ``timestamp``, a full stop and the body."""
    signed = timestamp.encode("ascii", "replace") + b"." + body
    return f"sha256={hmac.new(key.encode('utf-8'), signed, hashlib.sha256).hexdigest()}"


def verify(
    key: str, *, timestamp: str, signed: str, body: bytes, tolerance: float = 300.0, now: float | None = None
) -> bool:
    """Whether a webhook is what the holder of the key has sent, not long ago.

    :param timestamp: the header ``X-Treadle-Timestamp``: seconds since 1970.
    :param signed: the header ``X-Treadle-Signature``.
    :param body: as it was received, before it is parsed.
    :param tolerance: most seconds between sending and now, either way: what is older may be a copy, sent again.
    :param now: seconds since 1970; the clock of the day without it.
    """
    if not hmac.compare_digest(signature(key, timestamp, body).encode(), signed.encode("utf-8", "replace")):
        return False
    try:
        sent = float(timestamp)
    except ValueError:
        return False
    return abs((time.time() if now is None else now) - sent) <= tolerance
