"""Several candidates for one request: who they are, in what order they are asked, and what is told of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
import trio
from engine_doubles import (
    Recorder,
    RecordingJournal,
    act,
    acting,
    asking,
    flow,
    heard,
    provider_of,
    request,
    response,
    run,
)
from hypothesis import given
from hypothesis import strategies as st

import treadle
from treadle import Host, Settings
from treadle.contracts.events import ModelCallFailed, ModelCallFinished, ModelCallStarted, RunWarning, TextEmitted
from treadle.contracts.offers import LayerOffer, Offer, ProviderOffer
from treadle.contracts.provider import Features
from treadle.errors import (
    BadRequestError,
    CredentialError,
    ProviderError,
    RateLimitError,
    UnavailableError,
    UnsupportedError,
)
from treadle.hookspecs import hookimpl
from treadle.messages import Completed, EmbedRequest, ModelRequest, OutputSchema, TextDelta, ToolSpec

TOOLS = (ToolSpec(name="t"),)


def lab(
    providers: Mapping[str, Any],
    entries: Mapping[str, Any],
    behaviour: Any,
    layers: Mapping[str, LayerOffer] | None = None,
    announced: Sequence[ModelRequest] = (),
    **settings: Any,
) -> Host:
    """A host of these provider classes, with these entries under ``providers:``; the first one is the default."""

    def hook(name: str, offers: Mapping[str, Offer]) -> Any:
        def implementation() -> Mapping[str, Offer]:
            return offers

        implementation.__name__ = name
        return hookimpl(implementation)

    plugin = ModuleType("lab")
    step = type("Announcing", (acting({"a": behaviour}),), {"model_requests": lambda self, config: announced})
    first = next(iter(providers))
    offers = {
        name: ProviderOffer(each, "x", default_model=f"{name}-default", is_default=name == first)
        for name, each in providers.items()
    }
    vars(plugin)["treadle_providers"] = hook("treadle_providers", offers)
    vars(plugin)["treadle_step_types"] = hook("treadle_step_types", {"act": Offer(step, "x")})
    vars(plugin)["treadle_provider_layers"] = hook("treadle_provider_layers", layers or {})
    return Host.of({"lab": plugin}, settings=Settings.model_validate({"providers": entries, **settings}))


async def ask(
    providers: Mapping[str, Any],
    entries: Mapping[str, Any],
    behaviour: Any = None,
    *,
    config: Mapping[str, Any] | None = None,
    layers: Mapping[str, LayerOffer] | None = None,
    **settings: Any,
) -> tuple[Any, Recorder, RecordingJournal]:
    """Run one step that asks once, for model ``m``: the run's result, its events, its journal."""
    recorder, journal = Recorder(), RecordingJournal()
    host = lab(providers, entries, behaviour or asking(model="m"), layers, **settings)
    result = await run(flow(host, act("a"), config=config or {}), observers=[recorder], journal=journal)
    return result, recorder, journal


def answering(name: str, **attributes: Any) -> Any:
    """A provider that answers with its own name, after a first word where it is streamed."""

    async def answer(request):
        await trio.lowlevel.checkpoint()
        if request.stream:
            yield TextDelta(name)
        yield Completed(response(name, provider=name, model=request.model))

    return provider_of(answer, **attributes)


def raising(make: Callable[[], Exception], **attributes: Any) -> Any:
    """A provider that fails before its first event."""

    async def answer(request):
        await trio.lowlevel.checkpoint()
        raise make()
        yield

    return provider_of(answer, **attributes)


def down(name: str, *, cost: float | None = 0.0, **fields: Any) -> Any:
    return raising(lambda: UnavailableError("down", provider=name, **{"request_sent": False, **fields}), cost=cost)


def locked(name: str) -> Any:
    """A provider that cannot be opened: its key is missing."""

    async def enter(self):
        raise CredentialError(f"{name} has no key", hint="set KEY")

    return answering(name, __aenter__=enter)


def only(*models: str) -> Any:
    return lambda self, model: model in models


