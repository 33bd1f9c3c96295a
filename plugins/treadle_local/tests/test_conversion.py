"""Messages to llama.cpp's shape and chunks back, without llama.cpp."""

from __future__ import annotations

import json
from typing import Any

import pytest

from treadle.errors import BadRequestError, ContextLengthError, ResponseError, UnavailableError
from treadle.messages import (
    AssistantMessage,
    HostedTool,
    MediaPart,
    ModelRequest,
    OutputSchema,
    Reasoning,
    ReasoningDelta,
    ReasoningPart,
    StopReason,
    SystemMessage,
    TextDelta,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    ToolSpec,
    Usage,
    UserMessage,
)
from treadle_local.conversion import OPTIONS, Reply, encode, problems, refusal, request_body, thrown


def request(*messages: Any, **more: Any) -> ModelRequest:
    return ModelRequest(model="local", messages=messages or (UserMessage.of("hi"),), **more)


def body(asked: ModelRequest, **defaults: Any) -> dict[str, Any]:
    return request_body(asked, **{"max_tokens": 512, "temperature": None, "seed": None, "options": {}} | defaults)


def chunk(**fields: Any) -> bytes:
    return json.dumps({"id": "chatcmpl-1", "choices": [], **fields}).encode()


def choice(finish_reason: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "finish_reason": finish_reason, "delta": delta}]}


def test_every_kind_of_message_becomes_its_turn() -> None:
    call = ToolCallPart(call_id="1", tool_name="sun", arguments={"at": "Wien"})
    turns = body(
        request(
            SystemMessage(text="be brief"),
            UserMessage(parts=(TextPart(text="a"), TextPart(text="b")), name="Ann"),
            AssistantMessage(parts=(ReasoningPart(text="hm"), TextPart(text="look"), call)),
            ToolMessage(
                results=(
                    ToolResultPart(call_id="1", tool_name="sun", content="yes"),
                    ToolResultPart(call_id="2", tool_name="sun", content="no"),
                )
            ),
        )
    )["messages"]
    assert turns == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "[Ann] ab"},
        {
            "role": "assistant",
            "content": "look",
            "tool_calls": [{"id": "1", "type": "function", "function": {"name": "sun", "arguments": '{"at": "Wien"}'}}],
        },
        {"role": "tool", "tool_call_id": "1", "name": "sun", "content": "yes"},
        {"role": "tool", "tool_call_id": "2", "name": "sun", "content": "no"},
    ]


def test_arguments_that_did_not_parse_go_back_as_a_json_string() -> None:
    broken = ToolCallPart(call_id="1", tool_name="sun", arguments=None, raw_arguments="{at", parse_error="not JSON")
    (turn,) = body(request(AssistantMessage(parts=(broken,))))["messages"]
    assert turn["content"] == ""
    assert turn["tool_calls"][0]["function"]["arguments"] == '"{at"'


def test_defaults_fill_only_what_the_request_leaves_open() -> None:
    plain = body(request(), max_tokens=7, temperature=0.3, seed=5)
    assert (plain["max_tokens"], plain["temperature"], plain["seed"]) == (7, 0.3, 5)
    asked = body(request(max_tokens=9, temperature=0.0, stop_sequences=("END",)), max_tokens=7, temperature=0.3)
    assert (asked["max_tokens"], asked["temperature"], asked["stop"]) == (9, 0.0, ["END"])
    assert "seed" not in asked
    assert not {"temperature", "seed", "stop", "response_format"} & set(body(request()))


def test_options_win_over_the_seed_of_the_settings() -> None:
    assert body(request(), seed=5, options={"seed": 6, "top_k": 1}).items() >= {"seed": 6, "top_k": 1}.items()


def test_the_reply_is_always_streamed_with_usage_and_progress_so_that_it_can_be_stopped() -> None:
    made = body(request(stream=False))
    assert made["stream"] is True
    assert made["stream_options"] == {"include_usage": True}
    assert made["return_progress"] is True


def test_a_schema_is_sent_as_response_format_and_no_schema_as_any_object() -> None:
    schema = {"enum": ["red", "blue"]}
    assert body(request(output=OutputSchema(name="colour", schema=schema)))["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "colour", "schema": schema},
    }
    any_object = body(request(output=OutputSchema(name="any")))["response_format"]
    assert any_object["json_schema"]["schema"] == {"type": "object"}


def test_what_a_local_model_cannot_do_is_reported() -> None:
    image = MediaPart(type="image", media_type="image/png", data=b"x")
    asked = request(
        UserMessage(parts=(TextPart(text="see"), image)),
        ToolMessage(
            results=(
                ToolResultPart(
                    call_id="1", tool_name="t", content="", media=(MediaPart(type="pdf", url="https://x.invalid"),)
                ),
            )
        ),
        tools=(ToolSpec(name="t"),),
        hosted_tools=(HostedTool(tool="web_search"),),
        reasoning=Reasoning(level="low"),
    )
    assert list(problems(asked, {"top_k": 1, "topk": 1})) == [
        "a local model cannot call tools",
        "a local model has no hosted tools",
        "a local model cannot be told how much to think",
        "a local model takes text only, not attachments (image, pdf)",
        f"unknown provider options: topk; there are {', '.join(sorted(OPTIONS))}",
    ]
    assert list(problems(request(), {})) == []


