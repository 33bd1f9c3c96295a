"""A conversation is converted message by message, once each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from treadle.messages import AssistantMessage, Message, UserMessage
from treadle_http.history import History, Piece, encoded


class Counting:
    def __init__(self) -> None:
        self.converted: list[Message] = []

    def __call__(self, message: Message) -> Iterator[dict[str, Any]]:
        self.converted.append(message)
        yield {"role": message.role, "n": len(self.converted)}
        if isinstance(message, AssistantMessage):
            yield {"role": "after"}


def talk(count: int) -> list[Message]:
    return [(AssistantMessage if n % 2 else UserMessage).of(str(n)) for n in range(count)]


def test_a_conversation_that_grows_is_converted_once() -> None:
    counting = Counting()
    history, said = History(counting), talk(40)
    for size in range(3, 41):
        pieces = history.converted(tuple(said[:size]))
    assert counting.converted == said
    assert [piece["role"] for piece in pieces[:3]] == ["user", "assistant", "after"]


@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=8), max_size=12))
def test_whatever_came_before_each_message_becomes_what_it_is(calls: list[list[int]]) -> None:
    said = talk(10)
    history = History(lambda message: [{"text": message.text}])  # type: ignore[union-attr]
    for call in calls:
        messages = [said[n] for n in call]
        assert history.converted(messages) == [{"text": str(n)} for n in call]


def test_only_the_latest_conversations_are_kept() -> None:
    counting = Counting()
    history = History(counting)
    first, others = talk(3), [talk(3) for _ in range(256)]
    for each in (first, *others, first):
        history.converted(each)
    assert len(counting.converted) == 3 * 258
    history.converted(first)
    assert len(counting.converted) == 3 * 258


@given(
    st.dictionaries(
        st.text(max_size=4),
        st.recursive(
            st.none() | st.integers() | st.text(max_size=5),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
            max_leaves=6,
        ),
        max_size=4,
    ).filter(lambda found: all(ord(letter) < 0xD800 for text in found for letter in text))
)
def test_what_is_written_is_the_json_of_the_body(body: dict[str, Any]) -> None:
    pieces = [Piece(body), Piece(a="ä")]
    assert json.loads(encoded({**body, "messages": pieces})) == {**body, "messages": pieces}
    assert json.loads(encoded({**body, "messages": pieces})) == {**body, "messages": pieces}
