"""Tools of one's own, from files and modules: what is found, what is refused, and when anything is imported."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import treadle
from treadle import DocumentError, Host, PluginError, Settings, TreadleError
from treadle.testing import offering

TOOLS = '''
import treadle
from treadle import BaseTool, Tool, ToolRegistry


@treadle.tool
def shout(text: str) -> str:
    """Say it loudly."""
    return text.upper()


class Half(BaseTool):
    name = "half"
    description = "Half of a number"

    async def execute(self, n: float) -> float:
        return n / 2


class Given(Half):
    name = "given"

    def __init__(self, by: str) -> None:
        self.by = by


given = Given("somebody")
_hidden = treadle.tool(name="hidden")(lambda: "x")
more = ToolRegistry([treadle.tool(name="listed")(lambda: "x")])


def plain() -> None: ...
'''


@pytest.fixture(autouse=True)
def own_paths(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))


def written(tmp_path: Path, text: str = TOOLS, name: str = "mine.py") -> Path:
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def host(*tools: str, **offers: Any) -> Host:
    return Host.of({"t": offering({"tool": offers})}, settings=Settings(tools=tools))


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("mine.py", ["given", "half", "listed", "shout"]),
        ("mine.py:shout", ["shout"]),
        ("mine.py:Half", ["half"]),
        ("mine.py:more", ["listed"]),
        ("mine_module", ["given", "half", "listed", "shout"]),
        ("mine_module:given", ["given"]),
    ],
)
def test_what_a_source_offers(source: str, names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    written(tmp_path)
    written(tmp_path, name="mine_module.py")
    monkeypatch.delitem(sys.modules, "mine_module", raising=False)
    assert host(source).names("tool") == names


async def test_it_is_called_like_any_other(tmp_path: Path):
    written(tmp_path)
    made = host("mine.py")
    async with treadle.open(host=made) as session:
        assert session.tool("half") is session.tool("half")
        from treadle import ToolContext

        context = ToolContext(run_id="r", step_id="s", call_id="c")
        assert await session.tool("half").call({"n": 3}, context) == 1.5
        assert await session.tool("shout").call({"text": "a"}, context) == "A"


def test_nothing_is_imported_until_a_tool_is_looked_for(tmp_path: Path):
    written(tmp_path, "raise SystemExit('imported')")
    made = host("mine.py")
    assert made.names("step_type") == []
    with pytest.raises(PluginError, match=r"mine.py could not be imported, line 1: SystemExit: imported"):
        made.names("tool")


@pytest.mark.parametrize(
    ("text", "source", "expected"),
    [
        ("x = 1", "mine.py", "nothing in mine.py is a tool; put @treadle.tool above a function, or derive a class"),
        (TOOLS, "mine.py:plain", "mine.py:plain is no tool: it is of type function; put @treadle.tool above it"),
        (TOOLS, "mine.py:shuot", "mine.py:shuot has no 'shuot'; did you mean 'shout'?"),
        (TOOLS, "mine.py:Given", "class Given of mine.py:Given cannot be made into a tool: TypeError: "),
        ("import no_such", "mine.py", "mine.py could not be imported, line 1: ModuleNotFoundError: No module named"),
        ("x = (", "mine.py", "mine.py could not be imported: SyntaxError: '(' was never closed (mine.py, line 1)"),
        ("", "no_such_module", "no_such_module could not be imported: ModuleNotFoundError: No module named"),
        ("", "mnie.py", "tools: no such file: 'mnie.py'; did you mean 'mine.py'?"),
        ("", "a.yaml", "tools: 'a.yaml' names no tools; write path/to/file.py, module or module:name"),
        ("", ".", "tools: '.' names no tools; write path/to/file.py, module or module:name"),
        ("", "mine.py:a b", "tools: 'mine.py:a b' names no tools; write path/to/file.py, module or module:name"),
    ],
)
def test_what_is_wrong_is_said_of_the_source(text: str, source: str, expected: str, tmp_path: Path):
    written(tmp_path, text)
    written(tmp_path, "", "a.yaml")
    with pytest.raises(TreadleError) as caught:
        host(source).names("tool")
    assert str(caught.value).startswith(expected)


def test_a_name_that_is_taken_is_refused_with_both(tmp_path: Path):
    written(tmp_path)
    written(tmp_path, TOOLS, "other.py")
    shout = treadle.tool(name="shout")(lambda: 1)
    with pytest.raises(PluginError) as caught:
        host("mine.py", shout=shout).names("tool")
    assert str(caught.value) == (
        "tool 'shout' of mine.py has the name of one that plugin 't' offers; "
        "rename it, or disable the other with --without t"
    )
    with pytest.raises(PluginError, match=r"tool 'listed' is in other.py and in mine.py; rename one"):
        host("mine.py", "other.py").names("tool")


def test_what_a_program_gives_wins(tmp_path: Path):
    written(tmp_path)
    given = treadle.tool(name="shout")(lambda: 1)
    made = host("mine.py").extended({"program": offering({"tool": {"shout": given}})})
    assert made.load("tool", "shout") is given
    assert made.names("tool") == ["given", "half", "listed", "shout"]


def test_one_source_named_twice_is_one(tmp_path: Path):
    written(tmp_path)
    made = host("mine.py").with_tools(["mine.py", "mine.py:Half"], origin="--tools")
    assert made.names("tool") == ["given", "half", "listed", "shout"]


def test_paths_of_a_file_go_from_its_folder_and_those_of_a_flag_from_the_working_directory(tmp_path: Path):
    written(tmp_path, name="deploy/beside.py")
    file = written(tmp_path, "tools: [beside.py]\n", "deploy/treadle.yaml")
    assert "shout" in treadle.deployed_host(file).names("tool")
    with pytest.raises(TreadleError, match=r"--tools: no such file: 'beside.py'"):
        treadle.deployed_host(file).with_tools(["beside.py"], origin="--tools")


def test_a_file_can_import_what_is_beside_it_and_hides_nothing_installed(tmp_path: Path):
    written(tmp_path, "WORD = 'from beside'", "beside_of_mine.py")
    written(tmp_path, "raise AssertionError('not this one')", "json.py")
    written(tmp_path, "import json, treadle, beside_of_mine as b\n@treadle.tool\ndef word() -> str: return b.WORD\n")
    assert host("mine.py").names("tool") == ["word"]


def test_missing_files_are_told_with_the_settings_and_broken_ones_when_they_are_needed(tmp_path: Path):
    file = written(tmp_path, "tools:\n  - mine.py\n  - mnie.py\n", "treadle.yaml")
    written(tmp_path, "1 / 0")
    with pytest.raises(DocumentError) as caught:
        treadle.deployed_host(file)
    assert [str(each).removeprefix(str(tmp_path)) for each in caught.value.problems] == [
        f"/treadle.yaml:3:5: tools.1: no such file: 'mnie.py'; did you mean '{tmp_path / 'mine.py'}'?"
    ]
    file.write_text("tools: [mine.py]", encoding="utf-8")
    made = treadle.deployed_host(file)
    with pytest.raises(PluginError) as broken:
        made.names("tool")
    assert (
        str(broken.value) == f"mine.py ({file}:1:9) could not be imported, line 1: ZeroDivisionError: division by zero"
    )
