"""What treadle-llm-call offers."""

from __future__ import annotations

from collections.abc import Mapping

from treadle import Offer, hookimpl


@hookimpl
def treadle_step_types() -> Mapping[str, Offer]:
    """The step types ``llm_call`` and ``embed``."""
    return {
        "llm_call": Offer("treadle_llm_call.step:LlmCall", "Ask a model"),
        "embed": Offer("treadle_llm_call.embed:Embed", "Turn texts into vectors"),
    }
