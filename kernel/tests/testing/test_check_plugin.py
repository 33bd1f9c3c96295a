"""The suite of whole plugins passes good ones, and has a sentence for each fault."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from treadle.testing import check_plugin, offering

GOOD = """
from treadle import Offer, hookimpl

@hookimpl
def treadle_tools():
    return {"wave": Offer("PACKAGE.wave:Wave", "Wave a hand")}
"""
WAVE = """
from treadle import Tool

class Wave(Tool):
    name = "wave"
    description = "Wave a hand"

    async def call(self, arguments, context):
        return "o/"
"""


class Package:
    """A package of its own on the path, for each test."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder / name, name
        self.folder.mkdir()
        self.write("__init__", "")
        self.write("plugin", GOOD)
        self.write("wave", WAVE)

    @property
    def plugin(self) -> str:
        return f"{self.name}.plugin"

    def write(self, module: str, text: str) -> None:
        text = textwrap.dedent(text).replace("PACKAGE", self.name)
        (self.folder / f"{module}.py").write_text(text, encoding="utf-8")

    def offer(self, hook: str, target: str, *, kind: str = "Offer", summary: str = "It is one") -> None:
        """Offer something else."""
        self.write(
            "plugin",
            f"""
            from treadle import {kind}, hookimpl

            @hookimpl
            def {hook}():
                return {{"wave": {kind}("PACKAGE.{target}", {summary!r})}}
            """,
        )


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Package]:
    monkeypatch.syspath_prepend(tmp_path)
    name = f"pack{abs(hash(request.node.name))}"
    yield Package(tmp_path, name)
    for module in [each for each in sys.modules if each.partition(".")[0] == name]:
        del sys.modules[module]


async def test_a_good_plugin_passes(package: Package) -> None:
    await check_plugin(package.plugin)
    await check_plugin(sys.modules[package.plugin], offers={"tool": ["wave"]})


async def test_an_object_with_hooks_passes(package: Package) -> None:
    __import__(f"{package.name}.wave")
    await check_plugin(offering({"tool": {"wave": sys.modules[f"{package.name}.wave"].Wave}}))


async def faults(package: Package, **options: Any) -> str:
    with pytest.raises(AssertionError) as caught:
        await check_plugin(package.plugin, **options)
    return str(caught.value)


async def test_a_plugin_that_imports_what_is_heavy_is_told(package: Package) -> None:
    package.write("plugin", "import trio\nimport click\n" + GOOD)
    said = await faults(package)
    assert f"importing {package.plugin} imports" in said
    assert "click" in said.partition(";")[0]
    assert "trio" in said.partition(";")[0]


async def test_a_plugin_that_imports_its_offer_is_told(package: Package) -> None:
    package.write("plugin", "import PACKAGE.wave\n" + GOOD)
    assert f"imports {package.name}.wave, where 'wave' lives; only using it should" in await faults(package)


async def test_a_plugin_whose_offer_lives_with_the_hooks_is_told(package: Package) -> None:
    package.offer("treadle_tools", "plugin:Wave")
    package.write("plugin", (package.folder / "plugin.py").read_text(encoding="utf-8") + WAVE)
    assert f"imports {package.name}.plugin, where 'wave' lives" in await faults(package)


async def test_standard_library_and_own_modules_are_light(package: Package) -> None:
    package.write("names", "import json\nNAME = 'wave'\n")
    package.write("plugin", "import decimal\nfrom PACKAGE.names import NAME\n" + GOOD)
    await check_plugin(package.plugin)


