"""What the plugin offers, and that saying so is cheap."""

import subprocess
import sys
import tomllib
from pathlib import Path

from treadle_sandbox import plugin
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
