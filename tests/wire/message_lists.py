"""Message lists as a run may hold them, for tests of what vendors ask of their order."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from treadle.messages import (
    AssistantMessage,
    AssistantPart,
    MediaPart,
    Message,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)

__all__ = ["message_lists"]

_texts = st.text(st.characters(codec="utf-8"), max_size=8)
_names = st.none() | st.sampled_from(["alice", "bob"])
_image = MediaPart(type="image", media_type="image/png", data=b"\x89PNG")
_user_parts = st.lists(st.builds(lambda text: TextPart(text=text), _texts) | st.just(_image), min_size=1, max_size=3)


@st.composite
def _exchanges(draw: st.DrawFn, api: str) -> list[Message]:
    """A turn of a model, with the results of its calls where it has some."""
    parts: list[AssistantPart] = []
    if draw(st.booleans()):
        parts.append(ReasoningPart(text=draw(_texts), provider_data=draw(st.sampled_from([{}, {api: {"a": "b"}}]))))
    if draw(st.booleans()):
        parts.append(TextPart(text=draw(_texts)))
    count = draw(st.integers(0, 3))
    calls = [
        ToolCallPart(
            call_id=draw(st.sampled_from(["a", "b", "c"])) + str(number),
            tool_name=draw(st.sampled_from(["look", "now"])),
            arguments=draw(st.dictionaries(st.sampled_from("qr"), _texts, max_size=2)),
        )
        for number in range(count)
    ]
    turn = AssistantMessage(parts=(*parts, *calls), name=draw(_names))
    if not calls:
        return [turn]
    results = tuple(
        ToolResultPart(
            call_id=call.call_id,
            tool_name=call.tool_name,
            content=draw(_texts),
            is_error=draw(st.booleans()),
            media=(_image,) if draw(st.booleans()) else (),
        )
        for call in calls
    )
    return [turn, ToolMessage(results=results)]


def message_lists(api: str) -> SearchStrategy[tuple[Message, ...]]:
    """Systems, users and models in any order; every call has its result. ``api`` names some opaque data's owner."""
    one: SearchStrategy[list[Message]] = st.one_of(
        st.builds(lambda text: [SystemMessage(text=text)], _texts),
        st.builds(lambda parts, name: [UserMessage(parts=tuple(parts), name=name)], _user_parts, _names),
        _exchanges(api),
    )
    return st.lists(one, max_size=6).map(lambda lists: tuple(message for each in lists for message in each))
