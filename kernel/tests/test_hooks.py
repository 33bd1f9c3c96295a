"""The hooks: one for each role, documented, and called with nothing."""

import inspect
import re

import pytest

from treadle._plugins.registry import ROLES, hook_of
from treadle.hookspecs import CONTRACT_VERSION, PROJECT, TreadleHooks

HOOKS = {name: value for name, value in vars(TreadleHooks).items() if not name.startswith("_")}


def test_there_is_exactly_one_hook_for_each_role() -> None:
    assert sorted(map(hook_of, ROLES)) == sorted(HOOKS)
    assert len(set(map(hook_of, ROLES))) == len(ROLES) == 15


@pytest.mark.parametrize("name", sorted(HOOKS))
def test_a_hook_says_what_it_offers_when_it_is_used_and_since_when(name: str) -> None:
    hook = HOOKS[name]
    assert name.startswith(f"{PROJECT}_")
    text = inspect.cleandoc(hook.__doc__ or "")
    assert re.search(r"Since \d+\.\d+\.$", text), text
    assert "Target: " in text
    assert list(inspect.signature(hook).parameters) == ["self"]
    assert hook.__annotations__["return"].startswith("Mapping[str, ")
    assert hasattr(hook, f"{PROJECT}_spec")


def test_what_holds_for_every_hook_is_said_once() -> None:
    text = inspect.getdoc(inspect.getmodule(TreadleHooks)) or ""
    for manner in ("called once", "returns ``Mapping[str, Offer]``", "must not import", "may raise", "``async def``"):
        assert manner in text


def test_no_hook_is_newer_than_the_contract() -> None:
    versions = {
        tuple(map(int, match.split(".")))
        for hook in HOOKS.values()
        for match in re.findall(r"Since ([\d.]+)\.", hook.__doc__ or "")
    }
    assert max(versions) <= tuple(map(int, CONTRACT_VERSION.split(".")))
