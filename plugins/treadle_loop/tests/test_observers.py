"""Observers of conversations, and the trace of events (B12)."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from treadle_loop import (
    ConfigurationError,
    ConsoleObserver,
    Deps,
    EventTraceObserver,
    FakeClient,
    ListObserver,
    LoopObserver,
    ModelResponse,
    MultiObserver,
    NullObserver,
    RateLimited,
    Registry,
    RetryingClient,
    RetryPolicy,
    SummaryOptions,
    TextPart,
    ToolCallPart,
    ToolSpec,
    Transcript,
    run_conversation_result,
)


def converse(observer: Any, *responses: Any, prompt: str = "hi", **settings: Any) -> Any:
    transcript = Transcript()
    transcript.add_user_message(prompt)
    spec = ToolSpec("f", "d", {"type": "object"}, lambda deps, **more: "result of f")
    client = RetryingClient(FakeClient(*responses), RetryPolicy(base_delay=0), sleep=lambda seconds: None)
    return run_conversation_result(transcript, client, Registry([spec]), Deps(), observer=observer, **settings)


def calling(**arguments: Any) -> ModelResponse:
    return ModelResponse(content=(ToolCallPart(id="c", tool_name="f", arguments=arguments),))


BUSY = (RateLimited("busy", provider="fake", status_code=429), calling(), "done")


def test_a_list_keeps_requests_responses_retries_and_tools_in_order() -> None:
    observer = ListObserver()
    converse(observer, *BUSY)
    assert observer.kinds() == ["request", "retry", "response", "tool_start", "tool_end", "request", "response"]
    attempt, error, wait = observer.events[1][1]
    assert (attempt, type(error), wait <= 0.5) == (1, RateLimited, True)
    call, result = observer.events[4][1]
    assert (call.tool_name, result.content) == ("f", "result of f")


def test_an_observer_that_raises_is_logged_and_ignored(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def on_request(self, request: Any) -> None:
            raise RuntimeError("broken")

    assert converse(Broken(), "done").text == "done"
    assert "observer Broken failed in on_request" in caplog.text


def test_hooks_that_are_missing_are_passed_over() -> None:
    assert converse(object(), *BUSY).text == "done"
    assert converse(NullObserver(), *BUSY).text == "done"


def test_observers_run_in_line_and_start_and_end_stand_around_everything() -> None:
    seen: list[str] = []

    class Observer:
        @contextmanager
        def conversation(self, context: Any) -> Iterator[None]:
            seen.append(f"enter {context.agent_name}")
            yield
            seen.append("leave")

        def on_conversation_start(self, context: Any) -> None:
            seen.append(f"start {context.provider}/{context.model}")

        def on_conversation_end(self, summary: Any) -> None:
            seen.append(f"end {summary.status}")

    converse(Observer(), "done", agent_name="a")
    assert seen == ["enter a", "start fake/fake-1", "end completed", "leave"]


def test_what_conversation_raises_is_not_guarded() -> None:
    class Observer:
        def conversation(self, context: Any) -> Any:
            raise RuntimeError("two at once")

    with pytest.raises(RuntimeError, match="two at once"):
        converse(Observer(), "done")


def test_a_final_failure_is_told_once() -> None:
    failed: list[Any] = []

    class Observer:
        def on_model_error(self, error: Any) -> None:
            failed.append(error)

    errors = [RateLimited(f"{n}", provider="fake") for n in range(3)]
    with pytest.raises(RateLimited):
        converse(Observer(), *errors)
    assert failed == [errors[2]]


def test_several_observers_are_guarded_from_each_other(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def on_request(self, request: Any) -> None:
            raise RuntimeError("broken")

    first, last = ListObserver(), ListObserver()
    converse(MultiObserver(first, Broken(), last), "done")
    assert first.kinds() == last.kinds() == ["request", "response"]
    assert "observer Broken failed" in caplog.text
    assert MultiObserver([first, last]).observers == (first, last)


def test_the_console_has_a_line_for_each_event() -> None:
    stream = io.StringIO()
    options = SummaryOptions(stall_threshold=2, warn_at=(0.1,))
    converse(ConsoleObserver(stream), *BUSY[:2], calling(), "done", summary_options=options, max_iterations=5)
    text = stream.getvalue()
    assert "-> model: 1 messages, 1 tools" in text
    assert "attempt 1 failed (RateLimited)" in text
    assert "<- model: tool_use, ? in, ? out" in text
    assert "f gave: result of f" in text
    assert "1 of 5 (iterations) are used" in text
    assert "f was called 2 times with the same arguments" in text
    assert text.splitlines()[-1].startswith("completed: 3 model calls in ")


def test_without_a_stream_the_console_is_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RateLimited):
        converse(ConsoleObserver(), *[RateLimited("busy", provider="p")] * 3)
    out, err = capsys.readouterr()
    assert out == ""
    assert "<- RateLimited: busy" in err


def test_the_protocol_names_every_hook() -> None:
    assert {name for name in vars(LoopObserver) if name.startswith(("on_", "conversation"))} == {
        "conversation",
        "on_conversation_start",
        "on_conversation_end",
        "on_request",
        "on_response",
        "on_retry",
        "on_model_error",
        "on_tool_start",
        "on_tool_end",
        "on_budget_warning",
        "on_stall",
        "on_text_delta",
    }


# --- the trace -----------------------------------------------------------------------------------------


def trace(*responses: Any, **settings: Any) -> list[dict[str, Any]]:
    lines: list[str] = []
    conversing = {name: settings.pop(name) for name in list(settings) if name in ("prompt", "summary_options")}
    observer = EventTraceObserver(lines.append, **settings)
    converse(observer, *responses, conversation_id="c1", correlation_id="c2", **conversing)
    assert all(line.endswith("\n") and line.count("\n") == 1 for line in lines)
    return [json.loads(line) for line in lines]


def test_a_trace_is_lines_of_json_with_number_time_event_and_ids() -> None:
    events = trace(*BUSY)
    assert [each["event"] for each in events] == [
        "conversation_start",
        "request",
        "retry",
        "response",
        "tool_start",
        "tool_end",
        "request",
        "response",
        "conversation_end",
    ]
    assert [each["seq"] for each in events] == list(range(1, 10))
    assert all({"ts", "t"} <= each.keys() for each in events)
    assert {(each["conversation_id"], each["correlation_id"]) for each in events} == {("c1", "c2")}
    assert events[-1]["summary"]["status"] == "completed"
    assert (events[2]["error_type"], events[2]["status_code"]) == ("RateLimited", 429)


def test_a_trace_has_no_content_by_default() -> None:
    text = json.dumps(trace(calling(a="swordfish"), "swordfish too", prompt="swordfish"))
    assert "swordfish" not in text
    assert "result of f" not in text


def test_stalls_warnings_and_failures_are_in_a_trace() -> None:
    options = SummaryOptions(stall_threshold=2, warn_at=(0.01,))
    kinds = [each["event"] for each in trace(calling(), calling(), "done", summary_options=options)]
    assert kinds.count("stall") == 1
    assert kinds.count("budget_warning") == 1
    lines: list[str] = []
    with pytest.raises(RateLimited):
        converse(EventTraceObserver(lines.append), *[RateLimited("x", provider="p")] * 3)
    assert [json.loads(each)["event"] for each in lines][-2:] == ["model_error", "conversation_end"]


def test_content_is_captured_only_with_redact_or_where_it_is_said_to_be_meant() -> None:
    with pytest.raises(ConfigurationError, match="capture_content=True writes what was said as it is; give redact="):
        EventTraceObserver(print, capture_content=True)
    text = json.dumps(trace("the answer", capture_content=True, allow_unredacted=True))
    assert "the answer" in text


def hide(text: str) -> str:
    return text.replace("swordfish", "*")


def test_every_text_is_redacted_before_it_is_cut() -> None:
    long = "x" * 18 + "swordfish" + "y" * 50
    events = trace(
        calling(swordfish=["swordfish"]),
        "swordfish",
        prompt=long,
        capture_content=True,
        redact=hide,
        max_string_chars=20,
    )
    text = json.dumps(events)
    assert "swordfish" not in text
    assert "sw" not in text
    assert events[1]["messages"][0]["content"][0]["text"] == "x" * 18 + "*y..."
    assert next(each for each in events if each["event"] == "tool_start")["arguments"] == {"*": ["*"]}


def test_only_new_messages_are_written() -> None:
    events = trace(calling(), "done", capture_content=True, redact=hide)
    first, second = [each for each in events if each["event"] == "request"]
    assert [each["role"] for each in first["messages"]] == ["user"]
    assert [each["role"] for each in second["messages"]] == ["assistant", "user"]


def test_where_redact_fails_the_content_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    def broken(text: str) -> str:
        raise RuntimeError("broken")

    with caplog.at_level(logging.ERROR):
        events = trace("swordfish", capture_content=True, redact=broken)
    assert "swordfish" not in json.dumps(events)
    assert [each["event"] for each in events] == ["conversation_start", "request", "response", "conversation_end"]
    assert "redact failed" in caplog.text


def test_the_terminator_may_be_chosen() -> None:
    lines: list[str] = []
    write: Callable[[str], None] = lines.append
    converse(EventTraceObserver(write, terminator=""), ModelResponse(content=(TextPart(text="x"),)))
    assert not any(line.endswith("\n") for line in lines)
