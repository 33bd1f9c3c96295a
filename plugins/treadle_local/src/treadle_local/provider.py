"""The provider ``local``.

The engine, and the loop with it, is imported when the model is used: checking a document builds a provider too.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from treadle.contracts.provider import Exchange, Features, FromEnv, Provider, ProviderSettings
from treadle.errors import ModelNotFoundError, UnsupportedError
from treadle.messages import Completed, ModelRequest, StreamEvent
from treadle_local import conversion
from treadle_local.model_file import KNOWN_PACKAGES, check_model_file, find_model_file, model_name

if TYPE_CHECKING:
    from treadle_local.engine import Engine, Piece

__all__ = ["LocalProvider", "LocalSettings"]

_ALIAS = "local"


class LocalSettings(ProviderSettings):
    """Settings of the provider ``local``."""

    model_path: Annotated[Path | None, FromEnv("TREADLE_LOCAL_MODEL")] = Field(
        default=None, description="the model's GGUF file; one that an installed package carries without it"
    )
    model_packages: Mapping[str, str] = Field(
        default={}, description="further distributions that carry a GGUF file -> glob below the site directory"
    )
    context: int = Field(default=4096, ge=64, description="tokens of a request and its reply together")
    parallel: int = Field(default=2, ge=1, le=64, description="calls that the model works on at once; others wait")
    threads: int | None = Field(
        default=None, ge=1, description="threads of llama.cpp; half of the processors without it"
    )
    batch: int = Field(default=16, ge=1, description="tokens of a prompt read before a cancellation is noticed")
    max_tokens: int = Field(default=512, ge=1, description="tokens of a reply where the request sets no limit")
    temperature: float | None = Field(
        default=None, ge=0, description="temperature where the request sets none; llama.cpp's own (0.8) without it"
    )
    seed: int | None = Field(default=None, ge=0, lt=2**32 - 1, description="seed of the sampling; random without it")


class LocalProvider(Provider):
    """A small model in this process. It is loaded at the first exchange, once, and freed with the session."""

    settings_model: ClassVar[type[ProviderSettings]] = LocalSettings
    settings: LocalSettings
    features = Features(streaming=True, output_schemas=True, json_objects=True)

    def __init__(self, name: str, settings: ProviderSettings) -> None:
        if not isinstance(settings, LocalSettings):
            raise TypeError(f"settings of {type(self).__name__} are LocalSettings, not {type(settings).__name__}")
        super().__init__(name, settings)
        self._file: Path | None = None

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Free the model."""
        if "_engine" in vars(self):
            await self._engine.close()

    @cached_property
    def _engine(self) -> Engine:
        from treadle_local.engine import Engine, EngineSettings

        settings = self.settings
        return Engine(
            self.name,
            EngineSettings(
                context=settings.context, parallel=settings.parallel, batch=settings.batch, threads=settings.threads
            ),
        )

    @property
    def model_file(self) -> Path | None:
        """The model's file as it is found now; None where there is none."""
        if self._file is None:
            packages = dict(self.settings.model_packages)
            for name, pattern in KNOWN_PACKAGES.items():
                packages.setdefault(name, pattern)
            self._file = find_model_file(self.settings.model_path, packages)
        return self._file

    def default_model(self) -> str | None:
        """The file's stem. Where there is no file it is ``local``, so that a call says what is missing."""
        if self.settings.default_model is not None:
            return self.settings.default_model
        return model_name(self.model_file) if self.model_file is not None else _ALIAS

    def supports_model(self, model: str) -> bool:
        """Whether that is a name of the one model there is. Without a file any name may turn out to be."""
        return self.model_file is None or model.casefold() in self._names(self.model_file)

    def _names(self, file: Path) -> set[str]:
        names = {model_name(file), file.name, _ALIAS, self.name, self.settings.default_model or _ALIAS}
        return {name.casefold() for name in names}

    def check(self, request: ModelRequest) -> Iterable[str]:
        """What a local model cannot do: tools, attachments, reasoning on demand, unknown options."""
        return conversion.problems(request, self._options(request))

    def _options(self, request: ModelRequest) -> Mapping[str, Any]:
        given = request.provider_options
        options: Mapping[str, Any] = given.get(self.name) or given.get(_ALIAS) or {}
        return options

    def known_cost(self, response_model: str) -> float | None:
        """Nothing: the model is on this machine."""
        return 0.0

    def exchange(self, request: ModelRequest) -> Exchange:
        """See :meth:`Provider.exchange`. The first one loads the model.

        :raises ConfigurationError: entering; there is no model file, or it cannot be loaded.
        """
        return self._exchange(request)

    @asynccontextmanager
    async def _exchange(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        if found := list(self.check(request)):
            raise UnsupportedError("; ".join(found), provider=self.name)
        file = self.model_file
        if file is None or not self.supports_model(request.model):
            file = check_model_file(file, provider=self.name)
            raise ModelNotFoundError(
                f"provider '{self.name}' has no model '{request.model}'",
                provider=self.name,
                hint=f"the one there is, is '{model_name(file)}' (or just 'local'); "
                "another is set by TREADLE_LOCAL_MODEL",
            )
        settings = self.settings
        body = conversion.encode(
            conversion.request_body(
                request,
                max_tokens=settings.max_tokens,
                temperature=settings.temperature,
                seed=settings.seed,
                options=self._options(request),
            ),
            provider=self.name,
        )
        await self._engine.load(file)
        async with self._engine.generate(body) as pieces:
            events = self._events(request, model_name(file), pieces)
            try:
                yield events
            finally:
                await events.aclose()

    async def _events(
        self, request: ModelRequest, model: str, pieces: AsyncIterator[Piece]
    ) -> AsyncGenerator[StreamEvent, None]:
        reply = conversion.Reply(provider=self.name, model=model)
        async for piece in pieces:
            if isinstance(piece, Exception):
                raise conversion.thrown(piece, provider=self.name) from piece
            for event in reply.feed(piece):
                if request.stream:
                    yield event
        yield Completed(reply.response())
