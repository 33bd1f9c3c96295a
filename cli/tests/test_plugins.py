"""``treadle plugins check``, ``--safe`` and ``--without``: what is told of plugins that are not as they should be."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MARKED = "from pathlib import Path\nPath(__file__).with_suffix('.imported').touch()\n"
HOOKS = """
from treadle import Offer, hookimpl

@hookimpl
def treadle_tools():
    return {"wave": Offer("wave_tool:Wave", "Wave a hand")}
"""
TOOL = """
from treadle import Tool

class Wave(Tool):
    name = "wave"
    description = "Wave a hand"

    async def call(self, arguments, context):
        return "o/"
"""
SUITE = """
from treadle.testing import check_tool
from wave_tool import Wave

def checks():
    async def odd():
        raise KeyError("x")

    return {"tool wave": lambda: check_tool(Wave, {}, expect="o/"), "hello": lambda: check_tool(Wave, {}, expect="hi"),
            "odd": odd}
"""
FLOW = "name: x\nsteps:\n- {id: a, type: xyzzy, output: x}\n"


def wave(strangers: Callable[..., Path], **modules: str) -> Path:
    groups = {"treadle.plugins": {"wave": "wave_plugin"}}
    if "wave_checks" in modules:
        groups["treadle.checks"] = {"wave": "wave_checks:checks"}
    return strangers("wave-dist", groups, {"wave_plugin": MARKED + HOOKS, "wave_tool": TOOL, **modules})


def at(*folders: Path) -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join(map(str, folders))}


def test_a_good_plugin_is_ok_but_for_its_metadata(program: Any, strangers: Callable[..., Path]) -> None:
    folder = wave(strangers)
    ended = program("plugins", "check", "wave", env=at(folder))
    first, fault = ended.out.splitlines()
    assert ended.code == 1
    assert first.startswith("wave (wave-dist 0.9): 1 fault (1 offer, no suite of its own, imported in ")
    assert fault == (
        "  wave-dist does not require treadle-kernel, so that nobody is told when the two do not go together; "
        "add 'treadle-kernel>=0.1,<0.2' to its dependencies"
    )
    with (folder / "wave_dist-0.9.dist-info" / "METADATA").open("a", encoding="utf-8") as metadata:
        metadata.write("Requires-Dist: treadle-kernel>=0.1,<0.2\n")
    ended = program("plugins", "check", "wave", env=at(folder))
    assert ended.code == 0
    assert ended.out.startswith("wave (wave-dist 0.9): ok (1 offer,")


def test_the_suite_that_a_plugin_ships_is_run(program: Any, strangers: Callable[..., Path]) -> None:
    folder = wave(strangers, wave_checks=SUITE)
    ended = program("plugins", "check", "wave", env=at(folder))
    assert ended.code == 1
    assert ended.out.splitlines()[2:] == [
        "  hello: tool 'wave' gave 'o/', and 'hi' was expected",
        "  odd: it raised KeyError: 'x'",
    ]
    data = json.loads(program("plugins", "check", "wave", "--json", env=at(folder)).out)
    assert data["ok"] is False
    assert [[each["label"], each["ok"]] for each in data["plugins"][0]["suite"]] == [
        ["tool wave", True], ["hello", False], ["odd", False],
    ]  # fmt: skip
    again = json.loads(program("plugins", "--json", "check", "wave", env=at(folder)).out)
    assert again["plugins"][0]["faults"] == data["plugins"][0]["faults"]


def test_what_its_suite_warns_of_is_told_and_is_no_fault(program: Any, strangers: Callable[..., Path]) -> None:
    slow = SUITE.replace(
        '    async def odd():\n        raise KeyError("x")\n', "    async def odd():\n        slow()\n"
    )
    slow = slow.replace('"hello": lambda: check_tool(Wave, {}, expect="hi"),', "")
    slow += "\nimport warnings\nfrom treadle.testing import BlockingWarning\n"
    slow += "def slow():\n    warnings.warn('it held up everything', BlockingWarning)\n"
    folder = wave(strangers, wave_checks=slow)
    ended = program("plugins", "check", "wave", env=at(folder))
    assert ended.out.splitlines()[2:] == ["  odd: warning: it held up everything"]
    (checked,) = json.loads(program("plugins", "check", "wave", "--json", env=at(folder)).out)["plugins"]
    assert [[each["ok"], each["fault"], each["warning"]] for each in checked["suite"]] == [
        [True, None, None],
        [True, None, "it held up everything"],
    ]


def test_what_no_label_of_the_suite_names_is_told_as_not_tried(program: Any, strangers: Callable[..., Path]) -> None:
    labels = SUITE.replace("tool wave", "tool waver")
    folder = wave(strangers, wave_checks=labels)
    ended = program("plugins", "check", "wave", env=at(folder))
    assert ended.out.splitlines()[-1] == "  not tried, as no label of its own checks names it: tool 'wave'"
    (checked,) = json.loads(program("plugins", "check", "wave", "--json", env=at(folder)).out)["plugins"]
    assert checked["untried"] == ["tool 'wave'"]


@pytest.mark.parametrize(
    ("suite", "fault"),
    [
        ("1 / 0", "its checks could not be had from wave_checks:checks: ZeroDivisionError"),
        ("def checks(): raise SystemExit(3)", "its checks could not be had from wave_checks:checks: SystemExit: 3"),
        ("def checks(): return [1]", "wave_checks:checks must give a mapping of labels to async functions"),
    ],
)
def test_a_broken_suite_is_a_fault(program: Any, strangers: Callable[..., Path], suite: str, fault: str) -> None:
    ended = program("plugins", "check", "wave", env=at(wave(strangers, wave_checks=suite)))
    assert ended.code == 1
    assert fault in ended.out


def test_what_is_broken_is_checked_as_far_as_it_goes(program: Any, strangers: Callable[..., Path]) -> None:
    folder = wave(strangers, wave_tool="import nothing_here")
    broken = strangers("broken-dist", {"treadle.plugins": {"broken": "broken_plugin"}}, {"broken_plugin": "1 / 0"})
    heavy = strangers(
        "heavy-dist", {"treadle.plugins": {"heavy": "heavy_plugin"}}, {"heavy_plugin": "import trio\n" + HOOKS}
    )
    ended = program("plugins", "check", env=at(folder, broken, heavy))
    assert (ended.code, ended.err) == (1, "")
    assert "tool 'wave' of plugin 'wave' (wave-dist 0.9) could not be loaded from wave_tool:Wave" in ended.out
    assert "plugin 'broken' (broken-dist 0.9) could not be loaded from broken_plugin: ZeroDivisionError" in ended.out
    assert "importing heavy_plugin imports" in ended.out
    assert "tool 'wave' is offered by plugin 'heavy' (heavy-dist 0.9) and by plugin 'wave' (wave-dist 0.9)" in ended.out
    assert "router (treadle-router 0.1.0): ok" in ended.out


def test_a_name_that_is_not_installed_is_a_mistake(program: Any) -> None:
    ended = program("plugins", "check", "rooter")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "error: no plugin 'rooter' is installed; did you mean 'router'?\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("plugins", "--safe"),
        ("--safe", "plugins"),
        ("plugins", "--without", "wave"),
        ("--without", "wave", "plugins"),
        ("plugins", "check", "--without", "wave", "router", "wave"),
        ("--safe", "plugins", "check", "wave"),
        ("--safe", "info"),
        ("info", "--without", "wave"),
        ("--without", "wave", "schema"),
        ("validate", "flow.yaml", "--safe"),
        ("run", "flow.yaml", "--safe"),
        ("--without", "wave", "run", "flow.yaml"),
        ("config", "show", "--safe"),
        ("visualize", "flow.yaml", "--safe"),
        ("--without", "wave", "visualize", "flow.yaml"),
    ],
    ids=" ".join,
)
def test_what_is_left_out_is_never_imported(
    program: Any, strangers: Callable[..., Path], arguments: tuple[str, ...]
) -> None:
    folder = wave(strangers)
    program.write("flow.yaml", FLOW)
    ended = program(*arguments, env=at(folder))
    assert "Traceback" not in ended.err
    assert "No such option" not in ended.err
    assert not (folder / "wave_plugin.imported").exists()
    # And without those options it is.
    rest = [each for each in arguments if each != "--safe"]
    if "--without" in rest:
        del rest[rest.index("--without") : rest.index("--without") + 2]
    program(*rest, env=at(folder))
    assert (folder / "wave_plugin.imported").exists()


def test_safe_leaves_the_plugins_of_others_out_and_says_so(program: Any, strangers: Callable[..., Path]) -> None:
    rows = program("plugins", "--safe", env=at(wave(strangers))).out
    assert [line.split()[3] for line in rows.splitlines() if line.startswith("wave")] == ["disabled"]
    assert [line.split()[3] for line in rows.splitlines() if line.startswith("router")] == ["loaded"]
    program.write("flow.yaml", FLOW)
    ended = program("run", "flow.yaml", "--safe", env=at(wave(strangers)))
    assert ended.code == 2
    assert "it may be offered by plugin 'wave' (wave-dist 0.9), which is disabled: leave out --safe" in ended.err


def test_with_safe_the_commands_of_others_are_not_there(program: Any, strangers: Callable[..., Path]) -> None:
    module = "import click\n@click.command()\ndef hello():\n    click.echo('hi')\n"
    env = at(strangers("hello-dist", {"treadle.commands": {"hello": "hello_cli:hello"}}, {"hello_cli": module}))
    assert program("hello", env=env).out == "hi\n"
    refused = program("--safe", "hello", env=env)
    assert refused.code == 2
    assert "no command 'hello'" in refused.err
    assert "hello-dist" not in program("--safe", "--help", env=env).out
    assert "  Draw a workflow as text" in program("--safe", "--help", env=env).out


def test_a_run_that_needs_a_broken_plugin_fails_and_names_distribution_and_cause(
    program: Any, strangers: Callable[..., Path]
) -> None:
    broken = strangers("broken-dist", {"treadle.plugins": {"broken": "broken_plugin"}}, {"broken_plugin": "1 / 0"})
    for kind in ("xyzzy", "rooter"):  # one that nobody knows, and one that is close to another
        program.write("flow.yaml", FLOW.replace("xyzzy", kind))
        for command in ("run", "validate"):
            ended = program(command, "flow.yaml", env=at(broken))
            assert ended.code == 2
            assert "plugin 'broken' (broken-dist 0.9) could not be loaded from broken_plugin: ZeroDivisionError" in (
                ended.err
            )


def test_a_slow_import_is_shown(program: Any, strangers: Callable[..., Path]) -> None:
    slow = strangers(
        "slow-dist",
        {"treadle.plugins": {"slow": "slow_plugin"}},
        {"slow_plugin": "import time\ntime.sleep(0.3)\n" + HOOKS},
    )
    ended = program("plugins", env=at(slow))
    row = next(line.split() for line in ended.out.splitlines() if line.startswith("slow"))
    assert int(row[4]) >= 300
    assert row[5] == "ms"
    assert "plugin 'slow' (slow-dist 0.9) took 0." in ended.out
    assert "to load, and so does every command; treadle plugins check slow says what it imports" in ended.out
    data = json.loads(program("plugins", "--json", env=at(slow)).out)
    assert [each["slow"] for each in data["plugins"] if each["name"] == "slow"] == [True]


def test_a_plugin_for_another_kernel_is_listed_as_such(program: Any, strangers: Callable[..., Path]) -> None:
    folder = wave(strangers)
    with (folder / "wave_dist-0.9.dist-info" / "METADATA").open("a", encoding="utf-8") as metadata:
        metadata.write("Requires-Dist: treadle-kernel>=7\n")
    ended = program("plugins", env=at(folder))
    assert ended.code == 0
    assert ["wave", "wave-dist", "0.9", "incompatible"] in [line.split() for line in ended.out.splitlines()]
    assert "plugin 'wave' (wave-dist 0.9) is too new for this kernel: it requires treadle-kernel >=7, and" in ended.out
    assert not (folder / "wave_plugin.imported").exists()


def test_what_treadle_itself_brings_keeps_the_contract(program: Any) -> None:
    ended = program("plugins", "check", "--safe")
    assert (ended.code, ended.err) == (0, ""), ended.out
    assert "policies (treadle-policies 0.1.0): ok (" in ended.out


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("", "it holds limits, and its settings_model is None; a pydantic model is wanted"),
        (
            "    settings_model = BaseModel\n    def __init__(self): pass\n",
            "it is called with a provider's name and settings, and too many positional arguments",
        ),
    ],
)
def test_a_layer_that_holds_limits_takes_a_provider_and_its_settings(
    program: Any, strangers: Callable[..., Path], body: str, fault: str
) -> None:
    hooks = """
