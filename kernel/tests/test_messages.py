"""Messages: plain JSON and back, compared by content, never changed."""

import dataclasses
import inspect
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from treadle import messages
from treadle.messages import (
    AssistantMessage,
    Citation,
    Completed,
    EmbedRequest,
    EmbedResponse,
    HostedTool,
    HostedToolPart,
    MediaPart,
    Message,
    ModelRequest,
    ModelResponse,
    NamedTool,
    OutputSchema,
    Part,
    Reasoning,
    ReasoningDelta,
    ReasoningPart,
    Source,
    StopReason,
    SystemMessage,
    TextDelta,
    TextPart,
    ToolCallDelta,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    ToolSpec,
    Usage,
    UserMessage,
    dump,
    load,
)

# --- anything that can be said --------------------------------------------------------------------

words = st.text(max_size=12)
names = st.text(min_size=1, max_size=8)
maybe = st.none()
numbers = st.integers(0, 10**9)
floats = st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | floats | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(words, json_values, max_size=3)


def tuples(items: st.SearchStrategy[Any], **limits: int) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(items, **{"max_size": 3, **limits}).map(tuple)


citations = st.builds(
    Citation,
    url=maybe | words,
    title=maybe | words,
    cited_text=maybe | words,
    start=maybe | numbers,
    end=maybe | numbers,
)
texts = st.builds(TextPart, text=words, citations=tuples(citations), provider_data=objects)
kinds = st.sampled_from(["image", "pdf", "audio"])
media = st.builds(
    MediaPart, type=kinds, media_type=names, data=st.binary(max_size=40), provider_data=objects
) | st.builds(MediaPart, type=kinds, media_type=maybe | names, url=words, provider_data=objects)
reasonings = st.builds(ReasoningPart, text=words, provider_data=objects)
calls = st.builds(
    ToolCallPart,
    call_id=words, tool_name=words, arguments=objects, raw_arguments=maybe | words, provider_data=objects,
) | st.builds(
    ToolCallPart, call_id=words, tool_name=words, arguments=maybe, raw_arguments=maybe | words, parse_error=words
)  # fmt: skip
results = st.builds(
    ToolResultPart,
    call_id=words,
    tool_name=words,
    content=words,
    is_error=st.booleans(),
    media=tuples(media, max_size=1),
)
hosted = st.builds(
    HostedToolPart,
    tool=words, call_id=maybe | words, query=maybe | words, error=maybe | words, provider_data=objects,
    sources=tuples(st.builds(Source, url=words, title=maybe | words)),
)  # fmt: skip
systems = st.builds(SystemMessage, text=words)
users = st.builds(UserMessage, parts=tuples(texts | media), name=maybe | words)
assistants = st.builds(
    AssistantMessage, parts=tuples(texts | reasonings | calls | hosted), name=maybe | words, provider_data=objects
)
tool_messages = st.builds(ToolMessage, results=tuples(results))
any_message = systems | users | assistants | tool_messages
specs = st.builds(ToolSpec, name=words, description=words, parameters=objects)
usages = st.builds(Usage, **{each.name: maybe | numbers for each in dataclasses.fields(Usage)})
requests = st.builds(
    ModelRequest,
    model=words,
    messages=tuples(any_message),
    tools=tuples(specs),
    tool_choice=st.sampled_from(["auto", "none", "required"]) | st.builds(NamedTool, name=words),
    parallel_tool_calls=maybe | st.booleans(),
    hosted_tools=tuples(st.builds(HostedTool, tool=words, options=objects)),
    output=maybe
    | st.builds(OutputSchema, name=words, schema=maybe | objects, strict=st.booleans(), description=maybe | words),
    reasoning=maybe
    | st.builds(
        Reasoning,
        budget_tokens=maybe | numbers,
        level=st.sampled_from([None, "low", "medium", "high"]),
        capture=st.booleans(),
    ),
    temperature=maybe | floats,
    max_tokens=maybe | numbers,
    stop_sequences=tuples(words),
    stream=st.booleans(),
    provider_options=objects,
    key=words,
)
responses = st.builds(
    ModelResponse,
    message=assistants,
    stop_reason=st.sampled_from(StopReason),
    finish_reason=maybe | words,
    usage=usages,
    model=words,
    provider=words,
    cost_usd=maybe | floats,
    request_id=maybe | words,
)
everything = st.one_of(
    any_message, texts, media, reasonings, calls, results, hosted, citations, specs, usages, requests, responses,
    st.builds(EmbedRequest, model=words, inputs=tuples(words), dimensions=maybe | numbers, key=words),
    st.builds(
        EmbedResponse,
        vectors=tuples(tuples(floats)), usage=usages, model=words, provider=words, cost_usd=maybe | floats,
    ),
)  # fmt: skip

CLASSES = [each for each in vars(messages).values() if dataclasses.is_dataclass(each) and inspect.isclass(each)]
STREAM = {TextDelta, ReasoningDelta, ToolCallDelta, Completed}


def all_fields(value: Any) -> dict[str, Any]:
    return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}


