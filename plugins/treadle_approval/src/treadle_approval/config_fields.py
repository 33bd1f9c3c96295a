"""Types of the keys that a workflow's ``config:`` block may have."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

__all__ = ["CallbackUrl"]

CallbackUrl = Annotated[
    str, Field(pattern=r"^https?://[^\s/?#]+(/[^\s?#]*)?$", description="http(s) address of `treadle serve`")
]
