"""The way of a model call: what is refused, what layers see, what is counted, and what it cost."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import trio
from engine_doubles import (
    DoubleProvider,
    RecordingJournal,
    act,
    ask_once,
    asking,
    flow,
    heard,
    host_of,
    provider_of,
    request,
    response,
    run,
)

import treadle
from treadle.contracts.events import ModelCallFinished, ModelCallStarted, TextEmitted
from treadle.contracts.offers import LayerOffer
from treadle.contracts.provider import Features
from treadle.errors import RateLimitError, UnavailableError
from treadle.messages import (
    Completed,
    EmbedRequest,
    EmbedResponse,
    HostedTool,
    MediaPart,
    OutputSchema,
    ReasoningDelta,
    TextDelta,
    TextPart,
    ToolMessage,
    ToolResultPart,
    ToolSpec,
    Usage,
    UserMessage,
)

# --- plain and streamed ---------------------------------------------------------------------------


async def test_a_plain_reply_is_counted_priced_and_told():
    result, recorder, journal = await ask_once(provider_of(cost=0.25))
    step = result.step_results["a"]
    assert (step.output, step.model, step.provider, step.finish_reason) == ("hello there", "double-1", "double", "stop")
    assert (step.usage.input_tokens, step.usage.output_tokens, step.cost_usd) == (10, 5, 0.25)
    assert step.time_to_first_token_ms is None
    assert (result.total_tokens, result.total_cost_usd) == (15, 0.25)
    assert recorder.told() == [
        "RunStarted", "StepStarted a", "ModelCallStarted a", "ModelCallFinished a", "StepFinished a", "RunFinished",
    ]  # fmt: skip
    assert heard(recorder, ModelCallStarted)[0].provider == "double"
    assert heard(recorder, ModelCallFinished)[0].response.cost_usd == 0.25
    calls = [entry for entry in journal.kept if entry.kind.startswith("model_call")]
    assert [(each.kind, each.step, each.attempt, each.ordinal) for each in calls] == [
        ("model_call_started", "a", 1, 1), ("model_call_finished", "a", 1, 1),
    ]  # fmt: skip
    assert calls[1].data["response"].text == "hello there"


async def test_a_streamed_reply_is_passed_on_word_by_word_and_its_first_word_is_timed(autojump_clock):
    async def slow(request):
        await trio.sleep(1)
        yield ReasoningDelta("hm")
        await trio.sleep(1)
        yield TextDelta("hello")
        await trio.sleep(3)
        yield TextDelta(" there")
        yield Completed(response())

    result, recorder, _ = await ask_once(provider_of(slow), asking(stream=True))
    assert [event.text for event in heard(recorder, TextEmitted)] == ["hello", " there"]
    assert result.step_results["a"].time_to_first_token_ms == pytest.approx(2000)
    assert heard(recorder, ModelCallFinished)[0].seconds == pytest.approx(5)


async def test_a_provider_that_cannot_stream_is_asked_for_the_whole_reply():
    provider = provider_of(features=Features())
    result, _, _ = await ask_once(provider, asking(stream=True))
    assert result.status == "success"
    assert [each.stream for each in provider.requests] == [False]


async def test_a_provider_that_can_stream_is_asked_to():
    provider = provider_of()
    await ask_once(provider, asking(stream=True))
    assert [each.stream for each in provider.requests] == [True]


# --- provider and model ---------------------------------------------------------------------------


async def test_a_request_without_a_model_gets_the_settings_default_or_else_the_offers():
    provider = provider_of()
    _, recorder, _ = await ask_once(provider)
    assert provider.requests[0].model == "offered-model"
    assert heard(recorder, ModelCallStarted)[0].request.model == "offered-model"
    provider = provider_of(default_model=lambda self: "settings-model")
    await ask_once(provider)
    assert provider.requests[0].model == "settings-model"


async def test_a_request_with_a_model_keeps_it():
    provider = provider_of()
    await ask_once(provider, asking(model="mine"))
    assert provider.requests[0].model == "mine"


async def test_without_any_model_the_error_says_how_to_name_one():
    provider = provider_of()
    result, _, _ = await ask_once(provider, default_model=None)
    assert result.step_results["a"].error == (
        "no model is set, and provider 'double' has no default; set config.model, or use -m"
    )
    assert provider.requests == []


async def test_without_any_provider_the_error_says_how_to_get_one():
    result, _, _ = await ask_once(None)
    assert result.step_results["a"].error == (
        "no model provider is set; set config.provider, or use -p; pip install treadle-openai, or another provider"
    )


# --- refused before any request -------------------------------------------------------------------

_IMAGE = MediaPart(type="image", media_type="image/png", data=b"x")
_LINK = MediaPart(type="pdf", url="https://example.org/x.pdf")


@pytest.mark.parametrize(
    ("fields", "lack"),
    [
        ({"tools": (ToolSpec(name="t"),)}, "it has no tools"),
        ({"tool_choice": "required"}, "it has no choice of tools"),
        ({"output": OutputSchema(name="o", schema={"type": "object"})}, "it has no replies held to a JSON schema"),
        ({"output": OutputSchema(name="o")}, "it has no replies held to JSON"),
        ({"hosted_tools": (HostedTool(tool="web_search"),)}, "it has no the hosted tool 'web_search'"),
        ({"messages": (UserMessage(parts=(TextPart(text="x"), _IMAGE)),)}, "it has no attachments of type image"),
        ({"messages": (UserMessage(parts=(_LINK,)),)}, "it has no attachments of type pdf by URL"),
        (
            {"messages": (ToolMessage(results=(
                ToolResultPart(call_id="1", tool_name="t", content="", media=(_IMAGE,)),
            )),)},
            "it has no attachments of type image",
        ),
    ],
)  # fmt: skip
async def test_what_a_provider_does_not_declare_is_refused_before_any_request(fields, lack):
    provider = provider_of(features=Features())
    result, recorder, journal = await ask_once(provider, asking(**fields))
    step = result.step_results["a"]
    assert step.error == f"provider 'double' cannot take this request: {lack}"
    assert step.error_classification == "permanent"
    assert provider.requests == []
    assert heard(recorder, ModelCallStarted) == []
    assert "model_call_started a" not in journal.facts()
    assert (step.cost_usd, step.usage.total_tokens) == (0, 0), "what was never sent cost nothing"


async def test_a_provider_that_declares_attachments_gets_them():
    provider = provider_of(features=Features(media=frozenset({"image"}), media_by_url=frozenset({"pdf"})))
    result, _, _ = await ask_once(provider, asking(messages=(UserMessage(parts=(_IMAGE, _LINK)),)))
    assert result.status == "success"


async def test_a_providers_own_check_is_asked_before_any_request():
    provider = provider_of(check=lambda self, request: ["it is Monday", "it rains"])
    result, _, _ = await ask_once(provider)
    assert result.step_results["a"].error == "provider 'double' cannot take this request: it is Monday; it rains"
    assert provider.requests == []


# --- layers ---------------------------------------------------------------------------------------


def layer(name: str, log: list[str]) -> Any:
    class Layer:
        @asynccontextmanager
        async def exchange(self, request, proceed):
            log.append(f"{name} in")
            async with proceed(request) as events:
                yield events
            log.append(f"{name} out")

    return Layer


async def test_layers_stand_around_the_call_by_scope_and_order():
    log: list[str] = []
    offers = {
        "z-inner": LayerOffer(layer("z-inner", log), "x", scope="candidate", order=5),
        "outer": LayerOffer(layer("outer", log), "x", scope="call", order=9),
        "a-inner": LayerOffer(layer("a-inner", log), "x", scope="candidate", order=5),
        "first": LayerOffer(layer("first", log), "x", scope="candidate", order=1),
    }
    for behaviour in (asking(), asking(stream=True)):
        log.clear()
        await ask_once(provider_of(), behaviour, layers=offers)
        names = ["outer", "first", "a-inner", "z-inner"]
        assert log == [f"{name} in" for name in names] + [f"{name} out" for name in reversed(names)]


async def test_a_layer_may_change_the_request_and_answer_itself():
    class Model:
        @asynccontextmanager
        async def exchange(self, request, proceed):
            async with proceed(replace(request, model="other")) as events:
                yield events

    provider = provider_of()
    await ask_once(provider, layers={"model": LayerOffer(Model, "x")})
    assert provider.requests[0].model == "other"

    class Answer:
        @asynccontextmanager
        async def exchange(self, request, proceed):
            async def events():
                yield Completed(response("mine"))

            yield events()

    provider = provider_of()
    result, _, _ = await ask_once(provider, layers={"answer": LayerOffer(Answer, "x")})
    assert result.step_results["a"].output == "mine"
    assert provider.requests == []


async def test_the_one_error_of_a_layers_nursery_reaches_the_step_as_itself():
    class Grouping:
        @asynccontextmanager
        async def exchange(self, request, proceed):
            async with trio.open_nursery(), proceed(request) as events:
                yield events

    caught = []

    async def answer(request):
        raise RateLimitError("slow down", provider="double", status_code=429)
        yield

    async def behave(ctx):
        try:
            await ctx.complete(request())
        except RateLimitError as error:
            caught.append(str(error))

    await ask_once(provider_of(answer), behave, layers={"grouping": LayerOffer(Grouping, "x")})
    assert caught == ["slow down"]


# --- what it cost ---------------------------------------------------------------------------------


async def test_without_anyone_who_knows_a_price_it_is_unknown_and_never_zero():
    result, recorder, _ = await ask_once(provider_of(cost=None))
    assert result.step_results["a"].cost_usd is None
    assert result.total_cost_usd is None
    assert result.total_tokens == 15
    assert heard(recorder, ModelCallFinished)[0].response.cost_usd is None


async def test_price_sources_are_asked_in_the_order_of_their_names_until_one_knows():
    asked: list[Any] = []

    def source(name: str, price: float | None) -> Any:
        class Source:
            def price(self, **what):
                asked.append((name, what["provider"], what["model"], what["usage"].total_tokens))
                return price

        return Source

    prices = {"b": source("b", 0.5), "a": source("a", None), "c": source("c", 9.0)}
    result, _, _ = await ask_once(provider_of(cost=None), prices=prices)
    assert result.total_cost_usd == 0.5
    assert asked == [("a", "double", "double-1", 15), ("b", "double", "double-1", 15)]


async def test_a_cost_that_the_provider_knows_or_the_response_carries_is_not_asked_for():
    class Source:
        def price(self, **what):
            raise AssertionError("nobody needs to ask")

    result, _, _ = await ask_once(provider_of(cost=0.0), prices={"a": Source})
    assert result.total_cost_usd == 0.0

    async def priced(request):
        yield Completed(response(cost_usd=2.0))

    result, _, _ = await ask_once(provider_of(priced, cost=None), prices={"a": Source})
    assert result.total_cost_usd == 2.0


async def test_one_call_of_unknown_cost_makes_the_sum_unknown():
    costs = iter([1.0, None, 1.0])

    async def answer(request):
        yield Completed(response(cost_usd=next(costs)))

    async def three_times(ctx):
        for _ in range(3):
            await ctx.complete(request())

    result, _, _ = await ask_once(provider_of(answer, cost=None), three_times)
    assert result.step_results["a"].usage.total_tokens == 45
    assert result.step_results["a"].cost_usd is None
    assert result.total_cost_usd is None


async def test_calls_are_numbered_within_their_attempt():
    left = [1]

    async def twice(ctx):
        await ctx.complete(request())
        await ctx.complete(request())
        if left[0]:
            left[0] -= 1
            raise UnavailableError("x", provider="double", retry_after=0)

    journal = RecordingJournal()
    host = host_of({"a": twice}, provider=provider_of())
    await run(flow(host, act("a", retry={"max_retries": 1})), journal=journal)
    calls = [(each.attempt, each.ordinal) for each in journal.kept if each.kind == "model_call_started"]
    assert calls == [(1, 1), (1, 2), (2, 1), (2, 2)]


# --- embeddings -----------------------------------------------------------------------------------


class Embedding(DoubleProvider):
    async def embed(self, request):
        if not request.inputs:
            raise UnavailableError("down", provider="double")
        return EmbedResponse(
            vectors=tuple((1.0,) for _ in request.inputs), usage=Usage(input_tokens=4, output_tokens=0),
            model="e-1", provider="double",
        )  # fmt: skip


async def test_embeddings_are_counted_priced_and_journalled():
    async def embed(ctx):
        return list((await ctx.embed(EmbedRequest(model="e", inputs=("a", "b")))).vectors)

    provider = type("P", (Embedding,), {"cost": 0.125, "log": [], "requests": []})
    result, _, journal = await ask_once(provider, embed)
    step = result.step_results["a"]
    assert step.output == [(1.0,), (1.0,)]
    assert (step.usage.total_tokens, step.cost_usd, step.model, step.provider) == (4, 0.125, "e-1", "double")
    assert [fact for fact in journal.facts() if "model" in fact] == ["model_call_started a", "model_call_finished a"]


async def test_failed_embeddings_are_journalled_and_their_cost_is_unknown():
    async def embed(ctx):
        await ctx.embed(EmbedRequest(model="e", inputs=()))

    provider = type("P", (Embedding,), {"cost": 0.125, "log": [], "requests": []})
    result, _, journal = await ask_once(provider, embed)
    assert result.step_results["a"].cost_usd is None
    finished = [entry.data for entry in journal.kept if entry.kind == "model_call_finished"]
    assert finished == [{"error": "UnavailableError: down", "may_have_cost": True}]


async def test_a_provider_without_embeddings_refuses_them():
    async def embed(ctx):
        await ctx.embed(EmbedRequest(model="e", inputs=("a",)))

    result, _, _ = await ask_once(provider_of(), embed)
    assert result.step_results["a"].error == "provider 'double' has no embeddings"
    assert result.step_results["a"].cost_usd == 0


# --- sharing --------------------------------------------------------------------------------------


async def test_a_session_opens_a_provider_once_and_closes_it_at_its_end():
    provider = provider_of()
    host = host_of({"a": asking(), "b": asking()}, provider=provider)
    async with treadle.open(host=host) as session:
        assert provider.log == []
        for _ in range(2):
            await session.run(flow(host, act("a"), act("b"), act("c", "a")))
        assert provider.log == ["opened"]
    assert provider.log == ["opened", "closed"]
