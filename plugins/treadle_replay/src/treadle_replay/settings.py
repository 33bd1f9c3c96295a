"""Settings of the provider ``mock``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, field_validator

from treadle import ConfigurationError, ProviderSettings
from treadle_replay.config_fields import LatencyModel, LatencyMs, ResponsesFile

__all__ = ["MockSettings"]


class MockSettings(ProviderSettings):
    """What the mock provider answers, and how fast.

    With both ``responses_file`` and ``responses``, a key of ``responses`` wins over the same key of the file.
    """

    responses_file: ResponsesFile | None = None
    responses: Mapping[str, Any] | None = Field(default=None, description="replies in the form of the file, in place")
    default_response: str = Field(default="Mock response", description="the reply where none is given")
    latency_model: LatencyModel = "constant"
    latency_ms: LatencyMs = 0.0
    seed: int | None = Field(default=None, description="makes the latencies of the model 'normal' the same every time")
    strict: bool = Field(default=False, description="a missing or outdated reply is an error")

    @field_validator("responses")
    @classmethod
    def _responses_are_replies(cls, value: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        if value is not None:
            from treadle_replay.responses import parse_recording

            try:
                parse_recording(value, source="responses")
            except ConfigurationError as error:
                raise ValueError(str(error)) from error
        return value
