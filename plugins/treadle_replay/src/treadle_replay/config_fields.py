"""Types of the settings that a workflow's ``config:`` block may override."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

__all__ = ["LatencyModel", "LatencyMs", "ResponsesFile"]

ResponsesFile = Annotated[Path, Field(description="JSON file of replies, relative to the directory of invocation")]

LatencyModel = Annotated[
    Literal["constant", "normal", "replay"],
    Field(
        description="constant: latency_ms; normal: spread around it by a tenth; replay: what the reply's recording took"
    ),
]

LatencyMs = Annotated[float, Field(ge=0, allow_inf_nan=False, description="milliseconds a reply takes")]
