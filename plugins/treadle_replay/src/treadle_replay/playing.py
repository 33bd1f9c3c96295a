"""A recording in the place of every model provider, and of the tools whose results it holds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ConfigDict

from treadle import (
    EmbedRequest,
    Host,
    JournalEntry,
    ModelRequest,
    NotInstalledError,
    Offer,
    Provider,
    ProviderOffer,
    ProviderSettings,
    Right,
    Tool,
    ToolContext,
    ToolError,
    TreadleError,
    errors,
    hookimpl,
)
from treadle.redaction import without_hashes
from treadle_replay.calls import AbandonedCalls, Calls, ModelCall, add_providers
from treadle_replay.pool import Pool
from treadle_replay.provider import MockProvider
from treadle_replay.responses import FORMAT, FORMAT_VERSION, Recording, parse_recording, read_recording
from treadle_replay.settings import MockSettings

__all__ = ["RecordingPlayback", "recording_of"]


def recording_of(recorded: Path | Iterable[JournalEntry]) -> tuple[Recording, str]:
    """A recording, and what to call it: that of a file, or what the record of a run says of its model calls.

    :raises ConfigurationError: the file cannot be read, or is no recording.
    """
    if isinstance(recorded, Path):
        return read_recording(recorded), str(recorded)
    calls, run_id = Calls(tools=False), ""
    kept: list[ModelCall] = []
    dropped: set[int] = set()
    for entry in recorded:
        run_id = entry.run_id
        for each in calls.add(entry):
            if isinstance(each, AbandonedCalls):
                dropped.update(map(id, each.calls))
            elif isinstance(each, ModelCall):
                kept.append(each)
    data: dict[str, Any] = {"_format": FORMAT, "_version": FORMAT_VERSION}
    for call in kept:
        if id(call) not in dropped:
            add_providers(data, call)
            data.setdefault(call.key, []).append(json.loads(without_hashes(json.dumps(call.entry()))))
    source = f"run {run_id}"
    return parse_recording(data, source=source), source


class RecordingPlayback:
    """One recording, played by all providers there are.

    :param host: the plugins whose providers it replaces; see :attr:`host`.
    """

    def __init__(
        self, recording: Recording, source: str, host: Host, *, strict: bool, default_fallback: bool = False
    ) -> None:
        pool = Pool(recording, source)
        recorded = {each.provider for replies in recording.replies.values() for each in replies if each.provider}
        names = dict.fromkeys((*host.names("provider"), *sorted(recorded.union(recording.providers))))
        providers = {
            name: _offer(_Player(name, pool, host, strict=strict, default_fallback=default_fallback), host)
            for name in names
        }
        tools = {}
        for name in {each.name: None for results in recording.tools.values() for each in results}:
            try:
                load = partial(_tool, host, name, pool)
                tools[name] = Offer(load, host.get("tool", name).offer.summary)
            except NotInstalledError:
                continue  # told where a step names it
        self._pool = pool
        self.host = host.extended({"recording": _plugin(providers, tools)})

    def unused(self) -> Sequence[str]:
        """What was recorded and has not been played."""
        return self._pool.unused()


class _AnySettings(ProviderSettings):
    """What a deployment sets for a provider does not matter where another one answers for it."""

    model_config = ConfigDict(extra="ignore")


class _Player(MockProvider):
    """Answers in the place of one provider."""

    def __init__(self, name: str, pool: Pool, host: Host, *, strict: bool, default_fallback: bool) -> None:
        super().__init__(name, MockSettings(strict=strict))
        self._loaded = pool
        self._replaced = host
        self._default_fallback = default_fallback
        replies = pool.recording.replies.values()
        self._has_unknown_costs = any(each.cost_usd is None for both in replies for each in both)

    def default_model(self) -> str | None:
        """That of the provider in whose place it stands, so that requests are as they were."""
        try:
            kind: type[Provider] = self._replaced.load("provider", self.name)
            entry = self._replaced.settings.providers.get(self.name)
            settings = kind.settings_model.model_validate(dict(entry.settings) if entry else {})
            return kind(self.name, settings).default_model()
        except (TreadleError, ValueError):
            return next(iter(self.pool().recording.providers.get(self.name, ())), None)

    def known_cost(self, response_model: str) -> float | None:
        """Nothing; None where a cost was not known when it was recorded."""
        return None if self._has_unknown_costs else 0.0

    def _must_have(self, request: ModelRequest | EmbedRequest) -> bool:
        return self.settings.strict and not self._default_fallback


def _offer(player: _Player, host: Host) -> ProviderOffer:
    def made(name: str, settings: ProviderSettings) -> Provider:
        return player

    made.settings_model = _AnySettings  # type: ignore[attr-defined]  # as a class of providers has it
    default_model, is_default = None, False
    try:
        offer = host.get("provider", player.name).offer
    except TreadleError:
        pass  # it answered where this was recorded, and is not installed here
    else:
        if isinstance(offer, ProviderOffer):
            default_model, is_default = (
                offer.default_model,
                offer.is_default and player.name in host.registry.names("provider"),
            )
    return ProviderOffer(made, "Plays a recording", default_model=default_model, is_default=is_default)


def _plugin(providers: Mapping[str, ProviderOffer], tools: Mapping[str, Offer]) -> object:
    class Playing:
        @staticmethod
        @hookimpl
        def treadle_providers() -> Mapping[str, ProviderOffer]:
            return providers

        @staticmethod
        @hookimpl
        def treadle_tools() -> Mapping[str, Offer]:
            return tools

    return Playing()


def _tool(host: Host, name: str, pool: Pool) -> Tool:
    loaded = host.load("tool", name)
    return _PlayedTool(loaded if isinstance(loaded, Tool) else loaded(), pool)


class _PlayedTool(Tool):
    """Gives what the tool gave when a model called it; runs it where nothing was recorded, as in steps of type tool."""

    def __init__(self, tool: Tool, pool: Pool) -> None:
        self._tool, self._pool = tool, pool
        vars(self).update(
            name=tool.name,
            description=tool.description,
            parameters=tool.parameters,
            effect=tool.effect,
            timeout=tool.timeout,
            parallel_safe=tool.parallel_safe,
        )

    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Give the recorded result, or raise the recorded error.

        :raises ToolError: as the tool did.
        """
        place = context.run_id.partition(".")[2]
        step = f"{place}.{context.step_id}" if place else context.step_id
        found = self._pool.tool_result(step, context.call_id, self.name, arguments)
        if found is None:
            return await self._tool.call(arguments, context)
        if found.error is None:
            return found.result
        kind = getattr(errors, found.error_type or "", None)
        if isinstance(kind, type) and issubclass(kind, errors.StepError):
            raise kind(found.error)
        raise ToolError(f"tool '{self.name}' failed: {found.error_type or 'Exception'}: {found.error}")

    def effect_of(self, arguments: Mapping[str, Any]) -> Any:
        """As the tool's."""
        return self._tool.effect_of(arguments)

    def rights(self, arguments: Mapping[str, Any] | None) -> Iterable[Right]:
        """As the tool's."""
        return self._tool.rights(arguments)

    def wrong_arguments(self, arguments: Mapping[str, Any]) -> Iterable[tuple[str, str]] | None:
        """As the tool's."""
        return self._tool.wrong_arguments(arguments)