def asked(providers: Mapping[str, Any]) -> dict[str, list[str]]:
    """The models that each provider was asked for."""
    return {
        name: [each.model for each in provider.requests] for name, provider in providers.items() if provider.requests
    }


# --- who is a candidate ---------------------------------------------------------------------------


@pytest.mark.parametrize("entries", [{}, {"a": {}, "b": {}}, {"mine": {"kind": "b"}}])
async def test_without_marks_in_the_settings_nobody_but_the_runs_provider_is_asked(entries):
    providers = {"a": down("a"), "b": answering("b")}
    result, _, _ = await ask(providers, entries)
    assert result.step_results["a"].error == "down"
    assert asked(providers) == {"a": ["m"]}


@pytest.mark.parametrize(
    ("entries", "config", "order"),
    [
        ({"b": {"priority": 0}}, {}, "ab"),
        ({"b": {"priority": 2}, "c": {"priority": 1}}, {}, "acb"),
        ({"b": {"priority": 1}, "c": {"priority": 1}}, {}, "abc"),
        ({"c": {"priority": 1}, "b": {"priority": 1}}, {}, "acb"),
        ({"b": {"priority": -5}}, {}, "ab"),
        ({"b": {"fallback": True}, "c": {"priority": 9}}, {}, "acb"),
        ({"b": {"fallback": True, "priority": 2}, "c": {"fallback": True, "priority": 1}}, {}, "acb"),
        ({"b": {"models": ["m"]}}, {}, "b"),
        ({"b": {"models": ["n"]}}, {}, "a"),
        ({"b": {"models": ["m"], "priority": 2}, "c": {"models": ["m"], "priority": 1}}, {}, "cb"),
        ({"b": {"models": ["m"], "priority": 1}, "c": {"models": ["m"]}}, {}, "cb"),
        ({"a": {"models": ["m"], "priority": 2}, "c": {"models": ["m"], "priority": 1}}, {}, "ca"),
        ({"b": {"models": ["m"]}, "c": {"priority": 1}}, {}, "b"),
        ({"b": {"models": ["m"]}, "c": {"fallback": True}}, {}, "bc"),
        ({"b": {"models": ["m"], "fallback": True}}, {}, "ab"),
        ({"b": {"models": ["m"]}, "c": {"models": ["m"], "priority": 1}}, {"provider": "a"}, "abc"),
        ({"b": {"models": ["m"]}, "c": {"models": ["m"], "priority": 1}}, {"provider": "c"}, "cb"),
        ({"a": {"fallback": True}, "b": {"fallback": True}}, {}, "ab"),
        ({"a": {"models": ["m"], "fallback": True}, "b": {"models": ["m"]}}, {}, "ba"),
        ({"a": {"priority": 3}, "b": {"priority": 1}}, {}, "ab"),
        ({"a": {"models": ["n"]}, "c": {"priority": 1}}, {}, "c"),
        ({"a": {"models": ["n"]}}, {}, "a"),
        ({"a": {"models": ["n"]}, "b": {"models": ["m"]}}, {"provider": "a"}, "b"),
    ],
)
async def test_the_order_of_candidates(entries, config, order):
    tried = []

    def failing(name):
        async def answer(request):
            tried.append(name)
            raise UnavailableError("down", provider=name)
            yield

        return provider_of(answer)

    await ask({name: failing(name) for name in "abc"}, entries, config=config)
    assert "".join(tried) == order


async def test_a_provider_that_says_it_has_not_the_model_is_no_candidate():
    providers = {
        "a": answering("a", supports_model=only("x")),
        "b": answering("b", supports_model=only("y")),
        "c": answering("c", supports_model=only("m")),
    }
    result, recorder, _ = await ask(providers, {"b": {"priority": 1}, "c": {"priority": 2}})
    assert result.step_results["a"].output == "c"
    assert heard(recorder, RunWarning) == [], "nobody had to stand in"
    assert [each.log for each in providers.values()] == [[], [], ["opened", "closed"]], "the others were not opened"


