"""A turn that a provider paused, and its continuation, as one message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from treadle import AssistantMessage

__all__ = ["joined"]


def joined(first: AssistantMessage, more: AssistantMessage) -> AssistantMessage:
    """One assistant message of both, as the provider expects it back.

    A turn kept as it came over the wire is continued where both parts are lists of one provider's blocks; otherwise the
    message is sent as its parts say.
    """
    return replace(
        first, parts=(*first.parts, *more.parts), provider_data=_data(first.provider_data, more.provider_data)
    )


def _data(first: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    if first.keys() != more.keys():
        return {}
    made: dict[str, Any] = {}
    for provider, blocks in first.items():
        others = more[provider]
        if isinstance(blocks, list | tuple) and isinstance(others, list | tuple):
            made[provider] = [*blocks, *others]
        elif isinstance(blocks, Mapping) and isinstance(others, Mapping):
            made[provider] = _data(blocks, others)
        elif blocks == others:
            made[provider] = blocks
        else:
            return {}
    return made
