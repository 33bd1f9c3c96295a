"""What a document names outside of itself: files, objects, and requests that the provider will refuse."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from treadle._document import load_workflow, parse_workflow
from treadle._plugins import Host
from treadle.contracts.config import RunConfig
from treadle.contracts.offers import ProviderOffer
from treadle.contracts.provider import Features, Provider
from treadle.contracts.step import Reference, Step, StepOutcome
from treadle.errors import DocumentError
from treadle.messages import ModelRequest, OutputSchema, ToolSpec, UserMessage
from treadle.testing import offering


class Name(Step):
    """Names a file and an object."""

    file: str | None = None
    shape: str | None = None

    async def run(self, ctx: Any) -> StepOutcome:
        return StepOutcome()

    def references(self) -> Iterable[Reference]:
        if self.file is not None:
            yield Reference(role="file", name=self.file, field="file")
        if self.shape is not None:
            yield Reference(role="object", name=self.shape, field="shape")


class Ask(Step):
    """Asks a model, in every way that a provider may refuse."""

    needs = ("provider",)
    model: str = ""
    tools: bool = False
    shaped: bool = False
    text: str = "x"

    async def run(self, ctx: Any) -> StepOutcome:
        return StepOutcome()

    def model_requests(self, config: RunConfig) -> Iterable[ModelRequest]:
        yield ModelRequest(
            model=self.model or config.model or "",
            messages=(UserMessage.of(self.text),),
            tools=(ToolSpec(name="t"),) if self.tools else (),
            output=OutputSchema(name="o") if self.shaped else None,
        )


class Fussy(Provider):
    """Built and asked, never entered."""

    features = Features(streaming=True)

    def check(self, request: ModelRequest) -> Iterable[str]:
        text = request.messages[0].text  # type: ignore[union-attr] # a user's
        if text == "crash":
            raise RuntimeError("no such thing")
        if text != "x":
            yield f"model {request.model} does not like '{text}'"

    async def __aenter__(self) -> Any:
        raise AssertionError("checking enters no provider")

    def exchange(self, request: ModelRequest) -> Any:
        raise AssertionError("checking calls no provider")


class Unbuildable(Fussy):
    def __init__(self, name: str, settings: Any) -> None:
        raise RuntimeError("no")


@pytest.fixture
def told() -> Callable[..., list[str]]:
    def found(*steps: str, config: str = "{}", config_given: Any = None) -> list[str]:
        providers = {
            "fussy": ProviderOffer(Fussy, "refuses", default_model="m1", is_default=True),
            "plain": ProviderOffer(Fussy, "has no model"),
            "broken": ProviderOffer(Unbuildable, "cannot be built"),
            "gone": ProviderOffer("no_such_module:X", "cannot be imported"),
        }
        host = Host.of({"lab": offering({"step_type": {"name": Name, "ask": Ask}, "provider": providers})})
        text = f"name: x\nconfig: {config}\nsteps:\n" + "".join(f"  - {{{step}}}\n" for step in steps)
        try:
            parse_workflow(text, host=host, file="f", config=config_given)
        except DocumentError as error:
            return [str(each).removeprefix("f:") for each in error.problems]
        return []

    return found


# --- files ----------------------------------------------------------------------------------------


def test_a_file_must_be_there_from_the_working_directory_on(
    told: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shared parts").mkdir()
    (tmp_path / "shared parts" / "child.yaml").write_text("x", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert told("id: a, type: name, file: 'shared parts/child.yaml'") == []
    assert told("id: a, type: name, file: 'shred part/chidl.yaml'") == [
        f"4:31: steps.a.file: no such file: 'shred part/chidl.yaml'; did you mean '{Path('shared parts/child.yaml')}'?"
    ]
    assert told("id: a, type: name, file: zzz") == ["4:31: steps.a.file: no such file: 'zzz'"]
    assert told("id: a, type: name, file: 'shared parts'") == [
        "4:31: steps.a.file: is a directory, not a file: 'shared parts'"
    ]
    (found,) = told(r'id: a, type: name, file: "a\0b"')
    assert "null byte" in found or "no such file" in found
    (found,) = told(f"id: a, type: name, file: {'x' * 5000}")
    assert len(found) < 300


def test_a_workflow_in_a_misspelt_folder_is_found_close_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: Host
) -> None:
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "first.yaml").write_text("x", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name in ("exampels/first.yaml", "exampels/frist.yaml", "./exampels/first.yml"):
        with pytest.raises(DocumentError) as caught:
            load_workflow(name, host=host)
        assert str(caught.value) == f"{name}: no such file; did you mean '{Path('examples/first.yaml')}'?"
    with pytest.raises(DocumentError) as caught:
        load_workflow(str(tmp_path / "exampels" / "zzz"), host=host)
    assert str(caught.value).endswith("zzz: no such file")


# --- objects --------------------------------------------------------------------------------------


@pytest.fixture
def shapes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules beside the workflow."""
    (tmp_path / "own_shapes.py").write_text("class Report:\n    class Part: ...\n", encoding="utf-8")
    (tmp_path / "leaving_shapes.py").write_text("raise SystemExit('bye')\n", encoding="utf-8")
    (tmp_path / "loud_shapes.py").write_text("raise ValueError('a\\nb' * 500)\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))


@pytest.mark.usefixtures("shapes")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("own_shapes:Report", None),
        ("own_shapes.Report", None),
        ("own_shapes:Report.Part", None),
        ("json:JSONDecoder", None),
        (
            "own_shapes:Reprt",
            (
                "AttributeError: module 'own_shapes' has no attribute 'Reprt', in importing 'own_shapes:Reprt'; "
                "did you mean 'Report'?"
            ),
        ),
        (
            "no_shapes:Report",
            "ModuleNotFoundError: No module named 'no_shapes', in importing 'no_shapes:Report'",
        ),
        ("leaving_shapes:Report", "SystemExit: bye, in importing 'leaving_shapes:Report'"),
        ("Report", "ImportError: an object is named as package.module:Class, in importing 'Report'"),
        (".own:Report", "ImportError: an object is named as package.module:Class, in importing '.own:Report'"),
        ("loud_shapes:Report", "ValueError: a, in importing 'loud_shapes:Report'"),
    ],
)  # fmt: skip
def test_an_object_must_be_importable_beside_the_workflow_too(told: Any, name: str, expected: str | None) -> None:
    before = list(sys.path)
    assert told(f"id: a, type: name, shape: '{name}'") == ([f"4:32: steps.a.shape: {expected}"] if expected else [])
    assert sys.path[: len(before)] == before, "what is installed comes first"