async def test_a_double_stands_alone():
    providers = {
        "a": raising(lambda: BadRequestError("no reply", provider="a"), stands_alone=True),
        "b": answering("b"),
    }
    result, _, _ = await ask(providers, {"b": {"fallback": True}})
    assert result.step_results["a"].error == "no reply"
    assert asked(providers) == {"a": ["m"]}


async def test_several_entries_of_one_kind_are_candidates_of_their_own():
    names = []

    def exchange(self, request):
        names.append(self.name)
        return super(kind, self).exchange(request)

    kind = type("Named", (down("a"),), {"exchange": exchange})
    await ask({"a": kind}, {"two": {"kind": "a", "priority": 1}, "one": {"kind": "a", "fallback": True}})
    assert names == ["a", "two", "one"]


async def test_an_entry_that_an_alias_replaces_is_no_candidate():
    providers = {"a": down("a"), "b": answering("b")}
    await ask(providers, {"b": {"priority": 1}}, aliases={"providers": {"b": "a"}})
    assert asked(providers) == {"a": ["m"]}


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ({}, "provider 'a' cannot take this request: it has no tools"),
        ({"b": {"fallback": True}}, None),
        ({"b": {"fallback": True, "models": ["n"], "fallback_model": "n"}}, None),
        ({"b": {"models": ["n"]}}, "provider 'a' cannot take this request: it has no tools"),
        ({"c": {"fallback": True}}, "provider 'a' cannot take this request: it has no tools"),
        ({"b": {"fallback": True, "default_model": 5}}, "provider 'a' cannot take this request: it has no tools"),
    ],
)
async def test_a_check_before_the_run_knows_the_candidates(entries, problem):
    providers = {
        "a": answering("a", features=Features()),
        "b": answering("b"),
        "c": answering("c", features=Features()),
    }
    host = lab(providers, entries, asking(), announced=[request(model="m", tools=TOOLS)])
    if problem is None:
        flow(host, act("a"))
    else:
        with pytest.raises(treadle.DocumentError) as caught:
            flow(host, act("a"))
        assert [each.message for each in caught.value.problems if each.code == "refused-request"] == [problem]


# --- the model of a fallback ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "supported", "model"),
    [
        ({"fallback_model": "x"}, ("m",), "x"),
        ({}, ("m",), "m"),
        ({}, (), "b-default"),
        ({"default_model": "set"}, (), "set"),
        ({"models": ["n"]}, ("m",), "b-default"),
    ],
)
async def test_a_fallback_is_asked_for_a_model_that_it_has(entry, supported, model):
    providers = {"a": down("a"), "b": answering("b", supports_model=only(*supported))}
    result, recorder, _ = await ask(
        providers, {"b": {"fallback": True, **entry}}, asking(model="m", max_tokens=7, temperature=0.5)
    )
    (sent,) = providers["b"].requests
    assert (sent.model, sent.max_tokens, sent.temperature) == (model, 7, 0.5)
    step = result.step_results["a"]
    assert (step.output, step.provider, step.model) == ("b", "b", model)
    assert heard(recorder, ModelCallStarted)[1].request.model == model


async def test_a_fallback_without_any_model_is_passed_over():
    providers = {"a": down("a"), "b": answering("b", supports_model=only())}
    host = lab(providers, {"b": {"fallback": True}}, asking(model="m"))
    offer = host.registry.all("provider")["b"].offer
    object.__setattr__(offer, "default_model", None)
    result = await run(flow(host, act("a")))
    assert result.step_results["a"].error == (
        "none of 2 providers answered: provider 'a' with model 'm' failed: UnavailableError: down; "
        "provider 'b' cannot take this request: it has no model 'm', and no fallback_model is set for it"
    )


async def test_a_request_without_a_model_means_the_default_of_the_runs_provider():
    providers = {"a": down("a"), "b": answering("b")}
    await ask(providers, {"b": {"fallback": True}}, asking())
    assert asked(providers) == {"a": ["a-default"], "b": ["a-default"]}