def through_json(value: Any) -> Any:
    return load(type(value), json.loads(json.dumps(dump(value))))


@given(value=everything)
def test_everything_goes_through_json_and_back_unchanged(value: Any) -> None:
    again = through_json(value)
    assert again == value
    assert all_fields(again) == all_fields(value)  # what equality leaves out, too
    assert type(again) is type(value)


@given(message=any_message)
def test_a_message_is_recognised_by_its_role(message: Message) -> None:
    assert load(Message, json.loads(json.dumps(dump(message)))) == message


@given(part=texts | media | reasonings | calls | results | hosted)
def test_a_part_is_recognised_by_its_kind(part: Part) -> None:
    assert load(Part, json.loads(json.dumps(dump(part)))) == part


@given(value=everything)
def test_what_is_dumped_is_plain_json(value: Any) -> None:
    plain = dump(value)
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain


@given(value=everything)
def test_what_is_dumped_is_what_pydantic_writes(value: Any) -> None:
    assert dump(value) == TypeAdapter(type(value)).dump_python(value, mode="json")
    assert list(dump(value)) == list(all_fields(value))


@pytest.mark.parametrize(
    "strange",
    [float("inf"), datetime(2026, 1, 2, tzinfo=UTC), {1: "a"}, {"a", "b"}, Citation(url="u")],
    ids=lambda each: type(each).__name__,
)
def test_what_a_plugin_attached_that_is_no_json_is_written_as_pydantic_writes_it(strange: Any) -> None:
    part = TextPart(text="a", provider_data={"p": {"x": [strange]}})
    assert repr(dump(part)) == repr(TypeAdapter(TextPart).dump_python(part, mode="json"))


def test_bytes_that_a_plugin_attached_are_base64_like_those_of_a_media_part() -> None:
    """pydantic would take them for UTF-8, and fail where they are none: with a reply that was paid for."""
    assert dump(TextPart(text="a", provider_data={"p": b"\xff\xfe"}))["provider_data"] == {"p": "__4="}


def test_what_contains_itself_or_cannot_be_written_is_refused() -> None:
    data: dict[str, Any] = {}
    data["again"] = data
    with pytest.raises(ValueError, match="contains itself"):
        dump(TextPart(text="a", provider_data=data))
    with pytest.raises(ValueError, match="Unable to serialize"):
        dump(TextPart(text="a", provider_data={"x": object()}))


@given(text=st.text(st.characters(categories=["Cs", "L", "Cc"]), min_size=1))
def test_no_text_is_too_strange_to_be_kept(text: str) -> None:
    """Models send halves of surrogate pairs; keeping what they said must not fail."""
    call = ToolCallPart(call_id="c", tool_name="t", arguments={"a": text})
    said = AssistantMessage(parts=(TextPart(text=text), call))
    assert through_json(said) == said


def test_bytes_travel_as_base64() -> None:
    part = MediaPart(type="image", media_type="image/png", data=bytes(range(256)))
    assert through_json(part).data == bytes(range(256))
    assert isinstance(dump(part)["data"], str)
    assert " data=" not in repr(part)


EXAMPLES: list[Any] = [
    Citation(url="u"),
    TextPart(text="x"),
    MediaPart(type="pdf", url="https://x/y.pdf"),
    ReasoningPart(text="hm"),
    ToolCallPart(call_id="c", tool_name="t", arguments={}),
    ToolResultPart(call_id="c", tool_name="t", content="x"),
    Source(url="u"),
    HostedToolPart(tool="web_search"),
    SystemMessage(text="x"),
    UserMessage.of("x"),
    AssistantMessage.of("x"),
    ToolMessage(results=()),
    ToolSpec(name="t"),
    NamedTool(name="t"),
    HostedTool(tool="web_search"),
    OutputSchema(name="o"),
    Reasoning(),
    ModelRequest(model="m", messages=()),
    EmbedRequest(model="m", inputs=("x",)),
    Usage(input_tokens=1),
    ModelResponse(message=AssistantMessage.of("x"), stop_reason=StopReason.END_TURN, model="m", provider="p"),
    EmbedResponse(vectors=((0.5,),), model="m", provider="p"),
    TextDelta("x"),
    ReasoningDelta("x"),
    ToolCallDelta(index=0),
    Completed(
        ModelResponse(message=AssistantMessage.of("x"), stop_reason=StopReason.END_TURN, model="m", provider="p")
    ),
]


def test_the_examples_below_are_of_every_class() -> None:
    assert {type(each) for each in EXAMPLES} == set(CLASSES)
    assert {each.__name__ for each in CLASSES} <= set(messages.__all__)


@pytest.mark.parametrize("value", EXAMPLES, ids=lambda value: type(value).__name__)
def test_nothing_can_be_changed(value: Any) -> None:
    for each in dataclasses.fields(value):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, each.name, None)
    with pytest.raises((AttributeError, TypeError)):
        value.something_new = 1


