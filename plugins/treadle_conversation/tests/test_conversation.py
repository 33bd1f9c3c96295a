"""Conversations of steps: what is sent, what is kept, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import treadle
import treadle_agent.plugin
import treadle_conversation.plugin
import treadle_llm_call.plugin
import treadle_router.plugin
from treadle import (
    AssistantMessage,
    DocumentError,
    Host,
    MediaPart,
    Message,
    RateLimitError,
    RunResult,
    Settings,
    StepOutcome,
    StopReason,
    SystemMessage,
    ToolCallPart,
    ToolMessage,
    Trimmed,
    Usage,
    UserMessage,
    tool,
)
from treadle.testing import offering, reply, run_workflow, scripted
from treadle_llm_call.step import LlmCall
from treadle_loop.opening import open_turn

LONG = "word " * 200


def plugins(provider: Any, **more: Any) -> dict[str, object]:
    return {
        "agent": treadle_agent.plugin,
        "conversation": treadle_conversation.plugin,
        "llm_call": treadle_llm_call.plugin,
        "router": treadle_router.plugin,
        "double": offering({"provider": {"scripted": provider}, **more}),
    }


def call(name: str = "turn", **fields: Any) -> dict[str, Any]:
    return {"id": name, "type": "llm_call", "conversation": "state.chat", "prompt": "Hello", **fields}


async def run(provider: Any, *steps: dict[str, Any], chat: Any = None, **more: Any) -> RunResult:
    state = {} if chat is None else {"chat": chat}
    document = {
        "name": "t",
        "config": {"provider": "scripted", "max_retries": 0, **more.pop("config", {})},
        "state": state,
        "steps": list(steps),
    }
    return await run_workflow(document, plugins=plugins(provider, **more))


def shown(messages: tuple[Message, ...]) -> list[str]:
    """Each message as its role, its speaker and its text."""
    return [
        f"{each.role}{f' {name}' if (name := getattr(each, 'name', None)) else ''}: {getattr(each, 'text', '')}"
        for each in messages
    ]


def kept(result: RunResult) -> list[Any]:
    return [tuple(each.values()) for each in result.final_state["chat"]["messages"]]


# --- a turn -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["state.chat", "chat"])
async def test_a_missing_key_begins_a_conversation_and_the_next_step_goes_on_with_it(key: str) -> None:
    provider = scripted("Typer.", "Click.")
    first = call("one", prompt="A library?", conversation=key, output="said")
    second = call("two", prompt="Another?", conversation=key, depends_on=["one"])
    result = await run(provider, first, second)
    assert [shown(each.messages) for each in provider.requests] == [
        ["user: A library?"],
        ["user: A library?", "assistant: Typer.", "user: Another?"],
    ]
    assert result.final_state["said"] == "Typer."
    assert result.final_state["chat"] == {
        "messages": [
            {"role": "user", "content": "A library?"},
            {"role": "assistant", "content": "Typer."},
            {"role": "user", "content": "Another?"},
            {"role": "assistant", "content": "Click."},
        ]
    }
    assert result.warnings == ()


MESSAGES = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}]


@pytest.mark.parametrize("chat", [MESSAGES, {"messages": MESSAGES}, {"messages": MESSAGES, "title": "mine"}])
async def test_a_plain_list_or_a_mapping_is_gone_on_with(chat: Any) -> None:
    provider = scripted("Bye")
    result = await run(provider, call(), chat=chat)
    assert shown(provider.requests[0].messages) == ["user: Hi", "assistant: Yes?", "user: Hello"]
    assert result.final_state["chat"]["messages"][:2] == MESSAGES
    assert len(result.final_state["chat"]["messages"]) == 4
    assert result.final_state["chat"].get("title") == (chat.get("title") if isinstance(chat, dict) else None)


@pytest.mark.parametrize("chat", [[], {}, {"messages": []}, {"messages": None}])
async def test_an_empty_one_begins_too(chat: Any) -> None:
    provider = scripted("Bye")
    await run(provider, call(), chat=chat)
    assert shown(provider.requests[0].messages) == ["user: Hello"]


async def test_the_first_system_prompt_is_stored_first_and_a_later_one_is_ignored_and_told() -> None:
    provider = scripted("1", "2", "3")
    result = await run(
        provider,
        call("one", system_prompt="Be brief."),
        call("two", system_prompt="Be long.", depends_on=["one"]),
        call("three", system_prompt="Be brief.", depends_on=["two"]),
    )
    assert [shown(each.messages)[0] for each in provider.requests] == ["system: Be brief."] * 3
    assert [each[0] for each in kept(result)] == ["system", *["user", "assistant"] * 3]
    assert [(each.step_id, each.message) for each in result.warnings] == [
        ("two", "the system prompt is not used: state.chat has one already, which stays")
    ]


async def test_a_system_prompt_goes_before_turns_that_are_there() -> None:
    provider = scripted("ok")
    result = await run(provider, call(system_prompt="Be brief."), chat=MESSAGES)
    assert kept(result)[0] == ("system", "Be brief.")


async def test_without_a_prompt_the_last_turn_of_the_user_is_answered() -> None:
    provider = scripted("Fine.")
    result = await run(provider, call(prompt=None), chat=[{"role": "user", "content": "How are you?"}])
    assert shown(provider.requests[0].messages) == ["user: How are you?"]
    assert kept(result) == [("user", "How are you?"), ("assistant", "Fine.")]


CALLED = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "name": "look", "arguments": {"at": "x"}}]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "seen"}


async def test_without_a_prompt_the_last_result_of_a_tool_is_answered_and_is_kept_as_it_was_written() -> None:
    provider = scripted("I saw it.")
    chat = [{"role": "user", "content": "Look."}, CALLED, RESULT]
    result = await run(provider, call(prompt=None), chat=chat)
    _, asked, seen = provider.requests[0].messages
    assert asked.tool_calls == (ToolCallPart(call_id="c1", tool_name="look", arguments={"at": "x"}),)
    assert isinstance(seen, ToolMessage)
    assert [(each.call_id, each.tool_name, each.content) for each in seen.results] == [("c1", "look", "seen")]
    assert result.final_state["chat"]["messages"] == [*chat, {"role": "assistant", "content": "I saw it."}]


@pytest.mark.parametrize(
    ("chat", "error"),
    [
        (MESSAGES, "the assistant spoke last in state.chat, and the step has no prompt; give the step a prompt"),
        (None, "state.chat has no turn to answer, and the step has no prompt; give the step a prompt"),
        (
            [{"role": "system", "content": "S"}],
            "state.chat has no turn to answer, and the step has no prompt; give the step a prompt",
        ),
    ],
)
async def test_without_a_prompt_there_must_be_a_turn_to_answer(chat: Any, error: str) -> None:
    provider = scripted("never")
    result = await run(provider, call(prompt=None), chat=chat)
    assert str(result.step_results["turn"].error) == error
    assert provider.requests == []


async def test_nothing_is_kept_of_a_turn_that_fails_and_a_retry_begins_it_anew() -> None:
    failing = scripted(RateLimitError("busy", provider="scripted"))
    result = await run(failing, call(output="said"), chat=MESSAGES)
    assert result.final_state == {"chat": MESSAGES}

    provider = scripted(RateLimitError("busy", provider="scripted"), "ok")
    result = await run(provider, call(output="said", retry={"max_retries": 1, "backoff_base": 0}), chat=MESSAGES)
    assert shown(provider.requests[0].messages) == shown(provider.requests[1].messages)
    assert len(kept(result)) == 4


async def test_a_failed_step_keeps_neither_output_nor_turn_though_the_model_answered() -> None:
    provider = scripted("no JSON")
    result = await run(provider, call(output="said", response_schema={"type": "json_object"}))
    assert result.status == "failed"
    assert result.final_state == {}


async def test_a_structured_reply_is_stored_as_the_model_wrote_it_and_the_re_asks_are_not() -> None:
    provider = scripted("nonsense", 'Sure: {"n": 1}')
    step = call(output="said", response_schema={"type": "json_object"}, retry={"max_retries": 1})
    result = await run(provider, step)
    assert result.final_state["said"] == {"n": 1}
    assert kept(result) == [("user", "Hello"), ("assistant", 'Sure: {"n": 1}')]


@tool
def look(at: str) -> str:
    """Look at something."""
    return f"saw {at}"


async def test_of_a_tool_loop_only_the_final_text_is_stored() -> None:
    asking = ToolCallPart(call_id="c1", tool_name="look", arguments={"at": "x"})
    asks = reply("", message=AssistantMessage(parts=(asking,)), stop_reason=StopReason.TOOL_USE)
    provider = scripted(asks, "Done.")
    result = await run(provider, call(tools=[{"name": "look"}]), tool={"look": look})
    assert len(provider.requests[1].messages) == 3
    assert kept(result) == [("user", "Hello"), ("assistant", "Done.")]


# --- steps of one layer -----------------------------------------------------------------------------


def problems(*steps: dict[str, Any], chat: Any = None) -> list[tuple[str, str, str]]:
    host = Host.of(plugins(scripted()))
    document = {
        "name": "t",
        "config": {"provider": "scripted"},
        "state": {} if chat is None else {"chat": chat},
        "steps": list(steps),
    }
    try:
        found = treadle.build_workflow(document, host=host).warnings
    except DocumentError as error:
        found = tuple(error.problems)
    return [(each.severity, each.code, str(each.message)) for each in found]


def test_two_steps_of_one_layer_on_one_conversation_are_refused_when_the_file_loads() -> None:
    message = "steps 'one' and 'two' may run at the same time and go on with 'state.chat'"
    assert problems(call("one"), call("two")) == [("error", "shared-conversation", message)]
    stored = call("two", conversation={"key": "chat", "store": "x"})
    assert problems(call("one"), stored) == [("error", "shared-conversation", message)]
    agent = {"id": "two", "type": "agent", "agent": {"name": "bob"}, "prompt": "Hi", "conversation": "chat"}
    assert problems(call("one"), agent) == [("error", "shared-conversation", message)]


def test_steps_that_wait_for_each_other_or_talk_elsewhere_are_not() -> None:
    assert problems(call("one"), call("two", depends_on=["one"])) == []
    assert problems(call("one"), call("two", conversation="other")) == []


def test_branches_of_one_router_are_exempt() -> None:
    router = {
        "id": "route",
        "type": "router",
        "conditions": [{"expression": "state.n == 1", "target": "one"}],
        "default": "two",
    }
    one, two = (call(name, depends_on=["route"]) for name in ("one", "two"))
    found = problems(router, one, two)
    assert [code for severity, code, _ in found if severity == "error"] == []
    three = call("three", depends_on=["route"])
    assert [code for severity, code, _ in problems(router, one, two, three) if severity == "error"] == [
        "shared-conversation"
    ]


def test_a_conversation_shared_with_an_earlier_layer_gets_an_order_and_a_warning() -> None:
    early, between = call("early"), call("between", conversation="other")
    late = call("late", depends_on=["between"])
    ((severity, code, message),) = problems(early, between, late)
    assert (severity, code) == ("warning", "missing-dependency")
    assert message.startswith("'state.chat' comes from step 'early'")


def test_a_conversation_that_nothing_provides_is_no_mistake() -> None:
    assert problems(call("one", conversation="state.support.chats.bob")) == []
    assert problems(call("one", conversation="state.chat.bob"), chat={"rob": []}) == []


# --- attachments ------------------------------------------------------------------------------------


async def test_attachments_go_with_this_turn_only_and_without_a_prompt_there_are_none() -> None:
    picture = MediaPart(type="image", media_type="image/png", data=b"png")
    seen: list[tuple[Message, ...]] = []

    class Looking(LlmCall):
        async def run(self, ctx: Any) -> Any:
            opening = await open_turn(
                ctx,
                prompt=None if self.prompt is None else ctx.render(self.prompt),
                system_prompt=None,
                model="m",
                media=(picture,),
                conversation=self.conversation,
            )
            seen.append(opening.messages)
            return StepOutcome(writes=opening.writes(ctx, "A cat."))

    provider = scripted()
    step = {"id": "turn", "type": "looking", "conversation": "chat", "prompt": "What is it?"}
    more = {"step_type": {"looking": Looking}}
    result = await run(provider, step, **more)
    assert seen[0] == (UserMessage(parts=(*UserMessage.of("What is it?").parts, picture)),)
    assert kept(result) == [("user", "What is it?"), ("assistant", "A cat.")]

    step = {"id": "turn", "type": "looking", "conversation": "chat"}
    await run(provider, step, chat=[{"role": "user", "content": "What is it?"}], **more)
    assert seen[1] == (UserMessage.of("What is it?"),)


# --- speakers ---------------------------------------------------------------------------------------

PLANNER = call("plan", speaker="alice", system_prompt="You plan.", prompt="Propose.", output="plan")
CRITIC = call("doubt", speaker="bob", system_prompt="You doubt.", prompt=None, depends_on=["plan"], output="critique")


async def test_speakers_name_their_turns_and_keep_their_own_instructions() -> None:
    provider = scripted("A plan.", "A doubt.", "Better.")
    again = {**PLANNER, "id": "again", "depends_on": ["doubt"], "prompt": "Again."}
    result = await run(provider, PLANNER, CRITIC, again)
    assert [shown(each.messages) for each in provider.requests] == [
        ["system: You plan.", "user: Propose."],
        ["system: You doubt.", "user: Propose.", "user alice: A plan."],
        ["system: You plan.", "user: Propose.", "assistant alice: A plan.", "assistant bob: A doubt.", "user: Again."],
    ]
    assert kept(result) == [
        ("user", "Propose."),
        ("assistant", "A plan.", "alice"),
        ("assistant", "A doubt.", "bob"),
        ("user", "Again."),
        ("assistant", "Better.", "alice"),
    ]
    assert result.warnings == ()


async def test_a_speakers_instructions_stand_behind_those_of_the_conversation() -> None:
    provider = scripted("ok")
    result = await run(provider, PLANNER, chat=[{"role": "system", "content": "A debate."}])
    assert shown(provider.requests[0].messages) == ["system: A debate.", "system: You plan.", "user: Propose."]
    assert ("system", "You plan.") not in kept(result)


async def test_a_speaker_does_not_answer_itself() -> None:
    provider = scripted("A plan.")
    result = await run(provider, PLANNER, {**CRITIC, "speaker": "alice"})
    assert str(result.step_results["doubt"].error) == (
        "'alice' spoke last in state.chat, and the step has no prompt; give the step a prompt"
    )


@pytest.mark.parametrize("speaker", ["a b", "", "x" * 65, "é"])
def test_a_speaker_is_named_in_letters_digits_and_two_signs(speaker: str) -> None:
    assert [severity for severity, *_ in problems(call(speaker=speaker))] == ["error"]
    assert problems(call(speaker="Al_ice-2" * 8)) == []


async def test_agents_are_speakers_by_their_name_and_their_settings_hold_for_their_turns() -> None:
    provider = scripted("Hm.")
    agent = {"name": "bob", "system_prompt": "You doubt.", "memory": {"token_budget": 60}}
    step = {"id": "a", "type": "agent", "agent": agent, "prompt": "Well?", "conversation": "state.chat"}
    chat = [{"role": "user", "content": LONG}, {"role": "assistant", "content": LONG}]
    result = await run(provider, step, chat=chat)
    assert shown(provider.requests[0].messages) == ["system: You doubt.", "user: Well?"]
    assert kept(result) == [("user", "Well?"), ("assistant", "Hm.", "bob")]
    assert "token_budget" not in result.final_state["chat"]


# --- budgets ----------------------------------------------------------------------------------------


def turns(*texts: str) -> list[dict[str, str]]:
    return [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts)]


@pytest.mark.parametrize("policy", [None, "drop_oldest", "drop_pairs"])
async def test_oldest_turns_go_out_of_the_request_and_out_of_the_state(policy: str | None) -> None:
    provider = scripted("ok")
    chat = {
        "messages": [{"role": "system", "content": "Be brief."}, *turns("a" * 100, "b" * 100, "c" * 40, "d" * 40)],
        "token_budget": 60,
        **({"trim_policy": policy} if policy else {}),
    }
    result = await run(provider, call(), chat=chat)
    left = ["Be brief.", "c" * 40, "d" * 40, "Hello"]
    assert [each.text for each in provider.requests[0].messages] == left
    assert [each[1] for each in kept(result)] == [*left, "ok"]
    assert result.final_state["chat"]["token_budget"] == 60
    assert result.warnings == ()


async def test_under_its_budget_nothing_is_touched() -> None:
    provider = scripted("ok")
    chat = {"messages": turns("a" * 100, "b" * 100), "token_budget": 66, "trim_policy": "summarize_oldest"}
    await run(provider, call(), chat=chat)  # 4 and 25 twice, 4 and 2
    assert [each.text for each in provider.requests[0].messages] == ["a" * 100, "b" * 100, "Hello"]


async def test_summarize_oldest_asks_the_steps_model_once_and_sends_what_it_says_as_a_system_message() -> None:
    provider = scripted(reply("They greeted.", model="m-9"), reply("ok", model="m-9"))
    chat = {
        "messages": [{"role": "system", "content": "Be brief."}, *turns("a" * 400, "b" * 400, "c" * 40, "d" * 40)],
        "token_budget": 100,
        "trim_policy": "summarize_oldest",
    }
    result = await run(provider, call(model="m-9", stream=True), chat=chat)
    summarize, answer = provider.requests
    assert (summarize.key, summarize.model, summarize.stream) == ("turn::summarize", "m-9", False)
    assert "a" * 400 in shown(summarize.messages)[-1]
    assert answer.key == "turn"
    assert [each.text for each in answer.messages] == [
        "Be brief.",
        "Summary of the conversation so far: They greeted.",
        "c" * 40,
        "d" * 40,
        "Hello",
    ]
    assert isinstance(answer.messages[1], SystemMessage)
    assert result.final_state["chat"]["summary"] == "They greeted."
    assert [each[1] for each in kept(result)] == ["Be brief.", "c" * 40, "d" * 40, "Hello", "ok"]


async def test_what_a_summary_costs_is_the_steps() -> None:
    spent = Usage(input_tokens=10, output_tokens=5)
    provider = scripted(reply("Short.", usage=spent), reply("ok", usage=spent))
    chat = {"messages": turns("a" * 400, "b" * 400), "token_budget": 60, "trim_policy": "summarize_oldest"}
    result = await run(provider, call(), chat=chat)
    assert result.step_results["turn"].usage.total_tokens == 30


async def test_where_the_summary_fails_the_messages_are_joined_as_text() -> None:
    provider = scripted(RateLimitError("busy", provider="scripted"), "ok")
    chat = {"messages": turns("a" * 100, "b" * 100), "token_budget": 60, "trim_policy": "summarize_oldest"}
    result = await run(provider, call(), chat=chat)
    assert result.final_state["chat"]["summary"] == f"user: {'a' * 100}\nassistant: {'b' * 100}"
    assert "state.chat could not be summarized by the model: busy" in [each.message for each in result.warnings]
    assert result.status == "success"


async def test_a_summary_grows_with_what_is_folded_in() -> None:
    provider = scripted("Newer.", "ok")
    chat = {
        "messages": turns("a" * 100, "b" * 100),
        "token_budget": 60,
        "trim_policy": "summarize_oldest",
        "summary": "Older.",
    }
    result = await run(provider, call(), chat=chat)
    assert "Older." in shown(provider.requests[0].messages)[-1]
    assert result.final_state["chat"]["summary"] == "Newer."


@pytest.mark.parametrize("policy", ["drop_oldest", "drop_pairs", "summarize_oldest"])
@pytest.mark.parametrize("what", ["system", "summary"])
async def test_where_what_stays_reaches_the_budget_nothing_is_removed_and_the_request_goes_over(
    policy: str, what: str
) -> None:
    provider = scripted("ok")
    chat: dict[str, Any] = {"messages": turns("a", "b"), "token_budget": 30, "trim_policy": policy}
    if what == "system":
        chat["messages"] = [{"role": "system", "content": "s" * 120}, *chat["messages"]]
    else:
        chat["summary"] = "s" * 120
    result = await run(provider, call(), chat=chat)
    assert len(provider.requests[0].messages) == 4
    assert len(result.final_state["chat"]["messages"]) == len(chat["messages"]) + 2
    (warning,) = result.warnings
    assert "nothing is removed, and the request goes over" in warning.message


@pytest.mark.parametrize("policy", ["drop_oldest", "drop_pairs", "summarize_oldest"])
async def test_a_budget_without_room_for_the_new_turn_fails_the_step_at_once(policy: str) -> None:
    provider = scripted("never")
    chat = {"messages": turns("a", "b"), "token_budget": 20, "trim_policy": policy}
    result = await run(provider, call(prompt="x" * 100, retry={"max_retries": 3}), chat=chat)
    assert str(result.step_results["turn"].error) == (
        "the token_budget 20 of state.chat has no room for the new turn, which takes about 29 tokens, 29 with what "
        "stays; raise the budget, or shorten the turn"
    )
    assert provider.requests == []
    assert result.final_state == {"chat": chat}


async def test_a_call_is_never_parted_from_its_results() -> None:
    provider = scripted("ok")
    chat = {
        "messages": [{"role": "user", "content": "Look."}, CALLED, RESULT, *turns("a" * 40, "b" * 40)],
        "token_budget": 45,
    }
    await run(provider, call(), chat=chat)
    assert [each.text for each in provider.requests[0].messages] == ["a" * 40, "b" * 40, "Hello"]


async def test_in_a_long_run_of_tools_the_oldest_calls_go_with_their_results_and_the_question_stays() -> None:
    def pair(n: int) -> list[dict[str, Any]]:
        calls = [{"id": f"c{n}", "name": "look", "arguments": {}}]
        return [
            {"role": "assistant", "content": "", "tool_calls": calls},
            {"role": "tool", "tool_call_id": f"c{n}", "content": "x" * 40},
        ]

    provider = scripted("ok")
    chat = {"messages": [*turns("Look."), *pair(1), *pair(2), *pair(3)], "token_budget": 60}
    await run(provider, call(prompt=None), chat=chat)
    (request,) = provider.requests
    assert [each.role for each in request.messages] == ["user", "assistant", "tool", "assistant", "tool"]
    assert request.messages[1].tool_calls[0].call_id == "c2"


async def test_an_unknown_policy_is_told_with_the_ones_there_are() -> None:
    provider = scripted("never")
    result = await run(provider, call(), chat={"messages": [], "trim_policy": "drop_pears"})
    assert "did you mean 'drop_pairs'" in str(result.step_results["turn"].error)
    assert provider.requests == []


# --- other policies and counters --------------------------------------------------------------------


class Bad:
    """Parts a call from its results."""

    async def trim(self, groups: Any, **settings: Any) -> Any:
        return Trimmed(groups=tuple((message,) for group in groups for message in group))


class Dropping:
    """Drops the newest."""

    async def trim(self, groups: Any, **settings: Any) -> Any:
        return Trimmed(groups=tuple(groups[:-1]))


@pytest.mark.parametrize(
    ("policy", "error"),
    [
        (Bad, "trim policy 'bad' changed, parted or moved messages of state.chat; it may only leave some out"),
        (Dropping, "trim policy 'bad' removed the instructions or the newest user turn of state.chat"),
    ],
)
async def test_what_a_policy_leaves_is_looked_at_before_it_is_sent(policy: Any, error: str) -> None:
    provider = scripted("never")
    chat = {
        "messages": [*turns("Look."), CALLED, RESULT, *turns("a" * 40, "b" * 40)],
        "token_budget": 30,
        "trim_policy": "bad",
    }
    result = await run(provider, call(), chat=chat, trim_policy={"bad": policy})
    assert str(result.step_results["turn"].error) == error
    assert provider.requests == []


async def test_the_counter_is_told_the_model_and_may_be_anothers() -> None:
    models = set()

    class Each:
        def count(self, messages: Any, *, model: str) -> int:
            models.add(model)
            return len(messages)

    provider = scripted("ok")
    host = Host.of(
        plugins(provider, token_counter={"each": Each}),
        settings=Settings.model_validate({"roles": {"token_counter": "each"}}),
    )
    document = {
        "name": "t",
        "config": {"provider": "scripted"},
        "state": {"chat": {"messages": turns("a", "b", "c", "d"), "token_budget": 3}},
        "steps": [call(model="m-7")],
    }
    await treadle.run(treadle.build_workflow(document, host=host))
    assert [each.text for each in provider.requests[0].messages] == ["c", "d", "Hello"]
    assert models == {"m-7"}
