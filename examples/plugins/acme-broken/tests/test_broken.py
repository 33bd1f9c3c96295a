"""It is broken, and stays so."""

from __future__ import annotations

import importlib

import pytest

from treadle.testing import check_plugin


def test_it_cannot_be_imported() -> None:
    with pytest.raises(ImportError, match="cannot import name 'Offering' from 'treadle'"):
        importlib.import_module("acme_broken.plugin")


async def test_the_check_says_so() -> None:
    with pytest.raises(AssertionError, match="Offering"):
        await check_plugin("acme_broken.plugin")
