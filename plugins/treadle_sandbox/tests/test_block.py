"""``config.sandbox``: its keys, and that what is not enforced is not accepted."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from treadle import SandboxError
from treadle_sandbox.block import PolicyBlock
from treadle_sandbox.policy import PolicySandbox


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
    }


@pytest.mark.parametrize("enabled", [True, "true", 1])
def test_an_enabled_block_is_refused_with_a_remedy(enabled: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        PolicyBlock.model_validate({"enabled": enabled, "allowed_commands": ["ls"]})
    (detail,) = caught.value.errors()
    assert detail["loc"] == ("enabled",)
    assert "sandbox.enabled: true is not enforced by treadle-sandbox 0.1 yet" in detail["msg"]
    assert "set it to false to let tools run with the access of this process" in detail["msg"]


def test_a_misspelled_key_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"allowed_command\n  Extra inputs are not permitted"):
        PolicyBlock.model_validate({"allowed_command": ["ls"]})


def test_two_disabled_blocks_combine_to_the_child_s() -> None:
    child = PolicyBlock(allowed_domains=("a.test",))
    assert PolicySandbox.combine(PolicyBlock(), child) is child


class OtherBlock(BaseModel):
    """The block of another sandbox, whose limits are not known here."""


def test_a_block_that_limits_is_never_combined_away() -> None:
    unchecked = PolicyBlock.model_construct(enabled=True)
    for parent, child in ((unchecked, PolicyBlock()), (PolicyBlock(), unchecked), (OtherBlock(), PolicyBlock())):
        with pytest.raises(SandboxError, match="sandbox: an enabled block cannot be combined"):
            PolicySandbox.combine(parent, child)


@pytest.mark.parametrize(("purpose", "what"), [("attachment", "attachment downloads"), ("webhook", "webhooks")])
async def test_attachments_and_webhooks_are_refused(tmp_path: Path, purpose: Any, what: str) -> None:
    sandbox = PolicySandbox(PolicyBlock(), tmp_path)
    with pytest.raises(SandboxError, match=f"the sandbox of treadle-sandbox 0.1 cannot keep {what} away") as caught:
        await sandbox.check_url("https://example.com/", purpose=purpose)
    assert caught.value.transient is False
    with pytest.raises(SandboxError, match=what):
        async with sandbox.http(purpose):
            raise AssertionError("not entered")
