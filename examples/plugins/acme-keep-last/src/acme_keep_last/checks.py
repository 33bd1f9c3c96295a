"""What ``treadle plugins check`` and the tests hold this plugin to. Nothing else imports it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from acme_keep_last.policy import AcmeKeepLast
from treadle.testing import check_trim_policy

__all__ = ["contract_checks"]


def contract_checks() -> Mapping[str, Callable[[], Awaitable[None]]]:
    """Each check with what it is about."""
    return {"trim policy acme_keep_last": lambda: check_trim_policy(AcmeKeepLast)}
