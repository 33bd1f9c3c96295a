"""Questions of paused steps: asked once, answered by gate, in any order, by whoever goes on with the run."""

from __future__ import annotations

import time
from typing import Any

import pytest
from engine_doubles import act, flow, host_of, statuses

import treadle
from treadle import ConfigurationError, MemoryJournal, Pending, Record, StepOutcome

SIZE = Pending(question="Which size?", choices=("small", "large"))


def asking(*questions: Pending, told: list[bool] | None = None) -> Any:
    """A step of a stranger: it gives the answers, once it has all of them."""

    async def behave(ctx):
        if told is not None:
            told.append(ctx.was_asked(questions[0]))
        answers = [ctx.answer(each) for each in questions]
        missing = tuple(each for each, answer in zip(questions, answers, strict=True) if answer is None)
        return StepOutcome(pending=missing) if missing else ",".join(answers)

    return behave


async def runs(workflow, journal, *answers, **how):
    """The workflow run, and gone on with for each set of answers in a session of its own."""
    async with treadle.open(host=workflow.host, journal=journal) as session:
        result = await session.run(workflow, run_id="r", **how)
    for each in answers:
        async with treadle.open(host=workflow.host, journal=journal) as session:
            result = await session.resume("r", answers=each)
    return result


async def test_a_step_pauses_with_a_question_and_has_its_answer_when_it_runs_again():
    told: list[bool] = []
    workflow = flow(host_of({"a": asking(SIZE, told=told)}), act("a", output="x"), act("b", "a", value=1))
    journal = MemoryJournal()
    paused = await runs(workflow, journal)
    assert (paused.status, [each.gate for each in paused.pending]) == ("paused", ["a"])
    async with treadle.open(host=workflow.host, journal=journal) as session:
        again = await session.resume("r")
        assert again.pending == paused.pending
        result = await session.resume("r", answers={"a": "large"})
    assert (result.status, result.final_state["x"], result.step_results["a"].output) == ("success", "large", "large")
    assert result.step_results["a"].attempts == 1
    assert told == [False, True, True]


async def test_gates_are_answered_in_any_order_and_each_answer_holds():
    steps = {name: asking(Pending(question=f"{name}?")) for name in "abc"}
    workflow = flow(host_of(steps), *(act(name, output=name) for name in "abc"), act("end", "a", "b", "c"))
    journal = MemoryJournal()
    result = await runs(workflow, journal, {"c": "3"}, {"a": "1"})
    assert statuses(result) == {"a": "success", "b": "paused", "c": "success", "end": "pending"}
    async with treadle.open(host=workflow.host, journal=journal) as session:
        result = await session.resume("r", answers={"": "2"})
    assert (result.status, result.final_state) == ("success", {"a": "1", "b": "2", "c": "3"})


async def test_several_questions_of_one_step_have_names_or_numbers_which_stay():
    questions = [Pending(question="one?"), Pending(question="two?"), Pending(question="three?", name="last")]
    workflow = flow(host_of({"a": asking(*questions)}), act("a", output="x"))
    journal = MemoryJournal()
    paused = await runs(workflow, journal)
    assert [each.gate for each in paused.pending] == ["a", "a:2", "a:last"]
    async with treadle.open(host=workflow.host, journal=journal) as session:
        paused = await session.resume("r", answers={"a": "1"})
        assert [each.gate for each in paused.pending] == ["a:2", "a:last"]
        result = await session.resume("r", answers={"a:last": "3", "a:2": "2"})
    assert result.final_state["x"] == "1,2,3"


async def test_a_step_that_asks_one_thing_after_the_other_is_answered_at_one_gate():
    async def behave(ctx):
        first = Pending(question="Who?")
        who = ctx.answer(first)
        if who is None:
            return StepOutcome(pending=(first,))
        second = Pending(question=f"What of {who}?")
        what = ctx.answer(second)
        return StepOutcome(pending=(second,)) if what is None else f"{who}: {what}"

    workflow = flow(host_of({"a": behave}), act("a", output="x"))
    result = await runs(workflow, MemoryJournal(), {"a": "ann"}, {"a": "all"})
    assert result.final_state["x"] == "ann: all"


async def test_an_answer_is_to_what_was_asked():
    price = ["10"]

    async def behave(ctx):
        question = Pending(question=f"Pay {price[0]}?", choices=("yes", "no"))
        answer = ctx.answer(question)
        return StepOutcome(pending=(question,)) if answer is None else answer

    workflow = flow(host_of({"a": behave}), act("a", output="x"))
    journal = MemoryJournal()
    await runs(workflow, journal)
    price[0] = "10000"
    async with treadle.open(host=workflow.host, journal=journal) as session:
        paused = await session.resume("r", answers={"a": "yes"})
        assert [each.question for each in paused.pending] == ["Pay 10000?"]
        result = await session.resume("r", answers={"a": "no"})
    assert result.final_state["x"] == "no"


