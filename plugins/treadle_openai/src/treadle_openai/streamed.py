"""What the streamed replies of both APIs have in common."""

from __future__ import annotations

from collections.abc import Iterable

from treadle_http.event_stream import EventStream

__all__ = ["OpenAIStream"]


class OpenAIStream(EventStream):
    """One streamed reply.

    :param model: the model asked for, where the chunks name none.
    :param keep_reasoning: keep readable reasoning.
    :param warnings: go onto the response.
    :param secrets: taken out of error texts.
    """

    def __init__(
        self,
        *,
        provider: str,
        model: str,
        keep_reasoning: bool = True,
        warnings: Iterable[str] = (),
        secrets: Iterable[str] = (),
    ) -> None:
        super().__init__(provider=provider, warnings=warnings, secrets=secrets)
        self._model = model
        self._keep_reasoning = keep_reasoning