# --- requests -------------------------------------------------------------------------------------


def test_what_a_provider_lacks_and_what_it_says_stands_at_the_step(told: Any) -> None:
    asks = "id: b, type: ask, tools: true, shaped: true, text: secrets"
    assert told("id: a, type: ask", asks, "id: c, type: name") == [
        (
            "5:19: steps.b.type: provider 'fussy' cannot take this request: it has no replies held to JSON; "
            "model m1 does not like 'secrets'"
        ),
        "5:31: steps.b.tools: provider 'fussy' cannot take this request: it has no tools",
    ]


def test_what_every_request_is_refused_for_is_said_once(told: Any) -> None:
    assert told("id: a, type: ask, tools: true", "id: b, type: ask, tools: true, text: y") == [
        "4:31: steps.a.tools: provider 'fussy' cannot take this request: it has no tools",
        "5:19: steps.b.type: provider 'fussy' cannot take this request: model m1 does not like 'y'",
    ]
    found = told("id: a, type: ask, tools: true", "id: b, type: ask, tools: true", config="{provider: fussy}")
    assert found == ["2:20: config.provider: provider 'fussy' cannot take this request: it has no tools"]


def test_the_provider_and_model_of_the_command_line_are_asked(told: Any) -> None:
    step = "id: a, type: ask, text: y"
    assert told(step, config="{provider: plain, model: m0}") == [
        "4:19: steps.a.type: provider 'plain' cannot take this request: model m0 does not like 'y'"
    ]
    found = told(step, config="{provider: plain, model: m0}", config_given={"provider": "fussy", "model": "m9"})
    assert found == ["4:19: steps.a.type: provider 'fussy' cannot take this request: model m9 does not like 'y'"]


def test_a_request_without_a_model_is_told_where_there_is_no_default(told: Any) -> None:
    assert told("id: a, type: ask", "id: b, type: ask, model: m", config="{provider: plain}") == [
        "2:20: config.provider: no model is set, and provider 'plain' has no default; set config.model, or use -m"
    ]


def test_a_provider_that_cannot_be_asked_is_named_and_nothing_is_raised(told: Any) -> None:
    assert told("id: a, type: ask, text: crash") == [
        "4:19: steps.a.type: provider 'fussy' could not be asked about this request: RuntimeError: no such thing"
    ]
    assert told("id: a, type: ask", config="{provider: broken}") == [
        "2:20: config.provider: provider 'broken' could not be built: RuntimeError: no"
    ]
    (found,) = told("id: a, type: ask", config="{provider: gone}")
    assert found.startswith("2:20: config.provider: provider 'gone' of plugin 'lab' could not be loaded from no_such")


def test_a_step_with_a_mistake_is_not_asked_for_its_requests(told: Any) -> None:
    assert told("id: a, type: ask, text: y, tols: 1") == ["4:33: steps.a.tols: unknown field; did you mean 'tools'?"]
