"""What of a request has changed, in words; and what fits a recorded text with something redacted in it."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle import (
    EmbedRequest,
    ModelRequest,
    OutputSchema,
    SystemMessage,
    ToolMessage,
    ToolResultPart,
    ToolSpec,
    UserMessage,
)
from treadle_replay.drift import REDACTED, changes, fits
from treadle_replay.request_hash import hashed_content

PLAIN = ModelRequest(
    model="m",
    messages=(SystemMessage(text="Be brief"), UserMessage.of("About tides")),
    tools=(ToolSpec(name="look", description="Look at it"),),
    output=OutputSchema(name="o", schema={"type": "object"}),
)
LONG = "x" * 200


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"model": "n"}, ["model: 'm' -> 'n'"]),
        ({"temperature": 0.5}, ["temperature: null -> 0.5"]),
        ({"max_tokens": 5}, ["max_tokens: null -> 5"]),
        ({"messages": (SystemMessage(text="Be long"), PLAIN.messages[1])},
         ["the system prompt (message 1): 'Be brief' -> 'Be long'"]),
        ({"messages": (PLAIN.messages[0], UserMessage.of("About tides!"))},
         ["the prompt (message 2): 'About tides' -> 'About tides!'"]),
        ({"messages": PLAIN.messages[1:]},
         ["2 messages then, 1 now", "the prompt (message 1): role 'system' -> 'user'"]),
        ({"tools": ()}, ["the tools: 'look' is gone"]),
        ({"tools": (*PLAIN.tools, ToolSpec(name="go"))}, ["the tools: 'go' is new"]),
        ({"tools": (ToolSpec(name="look", description="Look"),)},
         ["the tools: description of 'look': 'Look at it' -> 'Look'"]),
        ({"tools": (replace(PLAIN.tools[0], parameters={}),)}, ["the tools: parameters of 'look': "]),
        ({"output": None}, ["the schema of the reply: "]),
        ({"tool_choice": "none"}, ["the choice of tools: null -> 'none'"]),
        ({"stop_sequences": ("x",)}, ["stop_sequences: null -> "]),
    ],
)  # fmt: skip
def test_each_field_that_changed_is_named_with_what_changed_in_it(change: dict[str, Any], told: list[str]) -> None:
    found = changes(hashed_content(PLAIN), hashed_content(replace(PLAIN, **change)))
    assert len(found) == len(told)
    for text, wanted in zip(found, told, strict=True):
        assert text.startswith(wanted), text


def test_of_long_texts_the_piece_is_shown_that_differs() -> None:
    before, after = (
        replace(PLAIN, messages=(UserMessage.of(f"{LONG} {word} {LONG}"),)) for word in ("old", "new and longer")
    )
    (told,) = changes(hashed_content(before), hashed_content(after))
    assert told == (
        "the prompt (message 1): '…xxxxxxxxxxxxxxxxxxx old xxxxxxxxxxxxxxxxxxx…' -> "
        "'…xxxxxxxxxxxxxxxxxxx new and longer xxxxxxxxxxxxxxxxxxx…'"
    )


def test_after_four_changes_the_others_are_counted() -> None:
    other = replace(PLAIN, model="n", temperature=1.0, max_tokens=1, tools=(), output=None, stop_sequences=("x",))
    told = changes(hashed_content(PLAIN), hashed_content(other))
    assert len(told) == 5
    assert told[-1] == "and 2 more"


def test_other_messages_are_named_by_number_and_role() -> None:
    first, second = (
        replace(PLAIN, messages=(*PLAIN.messages, ToolMessage(results=(
            ToolResultPart(call_id="1", tool_name="look", content=text),
        )))) for text in ("a", "b")
    )  # fmt: skip
    assert changes(hashed_content(first), hashed_content(second)) == ["message 3 (result of a tool): 'a' -> 'b'"]
    (told,) = changes(hashed_content(EmbedRequest(model="m", inputs=("a",))), hashed_content(PLAIN))
    assert told == "embeddings was asked for, and a reply is"


def test_inputs_that_came_or_went_are_told() -> None:
    one, two = (hashed_content(EmbedRequest(model="m", inputs=inputs)) for inputs in (("a",), ("a", "b")))
    assert changes(one, two) == ["input 2 is new: b"]
    assert changes(two, one) == ["input 2 is gone: b"]


@given(st.lists(st.text(alphabet="ab<", max_size=3), min_size=2, max_size=4), st.data())
def test_anything_fits_where_something_was_redacted(pieces: list[str], data: st.DataObject) -> None:
    between = data.draw(st.lists(st.text(alphabet="abc", max_size=3), min_size=len(pieces), max_size=len(pieces)))
    now = "".join(f"{piece}{text}" for piece, text in zip(pieces[:-1], between, strict=False)) + pieces[-1]
    assert fits({"a": [REDACTED.join(pieces)]}, {"a": [now]})


@given(st.text(alphabet="ab", max_size=4), st.text(alphabet="ab", max_size=4), st.text(alphabet="ab", max_size=6))
def test_what_stands_around_it_must_be_there(head: str, tail: str, now: str) -> None:
    wanted = now.startswith(head) and now.endswith(tail) and len(now) >= len(head) + len(tail)
    assert fits(f"{head}{REDACTED}{tail}", now) == wanted


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=3), lambda inner: st.lists(inner)
    | st.dictionaries(st.text(max_size=2), inner), max_leaves=6))  # fmt: skip
def test_a_value_fits_itself(value: Any) -> None:
    assert fits(value, value)
