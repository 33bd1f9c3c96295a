"""The command, as the program that users start."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import treadle
from treadle_graph import WorkflowGraph

ROOT = Path(__file__).parents[3]
DEMO = "examples/demo.yaml"
LOOSE = """\
name: loose
config: {provider: mock}
steps:
  - {id: choose, type: router, default: free}
  - {id: free, type: tool, tool_name: file_read, tool_args: {path: README.md}}
"""


def visualize(*arguments: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not re.match("TREADLE|PYTHON|COLUMNS|LC_|LANG", name)}
    return subprocess.run(
        [sys.executable, "-m", "treadle_cli", *arguments],
        cwd=cwd,
        env={**kept, "PYTHONIOENCODING": "utf-8", **environment},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


@pytest.fixture(scope="module")
def demo() -> WorkflowGraph:
    return WorkflowGraph.of(treadle.load_workflow(ROOT / DEMO, host=treadle.Host.discover()))


def test_the_command_is_an_entry_point_of_this_package() -> None:
    (point,) = entry_points(group="treadle.commands", name="visualize")
    assert point.value == "treadle_graph._cli:visualize"
    assert point.dist is not None
    assert point.dist.name == "treadle-graph"


def test_it_draws_for_the_terminal_unless_told_otherwise(demo: WorkflowGraph) -> None:
    done = visualize("visualize", DEMO)
    assert (done.returncode, done.stdout, done.stderr) == (0, demo.to_text(), "")
    assert visualize("visualize", DEMO, "--format", "ascii").stdout == done.stdout


@pytest.mark.parametrize("format_", ["mermaid", "dot", "svg"])
def test_each_format_is_that_of_the_graph(demo: WorkflowGraph, format_: str) -> None:
    done = visualize("visualize", "--format", format_, DEMO)
    assert (done.returncode, done.stdout, done.stderr) == (0, getattr(demo, f"to_{format_}")(), "")


def test_lines_are_made_of_what_stdout_can_write(demo: WorkflowGraph) -> None:
    done = visualize("visualize", DEMO, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stdout) == (0, demo.to_text(ascii_only=True))


def test_the_width_is_the_terminals(demo: WorkflowGraph) -> None:
    done = visualize("visualize", DEMO, COLUMNS="50")
    assert done.stdout == demo.to_text(width=50)
    assert max(map(len, done.stdout.splitlines())) <= 50


@pytest.mark.parametrize("format_", ["ascii", "svg"])
def test_it_writes_to_a_file_in_utf_8(demo: WorkflowGraph, tmp_path: Path, format_: str) -> None:
    target = tmp_path / "graph.out"
    done = visualize("visualize", DEMO, "--format", format_, "-o", str(target), PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    wanted = demo.to_text() if format_ == "ascii" else demo.to_svg()
    assert target.read_bytes() == wanted.encode()


def test_a_dash_is_stdout(demo: WorkflowGraph) -> None:
    assert visualize("visualize", DEMO, "--format", "dot", "-o", "-").stdout == demo.to_dot()


def test_an_unknown_format_is_a_usage_error_that_lists_them() -> None:
    done = visualize("visualize", DEMO, "--format", "png")
    assert (done.returncode, done.stdout) == (2, "")
    assert "'png' is not one of 'ascii', 'mermaid', 'dot', 'svg'" in done.stderr


def test_a_file_with_errors_is_refused_as_validate_does_it() -> None:
    checked, drawn = visualize("validate", "examples/broken.yaml"), visualize("visualize", "examples/broken.yaml")
    assert (drawn.returncode, drawn.stdout) == (2, "")
    assert drawn.stderr.splitlines()[:-1] == checked.stderr.splitlines()[:-1]
    assert drawn.stderr.splitlines()[-1] == "error: 10 errors, 1 warning"


def test_warnings_are_printed_and_the_drawing_is_made(tmp_path: Path) -> None:
    (tmp_path / "loose.yaml").write_text(LOOSE, encoding="utf-8")
    done = visualize("visualize", "loose.yaml", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("loose: 2 steps\n")
    assert re.match(r"loose\.yaml:4:\d+: warning: .*'free' does not depend on 'choose'", done.stderr)


def test_a_missing_file_is_said_to_be_missing(tmp_path: Path) -> None:
    done = visualize("visualize", "nowhere.yaml", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "nowhere.yaml: no such file\nerror: 1 error\n")


def test_the_workflow_itself_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(LOOSE, encoding="utf-8")
    done = visualize("visualize", "flow.yaml", "-o", "./flow.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "error: -o ./flow.yaml is the workflow itself; name another file"
    assert (tmp_path / "flow.yaml").read_text(encoding="utf-8") == LOOSE


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    done = visualize("visualize", DEMO, "-o", str(tmp_path / "no" / "x.svg"))
    assert done.returncode == 2
    assert done.stderr == f"error: {tmp_path / 'no' / 'x.svg'} cannot be written: No such file or directory\n"


def test_plugins_are_left_out_as_for_other_commands() -> None:
    done = visualize("visualize", DEMO, "--without", "router")
    assert done.returncode == 2
    assert "step type 'router' is not available" in done.stderr
    assert visualize("visualize", DEMO, "--without", "rooter").stderr == (
        "error: no plugin 'rooter' is installed; did you mean 'router'?\n"
    )


def test_tools_are_given_as_to_other_commands(tmp_path: Path) -> None:
    text = "name: x\nsteps:\n  - {id: a, type: tool, tool_name: shout}\n"
    (tmp_path / "flow.yaml").write_text(text, encoding="utf-8")
    code = "import treadle\n@treadle.tool\ndef shout() -> str:\n    return ''\n"
    (tmp_path / "mine.py").write_text(code, encoding="utf-8")
    assert (
        "no tool 'shout'; give a tool of your own with --tools FILE"
        in visualize("visualize", "flow.yaml", cwd=tmp_path).stderr
    )
    assert visualize("visualize", "flow.yaml", "--tools", "mine.py", cwd=tmp_path).stderr == ""


@pytest.mark.parametrize("place", ["before", "after"])
def test_the_settings_file_counts_as_for_other_commands(tmp_path: Path, place: str) -> None:
    (tmp_path / "other.yaml").write_text("plugins: {disabled: [router]}\n", encoding="utf-8")
    settings = ("--config", str(tmp_path / "other.yaml"))
    done = visualize(*settings, "visualize", DEMO) if place == "before" else visualize("visualize", DEMO, *settings)
    assert done.returncode == 2
    assert "examples/demo.yaml:29:11: steps.route.type: step type 'router'" in done.stderr
    found = visualize("visualize", DEMO, TREADLE_CONFIG=settings[1])
    assert (found.returncode, found.stderr) == (2, done.stderr)
    assert visualize("visualize", DEMO, "--no-config", TREADLE_CONFIG=settings[1]).returncode == 0


def test_help_lists_formats_and_debug() -> None:
    done = visualize("visualize", "--help")
    assert done.returncode == 0
    assert "--format [ascii|mermaid|dot|svg]" in done.stdout
    assert "--debug" in done.stdout
    assert "Traceback" in visualize("visualize", "nowhere.yaml", "--debug").stderr


def test_a_reader_that_has_gone_ends_it_quietly() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "treadle_cli", "visualize", DEMO],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == 141
