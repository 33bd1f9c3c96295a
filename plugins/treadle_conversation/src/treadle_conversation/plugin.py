"""What treadle-conversation offers."""

from __future__ import annotations

from collections.abc import Mapping

from treadle import Offer, hookimpl


@hookimpl
def treadle_memories() -> Mapping[str, Offer]:
    """The memory ``conversation``."""
    return {
        "conversation": Offer(
            "treadle_conversation.memory:StateMemory", "Keep conversations in the state, and in files where asked"
        )
    }


@hookimpl
def treadle_trim_policies() -> Mapping[str, Offer]:
    """The trim policies."""
    return {
        "drop_oldest": Offer("treadle_conversation.dropping:DropOldest", "Drop the oldest turns"),
        "drop_pairs": Offer("treadle_conversation.dropping:DropPairs", "Drop the oldest exchanges"),
        "summarize_oldest": Offer(
            "treadle_conversation.summarizing:SummarizeOldest", "Fold the oldest turns into a summary"
        ),
    }


@hookimpl
def treadle_token_counters() -> Mapping[str, Offer]:
    """The token counter ``estimate``."""
    return {"estimate": Offer("treadle_conversation.estimate:Estimate", "Take four characters for a token")}
