"""Gates at which runs wait for people, webhooks that tell of them, and the server that takes answers."""

from __future__ import annotations

from treadle_approval.signing import signature, verify

__all__ = ["signature", "verify"]
