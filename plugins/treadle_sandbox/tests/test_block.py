"""``config.sandbox``: its keys, and what two blocks allow together."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from treadle import SandboxError
from treadle_sandbox.block import LIMIT, PolicyBlock
from treadle_sandbox.policy import PolicySandbox

combine = PolicySandbox.combine


def _on(**fields: Any) -> PolicyBlock:
    return PolicyBlock(enabled=True, **fields)


def test_the_block_has_every_key_with_its_default() -> None:
    assert PolicyBlock().model_dump() == {
        "enabled": False,
        "allowed_commands": (),
        "allowed_paths": (),
        "readable_paths": (),
        "writable_paths": (),
        "allow_network": True,
        "allowed_domains": (),
        "allowed_schemes": ("http", "https"),
        "max_write_bytes": None,
        "danger_opt_in": (),
        "allow_internal_webhook_targets": False,
        "deny_internal_hosts": False,
        "max_body_bytes": 64 * 1024 * 1024,
        "max_output_bytes": 64 * 1024 * 1024,
    }


def test_a_misspelled_key_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"allowed_command\n  Extra inputs are not permitted"):
        PolicyBlock.model_validate({"allowed_command": ["ls"]})


@pytest.mark.parametrize("value", [None, "none"])
def test_a_limit_may_be_taken_away(value: Any) -> None:
    assert PolicyBlock(max_body_bytes=value, max_output_bytes=value).max_body_bytes is None


# --- two blocks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parent", [False, True])
@pytest.mark.parametrize("child", [False, True])
def test_the_enabled_one_of_two_blocks_holds_and_the_child_s_where_neither_is(parent: bool, child: bool) -> None:
    outer = PolicyBlock(enabled=parent, allowed_commands=("ls", "wc"), allow_network=False)
    inner = PolicyBlock(enabled=child, allowed_commands=("wc", "cat"))
    both = combine(outer, inner)
    expected = {
        (False, False): (False, inner.allowed_commands, True),
        (True, False): (True, outer.allowed_commands, False),
        (False, True): (True, inner.allowed_commands, True),
        (True, True): (True, ("wc",), False),
    }
    assert (both.enabled, both.allowed_commands, both.allow_network) == expected[parent, child]


def test_two_disabled_blocks_combine_to_the_child_s() -> None:
    child = PolicyBlock(allowed_domains=("a.test",))
    assert combine(PolicyBlock(), child) is child


class OtherBlock(BaseModel):
    """The block of another sandbox, whose limits are not known here."""


def test_a_block_of_another_sandbox_is_never_combined_away() -> None:
    for parent, child in ((OtherBlock(), PolicyBlock()), (PolicyBlock(), OtherBlock())):
        with pytest.raises(SandboxError, match="the sandbox 'policy' cannot hold tools to the block of another one"):
            combine(parent, child)


def test_a_command_and_an_opt_in_must_be_on_both_lists() -> None:
    both = combine(
        _on(allowed_commands=("ls", "sh", "python3"), danger_opt_in=("sh", "python3")),
        _on(allowed_commands=("sh", "python3", "wc"), danger_opt_in=("sh",)),
    )
    assert (both.allowed_commands, both.danger_opt_in) == (("sh", "python3"), ("sh",))


def test_of_two_nested_directories_the_deeper_one_applies(tmp_path: Path) -> None:
    base = str(tmp_path.resolve())
    both = combine(
        _on(allowed_paths=(f"{base}/a",), readable_paths=(f"{base}/r/deep",), writable_paths=(f"{base}/w",)),
        _on(allowed_paths=(f"{base}/a/in",), readable_paths=(f"{base}/r", f"{base}/w"), writable_paths=(f"{base}/a",)),
    )
    assert both.allowed_paths == ()
    assert set(both.readable_paths) == {f"{base}/a/in", f"{base}/r/deep"}
    assert set(both.writable_paths) == {f"{base}/a/in", f"{base}/a"}


def test_a_relative_directory_and_its_absolute_name_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    both = combine(_on(allowed_paths=("link",)), _on(readable_paths=(str(tmp_path / "real"), "real2")))
    assert both.readable_paths == (str(tmp_path.resolve() / "real"),)


@pytest.mark.parametrize(
    ("parent", "child", "both", "network", "deny"),
    [
        ((), (), (), True, False),
        (("a.test",), (), ("a.test",), True, False),
        ((), ("a.test",), ("a.test",), True, True),
        (("A.test", "b.test"), ("b.test", "a.TEST", "c.test"), ("a.test", "b.test"), True, False),
        (("a.test",), ("b.test",), (), False, False),
    ],
)
def test_hosts_are_shared_and_a_child_s_list_opens_no_internal_ones(
    parent: Any, child: Any, both: Any, network: bool, deny: bool
) -> None:
    block = combine(_on(allowed_domains=parent), _on(allowed_domains=child))
    assert (block.allowed_domains, block.allow_network, block.deny_internal_hosts) == (both, network, deny)


def test_schemes_are_shared_too() -> None:
    assert combine(_on(allowed_schemes=("https",)), _on()).allowed_schemes == ("https",)
    assert combine(_on(allowed_schemes=()), _on(allowed_schemes=("http",))).allowed_schemes == ("http",)
    assert combine(_on(allowed_schemes=("https",)), _on(allowed_schemes=("http",))).allow_network is False


@pytest.mark.parametrize("name", ["allow_network", "allow_internal_webhook_targets"])
def test_what_is_allowed_must_be_so_in_both(name: str) -> None:
    for parent in (False, True):
        for child in (False, True):
            both = combine(_on(**{name: parent}), _on(**{name: child}))
            assert getattr(both, name) is (parent and child)


@pytest.mark.parametrize(
    ("parent", "child", "both"), [(5, 3, 3), (None, 3, 3), (5, None, 5), (None, None, None), (0, 3, 0)]
)
def test_the_smaller_write_limit_applies(parent: int | None, child: int | None, both: int | None) -> None:
    assert combine(_on(max_write_bytes=parent), _on(max_write_bytes=child)).max_write_bytes == both


@pytest.mark.parametrize("enabled", [False, True])
def test_limits_of_bodies_and_output_that_are_not_set_are_the_parent_s(enabled: bool) -> None:
    parent = PolicyBlock(max_body_bytes=None, max_output_bytes=10)
    both = combine(parent, PolicyBlock(enabled=enabled, max_output_bytes=20))
    assert (both.max_body_bytes, both.max_output_bytes) == (None, 10)
    assert combine(both, PolicyBlock()).max_body_bytes is None
    assert combine(PolicyBlock(), PolicyBlock(enabled=enabled)).max_body_bytes == LIMIT


_NAMES = st.lists(st.sampled_from(["a", "b", "c"]), unique=True, max_size=3).map(tuple)
_BLOCKS = st.builds(
    PolicyBlock,
    enabled=st.booleans(),
    allowed_commands=_NAMES,
    danger_opt_in=_NAMES,
    allowed_domains=_NAMES,
    allow_network=st.booleans(),
    deny_internal_hosts=st.booleans(),
    allow_internal_webhook_targets=st.booleans(),
    max_write_bytes=st.none() | st.integers(0, 9),
)


@given(_BLOCKS, _BLOCKS, _BLOCKS)
def test_a_child_never_widens_what_its_parent_allows(
    first: PolicyBlock, second: PolicyBlock, third: PolicyBlock
) -> None:
    """However many there are below each other. What a child's parent allows is what it is held to itself."""
    middle = combine(first, second)
    both = combine(middle, third)
    for outer in (each for each in (first, middle) if each.enabled):
        assert both.enabled
        assert set(both.allowed_commands) <= set(outer.allowed_commands)
        assert set(both.danger_opt_in) <= set(outer.danger_opt_in)
        assert outer.allow_network or not both.allow_network
        assert both.deny_internal_hosts or not outer.deny_internal_hosts
        assert outer.allow_internal_webhook_targets or not both.allow_internal_webhook_targets
        if outer.max_write_bytes is not None:
            assert both.max_write_bytes is not None
            assert both.max_write_bytes <= outer.max_write_bytes
        if both.allow_network and outer.allowed_domains:
            assert both.allowed_domains
            assert set(both.allowed_domains) <= set(outer.allowed_domains)
        if both.allow_network and not outer.allowed_domains and both.allowed_domains and not both.deny_internal_hosts:
            raise AssertionError("a list below a block without one opens internal hosts")
