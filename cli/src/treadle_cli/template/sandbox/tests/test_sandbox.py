"""The plugin keeps the contract, and does what its README says."""

from __future__ import annotations

from pathlib import Path

import pytest

from acme_sandbox.checks import contract_checks
from acme_sandbox.sandbox import AcmeSandbox, AcmeSandboxBlock
from treadle import SandboxError
from treadle.testing import check_plugin

CHECKS = contract_checks()


async def test_the_plugin_keeps_the_contract() -> None:
    await check_plugin("acme_sandbox.plugin", offers={"sandbox": ["my_sandbox"]})


@pytest.mark.parametrize("name", CHECKS)
async def test_what_it_offers_keeps_the_contract(name: str) -> None:
    await CHECKS[name]()


async def test_a_link_that_leads_outside_is_refused(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "link").symlink_to(tmp_path)
    sandbox = AcmeSandbox(AcmeSandboxBlock(root="inside"), tmp_path)
    with pytest.raises(SandboxError, match="the sandbox allows files below 'inside' only"):
        await sandbox.read("inside/link/secret.txt")


def test_of_two_folders_the_inner_one_is_allowed() -> None:
    outer, inner = AcmeSandboxBlock(root="data"), AcmeSandboxBlock(root="data/mine")
    assert AcmeSandbox.combine(outer, inner) == AcmeSandbox.combine(inner, outer) == inner
    with pytest.raises(SandboxError, match="'other' is not inside 'data'"):
        AcmeSandbox.combine(outer, AcmeSandboxBlock(root="other"))
