"""The loop: what it asks, what the model hears, how it ends."""

from __future__ import annotations

from typing import Any

import pytest

from treadle import (
    AssistantMessage,
    ModelRequest,
    NamedTool,
    OutputError,
    StopReason,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from treadle_loop.stalling import StallPolicy
from treadle_loop.tools import FinalTool

from loops.world import World, call, said, tool

CITY = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}


def results(world: World, index: int = -1) -> list[str]:
    """What the model heard before its last request."""
    message = world.requests[index].messages[-1]
    assert isinstance(message, ToolMessage)
    return [each.content for each in message.results]


def test_a_reply_without_calls_is_the_answer() -> None:
    world = World(said("hi"))
    outcome = world.converse()
    assert (outcome.stop, outcome.text, outcome.iterations) == ("answer", "hi", 1)
    assert outcome.messages == (UserMessage.of("go"), AssistantMessage.of("hi"))


def test_results_go_back_in_the_order_of_the_calls_and_the_model_is_asked_again() -> None:
    world = World(said(call("f", {"x": 1}, "a"), call("g", {}, "b")), said("done"), f=lambda x: x + 1, g=lambda: "ok")
    outcome = world.converse(tools={"f": tool("f"), "g": tool("g")})
    assert results(world) == ["2", "ok"]
    assert [each.call_id for each in world.requests[1].messages[-1].results] == ["a", "b"]  # type: ignore[union-attr]
    assert (outcome.text, outcome.iterations) == ("done", 2)
    assert [len(batch.calls) for batch in world.batches] == [2]
    assert world.batches[0].at_once


def test_calls_run_one_after_another_where_one_of_their_tools_may_not_run_beside_others() -> None:
    world = World(said(call("f", {}, "a"), call("g", {}, "b")), said("done"), f=lambda: 1, g=lambda: 2)
    world.converse(tools={"f": tool("f"), "g": tool("g", parallel_safe=False)})
    assert not world.batches[0].at_once


def test_the_tools_of_the_last_reply_do_not_run_at_the_cap() -> None:
    world = World(said("I'll look", call("f")), f=lambda: 1)
    outcome = world.converse(max_iterations=1)
    assert (outcome.stop, outcome.text, world.batches) == ("iterations", "I'll look", [])


def test_one_more_reply_with_tools_off_may_be_asked_for_at_the_cap() -> None:
    world = World(said(call("f")), said("my best guess"), f=lambda: 1)
    outcome = world.converse(max_iterations=1, answer_at_cap=True)
    assert (outcome.stop, outcome.text, outcome.iterations) == ("iterations", "my best guess", 2)
    assert world.requests[-1].tool_choice == "none"
    assert world.requests[-1].tools, "the calls before need the declaration"
    assert results(world) == [
        "the limit of 1 replies is reached, so no tool runs any more; answer now with what you have"
    ]


@pytest.mark.parametrize("choice", ["required", NamedTool(name="f")])
def test_a_forced_choice_is_for_the_first_request_only(choice: Any) -> None:
    world = World(said(call("f")), said("done"), f=lambda: 1)
    request = ModelRequest(model="m", messages=(UserMessage.of("go"),), tool_choice=choice)
    world.converse(request=request)
    assert [each.tool_choice for each in world.requests] == [choice, "auto"]


# --- calls that do not run ----------------------------------------------------------------------------


def test_an_unknown_tool_is_answered_with_the_names_there_are() -> None:
    world = World(said(call("nope"), call("f", {}, "c2")), said("done"), f=lambda: 1)
    world.converse()
    assert results(world) == ["there is no tool 'nope' (it is not registered here); the tools are f", "1"]


def test_arguments_that_did_not_parse_go_back_with_the_schema_and_a_bounded_echo() -> None:
    bad = call("f", None, raw_arguments="{" * 2000, parse_error="the arguments are not JSON: x")
    world = World(said(bad), said("done"), f=lambda: 1)
    world.converse(tools={"f": tool("f", CITY)})
    (text,) = results(world)
    assert text.startswith("the arguments are not JSON: x; they were: {{{")
    assert "... (2000 characters); call it again with arguments that fit this JSON Schema: " in text
    assert '"required": ["city"]' in text
    assert len(text) < 1000
    assert not world.batches


def test_arguments_of_the_wrong_shape_do_not_run_and_say_where() -> None:
    world = World(said(call("f", {"days": "soon"})), said("done"), f=lambda **_: 1)
    world.converse(tools={"f": tool("f", CITY)})
    (text,) = results(world)
    assert text.startswith(
        "the arguments do not fit the parameters of 'f': 'city' is a required property; "
        "days: 'soon' is not of type 'integer'; call it again with arguments that fit this JSON Schema: {"
    )
    assert not world.batches


