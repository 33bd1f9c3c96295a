"""Agents, tools, the executor's table, dependencies and hosted tools (B1 to B5)."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

import treadle
import treadle_loop
from treadle_loop import (
    Agent,
    ConfigurationError,
    Deps,
    FakeClient,
    HostedTool,
    ListObserver,
    ModelResponse,
    Registry,
    SummaryOptions,
    ToolCallPart,
    ToolDeps,
    ToolError,
    ToolResultPart,
    ToolSpec,
    Transcript,
    allow_all,
    run_conversation,
    tool,
)

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
NOTHING: dict[str, Any] = {"type": "object", "properties": {}}


@tool(CITY)
def weather(city: str, deps: Any) -> str:
    """What the weather is.

    Not for the model.
    """
    return f"{type(deps).__name__}: sun in {city}"


def call(name: str, arguments: dict[str, Any] | None = None, call_id: str = "c1", **more: Any) -> ToolCallPart:
    return ToolCallPart(id=call_id, tool_name=name, arguments=arguments or {}, **more)


def results(*calls: ToolCallPart, tools: Any = (weather,), deps: Any = None, **more: Any) -> list[ToolResultPart]:
    """What the model hears of its calls."""
    client = FakeClient(ModelResponse(content=calls), "done")
    transcript = Transcript()
    transcript.add_user_message("go")
    run_conversation(transcript, client, Registry(tools), deps or Deps(), **more)
    return list(client.requests[1].messages[-1].tool_results)


def handler(function: Any, **more: Any) -> ToolSpec:
    return ToolSpec("f", "does it", NOTHING, function, **more)


def only(*calls: ToolCallPart, **more: Any) -> ToolResultPart:
    (result,) = results(*calls, **more)
    return result


# --- names ---------------------------------------------------------------------------------------------

NAMES = """
    Agent tool Deps ToolDeps ToolSpec ToolError Registry allow_all HostedTool HostedToolPart Transcript Source Citation
    Origin final_text join_text run_conversation run_conversation_result Settings build_client AgentLoopError
    AttemptRecord ConversationContext ConversationResult ConversationStatus ConversationSummary FailureCount TurnRecord
    SummaryOptions SummaryCollector ConsoleObserver ListObserver MultiObserver NullObserver EventTraceObserver
    LoopObserver
"""


@pytest.mark.parametrize("name", NAMES.split())
def test_every_name_of_agentloop_is_there(name: str) -> None:
    assert getattr(treadle_loop, name) is not None
    assert name in treadle_loop.__all__


def test_the_modules_one_level_down_are_there() -> None:
    from treadle_loop import errors, provider, retry, transcript
    from treadle_loop.providers import fake

    assert errors.LoopBudgetExceeded
    assert provider.ModelRequest
    assert retry.RetryPolicy
    assert transcript.to_jsonl
    assert fake.FakeClient


def test_importing_everything_loads_no_sdk_no_http_client_no_telemetry_and_the_package_alone_no_trio() -> None:
    program = """