# --- who answers ----------------------------------------------------------------------------------


async def test_what_is_told_of_a_fallback():
    providers = {"a": down("a", request_sent=True, cost=None), "b": answering("b", cost=0.5)}
    result, recorder, journal = await ask(providers, {"b": {"fallback": True, "fallback_model": "x"}})
    step = result.step_results["a"]
    assert (step.output, step.provider, step.model) == ("b", "b", "x")
    assert (step.cost_usd, step.usage.total_tokens) == (None, None), "the first one may have cost something"
    assert [each.message for each in heard(recorder, RunWarning)] == [
        "provider 'b' with model 'x' answers instead: provider 'a' with model 'm' failed: UnavailableError: down"
    ]
    assert recorder.told() == [
        "RunStarted", "StepStarted a", "ModelCallStarted a", "ModelCallFailed a", "ModelCallStarted a",
        "ModelCallFinished a", "RunWarning a", "StepFinished a", "RunFinished",
    ]  # fmt: skip
    assert [each.provider for each in heard(recorder, ModelCallStarted)] == ["a", "b"]
    assert heard(recorder, ModelCallFailed)[0].provider == "a"
    assert heard(recorder, ModelCallFinished)[0].response.provider == "b"
    calls = [each for each in journal.kept if each.kind.startswith("model_call")]
    assert [(each.kind, each.attempt, each.ordinal) for each in calls] == [
        ("model_call_started", 1, 1), ("model_call_finished", 1, 1),
        ("model_call_started", 1, 2), ("model_call_finished", 1, 2),
    ]  # fmt: skip
    assert [each.data.get("provider") for each in calls] == ["a", None, "b", None]


async def test_an_attempt_that_cost_nothing_leaves_the_cost_known():
    result, _, _ = await ask({"a": down("a"), "b": answering("b", cost=0.5)}, {"b": {"fallback": True}})
    assert (result.total_cost_usd, result.total_tokens) == (0.5, 15)


async def test_who_lacks_what_is_needed_is_passed_over_unopened():
    providers = {"a": answering("a", features=Features()), "b": answering("b")}
    result, recorder, journal = await ask(providers, {"b": {"fallback": True}}, asking(model="m", tools=TOOLS))
    assert result.step_results["a"].output == "b"
    assert (providers["a"].requests, providers["a"].log) == ([], [])
    assert [each.provider for each in heard(recorder, ModelCallStarted)] == ["b"]
    assert [each.ordinal for each in journal.kept if each.kind == "model_call_started"] == [1]
    assert [each.message for each in heard(recorder, RunWarning)] == [
        "provider 'b' with model 'm' answers instead: provider 'a' cannot take this request: it has no tools"
    ]


async def test_who_cannot_be_opened_is_passed_over():
    providers = {"a": locked("a"), "b": answering("b")}
    result, recorder, _ = await ask(providers, {"b": {"fallback": True}})
    assert result.step_results["a"].output == "b"
    assert [each.message for each in heard(recorder, RunWarning)] == [
        (
            "provider 'b' with model 'm' answers instead: provider 'a' with model 'm' failed: "
            "CredentialError: a has no key; set KEY"
        )
    ]


async def test_a_candidate_with_wrong_settings_is_passed_over():
    providers = {"a": down("a"), "b": answering("b"), "c": answering("c")}
    result, recorder, _ = await ask(providers, {"b": {"priority": 1, "default_model": 5}, "c": {"fallback": True}})
    assert result.step_results["a"].output == "c"
    assert "setting 'default_model' of provider 'b'" in heard(recorder, RunWarning)[0].message


async def test_a_fault_of_a_provider_is_no_reason_to_ask_another():
    providers = {"a": raising(lambda: KeyError("bug")), "b": answering("b")}
    result, _, _ = await ask(providers, {"b": {"fallback": True}})
    assert result.step_results["a"].error == "KeyError: 'bug'"
    assert asked(providers) == {"a": ["m"]}


