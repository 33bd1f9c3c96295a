"""What providers that speak HTTP have in common: a connection pool while they are entered, and an SDK's client on it.

Nothing heavy is imported here, as checking a document builds a provider too: the HTTP client comes when the provider is
entered, an SDK on the first exchange, both in a worker thread.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from contextlib import AsyncExitStack
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from treadle.contracts.provider import Provider, ProviderSettings
from treadle.errors import PluginError, ResponseError

if TYPE_CHECKING:
    import httpx2
    import trio

__all__ = ["HttpProvider", "SdkProvider"]

ClientT = TypeVar("ClientT")


class HttpProvider(Provider):
    """A provider with a connection pool of its own.

    Its settings have a ``timeout``: the longest silence of the server, in seconds.

    :cvar unsent_headers: beginnings of the names of headers that are not sent, in lower case.
    """

    settings: Any
    unsent_headers: ClassVar[tuple[str, ...]] = ()

    def __init__(self, name: str, settings: ProviderSettings) -> None:
        super().__init__(name, settings)
        self._opened = AsyncExitStack()
        self._http: httpx2.AsyncClient | None = None

    async def __aenter__(self) -> Self:
        """Open the connection pool. It lives until the provider is left."""
        import trio

        http = await trio.to_thread.run_sync(import_module, "treadle_http.client")
        timeouts = http.Timeouts(read=self.settings.timeout)
        opening = http.open_client(timeouts=timeouts, unsent_headers=self.unsent_headers)
        self._http = await self._opened.enter_async_context(opening)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Close the pool."""
        self._http = None
        return await self._opened.__aexit__(kind, error, trace)

    def _entered(self) -> httpx2.AsyncClient:
        if self._http is None:
            raise RuntimeError(f"provider '{self.name}' is used before it is entered, or after it was left")
        return self._http

    def _json(self, answer: bytes) -> Any:
        """The data of a body.

        :raises ResponseError: it is not JSON.
        """
        try:
            return json.loads(answer)
        except (ValueError, RecursionError):
            raise ResponseError(
                f"provider '{self.name}' answered with something that is not JSON",
                provider=self.name,
                phase="body",
                request_sent=True,
            ) from None


class SdkProvider(HttpProvider, Generic[ClientT]):
    """One that speaks through its vendor's SDK, on this pool.

    :cvar sdk_module: the module of the provider's own that imports the SDK.
    :cvar sdk_vendor: whose SDK it is, for messages.
    """

    sdk_module: ClassVar[str]
    sdk_vendor: ClassVar[str]

    def __init__(self, name: str, settings: ProviderSettings) -> None:
        super().__init__(name, settings)
        self._client: ClientT | None = None
        self._building: trio.Lock

    async def __aenter__(self) -> Self:
        """Open the connection pool. It lives until the provider is left."""
        import trio

        self._building = trio.Lock()
        return await super().__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Close the pool."""
        self._client = None
        return await super().__aexit__(kind, error, trace)

    @abstractmethod
    def _credentials(self) -> Any:
        """What the client is made with, and a person must have set. What is missing is told before the SDK is imported.

        :raises ConfigurationError: it is not set, or cannot be sent.
        """

    @abstractmethod
    async def _connect(self, sdk: Any, http: httpx2.AsyncClient, credentials: Any) -> ClientT:
        """The SDK's client on the pool. ``sdk`` is :attr:`sdk_module`."""

    async def _ready(self) -> ClientT:
        """The SDK's client, built once."""
        client = self._client
        if client is None:
            credentials, http = self._credentials(), self._entered()
            async with self._building:  # another task may have built it meanwhile
                client = self._client = self._built() or await self._connect(await self._sdk(), http, credentials)
        return client

    def _built(self) -> ClientT | None:
        return self._client

    async def _sdk(self) -> Any:
        import trio

        try:
            return await trio.to_thread.run_sync(import_module, self.sdk_module)
        except ImportError as error:
            distribution = self.sdk_module.partition(".")[0].replace("_", "-")
            raise PluginError(
                f"provider '{self.name}' cannot load the {self.sdk_vendor} SDK: {error}",
                hint=f"pip install --upgrade {distribution}",
            ) from error
