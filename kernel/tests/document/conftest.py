"""A host of small plugins that stand for every kind of thing a document can name."""

from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, model_validator

from treadle._document import parse_workflow
from treadle._plugins import Catalogue, Host
from treadle.contracts.offers import ConfigOffer, Offer, ProviderOffer
from treadle.contracts.step import Reference, Step, StepOutcome
from treadle.errors import DocumentError, StepError
from treadle.fields import ArgumentTree, Expression, Template
from treadle.hookspecs import hookimpl


class Idle(Step):
    """A step that does nothing."""

    async def run(self, ctx: Any) -> StepOutcome:
        return StepOutcome()


class Shape(BaseModel):
    model_config = ConfigDict(extra="forbid")

    kind: Literal["object", "text"]
    name: str = "reply"


class Say(Idle):
    prompt: Template
    model: str | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    count: int = 1
    loud: bool = False
    shape: Shape | None = None
    tags: tuple[str, ...] = ()


class Branch(BaseModel):
    model_config = ConfigDict(extra="forbid")

    expression: Expression
    target: str


class Route(Idle):
    conditions: tuple[Branch, ...] = ()
    default: str | None = None

    def target_fields(self) -> Mapping[str, str]:
        fields = {f"conditions.{index}.target": each.target for index, each in enumerate(self.conditions)}
        return fields if self.default is None else {**fields, "default": self.default}

    def targets(self) -> Mapping[str, str]:
        return dict.fromkeys(self.target_fields().values(), "")


class Use(Idle):
    tool: str
    arguments: ArgumentTree | None = None

    def references(self) -> Iterable[Reference]:
        return [Reference(role="tool", name=self.tool, field="tool")]


class Picky(Idle):
    limit: int = 0

    @model_validator(mode="after")
    def _refuse(self) -> "Picky":
        raise StepError(f"a limit of {self.limit} is not enough", hint="raise it")


class Boxed(Idle):
    needs = ("sandbox",)


class Block(BaseModel):
    model_config = ConfigDict(extra="forbid")

    enabled: bool = False
    allowed_commands: tuple[str, ...] = ()


class Box:
    block_model = Block


class Plugin:
    """Everything that the documents of these tests name."""

    @hookimpl
    def treadle_step_types(self) -> Mapping[str, Offer]:
        types = {"idle": Idle, "say": Say, "route": Route, "use": Use, "boxed": Boxed, "picky": Picky}
        return {name: Offer(each, name) for name, each in types.items()}

    @hookimpl
    def treadle_providers(self) -> Mapping[str, ProviderOffer]:
        return {"fake": ProviderOffer("nowhere:Nothing", "a provider that is never loaded")}

    @hookimpl
    def treadle_tools(self) -> Mapping[str, Offer]:
        return {"echo": Offer("nowhere:Nothing", "a tool that is never loaded")}

    @hookimpl
    def treadle_config_fields(self) -> Mapping[str, ConfigOffer]:
        return {"replies": ConfigOffer(dict[str, int], "counts by word", provider="fake")}


class BoxPlugin:
    """A sandbox, apart from the rest."""

    @hookimpl
    def treadle_sandboxes(self) -> Mapping[str, Offer]:
        return {"box": Offer(Box, "a sandbox")}


def make_host(**plugins: object) -> Host:
    host = Host.of({"testing": Plugin(), **plugins})
    host.catalogue = Catalogue(
        {
            "step_type": {"approval_gate": "treadle-approval", "say": "treadle-say"},
            "provider": {"anthropic": "treadle-anthropic"},
            "config_field": {"quota": "treadle-budget"},
            "sandbox": {"default": "treadle-sandbox"},
            "tool": {"shell_command": "treadle-tools"},
        }
    )
    return host


@pytest.fixture(name="new_host")
def _new_host() -> Callable[..., Host]:
    """Makes a host of the plugin above and those given, with a catalogue."""
    return make_host


@pytest.fixture
def host() -> Host:
    return make_host()


@pytest.fixture(scope="session")
def shared_host() -> Host:
    """One host for all examples of a property: it is not changed by what is read with it."""
    return make_host()


@pytest.fixture
def plugins() -> SimpleNamespace:
    """The classes above, for tests that build on them."""
    return SimpleNamespace(Idle=Idle, Say=Say, Route=Route, Box=Box, BoxPlugin=BoxPlugin)


@pytest.fixture
def problems(host: Host) -> Callable[..., list[str]]:
    """The problems of a text, as people read them, without the name of the file; none where it is right."""

    def found(text: str, host: Host = host) -> list[str]:
        try:
            noted: Iterable[object] = parse_workflow(text, host=host, file="f").warnings
        except DocumentError as error:
            noted = error.problems or ["an error without a problem"]
        return [str(problem).removeprefix("f:") for problem in noted]

    return found
