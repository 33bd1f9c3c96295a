"""What the plugin offers, and that saying so is cheap."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from treadle.testing import check_sandbox
from treadle_sandbox import plugin
from treadle_sandbox.block import PolicyBlock
from treadle_sandbox.policy import PolicySandbox

PYPROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_hook_offers_what_pyproject_says() -> None:
    assert {"sandbox": [*plugin.treadle_sandboxes()]} == PYPROJECT["tool"]["treadle"]["offers"]
    assert plugin.treadle_sandboxes()["policy"].load() is PolicySandbox


def _loaded(module: str) -> str:
    code = f"import sys, {module}; print(sorted({{'pydantic', 'trio', 'httpx2'}} & set(sys.modules)))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_the_plugin_module_imports_nothing_heavy() -> None:
    assert _loaded("treadle_sandbox.plugin") == "[]"


def test_the_sandbox_brings_no_http_client_before_it_is_used() -> None:
    assert "httpx2" not in _loaded("treadle_sandbox.policy")


@pytest.mark.parametrize("enabled", [False, True])
async def test_it_keeps_the_contract(tmp_path: Path, enabled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    block = PolicyBlock(enabled=enabled, allowed_commands=("printf", "sleep"), allowed_paths=(".",))
    limits = {"refused_path": "../a", "refused_command": "rm x", "refused_url": "http://127.0.0.1/"} if enabled else {}
    await check_sandbox(
        lambda base: PolicySandbox(block, base),
        Path.cwd(),
        command="printf hi",
        output=b"hi",
        slow_command="sleep 30",
        **limits,
    )
