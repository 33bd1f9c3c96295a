"""The ``conversation`` field: where the conversation is kept that a step goes on with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from treadle import StatePath, Template

__all__ = ["ConversationField", "StoredConversation", "conversation_path"]


class StoredConversation(BaseModel):
    """A conversation that is kept under a name as well, so that another run can go on with it."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    key: StatePath = Field(description="state path of the conversation")
    store: Template = Field(description="the name under which it is kept across runs")


def _form_of(written: object) -> str:
    return "stored" if isinstance(written, Mapping | StoredConversation) else "path"


ConversationField = Annotated[
    Annotated[StatePath, Tag("path")] | Annotated[StoredConversation, Tag("stored")], Discriminator(_form_of)
]
"""Where a step's conversation is kept: a state path, or ``{key: ..., store: ...}``."""


def conversation_path(conversation: StatePath | StoredConversation | None) -> tuple[StatePath, ...]:
    """Where in the state a step's conversation is, if it has one."""
    if conversation is None:
        return ()
    return (conversation.key if isinstance(conversation, StoredConversation) else conversation,)
