"""Attachments under the policy sandbox: what it refuses while it is disabled, and while it is enabled."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

import treadle_attachments.plugin
import treadle_llm_call.plugin
import treadle_replay.plugin
import treadle_sandbox.plugin
from treadle import StepResult
from treadle.testing import run_workflow

PLUGINS = {
    "attachments": treadle_attachments.plugin,
    "llm_call": treadle_llm_call.plugin,
    "replay": treadle_replay.plugin,
    "sandbox": treadle_sandbox.plugin,
}
PUBLIC = "http://93.184.216.34/a.png"  # by number: nothing is looked up, and with fetch: provider nothing is dialled
PNG = b"\x89PNG\r\n\x1a\n"


async def attached(source: str, sandbox: dict[str, Any], **fields: Any) -> StepResult:
    step = {"id": "a", "type": "llm_call", "prompt": "x", "attachments": [{"source": source, **fields}]}
    config = {"provider": "mock", "sandbox": sandbox}
    return (await run_workflow({"name": "t", "config": config, "steps": [step]}, plugins=PLUGINS)).step_results["a"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "scans").mkdir()
    (tmp_path / "scans" / "a.png").write_bytes(PNG)
    (tmp_path / "b.png").write_bytes(PNG)
    (tmp_path / "scans" / "link.png").symlink_to(tmp_path / "b.png")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("fetch", ["local", "provider"])
@pytest.mark.parametrize("sandbox", [{}, {"allowed_domains": ["127.0.0.1", "localhost", "10.1.2.3"]}])
@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.1", "0x7f000001", "localhost", "[::1]", "[::ffff:10.1.2.3]", "10.1.2.3", "169.254.169.254"],
)
async def test_internal_addresses_are_refused_in_any_spelling(host: str, sandbox: Any, fetch: str) -> None:
    step = await attached(f"http://{host}/a.png", sandbox, fetch=fetch)
    assert (step.status, step.attempts) == ("failed", 1)
    assert (step.error or "").startswith("attachments.0: the sandbox ")


@pytest.mark.parametrize("fetch", ["local", "provider"])
@pytest.mark.parametrize("enabled", [False, True])
async def test_the_network_may_be_shut_and_hosts_listed_even_while_it_is_disabled(enabled: bool, fetch: str) -> None:
    shut = await attached(PUBLIC, {"enabled": enabled, "allow_network": False}, fetch=fetch)
    assert "the sandbox allows no network" in (shut.error or "")
    listed = await attached(PUBLIC, {"enabled": enabled, "allowed_domains": ["api.example.com"]}, fetch=fetch)
    assert "the sandbox does not allow the host '93.184.216.34'" in (listed.error or "")


async def test_a_public_address_is_sent_to_the_provider() -> None:
    for sandbox in ({}, {"allowed_domains": ["93.184.216.34"]}, {"enabled": True}):
        assert (await attached(PUBLIC, sandbox, fetch="provider")).status == "success"


async def test_files_are_anywhere_while_it_is_disabled_and_in_readable_directories_while_it_is_enabled() -> None:
    assert (await attached("b.png", {})).status == "success"
    for lists in ({"readable_paths": ["scans"]}, {"allowed_paths": ["scans"]}):
        sandbox = {"enabled": True, **lists}
        assert (await attached("scans/a.png", sandbox)).status == "success"
        for path in ("b.png", "scans/../b.png", "scans/link.png"):
            step = await attached(path, sandbox)
            assert (step.status, step.attempts) == ("failed", 1)
            assert "the sandbox does not allow" in (step.error or "")
    assert (await attached("scans/a.png", {"enabled": True, "writable_paths": ["scans"]})).status == "failed"


async def test_data_urls_need_nothing_of_it() -> None:
    sandbox = {"enabled": True, "allow_network": False}
    assert (await attached("data:image/png;base64,iVBORw0KGgo=", sandbox)).status == "success"


async def test_a_host_that_does_not_resolve_here_is_the_providers_to_find(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unknown(host: str, port: int) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr("treadle_sandbox.network.resolve", unknown)
    assert (await attached("https://pics.example.com/a.png", {}, fetch="provider")).status == "success"
    step = await attached("https://pics.example.com/a.png", {}, fetch="local")
    assert "the host does not resolve" in (step.error or "")