def test_a_lone_surrogate_is_refused_before_llama_cpp_sees_it() -> None:
    with pytest.raises(BadRequestError, match="no valid Unicode: it holds a lone surrogate"):
        encode(body(request(UserMessage.of("\ud83d"))), provider="local")
    assert "Grüße 🌞".encode() in encode(body(request(UserMessage.of("Grüße 🌞"))), provider="local")


def test_an_option_that_is_no_json_is_refused() -> None:
    with pytest.raises(BadRequestError, match="cannot be written as JSON"):
        encode(body(request(), options={"top_p": float("nan")}), provider="local")


def test_chunks_become_deltas_and_their_sum() -> None:
    reply = Reply(provider="here", model="m")
    events = [
        event
        for piece in (
            chunk(**choice(role="assistant", content=None), prompt_progress={"total": 3}),
            chunk(**choice(reasoning_content="hm")),
            chunk(**choice(content="Hel")),
            chunk(**choice(content="lo")),
            chunk(**choice("stop")),
            chunk(
                usage={"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
            ),
        )
        for event in reply.feed(piece)
    ]
    assert events == [ReasoningDelta("hm"), TextDelta("Hel"), TextDelta("lo")]
    response = reply.response()
    assert response.message == AssistantMessage(parts=(ReasoningPart(text="hm"), TextPart(text="Hello")))
    assert response.usage == Usage(input_tokens=9, output_tokens=2, cache_read_tokens=4)
    assert (response.model, response.provider, response.request_id) == ("m", "here", "chatcmpl-1")


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("stop", StopReason.END_TURN),
        ("length", StopReason.MAX_TOKENS),
        ("tool_calls", StopReason.TOOL_USE),
        ("weariness", StopReason.UNKNOWN),
    ],
)
def test_the_finish_reason_is_kept_raw_and_mapped(word: str, reason: StopReason) -> None:
    reply = Reply(provider="local", model="m")
    assert list(reply.feed(chunk(**choice(word)))) == []
    response = reply.response()
    assert (response.finish_reason, response.stop_reason) == (word, reason)
    assert response.usage == Usage()


def test_a_reply_that_was_never_finished_is_an_error() -> None:
    reply = Reply(provider="local", model="m")
    list(reply.feed(chunk(**choice(content="Hel"))))
    with pytest.raises(ResponseError, match="the reply ended before it was finished"):
        reply.response()


@pytest.mark.parametrize("junk", [b"", b"{", b"[]", b"3", b'{"choices": [3]}', b'{"choices": 3}', b"\xff"])
def test_a_chunk_that_cannot_be_read_is_an_error(junk: bytes) -> None:
    reply = Reply(provider="local", model="m")
    with pytest.raises(ResponseError, match=r"llama\.cpp sent a piece that cannot be read"):
        list(reply.feed(junk))


def test_refusals_become_the_most_specific_error() -> None:
    long = refusal(
        {"code": 400, "type": "exceed_context_size_error", "message": "x", "n_prompt_tokens": 5031, "n_ctx": 2048},
        provider="local",
    )
    assert type(long) is ContextLengthError
    assert str(long) == (
        "the request has 5031 tokens, the context holds 2048; shorten it, or raise the provider's setting 'context'"
    )
    bad = refusal({"code": 400, "type": "invalid_request_error", "message": "no"}, provider="local")
    assert type(bad) is BadRequestError
    assert str(bad) == "llama.cpp refused the request: no"
    busy = refusal({"code": 503, "type": "unavailable_error", "message": "loading"}, provider="local")
    assert type(busy) is UnavailableError
    assert busy.transient
    other = refusal({"code": 500, "type": "server_error", "message": "oh"}, provider="local")
    assert type(other) is ResponseError
    assert str(other) == "llama.cpp failed: oh"
    assert type(refusal("oh", provider="local")) is ResponseError


def test_an_error_inside_a_stream_is_raised() -> None:
    reply = Reply(provider="local", model="m")
    with pytest.raises(BadRequestError, match="refused the request: no"):
        list(reply.feed(b'{"error": {"code": 400, "type": "invalid_request_error", "message": "no"}}'))


def test_what_llama_cpp_raises_becomes_an_error() -> None:
    said = "Automatic parser generation failed: JSON schema error at #: unrecognized"
    schema = thrown(ValueError(said), provider="l")
    assert type(schema) is BadRequestError
    assert str(schema) == "the reply cannot be held to this schema: JSON schema error at #: unrecognized"
    assert type(thrown(ValueError("Expected 'messages' to be an array"), provider="l")) is BadRequestError
    assert type(thrown(RuntimeError("Jinja template: roles must alternate"), provider="l")) is BadRequestError
    broken = thrown(RuntimeError("decode failed"), provider="l")
    assert type(broken) is ResponseError
    assert str(broken) == "llama.cpp failed: decode failed"
