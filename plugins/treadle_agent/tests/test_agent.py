"""``Agent`` in programs, on trio, on asyncio and without either."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trio

import treadle
from treadle import DocumentError, Host, ToolRegistry, UnavailableError
from treadle.testing import offering, reply, scripted
from treadle_agent import Agent, AgentError, plugin

DESK = {"name": "desk", "system_prompt": "You serve {firm}.", "model": "m-desk"}


def host(provider: Any) -> Host:
    offer = treadle.ProviderOffer(provider, "scripted", is_default=True)
    return Host.of({"agent": plugin, "double": offering({"provider": {"scripted": offer}})})


async def test_a_turn_gives_the_reply_its_cost_and_the_agents_own_calls() -> None:
    provider = scripted(reply("because", cost_usd=0.02))
    async with treadle.open(host=host(provider)) as session:
        result = await Agent(DESK, gateway=session).invoke("why {state.x}?", state={"firm": "ACME"})
    assert (result.reply, result.cost_usd, result.iterations) == ("because", 0.02, 1)
    texts = [each.text for each in provider.requests[0].messages]
    assert texts == ["You serve ACME.", "why {state.x}?"], "a prompt of a program is no template"


async def test_tools_of_a_registry_need_not_be_installed() -> None:
    def look(what: str) -> str:
        """Look it up."""
        return f"{what}: found"

    from treadle import AssistantMessage, StopReason, ToolCallPart

    call = ToolCallPart(call_id="c", tool_name="look", arguments={"what": "it"})
    asks = reply("", message=AssistantMessage(parts=(call,)), stop_reason=StopReason.TOOL_USE)
    provider = scripted(asks, "done")
    async with treadle.open(host=host(provider)) as session:
        agent = Agent({**DESK, "tools": ["look"]}, gateway=session, tool_registry=ToolRegistry([look]))
        result = await agent.invoke("go", state={"firm": "x"})
    assert (result.reply, result.iterations) == ("done", 2)
    assert provider.requests[1].messages[-1].results[0].content == "it: found"  # type: ignore[union-attr]


async def test_a_call_is_allowed_or_not_by_whoever_is_asked() -> None:
    from treadle import AssistantMessage, StopReason, ToolCallPart

    def wipe() -> str:
        """Wipe it."""
        return "wiped"

    asked: list[tuple[str, Mapping[str, Any]]] = []

    def approve(name: str, arguments: Mapping[str, Any]) -> bool:
        asked.append((name, arguments))
        return len(asked) > 1

    call = ToolCallPart(call_id="c", tool_name="wipe", arguments={})
    asks = reply("", message=AssistantMessage(parts=(call,)), stop_reason=StopReason.TOOL_USE)
    provider = scripted(asks, asks, "done")
    async with treadle.open(host=host(provider)) as session:
        agent = Agent(
            {**DESK, "tools": ["wipe"], "approve": ["wipe"]},
            gateway=session,
            tool_registry=ToolRegistry([wipe]),
            approve=approve,
        )
        await agent.invoke("go", state={"firm": "x"})
    heard = [each.messages[-1].results[0].content for each in provider.requests[1:]]  # type: ignore[union-attr]
    assert heard == ["a person did not allow this call of 'wipe'; it was not run", "wiped"]
    assert asked == [("wipe", {}), ("wipe", {})]


async def test_a_turn_that_fails_raises_with_what_it_spent_and_is_not_tried_again() -> None:
    provider = scripted(UnavailableError("down", provider="scripted", status_code=503))
    async with treadle.open(host=host(provider)) as session:
        with pytest.raises(AgentError, match="down") as caught:
            await Agent(DESK, gateway=session).invoke("go", state={"firm": "x"})
    assert caught.value.transient
    assert len(provider.requests) == 1


async def test_what_cannot_start_raises() -> None:
    provider = scripted()
    async with treadle.open(host=host(provider)) as session:
        with pytest.raises(AgentError, match="the prompt is empty"):
            await Agent(DESK, gateway=session).invoke("  ")
        with pytest.raises(AgentError, match="agent 'desk': no tool 'nope'; give a tool of your own with --tools FILE"):
            await Agent({**DESK, "tools": ["nope"]}, gateway=session).invoke("go")
        with pytest.raises(AgentError, match="no such file"):
            await Agent({**DESK, "tools": [{"name": "ask", "agent": "gone.yaml"}]}, gateway=session).invoke("go")
    assert provider.requests == []


async def test_the_definition_s_own_model_wins_and_agents_below_that_name_none_have_the_given_one() -> None:
    from treadle import AssistantMessage, StopReason, ToolCallPart

    call = ToolCallPart(call_id="c", tool_name="ask", arguments={"message": "?"})
    asks = reply("", message=AssistantMessage(parts=(call,)), stop_reason=StopReason.TOOL_USE)
    provider = scripted(asks, "below", "done")
    below = {"name": "below", "description": "Knows."}
    async with treadle.open(host=host(provider)) as session:
        agent = Agent({**DESK, "tools": [{"name": "ask", "agent": below}]}, gateway=session, model="m")
        await agent.invoke("go", state={"firm": "x"})
    assert [each.model for each in provider.requests] == ["m-desk", "m", "m-desk"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"definition": 5}, "definition: takes an AgentDefinition, or a mapping of its fields, not int"),
        ({"definition": "desk.yaml"}, "definition: Agent.from_yaml('desk.yaml') reads a file"),
        ({"gateway": "x"}, "gateway: takes a session of treadle.open(), not str"),
        ({"tool_registry": "x"}, "tool_registry: takes a list of tools, or a ToolRegistry, not str"),
        ({"model": 5}, "model: takes the name of a model, not int"),
        ({"provider": 5}, "provider: takes the name of a provider, not int"),
        ({"approve": "yes"}, "approve: takes a function of a tool's name and arguments, not str"),
    ],
)
def test_an_argument_of_the_wrong_kind_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError) as caught:
        Agent(**{"definition": DESK, **given})
    assert str(caught.value) == message


async def test_so_is_one_of_a_turn() -> None:
    provider = scripted("hi", "ho")
    async with treadle.open(host=host(provider)) as session:
        agent = Agent(DESK, gateway=session)
        earlier = await agent.invoke("go", state={"firm": "x"})
        for given, message in (
            ({"prompt": None}, "prompt: takes a text, not NoneType"),
            ({"state": [1]}, "state: takes a mapping of keys to values, not list"),
            ({"on_event": 5}, "on_event: takes a function of one event, not int"),
            (
                {"conversation": earlier},
                "conversation: takes what an earlier turn",
            ),
        ):
            with pytest.raises(TypeError) as caught:
                await agent.invoke(**{"prompt": "go", **given})  # type: ignore[arg-type]
            assert str(caught.value).startswith(message)
    assert len(provider.requests) == 1, "nothing was asked"
    with pytest.raises(TypeError, match=r"^path: takes the path of a file; Agent\(\.\.\.\) takes a mapping, not dict$"):
        Agent.from_yaml(DESK)  # type: ignore[arg-type]


async def test_an_agent_without_a_model_has_the_providers_and_is_refused_where_that_has_none() -> None:
    provider = scripted("one")
    async with treadle.open(host=host(provider)) as session:
        assert (await Agent({"name": "desk"}, gateway=session).invoke("go")).reply == "one"
        assert provider.requests[0].model == "scripted-1"
        provider.default_model = lambda self: None  # type: ignore[method-assign]  # the class is this test's
    async with treadle.open(host=host(provider)) as session:
        with pytest.raises(AgentError) as caught:
            await Agent({"name": "desk"}, gateway=session).invoke("go")
    told = (
        "agent 'desk': no model is set, and provider 'scripted' has no default; set it in its file, or pass model=..."
    )
    assert str(caught.value) == told


def test_a_file_without_a_model_is_served_by_a_provider_that_has_one(tmp_path: Path) -> None:
    file = tmp_path / "desk.yaml"
    file.write_text("name: desk\n", encoding="utf-8")
    assert Agent.from_yaml(file, provider="mock").invoke_sync("Hi").reply == "Mock response"


def test_a_file_with_mistakes_is_refused_at_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "desk.yaml"
    file.write_text("name: desk\ntols: []\n", encoding="utf-8")
    with pytest.raises(DocumentError, match=r"desk\.yaml:2:1: tols: unknown field; did you mean 'tools'\?"):
        Agent.from_yaml(file)


def test_it_works_on_asyncio_and_without_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = scripted("one", "two")
    monkeypatch.setattr("treadle.api.default_host", lambda: host(provider))

    async def main() -> Any:
        async with treadle.open() as session:
            return await Agent(DESK, gateway=session).invoke("go", state={"firm": "x"})

    assert asyncio.run(main()).reply == "one"
    assert Agent(DESK).invoke_sync("go", state={"firm": "x"}).reply == "two"


def test_invoke_sync_works_in_a_notebook_and_says_what_to_write_on_trio(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = scripted("one", "two")
    monkeypatch.setattr("treadle.api.default_host", lambda: host(provider))

    async def cell() -> Any:
        return Agent(DESK).invoke_sync("go", state={"firm": "x"})

    assert asyncio.run(cell()).reply == "one"
    with pytest.raises(RuntimeError, match=r"a stop; write await agent\.invoke\(\.\.\.\)"):
        trio.run(cell)
    assert len(provider.requests) == 1


def test_a_mapping_with_mistakes_is_told_as_a_file_is() -> None:
    with pytest.raises(DocumentError) as caught:
        Agent({**DESK, "max_iterations": 3, "tools": "lookup"})
    assert [str(each) for each in caught.value.problems] == [
        "tools: must be a list, not 'lookup'; write [lookup]",
        "max_iterations: unknown field; did you mean 'max_tokens'?",
    ]