from treadle import LayerOffer, hookimpl

@hookimpl
def treadle_provider_layers():
    return {"brake": LayerOffer("brake_layer:Brake", "Brake", limits=True)}
"""
    layer = f"from pydantic import BaseModel\nclass Brake:\n{body}    def exchange(self, request, following): pass\n"
    groups = {"treadle.plugins": {"brake": "brake_plugin"}}
    folder = strangers("brake-dist", groups, {"brake_plugin": hooks, "brake_layer": layer})
    ended = program("plugins", "check", "brake", env=at(folder))
    assert ended.code == 1
    assert f"  provider layer 'brake': {fault}\n" in ended.out


def test_an_error_of_a_plugin_says_in_which_of_its_lines(program: Any, strangers: Callable[..., Path]) -> None:
    groups = {"treadle.plugins": {"gate": "gate_plugin"}}
    broken = strangers("gate-dist", groups, {"gate_plugin": "import json\n\njson.loads('x')\n"})
    ended = program("plugins", "check", "gate", env=at(broken))
    assert ended.code == 1
    assert "could not be loaded from gate_plugin: JSONDecodeError: " in ended.out
    assert ended.out.endswith(" (gate_plugin.py:3)\n")  # and no advice to disable it
    assert ended.err == ""
    assert "in raw_decode" in program("plugins", "check", "gate", "--debug", env=at(broken)).err
    folder = wave(strangers, wave_tool="1 / 0")
    ended = program("plugins", "check", "wave", env=at(folder))
    assert "from wave_tool:Wave: ZeroDivisionError: division by zero (wave_tool.py:1)\n" in ended.out
    assert "line 1, in <module>" in program("plugins", "check", "wave", "--debug", env=at(folder)).err
