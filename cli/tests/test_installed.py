"""``treadle plugins`` and ``treadle info``, with good, broken and clashing plugins."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import Result

KEY = "q7Zx9-Wk3Vb8-Jt5Rn2"


def test_plugins_lists_name_distribution_version_state_and_offers(program: Any) -> None:
    ended = program("plugins", "--without", "openai")
    rows = [line.split() for line in ended.out.splitlines()]
    assert (ended.code, ended.err) == (0, "")
    assert rows[0] == ["NAME", "DISTRIBUTION", "VERSION", "STATE", "LOADED", "IN", "OFFERS"]
    offered = ["ask,", "block,", "gone,", "nap,", "say,", "sub,", "work"]
    assert rows[1][:4] == ["acme", "acme-steps", "1.0", "loaded"]
    assert rows[1][5:] == ["ms", "step", "type:", *offered]
    assert ["router", "treadle-router", "0.1.0", "loaded", "ms", "step", "type:", "router"] in [
        [*row[:4], *row[5:]] for row in rows
    ]
    assert ["openai", "treadle-openai", "0.1.0", "disabled"] in rows


def test_plugins_works_whatever_is_broken(program: Any, strangers: Callable[..., Path]) -> None:
    broken = strangers(
        "broken-one", {"treadle.plugins": {"broken": "broken_one"}}, {"broken_one": "import nothing_here"}
    )
    quits = strangers("quits", {"treadle.plugins": {"quits": "quits"}}, {"quits": "raise SystemExit(3)"})
    clash = strangers(
        "clash",
        {"treadle.plugins": {"clash": "clash"}},
        {
            "clash": "from treadle import Offer, hookimpl\n"
            "@hookimpl\n"
            "def treadle_step_types():\n    return {'nap': Offer('clash:Nap', 'another nap')}\n"
        },
    )
    path = os.pathsep.join(map(str, (program.plugins, broken, quits, clash)))
    ended = program("plugins", env={"PYTHONPATH": path})
    data = json.loads(program("plugins", "--json", env={"PYTHONPATH": path}).out)
    by_name = {each["name"]: each for each in data["plugins"]}
    assert ended.code == 0
    assert ["broken", "broken-one", "0.9", "broken"] in [line.split() for line in ended.out.splitlines()]
    cause = (
        "plugin 'broken' (broken-one 0.9) could not be loaded from broken_one: "
        "ModuleNotFoundError: No module named 'nothing_here' (broken_one.py:1); "
        "disable it with --without broken, or upgrade it"
    )
    assert cause in ended.out.splitlines()
    assert by_name["broken"]["error"] == cause
    assert by_name["quits"]["state"] == "broken"
    assert by_name["clash"]["state"] == "loaded"
    assert by_name["acme"]["offers"][0] == {"role": "step_type", "name": "nap", "summary": "Waits and fails as told"}
    assert any("step type 'nap' is offered by plugin " in problem for problem in data["problems"])


def test_a_broken_plugin_is_warned_about_and_does_not_stop_a_run(program: Any, strangers: Callable[..., Path]) -> None:
    broken = strangers("broken-two", {"treadle.plugins": {"broken": "broken_two"}}, {"broken_two": "1 / 0"})
    env = {"PYTHONPATH": os.pathsep.join(map(str, (program.plugins, broken)))}
    file = program.write("flow.yaml", "name: x\nsteps:\n- {id: a, type: nap, value: 1, output: x}\n")
    warned, silenced = program("run", file, env=env), program("run", file, "--without", "broken", env=env)
    assert (warned.code, warned.out) == (0, "x: 1\n")
    assert warned.err.startswith("warning: plugin 'broken' (broken-two 0.9) could not be loaded from broken_two: Zero")
    assert "warning" not in silenced.err


def test_info_tells_versions_and_which_keys_are_set_and_no_part_of_one(program: Any) -> None:
    env = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "http://127.0.0.1:9/secret-path", "OPENAI_ORG_ID": " "}
    text, data = program("info", env=env), json.loads(program("info", "--json", env=env).out)
    for printed in (text.out, text.err, json.dumps(data)):
        assert not [KEY[start : start + 4] for start in range(len(KEY) - 3) if KEY[start : start + 4] in printed]
        assert "secret-path" not in printed
    assert {"name": "OPENAI_API_KEY", "provider": "openai", "set": True} in data["providers"]["credentials"]
    assert {"name": "GENERIC_OPENAI_API_KEY", "provider": "generic_openai", "set": False} in (
        data["providers"]["credentials"]
    )
    assert {"name": "OPENAI_BASE_URL", "provider": "openai", "set": True} in data["providers"]["settings"]
    assert {"name": "OPENAI_ORG_ID", "provider": "openai", "set": False} in data["providers"]["settings"]
    versions = {each["name"]: each["version"] for each in data["distributions"]}
    assert versions["treadle-kernel"] == "0.1.0"
    assert {"click", "pydantic", "trio", "openai"} <= versions.keys()
    lines = [line.split() for line in text.out.splitlines()]
    assert ["OPENAI_API_KEY", "set", "key", "of", "openai"] in lines
    assert text.out.startswith("Python 3.")


def test_info_names_a_provider_that_cannot_be_loaded(program: Any, strangers: Callable[..., Path]) -> None:
    module = (
        "from treadle import ProviderOffer, hookimpl\n"
        "@hookimpl\n"
        "def treadle_providers():\n    return {'odd': ProviderOffer('nowhere:Odd', 'not there')}\n"
    )
    folder = strangers("odd", {"treadle.plugins": {"odd": "odd_plugin"}}, {"odd_plugin": module})
    ended = program("info", env={"PYTHONPATH": str(folder)})
    assert ended.code == 0
    assert "provider 'odd' of plugin 'odd' (odd 0.9) could not be loaded from nowhere:Odd" in ended.out


def test_plugins_without_a_plugin_of_that_name_is_a_mistake(invoke: Callable[..., Result]) -> None:
    result = invoke("plugins", "--without", "opnai")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "error: no plugin 'opnai' is installed; did you mean 'openai'?\n"
