"""The client's response, with a limit on what is read whole."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

import httpx2

from treadle_http.limits import BODY_LIMIT, BodyTooLargeError

__all__ = ["Reply"]


class Reply(httpx2.Response):
    """A response that does not grow without bounds when it is read whole. Streamed, it has no limit."""

    body_limit: int = BODY_LIMIT
    _is_read_whole = False

    async def aread(self) -> bytes:
        """The whole body, decompressed.

        :raises BodyTooLargeError: it is longer than the limit; reading stops there.
        """
        if self.is_stream_consumed or self.is_closed or "content-encoding" in self.headers:
            self._is_read_whole = True
            return await super().aread()
        # As it is on the wire: without the three generators that would unpack it.
        self.is_stream_consumed = True
        pieces: list[bytes] = []
        size = 0
        stream = aiter(self.stream)  # type: ignore[arg-type]
        try:
            async for piece in stream:
                pieces.append(piece)
                size += len(piece)
                if size > self.body_limit:
                    raise BodyTooLargeError(self.body_limit)
        except httpx2.RequestError as error:
            error.request = self.request
            raise
        finally:
            if isinstance(stream, AsyncGenerator):  # the client's own wrapping, where it was in between
                await stream.aclose()
            await self.aclose()
        self._content = b"".join(pieces)
        return self._content

    async def aiter_bytes(self, chunk_size: int | None = None) -> AsyncGenerator[bytes, None]:
        """The body, decompressed, as it comes."""
        size = 0
        async with aclosing(super().aiter_bytes(chunk_size)) as parts:
            async for part in parts:
                if self._is_read_whole and (size := size + len(part)) > self.body_limit:
                    raise BodyTooLargeError(self.body_limit)
                yield part
