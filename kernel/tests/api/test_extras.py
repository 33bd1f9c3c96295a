"""What a program gives to a session without installing it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest
import trio

import treadle
from treadle import (
    ConfigOffer,
    ConfigurationError,
    DocumentError,
    Host,
    LayerOffer,
    Offer,
    PluginError,
    ProviderSettings,
    Settings,
    Step,
    StepOutcome,
    Tool,
    hookimpl,
)
from treadle.testing import EchoProvider, offering, reply, scripted


class Loud(Tool):
    """Writes a text in capitals."""

    name = "loud"

    async def call(self, arguments, context):
        return arguments["text"].upper()


class Louder(Loud):
    async def call(self, arguments, context):
        return arguments["text"].upper() + "!"


class Wave(Step):
    """Waves."""

    async def run(self, ctx):
        return StepOutcome(value="o/")


class Opened(EchoProvider):
    """Notes by whom it is entered and left."""

    tasks: list

    def __init__(self, name, settings):
        super().__init__(name, settings)
        self.tasks = []

    async def __aenter__(self):
        self.tasks.append(trio.lowlevel.current_task())
        return self

    async def __aexit__(self, *error):
        self.tasks.append(trio.lowlevel.current_task())


class Tagged:
    """A layer that adds a tag to every reply."""

    def __init__(self, tag="?"):
        self.tag = tag

    @asynccontextmanager
    async def exchange(self, request, proceed):
        async with proceed(request) as events:
            (event,) = [event async for event in events]

            async def tagged():
                yield treadle.Completed(reply(self.tag + event.response.text))

            yield tagged()


def call(**fields):
    return treadle.workflow("x", **fields).step("call", id="a", tool_name="loud", tool_args={"text": "hi"})


def ask(**config):
    return treadle.workflow("x", **config).step("ask", id="a", prompt="hi")


async def output(session, builder):
    result = await session.run(builder.build(session.host))
    assert result.ok, result.error
    return result.step_results["a"].output


@pytest.mark.parametrize("tool", [Loud, Loud()])
async def test_a_tool(host, tool):
    async with treadle.open(host=host, tools=[tool]) as session:
        assert await output(session, call()) == "HI"


async def test_without_it_the_step_fails(host):
    async with treadle.open(host=host) as session:
        workflow = call().build(session.host)
        assert "no tool 'loud'" in str(workflow.warnings[0])
        result = await session.run(workflow)
    assert result.step_results["a"].error.startswith("no tool 'loud'; give a tool of your own")


async def test_what_is_given_wins_over_what_is_installed_and_the_host_stays_as_it_is():
    plain = Host.of({"lab": offering({"tool": {"loud": Loud}})})
    extended = plain.extended({"more": offering({"tool": {"loud": Louder}})})
    assert extended.load("tool", "loud") is Louder
    assert plain.load("tool", "loud") is Loud
    assert [report.name for report in extended.reports] == ["lab", "more"]
    assert [report.name for report in plain.reports] == ["lab"]
    assert list(extended.problems()) == []


def test_it_wins_over_a_name_that_two_plugins_offer():
    both = Host.of({"a": offering({"tool": {"loud": Loud}}), "b": offering({"tool": {"loud": Loud}})})
    assert both.extended({"c": offering({"tool": {"loud": Louder}})}).load("tool", "loud") is Louder


def test_it_wins_over_the_settings():
    settings = Settings.model_validate(
        {
            "aliases": {"tools": {"loud": "soft"}, "providers": {"p": "q"}},
            "providers": {"r": {"kind": "q"}, "s": {"kind": "q"}},
        }
    )
    host = Host.of({"lab": offering({"provider": {"q": EchoProvider}})}, settings=settings)
    extended = host.extended(
        {"more": offering({"tool": {"loud": Loud}, "provider": {"p": scripted(), "r": scripted("x")}})}
    )
    assert extended.load("tool", "loud") is Loud
    assert [extended.get("provider", name).plugin for name in "prs"] == ["more", "more", "lab"]
    assert host.get("provider", "r").plugin == "lab"
    assert sorted(extended.settings.providers) == ["s"]


def test_a_broken_plugin_is_refused():
    class Broken:
        @hookimpl
        def treadle_tools(self):
            return {"loud": Loud}

    with pytest.raises(PluginError, match="treadle_tools must return Offer objects; 'loud' is ABCMeta"):
        Host.of({}).extended({"broken": Broken()})


def test_plugins_that_offer_the_same_are_refused():
    with pytest.raises(PluginError, match="tool 'loud' is offered by plugin 'a' and by plugin 'b'"):
        Host.of({}).extended({name: offering({"tool": {"loud": Loud}}) for name in "ab"})


async def test_a_provider_class_and_its_steps(host):
    async with treadle.open(host=host, providers={"echo": EchoProvider}, steps={"wave": Wave}) as session:
        assert await output(session, ask(provider="echo")) == "hi"
        assert await output(session, treadle.workflow("x").step("wave", id="a")) == "o/"


async def test_a_provider_object_is_entered_once_by_a_task_of_the_session(host):
    provider = Opened("echo", ProviderSettings())
    async with treadle.open(host=host, providers={"echo": provider}) as session:
        assert provider.tasks == []
        workflow = ask(provider="echo").build(session.host)
        for _ in range(2):
            assert (await session.run(workflow)).ok
        assert len(provider.tasks) == 1
        assert provider.tasks[0] is not trio.lowlevel.current_task()
    assert provider.tasks == provider.tasks[:1] * 2


async def test_a_provider_object_is_used_as_it_is_whatever_the_config_sets(host):
    provider = Opened("echo", ProviderSettings(default_model="m"))
    server = {"deployment": offering({"config_field": {"server": ConfigOffer(str, "The server", provider="echo")}})}
    async with treadle.open(host=host, providers={"echo": provider}, plugins=server) as session:
        assert await output(session, ask(provider="echo", server="elsewhere")) == "hi"
        assert await output(session, ask(provider="echo")) == "hi"
    assert len(provider.tasks) == 2


async def test_layers_the_first_one_outermost(host):
    layers = [Tagged("a"), Tagged("b"), Tagged, LayerOffer(lambda: Tagged("call "), "Around the call", scope="call")]
    async with treadle.open(host=host, providers={"echo": EchoProvider}, layers=layers) as session:
        assert await output(session, ask(provider="echo")) == "call ab?hi"


async def test_plugins_and_objects_over_them(host):
    plugins = {"more": offering({"tool": {"loud": Loud, "soft": Loud}})}
    async with treadle.open(host=host, plugins=plugins, tools=[Louder]) as session:
        assert await output(session, call()) == "HI!"
        assert session.host.names("tool") == ["loud", "soft"]


def test_two_tools_of_one_name_are_refused(host):
    with pytest.raises(ConfigurationError, match=r"^two of the tools given are called 'loud'$"):
        treadle.open(host=host, tools=[Loud, Louder()])


def test_a_provider_with_another_name_is_refused(host):
    with pytest.raises(ConfigurationError) as caught:
        treadle.open(host=host, providers={"mine": EchoProvider("echo", ProviderSettings())})
    assert str(caught.value) == "the provider given as 'mine' calls itself 'echo'; give both the same name"


def test_a_misspelt_parameter_is_refused(host):
    with pytest.raises(TypeError, match=r"^there is no parameter 'tool'; did you mean 'tools'\?$"):
        treadle.open(host=host, tool=[Loud])


def test_a_setting_of_a_run_that_is_given_as_a_parameter_is_told_its_place(host):
    """`provider` is near `providers`, and means something else."""
    with pytest.raises(TypeError) as caught:
        treadle.open(host=host, provider="mock")
    assert str(caught.value) == (
        "there is no parameter 'provider'; a setting of a run is given to run() or load_workflow() as "
        "config={'provider': ...}"
    )


async def test_a_file_run_in_the_session_sees_them(host, tmp_path):
    file = tmp_path / "f.yaml"
    file.write_text("name: x\nsteps: [{id: a, type: wave}]\n", encoding="utf-8")
    async with treadle.open(host=host, steps={"wave": Wave}) as session:
        assert (await session.run(file)).ok
    async with treadle.open(host=host) as session:
        with pytest.raises(DocumentError, match="no step type 'wave'"):
            await session.run(file)


def test_run_takes_them_too(host, tmp_path, monkeypatch):
    workflow = call().build(host)
    assert treadle.run_sync(workflow, tools=[Loud]).step_results["a"].output == "HI"
    assert treadle.run_sync(workflow).step_results["a"].output is None
    file = tmp_path / "f.yaml"
    file.write_text("name: x\nsteps: [{id: a, type: wave}]\n", encoding="utf-8")
    assert treadle.run_sync(file, steps={"wave": Wave}).ok


def test_they_reach_a_run_in_an_asyncio_program(host):
    result = asyncio.run(treadle.run(call().build(host), tools=[Loud]))
    assert result.step_results["a"].output == "HI"


def test_the_config_may_name_a_provider_that_is_given(host):
    workflow = ask(provider="first").build(host.extended({"more": offering({"provider": {"first": EchoProvider}})}))
    result = treadle.run_sync(workflow, config={"provider": "p"}, providers={"p": scripted("yes")})
    assert result.step_results["a"].output == "yes"


def test_offers_are_summed_up_by_their_docstrings():
    host = Host.of({"x": offering({"tool": {"loud": Loud, "louder": Offer(Louder, "Twice")}})})
    assert [host.get("tool", name).offer.summary for name in ("loud", "louder")] == [
        "Writes a text in capitals.",
        "Twice",
    ]
