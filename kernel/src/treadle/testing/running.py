"""A workflow run with chosen plugins, and nothing that happens to be installed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from treadle import api
from treadle._plugins import Host
from treadle._plugins.objects import offering
from treadle.contracts.events import Observer
from treadle.contracts.journal import Journal
from treadle.contracts.offers import ProviderOffer
from treadle.contracts.results import RunResult
from treadle.contracts.sandbox import Sandbox
from treadle.testing.doubles import Reply, scripted
from treadle.testing.sandbox import standing_for

__all__ = ["Plugins", "host_of", "named_plugins", "run_workflow"]

Plugins = Mapping[str, object] | Iterable[object]
"""Plugins by name, or without: a module is then called as it is, an object ``plugin 1``, ``plugin 2``, ..."""


async def run_workflow(
    document: str | Mapping[str, Any],
    *,
    plugins: Plugins = (),
    state: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    observers: Sequence[Observer] = (),
    journal: Journal | None = None,
    sandbox: Sandbox | None = None,
    replies: Sequence[Reply] | None = None,
) -> RunResult:
    """Run a document, given as YAML text or plain data, with the given plugins and no others.

    :param plugins: modules or objects with hooks, by name or in a row; :func:`offering` makes one of classes.
    :param state: initial values that win over the document's own.
    :param config: values that win over the document's ``config``.
    :param sandbox: the sandbox of the run's tools, as an object, such as a ``FakeSandbox``.
    :param replies: what the model answers, in order: installs the provider ``scripted`` and makes it the default.
    :raises DocumentError: the document has problems.
    :raises PluginError: a plugin is broken.
    """
    host = host_of(plugins, sandbox=sandbox, replies=replies)
    if isinstance(document, str):
        workflow = api.parse_workflow(document, host=host, config=config)
    else:
        workflow = api.build_workflow(document, host=host, config=config)
    async with api.open(host=host, journal=journal) as session:
        return await session.run(workflow, state=state, observers=observers)


def host_of(plugins: Plugins, *, sandbox: Sandbox | None = None, replies: Sequence[Reply] | None = None) -> Host:
    """A host of these plugins; see :func:`run_workflow`."""
    named = named_plugins(plugins)
    if sandbox is not None:
        named["the test's sandbox"] = offering({"sandbox": {"given": standing_for(sandbox)}})
    if replies is not None:
        offer = ProviderOffer(scripted(*replies), "Answers from a list", is_default=True)
        named["the test's model"] = offering({"provider": {"scripted": offer}})
    return Host.of(named)


def named_plugins(plugins: Plugins) -> dict[str, object]:
    """The plugins by name."""
    if isinstance(plugins, Mapping):
        return dict(plugins)
    return {getattr(each, "__name__", f"plugin {number}"): each for number, each in enumerate(plugins, start=1)}
