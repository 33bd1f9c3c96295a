"""Answers that have a shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import trio
from pydantic import BaseModel

from treadle_loop import (
    Agent,
    ConfigurationError,
    ConversationStatus,
    Deps,
    FakeClient,
    ModelResponse,
    OutputInvalid,
    Registry,
    StopReason,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolSpec,
    Transcript,
    run_conversation_typed,
    run_conversation_typed_async,
)


class Person(BaseModel):
    """Somebody."""

    name: str
    age: int


@dataclass
class Point:
    x: int
    y: int = 2


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


class Schemas(FakeClient):
    """Holds replies to a schema itself, or says so."""

    output_schemas = True


def called(name: str, /, **arguments: Any) -> ModelResponse:
    return ModelResponse(content=(ToolCallPart(id=f"c-{name}", tool_name=name, arguments=arguments),))


def final(**arguments: Any) -> ModelResponse:
    return called("final_result", **arguments)


def asked() -> Transcript:
    transcript = Transcript()
    transcript.add_user_message("who?")
    return transcript


def typed(client: Any, output_type: Any, *tools: ToolSpec, **more: Any) -> Any:
    return run_conversation_typed(asked(), client, Registry(tools), Deps(), output_type, **more)


LOOK = ToolSpec("look", "looks", {"type": "object", "properties": {}}, lambda deps: "Ada, 36")


@pytest.mark.parametrize(
    ("output_type", "text", "value"),
    [
        (Person, '{"name": "Ada", "age": 36}', Person(name="Ada", age=36)),
        (Point, 'Here it is:\n```json\n{"x": 1}\n```', Point(x=1, y=2)),
        (SCHEMA, '{"n": 1}', {"n": 1}),
        (list[int], "[1, 2]", [1, 2]),
    ],
)
def test_a_client_with_schemas_is_told_the_shape_and_its_text_is_read(output_type: Any, text: str, value: Any) -> None:
    client = Schemas(text)
    result = typed(client, output_type)
    assert result.output == value
    assert type(result.output) is type(value)
    (request,) = client.requests
    assert request.output is not None
    assert request.output.schema is not None
    assert (request.tools, request.tool_choice) == ((), "auto")
    assert result.text == text


@pytest.mark.parametrize(
    ("output_type", "arguments", "value", "text"),
    [
        (Person, {"name": "Ada", "age": "36"}, Person(name="Ada", age=36), '{"name": "Ada", "age": "36"}'),
        (Point, {"x": 1}, Point(x=1), '{"x": 1}'),
        (SCHEMA, {"n": 1}, {"n": 1}, '{"n": 1}'),
        (list[Person], {"value": [{"name": "Ä", "age": 1}]}, [Person(name="Ä", age=1)], '[{"name": "Ä", "age": 1}]'),
        (int | None, {"value": None}, None, "null"),
    ],
)
def test_other_clients_give_it_by_calling_a_tool_and_the_transcript_keeps_its_json(
    output_type: Any, arguments: dict[str, Any], value: Any, text: str
) -> None:
    client = FakeClient(final(**arguments), "well")
    result = typed(client, output_type)
    assert result.output == value
    (request,) = client.requests
    assert (request.output, request.tool_choice) == (None, "required")
    assert request.tools[0].parameters["type"] == "object"
    assert result.text == text
    result.transcript.check_invariants()
    result.transcript.add_user_message("and?")
    assert Agent([], client=client).converse_result(result.transcript).text == "well"


def test_it_works_with_tools_whatever_the_client_can_do() -> None:
    client = Schemas(called("look"), final(name="Ada", age=36))
    result = typed(client, Person, LOOK)
    assert result.output == Person(name="Ada", age=36)
    assert [each.name for each in client.requests[0].tools] == ["look", "final_result"]
    assert [each.tool_choice for each in client.requests] == ["required", "required"]
    assert result.summary.tool_calls == {"look": 1}
    assert result.summary.status is ConversationStatus.COMPLETED


def test_a_model_that_misses_the_shape_is_told_what_is_wrong_and_asked_again() -> None:
    client = FakeClient(final(name="Ada"), "Ada is 36", final(name="Ada", age=36))
    assert typed(client, Person).output == Person(name="Ada", age=36)
    told = client.requests[1].messages[-1].tool_results[0]
    assert told.is_error
    assert "age: Field required; call 'final_result' again with a valid answer" in told.content
    assert (
        "no JSON in the reply: 'Ada is 36'. Give your answer by calling the tool 'final_result'"
        in client.requests[2].messages[-1].text
    )
    schemas = Schemas('{"name": "Ada"}', '{"name": "Ada", "age": 36}')
    assert typed(schemas, Person).output == Person(name="Ada", age=36)
    assert "age: Field required. Reply again, with the JSON alone" in schemas.requests[1].messages[-1].text


def test_text_that_has_the_shape_is_taken_from_a_model_that_does_not_call_the_tool() -> None:
    result = typed(FakeClient('{"name": "Ada", "age": 36}'), Person)
    assert (result.output, result.text) == (Person(name="Ada", age=36), '{"name": "Ada", "age": 36}')


def test_a_reply_of_nothing_is_not_kept() -> None:
    client = Schemas(ModelResponse(content=(TextPart(text=""),)), '{"name": "Ada", "age": 36}')
    result = typed(client, Person)
    assert [each.role for each in client.requests[1].messages] == ["user", "user"]
    assert result.output == Person(name="Ada", age=36)


@pytest.mark.parametrize("retries", [0, 2])
@pytest.mark.parametrize("client", [FakeClient, Schemas])
def test_so_often_and_no_oftener(retries: int, client: Any) -> None:
    fake = client(*["no"] * 9)
    with pytest.raises(OutputInvalid, match=f"in {retries + 1} tries: ") as caught:
        typed(fake, Person, output_retries=retries)
    assert len(fake.requests) == retries + 1
    assert caught.value.summary is not None
    assert caught.value.summary.status is ConversationStatus.ERROR


def test_a_tool_called_beside_a_wrong_answer_runs_and_both_are_answered() -> None:
    both = ModelResponse(
        content=(
            ToolCallPart(id="a", tool_name="look", arguments={}),
            ToolCallPart(id="b", tool_name="final_result", arguments={}),
        )
    )
    client = FakeClient(both, final(name="Ada", age=36))
    typed(client, Person, LOOK)
    ran, refused = client.requests[1].messages[-1].tool_results
    assert (ran.content, ran.is_error) == ("Ada, 36", False)
    assert (refused.call_id, refused.is_error) == ("b", True)


def test_the_answer_ends_the_conversation_and_what_was_called_beside_it_does_not_run() -> None:
    ran: list[int] = []
    tool = ToolSpec("look", "looks", {"type": "object", "properties": {}}, lambda deps: ran.append(1))
    both = ModelResponse(
        content=(
            ThinkingPart(text="hm"),
            ToolCallPart(id="a", tool_name="look", arguments={}),
            ToolCallPart(id="b", tool_name="final_result", arguments={"name": "Ada", "age": 36}),
        )
    )
    result = typed(FakeClient(both), Person, tool)
    assert result.output == Person(name="Ada", age=36)
    assert not ran
    assert [part.type for part in result.transcript.messages[-1].content] == ["thinking", "text"]


@pytest.mark.parametrize("client", [FakeClient, Schemas])
def test_a_refusal_returns_without_a_value_and_raises_where_only_that_is_asked_for(client: Any) -> None:
    refusal = ModelResponse(content=(TextPart(text="I will not"),), stop_reason=StopReason.REFUSAL)
    result = typed(client(refusal), Person)
    assert (result.output, result.summary.status) == (None, ConversationStatus.REFUSED)
    with pytest.raises(OutputInvalid, match="the model refused: I will not") as caught:
        Agent([], client=client(refusal)).run("who?", output_type=Person)
    assert caught.value.summary is not None


def test_an_agent_gives_the_value_itself() -> None:
    person = Agent([LOOK], client=FakeClient(final(name="Ada", age=36))).run("who?", output_type=Person)
    assert person.name == "Ada"  # and mypy knows that it is a Person
    agent = Agent([], client=FakeClient("no", "no"), output_retries=1)
    with pytest.raises(OutputInvalid, match="in 2 tries"):
        agent.run_result("who?", output_type=Person)
    assert trio.run(run_async) == Person(name="Ada", age=36)


async def run_async() -> Person:
    client = FakeClient(*[final(name="Ada", age=36)] * 3)
    agent = Agent([LOOK], client=client)
    result = await run_conversation_typed_async(asked(), client, Registry([]), Deps(), Person)
    assert result.output == (await agent.run_result_async("who?", output_type=Person)).output
    return await agent.run_async("who?", output_type=Person)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (object(), "output_type: Unable to generate"),
        ("Person", "output_type: 'Person' is no type; give a pydantic model"),
        (asked, "is no type"),
        ({"type": "nope"}, "output_type: not a JSON Schema"),
    ],
)
def test_what_is_no_shape_is_refused_before_any_call(wrong: Any, message: str) -> None:
    client = FakeClient("x")
    with pytest.raises(ConfigurationError, match=message):
        typed(client, wrong)
    assert client.requests == []


def test_a_tool_of_the_name_is_refused_and_so_is_a_negative_count() -> None:
    own = ToolSpec("final_result", "d", {"type": "object", "properties": {}}, lambda deps: "x")
    with pytest.raises(ConfigurationError, match="a tool is named 'final_result', by which a typed answer is given"):
        typed(FakeClient("x"), Person, own)
    with pytest.raises(ConfigurationError, match="output_retries is at least 0, not -1"):
        typed(FakeClient("x"), Person, output_retries=-1)