import sys, treadle_loop
assert "trio" not in sys.modules and "pydantic" not in sys.modules
from treadle_loop import *
heavy = {"openai", "anthropic", "google.genai", "httpx", "httpx2", "opentelemetry", "trio", "treadle_openai"}
print(sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_the_names_for_type_checkers_are_the_names() -> None:
    import ast
    from pathlib import Path

    stub = Path(treadle_loop.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    names = {name.asname for node in ast.parse(stub).body if isinstance(node, ast.ImportFrom) for name in node.names}
    assert names == set(treadle_loop.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Agents'"):
        treadle_loop.Agents  # type: ignore[attr-defined]  # noqa: B018


# --- Agent ---------------------------------------------------------------------------------------------


def test_an_agent_runs_a_prompt_to_a_text_or_a_result() -> None:
    agent = Agent([weather], client=FakeClient("one", "two"), system="be brief")
    assert agent.run("a") == "one"
    result = agent.run_result("b", conversation_id="c", correlation_id="d", parent_id="e")
    assert result.text == "two"
    assert agent.client.requests[1].system == "be brief"
    summary = result.summary
    assert (summary.agent_name, summary.conversation_id, summary.correlation_id, summary.parent_id) == (
        "agentloop",
        "c",
        "d",
        "e",
    )
    assert (summary.iteration_limit, summary.deadline_seconds) == (50, 600.0)
    assert agent.client.requests[1].max_tokens == 16_000


def test_an_agent_goes_on_with_a_transcript_in_place() -> None:
    agent = Agent([], client=FakeClient("one", "two"))
    transcript = Transcript()
    transcript.add_user_message("a")
    assert agent.converse(transcript) is transcript
    transcript.add_user_message("b")
    assert agent.converse_result(transcript, conversation_id="x").transcript is transcript
    assert [each.text for each in transcript.messages] == ["a", "one", "b", "two"]


def test_an_agent_is_awaited_too() -> None:
    import asyncio

    import trio

    agent = Agent([], client=FakeClient("one", "two"))
    assert trio.run(agent.run_async, "a") == "one"
    assert asyncio.run(agent.run_async("b")) == "two"


def test_a_label_that_there_is_not_is_refused() -> None:
    with pytest.raises(TypeError, match="run_id"):
        Agent([], client=FakeClient("x")).run("a", run_id="1")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="system"):
        Agent([], client=FakeClient("x")).run("a", system="1")  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("tools", "client", "message"),
    [
        ([HostedTool("web_search")], FakeClient(), "client 'fake' cannot run the hosted tool 'web_search'"),
        (
            [HostedTool("web_search"), ToolSpec("web_search", "d", NOTHING, lambda deps: "")],
            FakeClient(hosted_tools=["web_search"]),
            "a local tool is named 'web_search'",
        ),
        ([len], FakeClient(), "not builtin_function_or_method"),
    ],
)
def test_tools_that_cannot_work_are_refused_when_the_agent_is_built(tools: Any, client: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Agent(tools, client=client)


def test_hosted_tools_go_into_the_request() -> None:
    client = FakeClient("x", hosted_tools=["web_search"])
    hosted = HostedTool("web_search", {"max_uses": 2})
    Agent([hosted, weather], client=client).run("a")
    assert client.requests[0].hosted_tools == (hosted,)
    assert client.requests[0].tools == (weather,)


@pytest.mark.parametrize("option", ["trace", "metrics"])
def test_traces_and_metrics_say_which_package_to_install(option: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{option}=True needs .* pip install treadle-otel"):
        Agent([], client=FakeClient(), **{option: True})
    for module in ("tracing", "metrics"):
        with pytest.raises(ImportError, match="pip install treadle-otel"):
            getattr(__import__(f"treadle_loop.{module}", fromlist=["x"]), "configure_tracing")  # noqa: B009


class Closing(FakeClient):
    closed = 0

    def close(self) -> None:
        self.closed += 1


def test_only_a_client_that_the_agent_made_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    given = Closing("x")
    with Agent([], client=given):
        pass
    assert given.closed == 0
    made = Closing("x")
    monkeypatch.setattr("treadle_loop.conversations.agent.build_client", lambda settings, **given: made)
    with Agent.from_env({"OPENROUTER_API_KEY": "k"}, [weather], name="n") as agent:
        assert agent.name == "n"
    assert made.closed == 1
    with pytest.raises(ConfigurationError):
        Agent.from_env({}, [HostedTool("web_search")])
    assert made.closed == 2, "an agent that cannot be built leaves no client behind"


# --- tools ---------------------------------------------------------------------------------------------


def test_a_tool_is_made_of_a_function_with_a_schema_by_hand_and_its_first_paragraph() -> None:
    assert isinstance(weather, ToolSpec)
    assert (weather.name, weather.description, weather.timeout_seconds, weather.parallel_safe) == (
        "weather",
        "What the weather is.",
        None,
        True,
    )
    assert weather.parameters is CITY, "the very object"


def test_name_and_description_may_be_given() -> None:
    made = tool(NOTHING, name="n", description="d", timeout_seconds=3, parallel_safe=False)(lambda: "x")
    assert (made.name, made.description, made.timeout_seconds, made.parallel_safe) == ("n", "d", 3, False)


def test_a_tool_without_a_description_is_refused() -> None:
    def bare() -> str:
        return ""

    with pytest.raises(ValueError, match="tool 'bare' has no description"):
        tool(NOTHING)(bare)
    with pytest.raises(ValueError, match="takes the JSON Schema"):
        tool(bare)  # type: ignore[arg-type]


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_timeout_is_above_zero(seconds: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        handler(print, timeout_seconds=seconds)


def test_dependencies_are_handed_over_and_hidden_from_the_model() -> None:
    class Mine(Deps):
        country: str = "it"

    assert only(call("weather", {"city": "Ulm"}), deps=Mine()).content == "Mine: sun in Ulm"
    assert "Invalid arguments" in only(call("weather", {"city": "Ulm", "deps": 1})).content


def test_a_registry_refuses_two_of_a_name_and_signatures_it_cannot_read() -> None:
    with pytest.raises(ValueError, match="two tools are named 'weather'"):
        Registry([weather, weather])
    with pytest.raises(ValueError, match="signature of tool 'f' cannot be read"):
        Registry([handler(type)])


def test_a_registry_has_tools_signatures_names_and_schemas() -> None:
    registry = Registry([weather])
    assert registry.get("weather") is weather
    assert registry.get("other") is None
    assert list(registry.signature("weather").parameters) == ["deps", "city"]
    assert registry.names() == ["weather"]
    assert registry.schemas()[0].parameters is CITY


def test_a_frozen_tool_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        weather.name = "x"  # type: ignore[misc]


# --- the executor's table ------------------------------------------------------------------------------


def test_arguments_that_are_no_json_go_back_with_their_text_and_the_handler_does_not_run() -> None:
    ran: list[int] = []
    bad = call("f", raw_arguments='{"a": ', parse_error="Expecting value")
    result = only(bad, tools=[handler(lambda deps: ran.append(1))])
    assert result.is_error
    assert '{"a": ' in result.content
    assert "Expecting value" in result.content
    assert "Re-issue the call with valid JSON" in result.content
    assert not ran


def test_an_unknown_tool_is_answered_with_the_names_and_has_no_name_for_observers() -> None:
    observer = ListObserver()
    result = only(call("wether"), observer=observer)
    assert result.is_error
    assert result.content == "Error: there is no tool 'wether'. The tools are: weather."
    assert result.tool_name == "wether"
    assert [payload.tool_name for kind, payload in observer.events if kind == "tool_start"] == ["<unregistered>"]


def test_before_tool_may_deny() -> None:
    asked: list[str] = []

    def only_ulm(each: ToolCallPart) -> str | None:
        asked.append(each.tool_name)
        return None if each.arguments["city"] == "Ulm" else "not there"

    deps = Deps(before_tool=only_ulm)
    denied, allowed = results(call("weather", {"city": "Rom"}), call("weather", {"city": "Ulm"}, "c2"), deps=deps)
    assert (denied.content, denied.is_error) == ("Denied: not there", True)
    assert (allowed.content, allowed.is_error) == ("Deps: sun in Ulm", False)
    assert asked == ["weather", "weather"]


def test_before_tool_that_raises_denies_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_: ToolCallPart) -> None:
        raise RuntimeError("secret")

    result = only(call("weather", {"city": "Ulm"}), deps=Deps(before_tool=broken))
    assert result.is_error
    assert "approval hook failed" in result.content
    assert "secret" not in result.content
    assert "secret" in caplog.text


def test_the_executor_needs_before_tool_and_nothing_else() -> None:
    class Bare:
        before_tool = staticmethod(allow_all)

    assert isinstance(Bare(), ToolDeps)
    assert only(call("weather", {"city": "Ulm"}), deps=Bare()).content == "Bare: sun in Ulm"
    assert allow_all(call("weather")) is None


@pytest.mark.parametrize("arguments", [{}, {"city": "Ulm", "more": 1}])
def test_arguments_that_do_not_bind_go_back(arguments: dict[str, Any]) -> None:
    result = only(call("weather", arguments))
    assert result.is_error
    assert result.content.startswith("Invalid arguments for 'weather': ")
    assert '"required": ["city"]' in result.content


def test_a_tool_whose_time_is_up_is_told_as_unknown_and_its_thread_left_alone() -> None:
    release = threading.Event()
    result = only(call("f"), tools=[handler(lambda deps: release.wait(30), timeout_seconds=0.05)])
    left = [each for each in threading.enumerate() if each.name == "treadle-tool-f"]
    assert result.is_error
    assert "timed out after 0.05 s; the outcome is unknown" in result.content
    assert [each.daemon for each in left] == [True]
    release.set()
    left[0].join()


def test_a_tool_within_its_time_leaves_no_thread() -> None:
    assert only(call("f"), tools=[handler(lambda deps: "x", timeout_seconds=30)]).content == "x"
    assert not [each for each in threading.enumerate() if each.name.startswith("treadle-tool")]


def test_a_tool_error_is_told_by_its_text() -> None:
    import treadle

    def fails(deps: Any) -> None:
        raise ToolError("no such city")

    def fails_like_the_kernels(deps: Any) -> None:
        raise treadle.ToolError("no such town")

    assert only(call("f"), tools=[handler(fails)]).content == "Error: no such city"
    assert only(call("f"), tools=[handler(fails_like_the_kernels)]).content == "Error: no such town"


def test_any_other_exception_is_told_by_type_and_text_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fails(deps: Any) -> None:
        raise KeyError("x")

    result = only(call("f"), tools=[handler(fails)])
    assert (result.content, result.is_error) == ("Error: KeyError: 'x'", True)
    (record,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert record.exc_info is not None


@pytest.mark.parametrize("timeout", [None, 30])
def test_a_tool_that_calls_sys_exit_has_failed_and_the_others_answer(timeout: float | None) -> None:
    leaves = handler(lambda deps: sys.exit(3), timeout_seconds=timeout)
    first, second = results(call("f"), call("weather", {"city": "Ulm"}, "c2"), tools=[leaves, weather])
    assert (first.content, first.is_error) == ("Error: SystemExit: 3", True)
    assert second.content == "Deps: sun in Ulm"
    denied = only(call("weather", {"city": "Ulm"}), deps=Deps(before_tool=lambda _: sys.exit(3)))
    assert "approval hook failed" in denied.content


@pytest.mark.parametrize("kind", ["plain", "async", "nursery", "hook"])
def test_a_tool_that_calls_sys_exit_has_failed_on_trio_too(kind: str) -> None:
    import trio

    async def leaves(deps: Any) -> None:
        sys.exit(3)

    async def leaves_a_nursery(deps: Any) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(leaves, deps)

    async def main() -> list[ToolResultPart]:
        client = FakeClient(ModelResponse(content=[call("f")]), "done")
        functions = {"plain": lambda deps: sys.exit(3), "async": leaves, "nursery": leaves_a_nursery}
        hook = (lambda _: sys.exit(3)) if kind == "hook" else allow_all
        tools = [handler(functions.get(kind, leaves))]
        agent = Agent(client=client, tools=tools, deps=Deps(before_tool=hook))
        await agent.run_async("go")
        return list(client.requests[1].messages[-1].tool_results)

    (result,) = trio.run(main)
    assert result.is_error
    said = "the approval hook failed" if kind == "hook" else "Error: SystemExit: 3"
    assert said in result.content


@pytest.mark.parametrize(("value", "text"), [(3, "3"), (None, "None"), ({"a": 1}, "{'a': 1}"), ("ü", "ü")])
def test_what_a_tool_gives_becomes_text(value: Any, text: str) -> None:
    assert only(call("f"), tools=[handler(lambda deps: value)]).content == text


def test_results_are_in_the_order_of_the_calls_and_one_for_each() -> None:
    def late(deps: Any, n: int) -> int:
        time.sleep(0.02 * (3 - n))
        return n

    calls = [call("f", {"n": n}, f"c{n}") for n in range(3)]
    found = results(*calls, tools=[handler(late)])
    assert [(each.call_id, each.content) for each in found] == [("c0", "0"), ("c1", "1"), ("c2", "2")]


@pytest.mark.parametrize(("count", "parallel", "most"), [(12, True, 8), (3, True, 3), (3, False, 1)])
def test_up_to_eight_run_at_once_and_one_after_another_where_one_may_not(count: int, parallel: bool, most: int) -> None:
    lock, running, seen = threading.Lock(), [0], [0]
    all_there = threading.Barrier(most)

    def busy(deps: Any) -> None:
        with lock:
            running[0] += 1
            seen[0] = max(seen[0], running[0])
        if most > 1 and seen[0] < most:
            all_there.wait(10)
        with lock:
            running[0] -= 1

    results(*(call("f", call_id=f"c{n}") for n in range(count)), tools=[handler(busy, parallel_safe=parallel)])
    assert seen[0] == most


def test_a_tool_in_a_thread_has_the_context_of_the_conversation() -> None:
    import contextvars

    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    variable.set("set")
    found = results(call("f", call_id="a"), call("f", call_id="b"), tools=[handler(lambda deps: variable.get())])
    assert [each.content for each in found] == ["set", "set"]


@pytest.mark.parametrize("is_async", [False, True])
def test_the_table_holds_on_trio_too(is_async: bool) -> None:
    import trio

    async def slow(deps: Any) -> None:
        await trio.sleep(10)

    async def fails(deps: Any) -> None:
        raise ToolError("no")

    def plain(deps: Any) -> str:
        return "plain"

    async def approve(each: ToolCallPart) -> str | None:
        return "never" if each.tool_name == "denied" else None

    tools = [
        ToolSpec("slow", "d", NOTHING, slow, timeout_seconds=0.01),
        ToolSpec("fails", "d", NOTHING, fails),
        ToolSpec("plain", "d", NOTHING, plain, parallel_safe=not is_async),
        ToolSpec("denied", "d", NOTHING, plain),
    ]
    names = ["slow", "fails", "plain", "denied", "nope"]
    found = results(*(call(name, call_id=name) for name in names), tools=tools, deps=Deps(before_tool=approve))
    assert [each.call_id for each in found] == names
    assert "outcome is unknown" in found[0].content
    assert [each.content for each in found[1:4]] == ["Error: no", "plain", "Denied: never"]
    assert "there is no tool 'nope'" in found[4].content


# --- hosted tools --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("code", {}, "there is no hosted tool 'code'; there is web_search"),
        ("web_search", {"domains": []}, "has no option domains"),
        ("web_search", {"allowed_domains": ["a"], "blocked_domains": ["b"]}, "exclude each other"),
    ],
)
def test_hosted_tools_that_there_are_not_are_refused(kind: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        HostedTool(kind, options)


def test_the_options_of_a_search_are_these() -> None:
    options = {"allowed_domains": ["a"], "max_uses": 1, "user_location": {}, "dynamic_filtering": True}
    assert HostedTool("web_search", {**options, "search_context_size": "low"}).kind == "web_search"
    assert HostedTool("web_search").options == {}


def test_summary_options_reach_the_summary_of_an_agent() -> None:
    agent = Agent([], client=FakeClient("x"), summary_options=SummaryOptions(timeline=True))
    assert len(agent.run_result("a").summary.timeline) == 1


@pytest.mark.parametrize("make", [lambda tools: Agent(tools, client=FakeClient("x")), Registry])
def test_a_tool_of_workflows_is_refused_with_the_name_of_the_right_one(make: Any) -> None:
    @treadle.tool(effect="pure")
    def weather(city: str) -> str:
        """The weather of a city."""
        return city

    for wrong, what in ((weather, "the @treadle.tool 'weather' of workflows"), (len, "builtin_function_or_method")):
        with pytest.raises(ConfigurationError) as caught:
            make([wrong])
        assert str(caught.value) == (
            f"a tool of a conversation is what treadle_loop.tool makes, or a ToolSpec, not {what}; put "
            "@treadle_loop.tool({...}) with the schema of its arguments above the function"
        )


# --- arguments of the wrong kind --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("begin", "message"),
    [
        (lambda: Agent(5, client=FakeClient("x")), "tools come as a list, not as int"),  # type: ignore[arg-type]
        (
            lambda: Agent(weather, client=FakeClient("x")),  # type: ignore[arg-type]
            "tools come as a list, not as one tool; write [...] around it",
        ),
        (lambda: Registry(None), "tools come as a list, not as NoneType"),  # type: ignore[arg-type]
        (
            lambda: Agent([], client=FakeClient("x"), deps=5),
            "deps have the method before_tool(call), which Deps has; int has none",
        ),
        (
            lambda: run_conversation(Transcript(), FakeClient("x"), Registry([]), 5),
            "deps have the method before_tool(call), which Deps has; int has none",
        ),
        (
            lambda: Agent([], client=FakeClient("x"), max_iterations="4").run("go"),  # type: ignore[arg-type]
            "max_iterations is a whole number, not str",
        ),
        (
            lambda: treadle_loop.Settings.from_env(None),  # type: ignore[arg-type]
            "from_env takes a mapping such as os.environ, not NoneType",
        ),
        (lambda: treadle_loop.build_client({}), "build_client takes Settings(...), not dict"),  # type: ignore[arg-type]
    ],
)
def test_an_argument_of_the_wrong_kind_is_named(begin: Any, message: str) -> None:
    with pytest.raises(TypeError) as caught:
        begin()
    assert str(caught.value) == message