async def test_a_later_attempt_that_asks_the_same_has_the_answer():
    failed = []

    async def behave(ctx):
        answer = ctx.answer(SIZE)
        if answer is None:
            return StepOutcome(pending=(SIZE,))
        if not failed:
            failed.append(1)
            raise OSError("flaky")
        return answer

    workflow = flow(host_of({"a": behave}), act("a", output="x", retry={"max_retries": 1, "backoff_base": 0}))
    result = await runs(workflow, MemoryJournal(), {"a": "small"})
    assert (result.final_state["x"], result.step_results["a"].attempts) == ("small", 2)


async def test_a_gate_of_a_child_run_is_answered_by_its_dotted_path():
    async def parent(ctx):
        inner = {"name": "in", "steps": [act("gate", output="x"), act("next", "gate", value=1)]}
        result = await ctx.run_child(inner)
        return result.final_state.get("x")

    host = host_of({"sub": parent, "gate": asking(SIZE)})
    workflow = flow(host, act("sub", output="y"))
    journal = MemoryJournal()
    paused = await runs(workflow, journal)
    assert [each.gate for each in paused.pending] == ["sub.gate"]
    async with treadle.open(host=host, journal=journal) as session:
        result = await session.resume("r", answers={"sub.gate": "small"})
    assert (result.status, result.final_state["y"]) == ("success", "small")


@pytest.mark.parametrize(
    ("answers", "message", "hint"),
    [
        ({"sise": "small"}, "run r has no gate 'sise'", "did you mean 'size'?"),
        ({"zzz": "small"}, "run r has no gate 'zzz'", "there are note, size"),
        ({"size": "huge"}, "run r: gate 'size' is answered with one of small, large; not 'huge'", None),
        ({"": "x"}, "run r waits at several gates: size, note", "say which one is answered"),
    ],
)
async def test_what_is_no_answer_is_told_and_changes_nothing(answers, message, hint):
    host = host_of({"size": asking(SIZE), "note": asking(Pending(question="Why?"))})
    workflow = flow(host, act("size"), act("note"))
    journal = MemoryJournal()
    await runs(workflow, journal)
    before = len(list(journal.entries("r")))
    async with treadle.open(host=host, journal=journal) as session:
        with pytest.raises(ConfigurationError) as caught:
            await session.resume("r", answers=answers)
    assert sorted(caught.value.message.replace(",", "").split()) == sorted(message.replace(",", "").split())
    assert caught.value.hint == hint
    assert len(list(journal.entries("r"))) == before


async def test_an_answered_gate_is_not_answered_again():
    host = host_of({"a": asking(Pending(question="?")), "b": asking(Pending(question="!"))})
    workflow = flow(host, act("a"), act("b"))
    journal = MemoryJournal()
    await runs(workflow, journal, {"a": "1"})
    async with treadle.open(host=host, journal=journal) as session:
        with pytest.raises(ConfigurationError, match="run r: gate 'a': it has been answered '1'"):
            await session.resume("r", answers={"a": "2"})


async def test_an_answer_can_be_recorded_before_anybody_goes_on():
    workflow = flow(host_of({"a": asking(SIZE)}), act("a", output="x"))
    journal = MemoryJournal()
    await runs(workflow, journal)
    async with treadle.open(host=workflow.host, journal=journal) as session:
        await session.answer("r", {"a": "large"})
        with pytest.raises(ConfigurationError, match="has been answered 'large'"):
            await session.answer("r", {"a": "small"})
        assert Record("r", journal.entries("r")).gates.has_answers
        result = await session.resume("r")
    assert result.final_state["x"] == "large"


async def test_a_record_that_is_out_of_date_goes_on_with_nothing():
    """Between reading a record and going on, another process has done so."""
    ran = []

    async def once(ctx):
        ran.append(1)

    workflow = flow(host_of({"a": asking(SIZE), "b": once}), act("a"), act("b", "a"))
    journal = MemoryJournal()
    await runs(workflow, journal)
    async with treadle.open(host=workflow.host, journal=journal) as session:
        stale = Record.of(journal, "r", answers={"a": "small"})
        await session.resume("r", answers={"a": "large"})
        with pytest.raises(ConfigurationError, match="has been answered or gone on with elsewhere"):
            await session.start(workflow, earlier=stale).execute()
    assert ran == [1]


# --- time ---


def timed(seconds: float = 60.0) -> Pending:
    return Pending(question="Now?", choices=("yes", "no"), timeout=seconds, default="no")