async def test_whether_a_reply_is_streamed_is_asked_of_each():
    providers = {"a": down("a"), "b": answering("b", features=Features())}
    await ask(providers, {"b": {"fallback": True}}, asking(model="m", stream=True))
    assert [each.stream for name in "ab" for each in providers[name].requests] == [True, False]


async def test_what_a_workflow_sets_for_its_provider_is_not_sent_along():
    settings = []

    class Keeping(answering("a")):  # type: ignore[misc]
        def exchange(self, request):
            settings.append((self.name, self.settings.default_model))
            if self.name == "a":
                raise UnavailableError("down", provider="a")
            return super().exchange(request)

    host = lab({"a": Keeping}, {"b": {"kind": "a", "fallback": True}}, asking(model="m"))
    async with treadle.open(host=host) as session:
        started = session.start(flow(host, act("a")))
        started.gateway._overrides = {"a": {"default_model": "mine"}}
        assert (await started.execute()).ok
    assert settings == [("a", "mine"), ("b", None)]


# --- streams --------------------------------------------------------------------------------------


async def test_a_stream_falls_back_before_its_first_piece(autojump_clock):
    async def slow(request):
        await trio.sleep(5)
        raise UnavailableError("late", provider="a")
        yield

    result, recorder, _ = await ask(
        {"a": provider_of(slow), "b": answering("b")}, {"b": {"fallback": True}}, asking(model="m", stream=True)
    )
    assert result.step_results["a"].output == "b"
    assert [each.text for each in heard(recorder, TextEmitted)] == ["b"]


async def test_a_stream_that_has_begun_ends_with_its_own_error():
    error = UnavailableError("cut", provider="a")

    async def cut(request):
        yield TextDelta("half")
        raise error

    caught = []

    async def behave(ctx):
        try:
            await ctx.complete(request(stream=True, model="m"))
        except UnavailableError as raised:
            caught.append(raised)

    providers = {"a": provider_of(cut), "b": answering("b")}
    _, recorder, _ = await ask(providers, {"b": {"fallback": True}}, behave)
    assert caught == [error]
    assert providers["b"].requests == []
    assert [each.text for each in heard(recorder, TextEmitted)] == ["half"]


async def test_with_one_candidate_entering_waits_for_nothing(autojump_clock):
    async def never(request):
        await trio.sleep_forever()
        yield

    async def behave(ctx):
        with trio.fail_after(1):
            async with ctx.exchange(request(model="m")):
                return "entered"

    result, _, _ = await ask({"a": provider_of(never)}, {}, behave)
    assert result.step_results["a"].output == "entered"


async def test_an_error_of_the_step_itself_asks_nobody_else():
    async def behave(ctx):
        async with ctx.exchange(request(model="m")):
            raise UnavailableError("mine", provider="x")

    providers = {"a": answering("a"), "b": answering("b")}
    result, _, _ = await ask(providers, {"b": {"fallback": True}}, behave)
    assert result.step_results["a"].error == "mine"
    assert providers["b"].requests == []


@pytest.mark.parametrize("scope", ["call", "candidate"])
async def test_the_first_word_is_timed_from_the_attempt_that_it_is_of(autojump_clock, scope):
    async def slow(request):
        await trio.sleep(5)
        raise UnavailableError("late", provider="a")
        yield

    async def word(request):
        await trio.sleep(2)
        yield TextDelta("x")
        yield Completed(response())

    layers = {"telling": LayerOffer(telling("x", []), "x", scope=scope)}
    result, _, _ = await ask(
        {"a": provider_of(slow), "b": provider_of(word)},
        {"b": {"fallback": True}},
        asking(model="m", stream=True),
        layers=layers,
    )
    assert result.step_results["a"].time_to_first_token_ms == pytest.approx(2000)


# --- when all fail --------------------------------------------------------------------------------


async def failure_of(providers: Mapping[str, Any], entries: Mapping[str, Any], **fields: Any) -> Any:
    """What the step sees."""
    caught: list[Any] = []

    async def behave(ctx):
        try:
            await ctx.complete(request(model="m", **fields))
        except Exception as error:
            caught.append(error)

    await ask(providers, entries, behave)
    return caught[0]