def test_scalars_are_read_as_the_type_that_is_wanted_and_the_conversation_keeps_what_was_said() -> None:
    seen: list[Any] = []
    world = World(said(call("f", {"city": 5, "days": "3"})), said("done"), f=lambda **given: seen.append(given))
    world.converse(tools={"f": tool("f", CITY)})
    assert seen == [{"city": "5", "days": 3}]
    assert world.requests[1].messages[1].tool_calls[0].arguments == {"city": 5, "days": "3"}  # type: ignore[union-attr]


def test_a_call_cut_before_its_arguments_does_not_run() -> None:
    cut = said(call("f", {}, raw_arguments=""), stop=StopReason.MAX_TOKENS)
    world = World(cut, said("done"), f=lambda: 1)
    world.converse()
    assert results(world) == ["the reply was cut at max_tokens inside this call, so it did not run; call it again"]
    assert not world.batches


def test_a_tool_is_used_up_at_its_limit_and_hidden_and_the_whole_batch_is_decided_first() -> None:
    three = said(*(call("f", {"n": n}, f"c{n}") for n in range(3)))
    world = World(three, said(call("f", {"n": 9}, "c9")), said("done"), f=lambda n: n)
    world.converse(tools={"f": tool("f", max_calls=2)})
    assert [len(batch.calls) for batch in world.batches] == [2]
    assert results(world, 1) == ["0", "1", "'f' may be called 2 times a turn, and has been"]
    assert world.requests[1].tools == ()
    assert results(world, 2) == ["'f' may be called 2 times a turn, and has been"]


def test_ids_that_a_model_repeats_are_made_unique() -> None:
    world = World(said(call("f", {}, "x")), said(call("f", {}, "x")), said("done"), f=lambda: 1)
    world.converse()
    last = world.requests[-1].messages
    assert [part.call_id for each in last if isinstance(each, AssistantMessage) for part in each.tool_calls] == [
        "x",
        "x_2",
    ]
    assert [each.results[0].call_id for each in last if isinstance(each, ToolMessage)] == ["x", "x_2"]


def test_calls_left_open_by_a_loaded_conversation_run_before_the_first_request() -> None:
    opened = AssistantMessage(parts=(call("f", {}, "old"),))
    world = World(said("done"), f=lambda: 7)
    world.converse(request=ModelRequest(model="m", messages=(UserMessage.of("go"), opened)))
    assert results(world, 0) == ["7"]


# --- going in circles ---------------------------------------------------------------------------------


def test_a_model_that_goes_in_circles_is_told_and_then_stopped() -> None:
    world = World(*(said(call("f", {"q": 1}, f"c{n}")) for n in range(9)), f=lambda q: "nothing")
    outcome = world.converse(stall=StallPolicy(tell_at=2, stop_at=4))
    assert (outcome.stop, outcome.detail, outcome.iterations) == ("stalled", "f", 4)
    assert results(world, 1) == ["nothing"]
    assert results(world, 2) == [
        "nothing\n\n[this is the same result as before, 2 times now; do something else, or answer with what you have]"
    ]


def test_other_arguments_or_another_result_are_no_circle() -> None:
    count = iter(range(100))
    world = World(*(said(call("f", {}, f"c{n}")) for n in range(5)), said("done"), f=lambda: next(count))
    assert world.converse(stall=StallPolicy(tell_at=2, stop_at=3)).stop == "answer"


def test_calls_of_a_tool_that_does_not_exist_count_together_whatever_their_arguments() -> None:
    world = World(*(said(call("nope", {"n": n}, f"c{n}")) for n in range(9)))
    assert world.converse(tools={}).detail == "nope"


# --- shapes -------------------------------------------------------------------------------------------


def accept_seven(response: Any) -> int:
    if response.text != "7":
        raise OutputError(f"{response.text} is not seven")
    return 7


def test_a_reply_that_will_not_do_goes_back_with_the_reason() -> None:
    world = World(said("6"), said("7"))
    outcome = world.converse(accept=accept_seven)
    assert (outcome.stop, outcome.value, outcome.complaint, outcome.iterations) == ("answer", 7, None, 2)
    assert world.requests[1].messages[-2:] == (
        AssistantMessage.of("6"),
        UserMessage.of("That will not do: 6 is not seven. Reply again, with the JSON alone."),
    )


def test_where_none_will_do_the_last_complaint_stands() -> None:
    outcome = World(said("6"), said("8")).converse(accept=accept_seven, max_iterations=2)
    assert (outcome.stop, outcome.value, outcome.complaint) == ("iterations", None, "8 is not seven")


def test_an_empty_reply_is_not_sent_back_as_a_turn() -> None:
    world = World(said(), said("7"))
    told: list[tuple[str, bool]] = []
    world.converse(accept=accept_seven, on_message=lambda message, in_place: told.append((message.role, in_place)))
    assert [type(each) for each in world.requests[1].messages] == [UserMessage, UserMessage]
    assert told == [("assistant", False), ("user", True), ("assistant", False)]


def test_a_refusal_is_not_asked_again() -> None:
    outcome = World(said("I cannot", stop=StopReason.REFUSAL)).converse(accept=accept_seven)
    assert outcome.stop == "refused"


