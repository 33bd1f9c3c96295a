"""Every example does what its comment says, and every command of the README works."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from e2e.command import ROOT, statuses, treadle
from wire.openai_server import OpenAIServer

EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
README = (ROOT / "README.md").read_text(encoding="utf-8")

MISTAKES = """\
examples/broken.yaml:4:13: config.provider: no provider 'mok'; did you mean 'mock' (treadle-replay 0.1.0)?
examples/broken.yaml:5:3: config.max_concurent_steps: unknown field; did you mean 'max_concurrent_steps'?
"""


@pytest.mark.parametrize("file", [each for each in EXAMPLES if each.name != "broken.yaml"], ids=lambda each: each.name)
async def test_every_example_is_valid_and_runs_offline(file: Path, tmp_path: Path) -> None:
    name = f"examples/{file.name}"
    checked = await treadle("validate", "--strict", name)
    assert checked.returncode == 0, checked.stderr
    state = ["-s", f"file={tmp_path / 'kept.txt'}"] if file.name == "tools.yaml" else []
    done = await treadle("run", name, "-p", "mock", "--json", *state)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    if file.name == "approval.yaml":  # it waits for people
        assert (result["status"], len(result["pending"])) == ("paused", 2)
        return
    assert result["status"] == "success"
    assert set(statuses(result).values()) <= {"success", "skipped"}


async def test_the_broken_example_gets_one_located_message_for_each_mistake() -> None:
    done = await treadle("validate", "examples/broken.yaml")
    assert done.returncode == 2
    assert done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if line.startswith("examples/broken.yaml:")]
    *lines, count = lines
    assert count == "examples/broken.yaml: 10 errors, 1 warning"
    places = [re.match(r"examples/broken\.yaml:(\d+):(\d+): ", line) for line in lines]
    assert all(places), lines
    numbers = [int(place[1]) for place in places if place]
    assert numbers == sorted(numbers), "in the order of the file"
    assert "\n".join(lines[:2]) + "\n" == MISTAKES
    wanted = {4, 5, 9, 10, 12, 13, 15, 18, 19, 24, 25}
    assert set(numbers) == wanted, done.stderr


async def test_running_the_broken_example_runs_nothing_and_exits_as_validate_does() -> None:
    done = await treadle("run", "examples/broken.yaml", "--json")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def commands() -> list[str]:
    """The commands of the README's console blocks that run from a checkout as it stands."""
    blocks = re.findall(r"```console\n(.*?)```", README, flags=re.DOTALL)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    return [line for line in lines if line.startswith(".venv/bin/treadle")]


@pytest.mark.local_model
@pytest.mark.parametrize("line", commands())
async def test_the_readmes_commands_work(line: str) -> None:
    async with OpenAIServer.open() as server:  # for the one that the README wants a key for
        address = {"OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": f"{server.url}/v1"} if "-p openai" in line else {}
        done = await treadle(*shlex.split(line)[1:], **address)
    assert done.returncode == (2 if "broken" in line else 0), done.stderr
    assert "Traceback" not in done.stderr


def test_the_readmes_workflow_is_the_example() -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL)
    assert block == (ROOT / "examples/first.yaml").read_text(encoding="utf-8")


PROGRAMS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize(
    ("number", "output"), [(0, "success Mock response 0.0\n"), (1, "tides success\nrainbows success\n")]
)
def test_the_readmes_programs_run(number: int, output: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAMS[number]], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == (output, "")
    assert len(PROGRAMS) == 2


def test_the_readmes_table_lists_every_package_with_its_own_description() -> None:
    rows = dict(re.findall(r"^\| `(treadle-[\w-]+|treadle)` \| (.+) \|$", README, flags=re.MULTILINE))
    projects = {}
    for file in [
        *ROOT.glob("kernel/pyproject.toml"),
        *ROOT.glob("cli/pyproject.toml"),
        *ROOT.glob("plugins/[!_]*/pyproject.toml"),
    ]:
        project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
        projects[project["name"]] = project["description"]
    assert rows == projects