async def test_with_one_candidate_its_error_is_the_very_same():
    error = RateLimitError("slow down", provider="a", status_code=429, retry_after=3)
    assert await failure_of({"a": raising(lambda: error)}, {}) is error
    assert await failure_of({"a": raising(lambda: error)}, {"a": {"priority": 1}}) is error


async def test_one_error_lists_every_attempt():
    providers = {"a": down("a"), "b": answering("b", features=Features()), "c": locked("c")}
    error = await failure_of(
        providers, {"b": {"priority": 1}, "c": {"fallback": True, "fallback_model": "x"}}, tools=TOOLS
    )
    assert type(error) is ProviderError
    assert str(error) == (
        "none of 3 providers answered: provider 'a' with model 'm' failed: UnavailableError: down; "
        "provider 'b' cannot take this request: it has no tools; "
        "provider 'c' with model 'x' failed: CredentialError: c has no key; set KEY"
    )
    assert (error.provider, error.transient) == ("a", True)
    assert type(error.__cause__) is CredentialError


async def test_when_all_refuse_the_error_says_that_the_request_cannot_be_taken():
    providers = {name: answering(name, features=Features()) for name in "ab"}
    error = await failure_of(providers, {"b": {"priority": 1}}, output=OutputSchema(name="o"))
    assert type(error) is UnsupportedError
    assert str(error) == (
        "no provider can take this request: "
        "provider 'a' cannot take this request: it has no replies held to JSON; "
        "provider 'b' cannot take this request: it has no replies held to JSON"
    )
    assert error.transient is False


@pytest.mark.parametrize(
    ("errors", "transient", "retry_after", "status_code"),
    [
        ([RateLimitError("x", provider="p", status_code=429, retry_after=9),
          RateLimitError("x", provider="p", status_code=429, retry_after=4)], True, 4, 429),
        ([RateLimitError("x", provider="p", status_code=429, retry_after=9),
          UnavailableError("x", provider="p", status_code=503)], True, None, None),
        ([RateLimitError("x", provider="p", status_code=429, retry_after=9),
          BadRequestError("x", provider="p", status_code=400)], True, 9, None),
        ([RateLimitError("x", provider="p", status_code=429, retry_after=9), CredentialError("x")], True, 9, 429),
        ([UnavailableError("x", provider="p"), BadRequestError("x", provider="p", status_code=400)], True, None, 400),
        ([BadRequestError("x", provider="p", status_code=400),
          BadRequestError("x", provider="p", status_code=400)], False, None, 400),
        ([BadRequestError("x", provider="p"), CredentialError("x")], False, None, None),
        ([BadRequestError("x", provider="p", retry_after=1),
          UnavailableError("x", provider="p", retry_after=0)], True, 0, None),
    ],
)  # fmt: skip
async def test_whether_and_when_to_try_again(errors, transient, retry_after, status_code):
    providers = {name: raising(lambda error=error: error) for name, error in zip("ab", errors, strict=True)}
    error = await failure_of(providers, {"b": {"fallback": True}})
    assert (error.transient, error.retry_after, error.status_code) == (transient, retry_after, status_code)


# --- layers ---------------------------------------------------------------------------------------


def telling(name: str, log: list[str]) -> Any:
    class Layer:
        @asynccontextmanager
        async def exchange(self, request, proceed):
            log.append(f"{name} in {request.model}")
            try:
                async with proceed(request) as events:
                    yield events
            finally:
                log.append(f"{name} out")

    return Layer


async def test_layers_of_a_candidate_stand_around_each_attempt_and_those_of_the_call_around_all():
    log: list[str] = []
    layers = {
        "each": LayerOffer(telling("each", log), "x"),
        "all": LayerOffer(telling("all", log), "x", scope="call"),
    }
    entries = {"b": {"fallback": True, "fallback_model": "n"}}
    result, _, _ = await ask({"a": down("a"), "b": answering("b")}, entries, layers=layers)
    assert result.step_results["a"].output == "b"
    assert log == ["all in m", "each in m", "each out", "each in n", "each out", "all out"]


