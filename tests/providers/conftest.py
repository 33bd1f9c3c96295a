"""Nothing of the machine reaches these tests."""

from __future__ import annotations

import pytest

from providers.vendors import clear_environment


@pytest.fixture(autouse=True)
def _clear(monkeypatch: pytest.MonkeyPatch) -> None:
    clear_environment(monkeypatch)
