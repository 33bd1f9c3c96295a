"""What the plugin offers, that saying so is cheap, and that each tool is what its offer says."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from treadle import SandboxError, Tool, ToolContext
from treadle_tools import plugin
from treadle_tools.step import ToolStep

PYPROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))

CALLS: dict[str, dict[str, Any]] = {
    "http_request": {"url": "http://x.test"},
    "shell_command": {"command": "true"},
    "file_read": {"path": "a"},
    "file_write": {"path": "a", "content": ""},
}


def test_the_hooks_offer_what_pyproject_says() -> None:
    offered = {"step_type": [*plugin.treadle_step_types()], "tool": [*plugin.treadle_tools()]}
    assert offered == PYPROJECT["tool"]["treadle"]["offers"]
    assert plugin.treadle_step_types()["tool"].load() is ToolStep


def test_the_plugin_module_imports_nothing_heavy() -> None:
    code = "import sys, treadle_tools.plugin; print(sorted({'pydantic', 'trio', 'httpx2'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_tools_bring_no_http_client() -> None:
    code = (
        "import sys, treadle_tools.plugin as p; [o.load() for o in p.treadle_tools().values()]; print([*sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "treadle_tools.http_request" in done.stdout
    assert "httpx2" not in done.stdout


@pytest.mark.parametrize("name", CALLS)
def test_a_tool_has_its_offer_s_name_a_description_and_a_closed_plain_schema(name: str) -> None:
    tool: Tool = plugin.treadle_tools()[name].load()()
    assert tool.name == name
    schema = dict(tool.spec.parameters)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert schema["required"] == list(CALLS[name])
    assert all(argument["description"] for argument in schema["properties"].values())
    assert tool.description
    for unwanted in ("title", "$ref", "anyOf"):
        assert unwanted not in json.dumps(schema)


def test_the_defaults_are_the_documented_ones() -> None:
    found = {
        f"{name}.{argument}": schema["default"]
        for name, offer in plugin.treadle_tools().items()
        for argument, schema in offer.load().parameters["properties"].items()
        if "default" in schema and schema["default"] is not None
    }
    assert found == {
        "http_request.method": "GET",
        "http_request.headers": {},
        "http_request.timeout": 30.0,
        "shell_command.timeout": 30.0,
        "shell_command.cwd": ".",
        "file_read.encoding": "utf-8",
        "file_write.encoding": "utf-8",
    }


@pytest.mark.parametrize(
    ("name", "arguments", "effect"),
    [
        ("http_request", {}, "pure"),
        ("http_request", {"method": None}, "pure"),
        ("http_request", {"method": "get"}, "pure"),
        ("http_request", {"method": "PUT"}, "idempotent"),
        ("http_request", {"method": "delete"}, "idempotent"),
        ("http_request", {"method": "POST"}, "once"),
        ("http_request", {"method": 5}, "once"),
        ("shell_command", {}, "once"),
        ("file_read", {}, "pure"),
        ("file_write", {}, "idempotent"),
    ],
)
def test_what_a_repeated_call_does_is_known(name: str, arguments: dict[str, Any], effect: str) -> None:
    assert plugin.treadle_tools()[name].load()().effect_of(arguments) == effect


@pytest.mark.parametrize("name", CALLS)
async def test_without_a_sandbox_a_tool_does_nothing(name: str, bare: ToolContext) -> None:
    tool: Tool = plugin.treadle_tools()[name].load()()
    with pytest.raises(SandboxError) as caught:
        await tool.call(CALLS[name], bare)
    assert str(caught.value) == (
        f"tool '{name}' reaches the world through a sandbox, and none is installed; pip install treadle-sandbox"
    )