@pytest.mark.parametrize("stream", [False, True])
async def test_what_a_layer_of_a_candidate_refuses_goes_to_the_next(stream):
    class Breaker:
        @asynccontextmanager
        async def exchange(self, request, proceed):
            if request.model == "m":
                raise UnavailableError("the circuit is open", provider="a", request_sent=False)
            async with trio.open_nursery(), proceed(request) as events:
                yield events

    providers = {"a": answering("a"), "b": answering("b")}
    entries = {"b": {"fallback": True, "fallback_model": "n"}}
    layers = {"breaker": LayerOffer(Breaker, "x")}
    result, _, _ = await ask(providers, entries, asking(model="m", stream=stream), layers=layers)
    assert (result.step_results["a"].output, providers["a"].requests) == ("b", [])


async def test_a_time_limit_of_a_layer_that_swallows_the_call_goes_to_the_next(autojump_clock):
    class Limit:
        @asynccontextmanager
        async def exchange(self, request, proceed):
            with trio.move_on_after(2):
                async with proceed(request) as events:
                    yield events

    async def never(request):
        await trio.sleep_forever()
        yield

    providers = {"a": provider_of(never, cost=None), "b": answering("b")}
    layers = {"limit": LayerOffer(Limit, "x")}
    result, recorder, journal = await ask(providers, {"b": {"fallback": True}}, layers=layers)
    assert (result.step_results["a"].output, providers["a"].open_exchanges) == ("b", 0)
    assert result.total_cost_usd is None, "the first one may have cost something"
    finished = [each for each in journal.kept if each.kind == "model_call_finished"]
    assert [list(each.data) for each in finished] == [["error", "may_have_cost"], ["response"]]
    assert "the reply of provider 'a' ended before it was complete" in heard(recorder, RunWarning)[0].message


async def test_an_answer_of_a_layer_of_the_call_is_counted_and_journalled_once():
    class Cache:
        @asynccontextmanager
        async def exchange(self, request, proceed):
            async def events():
                yield Completed(response("kept", model="old", provider="b"))

            yield events()

    providers = {"a": answering("a", cost=0.25)}
    result, recorder, journal = await ask(providers, {}, layers={"cache": LayerOffer(Cache, "x", scope="call")})
    step = result.step_results["a"]
    assert (step.output, step.model, step.provider, step.cost_usd) == ("kept", "old", "b", 0.25)
    assert providers["a"].requests == []
    assert result.total_tokens == 15
    assert len(heard(recorder, ModelCallStarted)) == len(heard(recorder, ModelCallFinished)) == 1
    assert [fact for fact in journal.facts() if "model" in fact] == ["model_call_started a", "model_call_finished a"]


async def test_an_answer_that_a_layer_of_the_call_changes_is_counted_once():
    class Shout:
        @asynccontextmanager
        async def exchange(self, request, proceed):
            async with trio.open_nursery(), proceed(replace(request, model="other")) as source:

                async def events():
                    async for event in source:
                        yield Completed(response(event.response.text.upper()))

                yield events()

    providers = {"a": answering("a", cost=0.25)}
    layers = {"shout": LayerOffer(Shout, "x", scope="call")}
    result, _, journal = await ask(providers, {}, layers=layers)
    assert (result.step_results["a"].output, result.total_cost_usd, result.total_tokens) == ("A", 0.25, 15)
    assert asked(providers) == {"a": ["other"]}
    assert len([each for each in journal.kept if each.kind == "model_call_finished"]) == 1


async def test_errors_pass_a_layer_of_the_call_out_of_their_groups():
    class Grouping:
        @asynccontextmanager
        async def exchange(self, request, proceed):
            async with trio.open_nursery(), proceed(request) as events:
                yield events

    caught = []

    async def behave(ctx):
        try:
            await ctx.complete(request(model="m"))
        except UnavailableError as error:
            caught.append(str(error))

    await ask({"a": down("a")}, {}, behave, layers={"g": LayerOffer(Grouping, "x", scope="call")})
    assert caught == ["down"]


