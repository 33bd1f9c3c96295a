"""A client for tests: it answers from a list."""

from __future__ import annotations

from collections.abc import Sequence

from treadle_loop.conversations.wire import as_response
from treadle_loop.provider import ModelRequest, ModelResponse

__all__ = ["FakeClient"]


class FakeClient:
    """Plays responses in order; an exception among them is raised.

    :param responses: a text counts as a response of that text.
    :param hosted_tools: the kinds it claims to run.
    """

    name = "fake"

    def __init__(
        self,
        *responses: ModelResponse | BaseException | str,
        model: str = "fake-1",
        hosted_tools: Sequence[str] = (),
    ) -> None:
        self.model = model
        self.hosted_tools = tuple(hosted_tools)
        self.requests: list[ModelRequest] = []
        self._left = list(responses)

    def complete(self, request: ModelRequest) -> ModelResponse:
        """The next response.

        :raises AssertionError: there is none left.
        """
        self.requests.append(request)
        if not self._left:
            raise AssertionError(f"the fake client has no response left for request {len(self.requests)}")
        played = self._left.pop(0)
        if isinstance(played, BaseException):
            raise played
        return as_response(played)

    def close(self) -> None:
        """Nothing to close."""
