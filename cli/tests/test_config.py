"""``treadle config``, and the options by which every command is told its settings."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FLOW = "name: x\nsteps:\n- {id: a, type: nap, value: done}\n"

BOX = """
from pydantic import BaseModel, ConfigDict, Field
from treadle import ConfigOffer, Offer, hookimpl
from treadle.contracts.sandbox import Sandbox

class Block(BaseModel):
    model_config = ConfigDict(extra="forbid")
    network: bool = True

class Box(Sandbox):
    block_model = Block

@hookimpl
def treadle_sandboxes():
    return {"box": Offer(Box, "a box")}
"""

NOISY = "import os, pathlib\npathlib.Path(os.environ['NOISE']).write_text('imported', encoding='utf-8')\n"


def shown(text: str) -> dict[str, list[str]]:
    """The lines of ``config show``: key -> value and origin."""
    rows = (line.split("  ") for line in text.splitlines()[2:])
    return {key: [cell.strip() for cell in cells if cell.strip()] for key, *cells in rows}


def test_the_place_of_a_provider_among_candidates_is_shown_where_it_is_set(program: Any) -> None:
    program.write(
        "treadle.yaml",
        "provider: openai\nproviders:\n  mine: {kind: openai, fallback: true, fallback_model: x}\n"
        "  ours: {kind: openai, models: [m], priority: 0}\n",
    )
    ended = program("config", "show", "--origin")
    assert ended.code == 0, ended.err
    rows = shown(ended.out)
    assert rows["providers.mine.fallback"] == ["true", "treadle.yaml:3:34"]
    assert rows["providers.mine.fallback_model"] == ["x", "treadle.yaml:3:56"]
    assert rows["providers.ours.models"] == ['["m"]', "treadle.yaml:4:32"]
    assert rows["providers.ours.priority"] == ["0", "treadle.yaml:4:47"]
    assert "providers.ours.fallback" not in rows


def test_each_value_is_shown_with_where_it_comes_from(program: Any) -> None:
    """Environment beats file beats default."""
    program.write(
        "treadle.yaml",
        "provider: openai\nproviders:\n  openai:\n    base_url: http://file\n    timeout: 7\n"
        "  mine: {kind: openai, api_key: 'env:MY_KEY', base_url: 'http://me:pw@host/v1?key=k', headers: {x: sk-1}}\n"
        "config: {max_retries: 1}\n",
    )
    ended = program("config", "show", "--origin", env={"OPENAI_BASE_URL": "http://environment", "MY_KEY": "sk-2"})
    assert ended.code == 0, ended.err
    assert ended.out.splitlines()[0] == "file: treadle.yaml (found)"
    rows = shown(ended.out)
    assert rows["provider"] == ["openai", "treadle.yaml:1:11"]
    assert rows["providers.openai.base_url"] == ["http://environment", "OPENAI_BASE_URL"]
    assert rows["providers.openai.timeout"] == ["7", "treadle.yaml:5:14"]
    assert rows["providers.openai.headers"] == ["{}", "default"]
    assert rows["providers.openai.api_key"] == ["env:OPENAI_API_KEY (not set)", "default"]
    assert rows["providers.mine.kind"] == ["openai", "treadle.yaml:6:16"]
    assert rows["providers.mine.api_key"] == ["env:MY_KEY (set)", "treadle.yaml:6:33"]
    assert rows["providers.mine.base_url"][0] == "http://***@host/v1?***"
    assert rows["providers.mine.headers"][0] == '{"x": "***"}'
    assert rows["config.max_retries"] == ["1", "treadle.yaml:7:23"]
    assert rows["config.max_concurrent_steps"] == ["10", "default"]
    assert "sk-" not in ended.out + ended.err
    assert "pw" not in ended.out + ended.err

    file_only = shown(program("config", "show", "--origin").out)
    assert file_only["providers.openai.base_url"] == ["http://file", "treadle.yaml:4:15"]
    nothing = program("config", "show", "--origin", "--no-config")
    assert nothing.out.startswith("file: none\n")
    assert shown(nothing.out)["providers.openai.base_url"] == ["null", "default"]


def test_without_origin_there_are_values_only(program: Any) -> None:
    program.write("treadle.yaml", "model: m\n")
    assert shown(program("config", "show").out)["model"] == ["m"]


def test_show_as_json(program: Any, strangers: Callable[..., Path]) -> None:
    folder = strangers("box", {"treadle.plugins": {"box": "box"}}, {"box": BOX})
    program.write(
        "treadle.yaml", "roles: {sandbox: box}\nsandbox: {network: false}\naliases: {tools: {file_read: file_write}}\n"
    )
    ended = program("config", "show", "--json", "--without", "router", env={"PYTHONPATH": str(folder)})
    facts = json.loads(ended.out)
    assert (facts["file"], facts["file_origin"]) == ("treadle.yaml", "found")
    rows = {row["key"]: row for row in facts["settings"]}
    assert rows["plugins.disabled"] == {"key": "plugins.disabled", "value": ["router"], "origin": "command line"}
    assert rows["sandbox.network"] == {"key": "sandbox.network", "value": False, "origin": "treadle.yaml:2:20"}
    assert rows["roles.sandbox"]["origin"] == "treadle.yaml:1:18"
    assert rows["aliases.tools.file_read"]["value"] == "file_write"
    assert rows["providers.openai.api_key"] == {
        "key": "providers.openai.api_key",
        "value": "env:OPENAI_API_KEY",
        "origin": "default",
        "set": False,
    }


def test_a_command_line_and_a_file_that_both_disable(program: Any) -> None:
    program.write("treadle.yaml", "plugins: {disabled: [mock, replay]}\n")
    ended = program("config", "show", "--origin", "--without", "router")
    assert shown(ended.out)["plugins.disabled"] == ['["mock", "replay", "router"]', "treadle.yaml:1:21, command line"]
    assert "treadle.yaml:1:22: warning: plugins.disabled.0: no plugin 'mock' is installed" in ended.err


@pytest.mark.parametrize("args", ["--config other.yaml config path", "config path --config other.yaml"])
def test_the_option_stands_before_or_after_the_command(program: Any, args: str) -> None:
    program.write("treadle.yaml", "")
    assert program("config", "path").out == "treadle.yaml\n"
    assert program(*args.split(), env={"TREADLE_CONFIG": "third.yaml"}).out == "other.yaml\n"
    assert program("config", "path", env={"TREADLE_CONFIG": "third.yaml"}).out == "third.yaml\n"


def test_no_config_and_an_empty_variable_mean_none(program: Any) -> None:
    program.write("treadle.yaml", "provider: nowhere\n")
    none = "there is no treadle.yaml from here upward, or none is to be read\n"
    for ended in (program("config", "path", "--no-config"), program("config", "path", env={"TREADLE_CONFIG": ""})):
        assert (ended.code, ended.out, ended.err) == (0, "", none)
    assert program("validate", program.write("flow.yaml", FLOW), "--no-config").code == 0


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ("--config", "a.yaml", "--no-config"),
            "only one settings file counts, and another one, or none, is asked for",
        ),
        (("--config", ""), "it names no file; --no-config reads none"),
    ],
)
def test_options_that_contradict_each_other(program: Any, args: tuple[str, ...], message: str) -> None:
    ended = program("plugins", *args)
    assert ended.code == 2
    assert message in ended.err


@pytest.mark.parametrize(
    "command", [("run", "flow.yaml"), ("validate", "flow.yaml"), ("plugins",), ("info",), ("config", "show")]
)
def test_every_command_reads_them_and_reports_what_is_wrong(program: Any, command: tuple[str, ...]) -> None:
    program.write("flow.yaml", FLOW)
    program.write("treadle.yaml", "# ours\nprovder: openai\nconfig: {strem: true}\n")
    ended = program(*command)
    assert ended.code == 2
    assert ended.err.splitlines()[:2] == [
        "treadle.yaml:2:1: provder: unknown field; did you mean 'provider'?",
        "treadle.yaml:3:10: config.strem: unknown field; did you mean 'stream'?",
    ]
    assert ended.out == ""


def test_validate_tells_the_mistakes_of_settings_as_json_too(program: Any) -> None:
    flow = program.write("flow.yaml", FLOW)
    program.write("treadle.yaml", "providers: {openai: {api_key: sk-live}}\n")
    ended = program("validate", flow, "--json")
    assert ended.code == 2
    (result,) = json.loads(ended.out)
    assert (result["file"], result["ok"]) == ("treadle.yaml", False)
    (problem,) = result["problems"]
    assert (problem["line"], problem["column"], problem["code"]) == (1, 31, "literal-secret")
    assert "sk-live" not in ended.out


def test_validate_takes_a_settings_file(program: Any) -> None:
    """For editors and hooks that check every YAML file there is."""
    (program.folder / "prod").mkdir()
    program.write("prod/treadle.yaml", "provider: opnai\n")
    flow = program.write("flow.yaml", FLOW)
    ended = program("validate", flow, "prod/treadle.yaml")
    assert ended.code == 2
    assert ended.out == "flow.yaml: ok (1 step)\n"
    assert ended.err.startswith("prod/treadle.yaml:1:11: provider: no provider 'opnai'; did you mean 'openai' (")
    program.write("treadle.yaml", "plugins: {disabled: [nobody]}\n")
    ended = program("validate", flow, "treadle.yaml")
    assert ended.out == "treadle.yaml: ok (settings, 1 warning)\nflow.yaml: ok (1 step)\n"
    assert program("validate", flow, "--strict").code == 2


def test_run_says_what_is_doubtful_in_the_settings(program: Any) -> None:
    program.write("treadle.yaml", "plugins: {disabled: [acmee]}\n")
    ended = program("run", program.write("flow.yaml", FLOW))
    assert ended.code == 0
    warning = "treadle.yaml:1:22: warning: plugins.disabled.0: no plugin 'acmee' is installed; did you mean 'acme'?"
    assert warning in ended.err


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        ("plugins: {disabled: [noisy]}", "take it out of plugins.disabled in treadle.yaml"),
        ("plugins: {enabled: [acme]}", "add it to plugins.enabled in treadle.yaml"),
    ],
)
def test_a_plugin_that_the_settings_leave_out_is_never_imported(
    program: Any, strangers: Callable[..., Path], settings: str, remedy: str
) -> None:
    folder = strangers("noisy", {"treadle.plugins": {"noisy": "noisy"}}, {"noisy": NOISY})
    noise = program.folder / "noise"
    env = {"PYTHONPATH": f"{program.plugins}:{folder}", "NOISE": str(noise)}
    flow = program.write("flow.yaml", FLOW)
    assert program("validate", flow, env=env).code == 0
    assert noise.read_text(encoding="utf-8") == "imported", "without settings it is"
    noise.unlink()
    program.write("treadle.yaml", settings)
    for command in (("validate", flow), ("run", flow), ("plugins",), ("config", "show")):
        ended = program(*command, env=env)
        assert ended.code == 0, ended.err
        assert not noise.exists()
    ended = program("validate", program.write("flow.yaml", FLOW.replace("nap", "zzz")), env=env)
    assert f"which is disabled: {remedy}\n" in ended.err


def test_a_step_of_a_plugin_that_is_left_out_says_so(program: Any) -> None:
    program.write("treadle.yaml", "plugins: {enabled: [tools]}\n")
    ended = program("validate", program.write("flow.yaml", "name: x\nsteps:\n- {id: a, type: llm_call, prompt: hi}\n"))
    assert "is disabled; add it to plugins.enabled in treadle.yaml" in ended.err


def test_info_shows_the_keys_that_settings_name(program: Any) -> None:
    program.write("treadle.yaml", "providers: {mine: {kind: openai, api_key: 'env:MY_KEY'}}\n")
    facts = json.loads(program("info", "--json", env={"MY_KEY": "sk-1"}).out)["providers"]
    assert {"name": "MY_KEY", "provider": "mine", "set": True} in facts["credentials"]
    assert {each["provider"] for each in facts["settings"]} >= {"openai"}
    assert "mine" not in {each["provider"] for each in facts["settings"]}, "the environment does not speak to it"