# --- cancellation ---------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("after", [0.5, 1.5, 2.5, 3.5])
async def test_a_cancelled_call_asks_nobody_else_and_leaves_nothing(autojump_clock, after, stream):
    def slow(name, ends):
        async def answer(request):
            await trio.sleep(1)
            if not ends:
                raise UnavailableError("down", provider=name)
            if request.stream:
                yield TextDelta("x")
            await trio.sleep(2)
            yield Completed(response())

        return provider_of(answer)

    left = []

    async def behave(ctx):
        with trio.move_on_after(after):
            await ctx.complete(request(model="m", stream=stream))
            left.append("finished")

    providers = {"a": slow("a", False), "b": slow("b", True), "c": slow("c", True)}
    result, _, _ = await ask(providers, {name: {"fallback": True} for name in "bc"}, behave)
    assert result.ok
    assert left == []
    assert [each.open_exchanges for each in providers.values()] == [0, 0, 0]
    assert list(asked(providers)) == (["a"] if after < 1 else ["a", "b"])


# --- embeddings -----------------------------------------------------------------------------------


async def test_embeddings_are_not_passed_on():
    async def behave(ctx):
        await ctx.embed(EmbedRequest(model="m", inputs=("x",)))

    async def embed(self, request):
        raise AssertionError("vectors of two models cannot be compared")

    result, _, _ = await ask({"a": answering("a"), "b": answering("b", embed=embed)}, {"b": {"fallback": True}}, behave)
    assert result.step_results["a"].error == "provider 'a' has no embeddings"


# --- the law --------------------------------------------------------------------------------------

_KINDS = ("works", "down", "refuses", "locked", "cut")


@given(kinds=st.lists(st.sampled_from(_KINDS), min_size=2, max_size=5), stream=st.booleans())
def test_the_first_that_works_answers_and_each_before_it_was_tried_once_in_order(kinds, stream):
    """A reply that is cut after its first piece is one that has begun: nobody is asked after it."""
    tried: list[str] = []

    def make(name: str, kind: str) -> Any:
        async def answer(request):
            tried.append(name)
            await trio.lowlevel.checkpoint()
            if kind == "down":
                raise UnavailableError("down", provider=name)
            if request.stream:
                yield TextDelta(name)
            if kind == "cut":
                raise RateLimitError("cut", provider=name)
            yield Completed(response(name, provider=name))

        if kind == "locked":
            return locked(name)
        return provider_of(answer, **({"features": Features(streaming=True)} if kind == "refuses" else {}))

    names = [f"p{n}" for n in range(len(kinds))]
    providers = {name: make(name, kind) for name, kind in zip(names, kinds, strict=True)}
    entries = {name: {"fallback": True} for name in names}
    ending = ("works", "cut") if stream else ("works",)
    last = next((n for n, kind in enumerate(kinds) if kind in ending), None)

    async def main() -> tuple[Any, Recorder, RecordingJournal]:
        return await ask(providers, entries, asking(model="m", stream=stream, tools=TOOLS))

    result, recorder, _ = trio.run(main)
    step = result.step_results["a"]
    reached = kinds if last is None else kinds[: last + 1]
    assert tried == [name for name, kind in zip(names, reached, strict=False) if kind not in ("refuses", "locked")]
    assert [each.provider for each in heard(recorder, ModelCallStarted)] == tried
    assert [each.open_exchanges for each in providers.values()] == [0] * len(kinds)
    if last is None:
        assert step.error.startswith(("none of ", "no provider can take"))
        assert [step.error.count(f"'{name}'") for name in names] == [1] * len(names)
    elif kinds[last] == "cut":
        assert step.error == "cut"
    else:
        assert (step.output, step.provider) == (names[last], names[last])
    assert len(heard(recorder, RunWarning)) == (1 if last else 0), "one where another than the first has answered"
