"""Every code of a problem is explained, and every snippet of its explanation does what the page says."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import errors_page
import treadle
from treadle import (
    ConfigOffer,
    DocumentError,
    Host,
    Offer,
    Problem,
    Reference,
    SandboxError,
    Step,
    StepOutcome,
    hookimpl,
)
from treadle._plugins import Catalogue
from workspace import ROOT

KERNEL = ROOT / "kernel" / "src" / "treadle"
ENTRIES = errors_page.entries()
KEBAB = re.compile(r"[a-z]+(-[a-z]+)*")
REPORTING = {"add", "_add", "_problem", "_error", "Problem"}
STAND_INS = {"LONG": "9" * (sys.get_int_max_str_digits() + 1), "DEEP": "[" * 100 + "]" * 100}


class AcmeReport(Step):
    """Stands for a step that names a file and an object."""

    layout: str | None = None
    shape: str | None = None

    async def run(self, ctx: Any) -> StepOutcome:
        return StepOutcome()

    def references(self) -> Iterator[Reference]:
        if self.layout is not None:
            yield Reference(role="file", name=self.layout, field="layout")
        if self.shape is not None:
            yield Reference(role="object", name=self.shape, field="shape")


class AcmeBlock(BaseModel):
    network: bool = True


class AcmeBox:
    """Stands for a sandbox that refuses to widen a limit."""

    block_model = AcmeBlock

    @classmethod
    def combine(cls, parent: AcmeBlock, child: AcmeBlock) -> AcmeBlock:
        if child.network and not parent.network:
            raise SandboxError("sandbox: the deployment allows no network", hint="leave network out")
        return child


class Acme:
    """The plugin that the notes of the page speak of."""

    @hookimpl
    def treadle_step_types(self) -> Mapping[str, Offer]:
        return {"acme_report": Offer(AcmeReport, "names things outside the document")}

    @hookimpl
    def treadle_config_fields(self) -> Mapping[str, ConfigOffer]:
        return {"acme_depth": ConfigOffer("acme_is_not_there:Depth", "cannot be imported")}

    @hookimpl
    def treadle_sandboxes(self) -> Mapping[str, Offer]:
        return {"acme_box": Offer(AcmeBox, "refuses to widen a limit")}


def host_for(entry: Mapping[str, Any], folder: Path) -> Host:
    """Everything installed but what the entry leaves out, and the stand-in."""
    settings = None
    if "settings" in entry:
        (folder / "treadle.yaml").write_text(entry["settings"], encoding="utf-8")
        settings = treadle.load_settings(folder / "treadle.yaml")
    left_out = entry.get("without")
    points = {each.name: each for each in entry_points(group="treadle.plugins") if each.name != left_out}
    host = Host.of({**{name: point.load() for name, point in points.items()}, "acme": Acme()}, settings=settings)
    host.catalogue = Catalogue.discover()
    return host


def problems_of(entry: Mapping[str, Any], snippet: str, folder: Path) -> list[Problem]:
    """What is found in a snippet: errors, or the warnings of a good document."""
    for word, stands_for in STAND_INS.items():
        snippet = snippet.replace(word, stands_for)
    if entry.get("command"):
        (command, file) = snippet.rsplit(maxsplit=1)
        assert command == "treadle validate"
    else:
        file = str(folder / entry.get("file", "flow.yaml"))
        Path(file).write_bytes(snippet.encode().replace(b"<E9>", b"\xe9"))
    try:
        if entry.get("file") == "treadle.yaml":
            return list(treadle.deployed_host(file, check_providers=True).warnings)
        return list(treadle.load_workflow(file, host=host_for(entry, folder)).warnings)
    except DocumentError as error:
        return list(error.problems)


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("TREADLE_CONFIG", "GENERIC_OPENAI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("code", ENTRIES)
def test_the_wrong_snippet_has_this_problem_on_its_line_and_no_other(code: str, tmp_path: Path) -> None:
    entry = ENTRIES[code]
    found = problems_of(entry, entry["wrong"], tmp_path)
    assert {(each.code, each.severity) for each in found} == {(code, "warning" if entry.get("warning") else "error")}
    marked = [number for number, line in enumerate(entry["wrong"].splitlines(), 1) if "# <-" in line]
    line = None if entry.get("command") else entry["line"] if "line" in entry else marked[0]
    assert [each.line for each in found] == [line], [str(each) for each in found]


@pytest.mark.parametrize("code", ENTRIES)
def test_the_right_snippet_has_no_problem(code: str, tmp_path: Path) -> None:
    assert problems_of(ENTRIES[code], ENTRIES[code]["right"], tmp_path) == []


def codes_in(file: Path) -> set[str]:
    """The codes that a module gives to problems: words in the arguments of what reports one, and tables of them."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        given: list[ast.expr] = []
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in REPORTING:
                given += node.args
            given += [each.value for each in node.keywords if each.arg == "code"]
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_COMPILED":
            given += node.value.values  # type: ignore[attr-defined] # it is a dictionary
        elif isinstance(node, ast.FunctionDef) and node.name == "_code":
            given += [each for each in ast.walk(node) if isinstance(each, ast.expr)]
        found |= {
            each.value
            for each in given
            if isinstance(each, ast.Constant) and isinstance(each.value, str) and KEBAB.fullmatch(each.value)
        }
    return found


def test_every_code_that_the_kernel_gives_is_on_the_page_and_no_other() -> None:
    modules = [*(KERNEL / "_document").glob("*.py"), *(KERNEL / "_settings").glob("*.py")]
    used = set().union(*map(codes_in, modules))
    assert used == ENTRIES.keys()


def test_the_page_is_up_to_date() -> None:
    assert errors_page.TARGET.read_text(encoding="utf-8") == errors_page.render()