FINAL = FinalTool(spec=ToolSpec(name="final_result"), accept=lambda given: accept_seven(said(str(given.get("n")))))


def test_a_final_tool_is_asked_for_until_its_arguments_will_do() -> None:
    world = World(
        said("it is seven"),
        said(call("final_result", {"n": 6}, "a"), call("f", {}, "b")),
        said(call("f", {}, "c"), call("final_result", {"n": 7}, "d")),
        f=lambda: 1,
    )
    outcome = world.converse(final=FINAL, tool_choice_after="required")
    assert (outcome.stop, outcome.value, outcome.iterations) == ("answer", 7, 3)
    assert world.requests[1].messages[-1] == UserMessage.of(
        "Give your answer by calling the tool 'final_result'; plain text is not read."
    )
    assert results(world, 2) == ["6 is not seven; call 'final_result' again with a valid answer", "1"]
    assert len(world.batches) == 1, "nothing runs beside a valid answer"


def test_a_refusal_is_one_also_where_a_tool_gives_the_answer() -> None:
    outcome = World(said("I cannot", stop=StopReason.REFUSAL)).converse(final=FINAL)
    assert (outcome.stop, outcome.text) == ("refused", "I cannot")


def test_text_is_an_answer_beside_a_final_tool_where_it_is_read_too() -> None:
    world = World(said("6"), said("7"))
    outcome = world.converse(final=FINAL, accept=accept_seven)
    assert (outcome.stop, outcome.value) == ("answer", 7)
    assert world.requests[1].messages[-1] == UserMessage.of(
        "That will not do: 6 is not seven. Give your answer by calling the tool 'final_result'; plain text is not read."
    )


def test_answers_that_will_not_do_are_sent_back_so_often_and_no_oftener() -> None:
    for how in ({"accept": accept_seven}, {"final": FINAL}):
        world = World(*[said("6")] * 9)
        outcome = world.converse(max_complaints=2, **how)
        assert (outcome.stop, outcome.iterations, len(world.requests)) == ("misshapen", 3, 3)
        assert outcome.complaint is not None
        assert isinstance(outcome.messages[-1], UserMessage), "the model was told of the last one, too"


def test_whoever_runs_the_tools_is_not_handed_the_answer() -> None:
    world = World(said(call("final_result", {"n": 6}, "a"), call("f", {}, "b")), said("7"), f=lambda: 1)
    outcome = world.converse(final=FINAL, accept=accept_seven, hand_over=True, act_at_cap=True)
    assert [[each.tool_name for each in batch.calls] for batch in world.batches] == [["f"]]
    assert results(world, 1) == ["6 is not seven; call 'final_result' again with a valid answer", "1"]
    assert outcome.value == 7


# --- pauses, cuts, deadlines --------------------------------------------------------------------------


def test_a_paused_turn_goes_on_in_the_same_message() -> None:
    world = World(said("half ", stop=StopReason.PAUSED), said("whole"))
    outcome = world.converse()
    assert (outcome.text, outcome.iterations) == ("half whole", 2)
    assert world.requests[1].messages[-1] == AssistantMessage.of("half ")
    assert len(outcome.messages) == 2


@pytest.mark.parametrize("unusable", [said(call("f"), stop=StopReason.MAX_TOKENS), said(stop=StopReason.MAX_TOKENS)])
def test_a_reply_cut_before_it_is_of_use_is_dropped_and_asked_for_with_twice_the_room(unusable: Any) -> None:
    world = World(unusable, unusable, said("done"), f=lambda: 1)
    request = ModelRequest(model="m", messages=(UserMessage.of("go"),), max_tokens=300)
    outcome = world.converse(request=request, max_tokens_ceiling=1000)
    assert [each.max_tokens for each in world.requests] == [300, 600, 1000]
    assert outcome.messages == (UserMessage.of("go"), AssistantMessage.of("done"))


def test_where_the_room_cannot_grow_the_loop_ends() -> None:
    world = World(said(stop=StopReason.MAX_TOKENS))
    request = ModelRequest(model="m", messages=(UserMessage.of("go"),), max_tokens=2000)
    assert world.converse(request=request, max_tokens_ceiling=1000).stop == "max_tokens"


def test_a_cut_answer_is_an_answer() -> None:
    outcome = World(said("so far", stop=StopReason.MAX_TOKENS, finish="length")).converse(max_tokens_ceiling=1000)
    assert (outcome.stop, outcome.text) == ("answer", "so far")


def test_no_reply_is_asked_for_after_the_deadline() -> None:
    outcome = World(said("hi")).converse(deadline_seconds=-1)
    assert (outcome.stop, outcome.response) == ("deadline", None)


def test_the_model_may_be_told_what_is_left() -> None:
    world = World(said(call("f")), said("done"), f=lambda: 1)
    world.converse(note_remaining=True, max_iterations=4)
    assert results(world) == ["1\n\n[3 of 4 replies are left to you]"]
