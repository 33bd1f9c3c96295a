"""The group: help, version, errors, and commands of other packages."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import treadle
from treadle import ConfigurationError

Invoke = Callable[..., Result]

COMMANDS = {
    "pets": "import click, pathlib, sys\n"
    "print('imported', file=sys.stderr)\n"
    "@click.command()\n@click.argument('who')\n"
    "def feed(who):\n    '''Feed somebody.'''\n    click.echo(f'fed {who}')\n"
    "@click.command()\n@click.argument('how')\n"
    "def scold(how):\n    import treadle\n    if how == 'gently':\n"
    "        raise treadle.ConfigurationError('no pet here', hint='get one')\n"
    "    if how == 'at length':\n"
    "        raise treadle.DocumentError([treadle.Problem(message='bad', code='x', file='p.yaml', line=3, column=1)])\n"
    "    raise ZeroDivisionError('oh no')\n"
    "not_a_command = 3\n"
}


@pytest.fixture
def pets(strangers: Callable[..., Path]) -> dict[str, str]:
    points = {name: f"pets:{name}" for name in ("feed", "lost", "scold")}
    points |= {"odd": "pets:not_a_command", "run": "pets:feed"}
    return {"PYTHONPATH": str(strangers("pets", {"treadle.commands": points}, COMMANDS))}


def test_no_arguments_print_the_help(invoke: Invoke) -> None:
    bare, asked = invoke(), invoke("--help")
    assert asked.exit_code == 0
    assert asked.stdout.startswith("Usage: treadle [OPTIONS] COMMAND")
    assert asked.stdout in (bare.stdout, bare.stderr)


def test_the_version_is_the_kernels(invoke: Invoke) -> None:
    result = invoke("--version")
    assert (result.exit_code, result.stdout) == (0, "treadle 0.1.0 (command line 0.1.0)\n")


@pytest.mark.parametrize("command", ["run", "validate", "plugins", "info"])
def test_each_command_has_a_summary_and_a_help(invoke: Invoke, command: str) -> None:
    assert f"\n  {command} " in invoke("--help").stdout
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert "--debug" in result.stdout


def test_a_command_misspelt_is_guessed(invoke: Invoke) -> None:
    result = invoke("valdate", "x")
    assert result.exit_code == 2
    assert "no command 'valdate'; did you mean 'validate'?" in result.stderr


def test_an_unknown_option_is_a_usage_error(invoke: Invoke) -> None:
    assert invoke("run", "x", "--fast").exit_code == 2


def test_commands_of_packages_are_listed_without_import_and_loaded_on_use(program: Any, pets: dict[str, str]) -> None:
    listed, used = program("--help", env=pets), program("feed", "cat", env=pets)
    assert re.search(r"\n  feed +\(from pets\)\n", listed.out)
    assert re.search(r"\n  run +Run a workflow file\.\n", listed.out)
    assert re.search(r"\n  history +The same as runs\.\n", listed.out)
    assert (listed.code, listed.err) == (0, "")
    assert (used.code, used.out, used.err) == (0, "fed cat\n", "imported\n")


@pytest.mark.parametrize(
    ("how", "code", "message"),
    [
        ("gently", 2, "error: no pet here; get one"),
        ("at length", 2, "p.yaml:3:1: bad\nerror: 1 error"),
        ("loudly", 1, "treadle: internal error: ZeroDivisionError: oh no\nrun again with --debug for the traceback"),
    ],
)
def test_errors_of_a_packages_command_are_shown_as_our_own(
    program: Any, pets: dict[str, str], how: str, code: int, message: str
) -> None:
    ended = program("scold", how, env=pets)
    assert (ended.code, ended.out, ended.err) == (code, "", f"imported\n{message}\n")


@pytest.mark.parametrize("arguments", [("--debug", "scold", "loudly"), ("scold", "--debug", "loudly")])
def test_a_packages_command_takes_debug_like_our_own(
    program: Any, pets: dict[str, str], arguments: tuple[str, ...]
) -> None:
    ended = program(*arguments, env=pets)
    assert ended.code == 1
    assert ended.err.startswith("imported\nTraceback (most recent call last):\n")
    assert "--debug" in program("feed", "--help", env=pets).out


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "odd",
            "at pets:not_a_command is int, not a click command",
        ),
        (
            "lost",
            "could not be loaded from pets:lost: AttributeError: module 'pets' has no attribute 'lost'",
        ),
    ],
)
def test_a_broken_command_says_whose_it_is(program: Any, pets: dict[str, str], name: str, message: str) -> None:
    ended = program(name, env=pets)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.splitlines()[-1] == f"error: command '{name}' (pets 0.9) {message}; upgrade or uninstall it"


def test_a_command_of_two_packages_is_neithers(program: Any, strangers: Callable[..., Path]) -> None:
    folders = [
        strangers(name, {"treadle.commands": {"feed": f"{name}:feed"}}, {name: COMMANDS["pets"]})
        for name in ("p1", "p2")
    ]
    env = {"PYTHONPATH": os.pathsep.join(map(str, folders))}
    assert "(from p1 and p2)" in program("--help", env=env).out
    ended = program("feed", "cat", env=env)
    assert (ended.code, ended.err) == (2, "error: command 'feed' is offered by p1 and p2; uninstall one of them\n")


@pytest.mark.parametrize("place", ["before", "after"])
def test_a_bug_has_a_traceback_only_with_debug(invoke: Invoke, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("oh no")

    monkeypatch.setattr(treadle, "load_workflow", broken)
    plain = invoke("validate", "x.yaml")
    debug = invoke("--debug", "validate", "x.yaml") if place == "before" else invoke("validate", "x.yaml", "--debug")
    assert plain.exit_code == debug.exit_code == 1
    assert plain.stderr == (
        "treadle: internal error: ZeroDivisionError: oh no\nrun again with --debug for the traceback\n"
    )
    assert debug.stderr.startswith("Traceback (most recent call last):\n")
    assert debug.stderr.endswith("treadle: internal error: ZeroDivisionError: oh no\n")


def test_an_error_on_purpose_is_its_message_and_hint(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ConfigurationError("no provider is set", hint="set config.provider")

    monkeypatch.setattr(treadle, "load_workflow", refuse)
    result = invoke("run", "x.yaml")
    assert (result.exit_code, result.stderr) == (2, "error: no provider is set; set config.provider\n")
    assert "Traceback" in invoke("run", "x.yaml", "--debug").stderr


def test_ctrl_c_before_a_run_is_130(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(treadle, "load_workflow", interrupt)
    result = invoke("validate", "x.yaml")
    assert (result.exit_code, result.stderr) == (130, "error: interrupted\n")


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (("info", "--without", "nope"), "no plugin 'nope' is installed; `treadle plugins` lists those that are"),
        (("info", "--without", "rooter"), "no plugin 'rooter' is installed; did you mean 'router'?"),
        (("plugins", "check", "nope"), "no plugin 'nope' is installed; `treadle plugins` lists those that are"),
        (("init", "-p", "nope"), "no provider 'nope'; there are anthropic, "),
    ],
)
def test_a_name_is_suggested_only_where_it_is_alike(invoke: Invoke, args: tuple[str, ...], error: str) -> None:
    result = invoke(*args)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {error}")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's full device")
@pytest.mark.parametrize("args", [("--help",), ("run", "--help"), ("info",), ("feed", "cat")])
def test_stdout_that_cannot_be_written_is_told(program: Any, pets: dict[str, str], args: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full, program.start(*args, env=pets, stdout=full) as process:
        code, said = process.wait(30), process.stderr.read().replace(b"imported\n", b"")
    assert (code, said) == (1, b"error: stdout cannot be written: No space left on device\n")