@pytest.mark.parametrize(
    ("hook", "module", "sentence"),
    [
        ("treadle_tools", "x = 1", "could not be loaded from {name}.thing:Thing: AttributeError"),
        ("treadle_tools", "import nowhere", "could not be loaded from {name}.thing:Thing: ModuleNotFoundError"),
        ("treadle_tools", "Thing = 3", "tool 'wave': 3 is no tool; offer a subclass of treadle.Tool"),
        ("treadle_tools", WAVE + "    name = 'wink'\nThing = Wave", "it calls itself 'wink'; models would call it"),
        ("treadle_tools", WAVE + "    description = ''\nThing = Wave", "has no description"),
        ("treadle_step_types", WAVE + "\nThing = Wave", "Wave is no subclass of treadle.Step"),
        ("treadle_sandboxes", WAVE + "\nThing = Wave", "Wave is no subclass of treadle.Sandbox"),
        (
            "treadle_trim_policies",
            "class Thing: pass",
            "trim policy 'wave': Thing has no method trim",
        ),
        (
            "treadle_trim_policies",
            "class Thing:\n    def trim(self, groups, *, budget, summary, count, complete): pass",
            "Thing.trim must be async",
        ),
        (
            "treadle_trim_policies",
            "class Thing:\n    async def trim(self, groups, *, budget, count, complete): pass",
            "Thing.trim does not take what it is called with: got an unexpected keyword argument 'summary'",
        ),
        (
            "treadle_memories",
            "class Thing:\n    async def begin(self, ctx, **rest): pass\n    def commit(self, ctx, reply): pass",
            "Thing.commit does not take what it is called with: too many positional arguments",
        ),
        (
            "treadle_observers",
            "class Thing:\n    def __init__(self, path): pass\n    async def observe(self, event): pass",
            "it is called without arguments, and missing a required argument: 'path'",
        ),
        ("treadle_price_sources", "Thing = {}", "it is dict; a class or function without arguments is wanted"),
        (
            "treadle_attachment_fetchers",
            "class Thing:\n    async def fetch(self, request, sandbox): pass",
            "Thing.schemes is None; it must be a frozenset of the schemes",
        ),
        ("treadle_journals", "class Thing: pass", "Thing is no subclass of treadle.Journal"),
        (
            "treadle_journals",
            "from treadle import Journal\nclass Thing(Journal):\n    def append(self, entry): pass",
            "Thing lacks entries",
        ),
    ],
)
async def test_an_offer_that_does_not_fit_its_contract_is_told(
    package: Package, hook: str, module: str, sentence: str
) -> None:
    package.write("thing", module)
    package.offer(hook, "thing:Thing")
    assert sentence.format(name=package.name) in await faults(package)


async def test_a_type_of_a_config_field_that_pydantic_does_not_know_is_told(package: Package) -> None:
    package.write("thing", "class Thing: pass")
    package.offer("treadle_config_fields", "thing:Thing", kind="ConfigOffer")
    assert "config field 'wave': looking at it raised PydanticSchemaGenerationError" in await faults(package)


async def test_a_provider_is_looked_at_as_a_class(package: Package) -> None:
    package.write("thing", "from treadle import Provider\nclass Thing(Provider): pass")
    package.offer("treadle_providers", "thing:Thing", kind="ProviderOffer")
    assert "provider 'wave': Thing lacks exchange" in await faults(package)


@pytest.mark.parametrize(
    ("summary", "sentence"),
    [("", "its summary is ''; one line"), ("Wave.", "its summary ends with a full stop"), ("a\nb", "one line for")],
)
async def test_summaries_are_one_line_without_a_full_stop(package: Package, summary: str, sentence: str) -> None:
    package.offer("treadle_tools", "wave:Wave", summary=summary)
    assert sentence in await faults(package)


async def test_names_are_compared_with_those_wanted(package: Package) -> None:
    said = await faults(package, offers={"tool": ["wink"]})
    assert said.splitlines() == [
        "it does not offer the tool 'wink'",
        "it offers the tool 'wave', which was not expected",
    ]


async def test_all_faults_are_told_at_once(package: Package) -> None:
    package.offer("treadle_tools", "nowhere:Wave", summary="Wave.")
    assert len((await faults(package)).splitlines()) == 2


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("from treadle import hookimpl\n@hookimpl\nasync def treadle_tools(): return {}", "is async; hooks are plain"),
        ("from treadle import hookimpl\n@hookimpl\ndef treadle_tool(): return {}", "did you mean 'treadle_tools'?"),
        ("from treadle import hookimpl\n@hookimpl\ndef treadle_tools(x): return {}", "this one asks for 'x'"),
        ("x = 1", "it offers nothing"),
        (
            (
                "from treadle import Offer, hookimpl\nn = []\n@hookimpl\n"
                "def treadle_tools():\n    n.append(1)\n    return {f'tool_{len(n)}': Offer('a:b', 'A tool')}"
            ),
            "asked a second time, it offers other names",
        ),
    ],
)
async def test_hooks_that_break_the_contract_are_told(package: Package, text: str, sentence: str) -> None:
    package.write("plugin", text)
    assert sentence in await faults(package)
