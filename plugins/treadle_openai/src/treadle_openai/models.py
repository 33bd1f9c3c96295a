"""What is known of OpenAI's models by their names."""

from __future__ import annotations

import re

__all__ = ["is_reasoning_model", "takes_effort", "takes_parallel_calls"]

_REASONING = re.compile(r"o\d|gpt-5(?!-chat)")
_O_SERIES = re.compile(r"o\d")


def is_reasoning_model(model: str) -> bool:
    """Whether the model is of OpenAI's reasoning kind: the o-series and GPT-5, but not gpt-5-chat.

    A gateway's prefix (``openai/o3``) and a fine-tune's (``ft:o4-mini:...``) are looked through.
    """
    return _REASONING.match(_base_name(model)) is not None


def takes_effort(model: str) -> bool:
    """Whether a level of reasoning may be set: on every reasoning model but o1-mini."""
    return is_reasoning_model(model) and not _base_name(model).startswith("o1-mini")


def takes_parallel_calls(model: str) -> bool:
    """Whether ``parallel_tool_calls`` may be set: the o-series refuses it."""
    return _O_SERIES.match(_base_name(model)) is None


def _base_name(model: str) -> str:
    return model.rpartition("/")[2].lower().removeprefix("ft:")
