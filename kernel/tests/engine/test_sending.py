"""Halves of surrogate pairs on their way to a model and into the state."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle import (
    AssistantMessage,
    ModelRequest,
    Step,
    StepContext,
    StepOutcome,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    ToolSpec,
    UserMessage,
)
from treadle._engine.sending import RequestCleaner, clean, clean_text
from treadle.testing import offering, run_workflow, scripted

SMILE, HIGH, LOW = "\U0001f600", "\ud83d", "\ude00"

anything = st.text(alphabet=st.characters())  # surrogates too
values = st.recursive(
    st.none() | st.booleans() | st.integers() | anything,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(anything, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("plain", "plain"),
        (HIGH + LOW, SMILE),
        (f"a{HIGH}b", "a\ufffdb"),
        (f"{LOW}{HIGH}", "\ufffd\ufffd"),
        (SMILE, SMILE),
    ],
)
def test_halves_side_by_side_are_joined_and_one_alone_is_replaced(text: str, cleaned: str) -> None:
    assert clean_text(text) == cleaned


@given(values)
def test_a_clean_value_can_be_written_and_stays_as_it_is(value: Any) -> None:
    cleaned = clean(value)
    json.dumps(cleaned, ensure_ascii=False).encode()
    assert clean(cleaned) is cleaned


def test_every_text_of_a_request_is_cleaned_and_one_without_need_is_the_same_object() -> None:
    bad = f"x{HIGH}"
    call = ToolCallPart(call_id="c", tool_name="t", arguments={bad: [bad]})
    request = ModelRequest(
        model="m",
        messages=(
            UserMessage.of(bad, name=bad),
            AssistantMessage(parts=(TextPart(text=bad), call)),
            ToolMessage(results=(ToolResultPart(call_id="c", tool_name="t", content=bad),)),
        ),
        tools=(ToolSpec(name="t", description=bad),),
    )
    cleaner = RequestCleaner()
    cleaned = cleaner.clean(request)
    assert HIGH not in str(cleaned).encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\ufffd", "")
    repr(cleaned).encode()
    assert cleaned.messages[1].parts[1].arguments == {"x\ufffd": ["x\ufffd"]}  # type: ignore[union-attr]
    assert cleaner.clean(cleaned) is cleaned


class Say(Step):
    """Writes half a character, and asks a model about it."""

    async def run(self, ctx: StepContext) -> StepOutcome:
        response = await ctx.complete(
            ModelRequest(model="m", messages=(UserMessage.of(f"{ctx.state['given']}{HIGH}"),))
        )
        return StepOutcome(value={"a": [response.text, HIGH]}, raw=LOW)


async def test_what_a_run_sends_and_keeps_can_be_encoded() -> None:
    provider = scripted(f"re{LOW}")
    result = await run_workflow(
        {"name": "t", "config": {"provider": "p"}, "steps": [{"id": "s", "type": "say", "output": "made"}]},
        plugins={"double": offering({"step_type": {"say": Say}, "provider": {"p": provider}})},
        state={"given": HIGH},
    )
    assert provider.requests[0].messages[0].text == "\ufffd\ufffd"
    assert result.final_state == {"given": "\ufffd", "made": {"a": ["re\ufffd", "\ufffd"]}}
    assert result.step_results["s"].output == "\ufffd"
    json.dumps(result.to_json(), ensure_ascii=False).encode()
