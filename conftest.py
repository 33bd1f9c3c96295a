"""What every test of the repository begins with."""

from __future__ import annotations

import signal

import pytest

from treadle import redaction
from treadle.contracts import secrets


def pytest_configure() -> None:
    """Hear Ctrl-C, and let processes that tests start hear it, though a shell in the background has it ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def nothing_revealed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No secret of an earlier test is hidden from this one: a process keeps those that it has been shown."""
    monkeypatch.setattr(secrets, "_REVEALED", {})
    redaction._secrets_now.cache_clear()