async def test_a_question_that_nobody_answers_in_time_has_its_default_and_the_run_says_so(monkeypatch):
    workflow = flow(host_of({"a": asking(timed())}), act("a", output="x"))
    journal = MemoryJournal()
    clock = [1_000_000.0]
    monkeypatch.setattr(time, "time", lambda: clock[0])
    paused = await runs(workflow, journal)
    assert paused.pending[0].deadline == 1_000_060.0
    async with treadle.open(host=workflow.host, journal=journal) as session:
        clock[0] += 59
        paused = await session.resume("r")
        assert paused.pending[0].deadline == 1_000_060.0, "asking again gives no more time"
        clock[0] += 1
        with pytest.raises(ConfigurationError, match="gate 'a': nobody answered in time, and the answer is 'no'"):
            await session.resume("r", answers={"a": "yes"})
        with pytest.raises(ConfigurationError, match="no answer; its time was over, and treadle resume goes on"):
            await session.resume("r", answers={"": "yes"})
        result = await session.resume("r")
    assert (result.status, result.final_state["x"]) == ("success", "no")
    assert [each.message for each in result.warnings] == ["nobody answered within 60 s, so the answer is 'no'"]


async def test_what_timed_out_stays_so_where_the_clock_is_set_back(monkeypatch):
    async def fail(ctx):
        raise ValueError("no")

    workflow = flow(host_of({"a": asking(timed()), "b": fail}), act("a", output="x"), act("b", "a"))
    journal = MemoryJournal()
    clock = [1_000_000.0]
    monkeypatch.setattr(time, "time", lambda: clock[0])
    await runs(workflow, journal)
    clock[0] += 61
    async with treadle.open(host=workflow.host, journal=journal) as session:
        await session.resume("r")
        clock[0] = 900_000.0
        result = await session.resume("r")
    assert result.final_state["x"] == "no"
    assert Record("r", journal.entries("r")).gates.known["a"].expired


@pytest.mark.parametrize(
    "fields",
    [
        {"timeout": 5.0},
        {"default": "x"},
        {"choices": ("a",), "timeout": 1.0, "default": "b"},
        {"name": "a b"},
        {"name": "a/b"},
    ],
)
def test_a_question_that_cannot_be_is_refused(fields):
    with pytest.raises(ValueError):  # noqa: PT011 - each says another thing
        Pending(question="?", **fields)


def test_a_question_comes_back_from_json_as_it_was():
    question = Pending(question="?", choices=("a",), name="n", timeout=1.5, default="a", step_id="s", deadline=1e9)
    assert Pending.from_json(question.to_json()) == question
    assert Pending.from_json({"question": "?", "choices": []}) == Pending(question="?")


# --- what is not told ---


async def test_a_question_does_not_tell_what_is_redacted_and_its_answer_holds_in_another_process(monkeypatch):
    async def behave(ctx):
        question = Pending(question=f"Charge {ctx.state['card']}?", details={"card": ctx.state["card"]})
        answer = ctx.answer(question)
        return StepOutcome(pending=(question,)) if answer is None else answer

    host = host_of({"a": behave})
    document = {"state": {"card": "4111-1111"}, "state_schema": {"card": {"redact": True}}}
    workflow = flow(host, act("a", output="x"), **document)
    journal = MemoryJournal()
    paused = await runs(workflow, journal)
    assert "4111" not in str(paused.to_json()) + str(list(journal.entries("r"))[1:])
    from treadle import redaction

    monkeypatch.setattr(redaction, "_SALT", "another process")
    async with treadle.open(host=host, journal=journal) as session:
        result = await session.resume("r", state={"card": "4111-1111"}, answers={"a": "yes"})
    assert result.final_state["x"] == "yes"


async def test_an_answer_that_is_redacted_is_not_recorded():
    host = host_of({"a": asking(Pending(question="Which card?"))})
    workflow = flow(host, act("a", output="card"), state_schema={"card": {"redact": True}})
    journal = MemoryJournal()
    result = await runs(workflow, journal, {"a": "4111-1111"})
    assert result.status == "success"
    assert "4111" not in str(list(journal.entries("r")))


async def test_what_is_said_of_a_step_to_others_knows_the_outermost_run():
    found = []

    async def inner(ctx):
        found.append((ctx.run_id, ctx.outer_run_id, ctx.path, ctx.workflow_name, ctx.is_recorded))

    async def parent(ctx):
        await ctx.run_child({"name": "in", "steps": [act("leaf")]})

    await runs(flow(host_of({"sub": parent, "leaf": inner}), act("sub")), MemoryJournal())
    assert found == [("r.sub", "r", "sub.leaf", "in", False)]
