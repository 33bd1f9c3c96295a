"""What treadle-replay offers. Imports nothing that it offers."""

from __future__ import annotations

from collections.abc import Mapping

from treadle import ConfigOffer, Offer, ProviderOffer, hookimpl

__all__ = ["treadle_config_fields", "treadle_providers", "treadle_recorders"]


@hookimpl
def treadle_providers() -> Mapping[str, ProviderOffer]:
    """The provider ``mock``."""
    return {
        "mock": ProviderOffer(
            "treadle_replay.provider:MockProvider",
            "Recorded or written replies, without a model, key or network",
            default_model="mock",
        )
    }


@hookimpl
def treadle_recorders() -> Mapping[str, Offer]:
    """What writes and plays recordings."""
    return {"file": Offer("treadle_replay.recorder:FileRecorder", "Recordings of model calls in a JSON file")}


@hookimpl
def treadle_config_fields() -> Mapping[str, ConfigOffer]:
    """The keys of ``config:`` that override the provider's settings for one workflow."""
    return {
        "responses_file": ConfigOffer(
            "treadle_replay.config_fields:ResponsesFile", "File of the mock provider's replies", provider="mock"
        ),
        "latency_model": ConfigOffer(
            "treadle_replay.config_fields:LatencyModel", "How long the mock provider takes to reply", provider="mock"
        ),
        "latency_ms": ConfigOffer(
            "treadle_replay.config_fields:LatencyMs", "Milliseconds the mock provider takes to reply", provider="mock"
        ),
    }