@pytest.mark.parametrize("value", EXAMPLES, ids=lambda value: type(value).__name__)
def test_everything_is_built_with_keywords(value: Any) -> None:
    if type(value) in STREAM - {ToolCallDelta}:
        assert type(value)(getattr(value, dataclasses.fields(value)[0].name)) == value
    else:
        with pytest.raises(TypeError, match="positional argument"):
            type(value)("positional")


@pytest.mark.parametrize(
    "value", [each for each in EXAMPLES if type(each) not in STREAM], ids=lambda value: type(value).__name__
)
def test_a_misspelt_key_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="mispelt"):
        load(type(value), {**dump(value), "mispelt": 1})
    with pytest.raises(TypeError, match="mispelt"):
        type(value)(**all_fields(value), mispelt=1)


@pytest.mark.parametrize(
    "data", [{"role": "robot", "text": "x"}, {"text": "x"}, {}, [], None, {"role": "user", "parts": [{"kind": "no"}]}]
)
def test_what_is_no_message_is_a_value_error(data: Any) -> None:
    with pytest.raises(ValueError, match="validation error"):
        load(Message, data)


def test_ids_are_not_content() -> None:
    """A recorded exchange equals a new one of the same content."""
    request = ModelRequest(model="m", messages=(), key="a")
    assert request == dataclasses.replace(request, key="b")
    assert request != dataclasses.replace(request, model="n")
    embed = EmbedRequest(model="m", inputs=("x",), key="a")
    assert embed == dataclasses.replace(embed, key="b")
    response = ModelResponse(
        message=AssistantMessage.of("x"), stop_reason=StopReason.END_TURN, model="m", provider="p", request_id="a"
    )
    assert response == dataclasses.replace(response, request_id="b")
    assert response != response.with_cost(1.0)
    assert response.with_cost(1.0).cost_usd == 1.0
    assert HostedToolPart(tool="t", call_id="a") == HostedToolPart(tool="t", call_id="b")
    # A call's id ties it to its result: it is content.
    assert ToolCallPart(call_id="a", tool_name="t", arguments={}) != ToolCallPart(
        call_id="b", tool_name="t", arguments={}
    )


def test_texts_reasoning_and_calls_are_read_from_the_parts() -> None:
    call = ToolCallPart(call_id="c", tool_name="t", arguments={})
    message = AssistantMessage(
        parts=(ReasoningPart(text="h"), TextPart(text="a"), ReasoningPart(text="m"), call, TextPart(text="b"))
    )
    assert (message.text, message.reasoning, message.tool_calls) == ("ab", "hm", (call,))
    assert UserMessage(parts=(TextPart(text="a"), MediaPart(type="image", url="u"), TextPart(text="b"))).text == "ab"
    assert UserMessage(parts=()).text == AssistantMessage(parts=()).text == ""


# --- what a part may be -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "parse_error", "right"),
    [({}, None, True), (None, "no JSON", True), (None, None, False), ({}, "no JSON", False), (None, "", True)],
)
def test_a_call_has_arguments_or_the_reason_why_not(arguments: Any, parse_error: str | None, right: bool) -> None:
    def build() -> Any:
        return ToolCallPart(call_id="c", tool_name="t", arguments=arguments, parse_error=parse_error)

    if right:
        assert build().arguments == arguments
        return
    with pytest.raises(ValueError, match="either arguments or a parse_error"):
        build()
    with pytest.raises(ValueError, match="either arguments or a parse_error"):
        load(ToolCallPart, {"call_id": "c", "tool_name": "t", "arguments": arguments, "parse_error": parse_error})


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "either data or a url"),
        ({"data": b"x", "url": "u", "media_type": "image/png"}, "either data or a url"),
        ({"data": b"x"}, "needs its media_type"),
        ({"data": b"x", "media_type": ""}, "needs its media_type"),
    ],
)
def test_media_are_bytes_with_a_type_or_a_url(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        MediaPart(type="image", **fields)


def test_media_may_be_empty_bytes_and_a_url_needs_no_type() -> None:
    assert MediaPart(type="audio", data=b"", media_type="audio/wav").data == b""
    assert MediaPart(type="image", url="https://x").media_type is None


# --- usage ------------------------------------------------------------------------------------------


@given(one=usages, two=usages, three=usages)
def test_adding_usage_is_associative_and_commutative(one: Usage, two: Usage, three: Usage) -> None:
    assert one + two == two + one
    assert (one + two) + three == one + (two + three)


@given(usage=usages)
def test_zero_is_neutral_and_unknown_absorbs(usage: Usage) -> None:
    assert usage + Usage.ZERO == Usage.ZERO + usage == usage
    if usage != Usage.ZERO:
        assert usage + Usage() == Usage()
    assert sum([usage, usage], Usage.ZERO) == usage + usage


def test_unknown_is_never_taken_for_zero() -> None:
    known = Usage(input_tokens=1, output_tokens=2)
    assert known.total_tokens == 3
    assert (known + Usage(input_tokens=1)).output_tokens is None
    assert (known + Usage(input_tokens=1)).total_tokens is None
    assert Usage(input_tokens=1).total_tokens is Usage().total_tokens is None
    assert Usage.ZERO.total_tokens == 0
