"""Arguments of the built-in tools: one model each, which both checks a call and is the schema that a model sees."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

__all__ = ["ToolArguments"]


class ToolArguments(BaseModel):
    """Base of a tool's arguments."""

    model_config = ConfigDict(extra="forbid", frozen=True)
