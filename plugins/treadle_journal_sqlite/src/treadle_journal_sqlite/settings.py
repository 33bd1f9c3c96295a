"""Settings of the journal: the block ``journal:`` of ``treadle.yaml``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

__all__ = ["DEFAULT_PATH", "JournalSettings"]

DEFAULT_PATH = Path(".treadle") / "journal.db"
"""Relative to the directory of invocation."""


class JournalSettings(BaseModel):
    """Where the journal is, and what it withstands."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: Path = Field(
        default=DEFAULT_PATH, description="the file; without it .treadle/journal.db in the directory of invocation"
    )
    durable: Literal["process", "power"] = Field(
        default="process",
        description="process: what is recorded outlives the process, however it ends; power: a loss of power too",
    )

    @field_validator("path")
    @classmethod
    def _beside_the_settings(cls, value: Path, info: ValidationInfo) -> Path:
        """A path in a file goes from the folder of that file."""
        folder = (info.context or {}).get("folder")
        return value if folder is None else Path(folder) / value
