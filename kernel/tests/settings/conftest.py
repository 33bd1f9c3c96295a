"""A deployment of small plugins, and the settings that tests write for it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, ClassVar

import pytest
import trio
from pydantic import BaseModel, ConfigDict, Field

import treadle
from treadle import (
    AssistantMessage,
    Completed,
    ConfigOffer,
    FromEnv,
    Host,
    Journal,
    JournalEntry,
    ModelRequest,
    ModelResponse,
    Offer,
    Provider,
    ProviderOffer,
    ProviderSettings,
    SandboxError,
    SecretRef,
    Settings,
    Step,
    StepContext,
    StepOutcome,
    StopReason,
    StreamEvent,
    Tool,
    Usage,
    UserMessage,
    hookimpl,
)
from treadle.contracts.sandbox import Sandbox


class FakeSettings(ProviderSettings):
    base_url: Annotated[str | None, FromEnv("FAKE_BASE_URL")] = None
    api_key: SecretRef = SecretRef("env:FAKE_API_KEY")
    timeout: float = Field(default=30.0, gt=0)
    mode: Annotated[str, FromEnv("FAKE_MODE")] = "plain"


class FakeProvider(Provider):
    """Says who answered, under which settings and with which model."""

    settings_model = FakeSettings

    @asynccontextmanager
    async def exchange(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        settings = self.settings
        assert isinstance(settings, FakeSettings)
        text = f"{self.name} {settings.base_url} {settings.mode} {request.model}"

        async def events() -> AsyncIterator[StreamEvent]:
            await trio.lowlevel.checkpoint()
            yield Completed(
                ModelResponse(
                    message=AssistantMessage.of(text),
                    stop_reason=StopReason.END_TURN,
                    finish_reason="stop",
                    usage=Usage(input_tokens=1, output_tokens=1),
                    model=request.model,
                    provider=self.name,
                    cost_usd=0.0,
                )
            )

        stream = events()
        try:
            yield stream
        finally:
            await stream.aclose()  # type: ignore[attr-defined]


class Ask(Step):
    needs = ("provider",)
    model: str | None = None

    async def run(self, ctx: StepContext) -> StepOutcome:
        model = self.model or ctx.config.model or ""
        request = ModelRequest(model=model, messages=(UserMessage.of("hi"),), key=self.id)
        return StepOutcome(value=(await ctx.complete(request)).text)


class Limits(Step):
    """Gives what the sandbox holds the workflow to."""

    async def run(self, ctx: StepContext) -> StepOutcome:
        return StepOutcome(value=await ctx.call_tool("limits", {}))


class Echo(Tool):
    """A tool that says its name."""

    def __init__(self, name: str) -> None:
        vars(self)["name"] = name

    async def call(self, arguments: Mapping[str, Any], context: Any) -> Any:
        await trio.lowlevel.checkpoint()
        if self.name == "limits":
            return [type(context.sandbox).__name__, context.sandbox.block.model_dump(mode="json")]
        return self.name


class Block(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    network: bool = True
    programs: tuple[str, ...] | None = None


class Box(Sandbox):
    """What both allow; nothing in common is refused."""

    block_model = Block

    @classmethod
    def combine(cls, parent: BaseModel, child: BaseModel) -> BaseModel:
        assert isinstance(parent, Block)
        assert isinstance(child, Block)
        programs = child.programs if parent.programs is None else parent.programs
        if parent.programs is not None and child.programs is not None:
            programs = tuple(each for each in child.programs if each in parent.programs)
            if not programs:
                raise SandboxError("the sandbox allows no program that the workflow wants", hint="ask for another")
        return Block(network=parent.network and child.network, programs=programs)


class Cage(Box):
    """Another sandbox."""


class Kept(Journal):
    """Where a test finds what was recorded."""

    entries_of_all: ClassVar[list[JournalEntry]] = []

    def append(self, entry: JournalEntry) -> None:
        self.entries_of_all.append(entry)

    def entries(self, run_id: str) -> Iterator[JournalEntry]:
        return (entry for entry in self.entries_of_all if entry.run_id == run_id)


for _each in (Box, Cage):
    _each.__abstractmethods__ = frozenset()  # they can do nothing, which is enough here


def _offers(names: Mapping[str, Any]) -> dict[str, Offer]:
    return {name: Offer(target, f"the {name}") for name, target in names.items()}


HOOKS: Mapping[str, Mapping[str, Offer]] = {
    "treadle_step_types": _offers({"ask": Ask, "limits": Limits}),
    "treadle_providers": {"fake": ProviderOffer(FakeProvider, "a fake", default_model="offered", is_default=True)},
    "treadle_tools": _offers({name: lambda name=name: Echo(name) for name in ("limits", "search", "acme_search")}),
    "treadle_trim_policies": _offers({"drop_oldest": object, "acme_keep_last": object}),
    "treadle_sandboxes": _offers({"box": Box, "cage": Cage}),
    "treadle_journals": _offers({"kept": Kept}),
    "treadle_config_fields": {"mode": ConfigOffer(str, "how the fake speaks", provider="fake")},
}


def plugin() -> ModuleType:
    """All of it as one plugin."""
    made = ModuleType("lab")
    for name, offers in HOOKS.items():

        def implementation(offers: Mapping[str, Offer] = offers) -> Mapping[str, Offer]:
            return offers

        implementation.__name__ = name
        setattr(made, name, hookimpl(implementation))
    return made


def host_of(**settings: Any) -> Host:
    """The deployment under these settings."""
    return Host.of({"lab": plugin()}, settings=Settings.model_validate(settings))


@pytest.fixture(autouse=True)
def _nobody_elses_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith(("TREADLE", "FAKE")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    Kept.entries_of_all.clear()


@pytest.fixture
def make_host() -> Callable[..., Host]:
    return host_of


@pytest.fixture
def recorded() -> list[JournalEntry]:
    """What the journal ``kept`` was given."""
    return Kept.entries_of_all


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plugin above is what discovery finds."""

    def discover(
        *, without: Collection[str] = (), settings: Settings | None = None, only_of: Collection[str] | None = None
    ) -> Host:
        return Host.of({"lab": plugin()}, settings=settings)

    monkeypatch.setattr(Host, "discover", discover)


@pytest.fixture
def problems(installed: None, tmp_path: Path) -> Callable[..., list[str]]:
    """The problems of a settings file, as people read them, without its name; its warnings where it is right."""

    def found(text: str | bytes, **how: Any) -> list[str]:
        raw = text if isinstance(text, bytes) else text.encode()
        (tmp_path / "treadle.yaml").write_bytes(raw)
        try:
            noted: Any = treadle.deployed_host("treadle.yaml", check_providers=True, **how).warnings
        except treadle.DocumentError as error:
            noted = error.problems or ["an error without a problem"]
        return [str(each).removeprefix("treadle.yaml:") for each in noted]

    return found


def output_of(host: Host, step: str = "ask", config: Mapping[str, Any] | None = None, **fields: Any) -> Any:
    """What one step makes under the host."""
    data = {"name": "x", "config": config or {}, "steps": [{"id": "a", "type": step, **fields}]}
    result = treadle.run_sync(treadle.build_workflow(data, host=host))
    assert result.ok, result.error
    return result.step_results["a"].output


@pytest.fixture(name="output_of")
def _output_of() -> Callable[..., Any]:
    return output_of
