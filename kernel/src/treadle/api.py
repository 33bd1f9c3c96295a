"""The Python API: load a workflow, open a session, run."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from treadle import _document
from treadle._arguments import expect
from treadle._document import Workflow
from treadle._plugins import Host
from treadle._settings.finding import find_settings
from treadle.threads import await_on_trio, is_asyncio_running, run_on_trio

if TYPE_CHECKING:
    from typing import Unpack

    from treadle._engine import Session
    from treadle._plugins.objects import Extras
    from treadle.contracts.events import RunEvent
    from treadle.contracts.journal import Journal
    from treadle.contracts.results import RunResult
    from treadle.contracts.sandbox import Sandbox
    from treadle.contracts.settings import Settings
    from treadle.contracts.sources import PriceSource

__all__ = [
    "build_workflow",
    "default_host",
    "deployed_host",
    "installed_journal",
    "load_settings",
    "load_workflow",
    "new_sandbox",
    "open",
    "parse_workflow",
    "price_sources",
    "run",
    "run_sync",
]


@functools.cache
def default_host() -> Host:
    """Everything installed, as the ``treadle.yaml`` that counts here says. Found once a process.

    :raises DocumentError: that file has problems.
    """
    return deployed_host()


def deployed_host(
    settings: str | os.PathLike[str] | None = None,
    *,
    without: Collection[str] = (),
    only_of: Collection[str] | None = None,
    check_providers: bool = False,
) -> Host:
    """Everything installed, as a settings file says. What is doubtful in it is in the host's ``warnings``.

    :param settings: the file; without it the one that ``TREADLE_CONFIG`` names, or else the nearest
        ``treadle.yaml`` from the working directory upward, or none. ``Host.discover()`` reads none.
    :param without: plugins to leave out as well.
    :param only_of: distributions; plugins of others are left out too.
    :param check_providers: whether to check the settings of every provider, which imports it. Without it that is
        done when a workflow is loaded that uses it.
    :raises DocumentError: with every problem of the file, each with its place.
    :raises PluginError: ``without`` names a plugin that is not there.
    """
    file = find_settings() if settings is None else settings
    if file is None:
        return Host.discover(without=without, only_of=only_of)
    from treadle._document import deployment  # only where there is a settings file

    return deployment.deployed_host(file, without=without, only_of=only_of, check_providers=check_providers)


def load_settings(path: str | os.PathLike[str] | None = None) -> Settings:
    """Read a settings file and check its form; for ``Host.discover(settings=...)``.

    :param path: the file; without it the one that counts, as for :func:`deployed_host`, or no settings.
    :raises DocumentError: with every problem found, each with its place.
    """
    from treadle._document import deployment
    from treadle.contracts.settings import Settings

    file = find_settings() if path is None else path
    return Settings() if file is None else deployment.load_settings(file)


def load_workflow(
    path: str | os.PathLike[str],
    *,
    host: Host | None = None,
    config: Mapping[str, Any] | None = None,
    state_keys: Iterable[str] = (),
) -> Workflow:
    """Read and check a workflow file.

    :param host: the plugins to use; :func:`default_host` without it.
    :param config: values that win over the document's own ``config:``; None leaves a value as it is.
    :param state_keys: keys of the state that the run will be given, so that reads of them are not warned about.
    :raises ConfigurationError: one of those values is not valid.
    :raises DocumentError: with every problem found, each with its place.
    """
    return _document.load_workflow(path, host=host or default_host(), config=config, state_keys=state_keys)


def parse_workflow(text: str, *, host: Host | None = None, config: Mapping[str, Any] | None = None) -> Workflow:
    """Read and check the text of a workflow; see :func:`load_workflow`."""
    return _document.parse_workflow(text, host=host or default_host(), config=config)


def build_workflow(
    data: Mapping[str, Any], *, host: Host | None = None, config: Mapping[str, Any] | None = None
) -> Workflow:
    """Check a workflow given as plain data; see :func:`load_workflow`."""
    return _document.build_workflow(data, host=host or default_host(), config=config)


def open(
    *, host: Host | None = None, journal: Journal | None = None, **extras: Unpack[Extras]
) -> AbstractAsyncContextManager[Session]:
    """A session: ``async with treadle.open() as session: result = await session.run(workflow)``.

    Works under trio, and under asyncio: there the session has a thread to itself, and every method but ``start``.

    :param host: the plugins to use; :func:`default_host` without it.
    :param journal: where runs are recorded, for ``session.resume``; in memory without it.
    :param extras: ``tools``, ``providers``, ``layers``, ``steps`` and ``plugins`` that need not be installed, and win
        over what is. They are in ``session.host``, by which workflows that use them are loaded.
    :raises ConfigurationError: two of the extras have one name, or one of them is broken.
    :raises TypeError: there are no extras of that name.
    """
    expect(Host | None, "a Host", host=host)
    extended = _extended(host or default_host(), extras)
    if is_asyncio_running():
        from treadle._engine.asyncio_host import open_asyncio_session

        # For programs it is the same thing; that it has the same methods is tested.
        return cast("AbstractAsyncContextManager[Session]", open_asyncio_session(extended, journal))
    from treadle._engine import open_session

    return open_session(extended, journal)


def new_sandbox(block: Mapping[str, Any] | None = None, *, host: Host | None = None) -> Sandbox:
    """The installed sandbox with a block as under ``config.sandbox``, within that of ``treadle.yaml``, for tools that
    are called without a run. Its paths go from the working directory; enter it (``async with``) to use it.

    :raises NotInstalledError: none is installed.
    :raises pydantic.ValidationError: the block is not valid.
    """
    host = host or default_host()
    kind: type[Sandbox] = host.sole("sandbox", "new_sandbox").load()
    return kind(_document.sandbox_block(host, kind, block or {}), Path.cwd())


def installed_journal(host: Host, *, create: bool = True, **overrides: Any) -> Journal | None:
    """The journal that the settings choose, or else the only one installed, opened; None where there is none.

    :param create: whether to make it where there is none yet; see :meth:`Journal.existing`.
    :param overrides: settings that win over those of the ``journal:`` block.
    :raises ConfigurationError: it cannot be opened, or several are installed and none is chosen.
    :raises FileNotFoundError: there is none yet, and none may be made.
    """
    from treadle._settings.blocks import journal_of

    if host.settings.roles.journal is None and not host.registry.names("journal"):
        return None
    return journal_of(host, host.sole("journal", "the run").name, overrides, create=create)


def price_sources(host: Host | None = None, *, block: Mapping[str, Any] | None = None) -> Sequence[PriceSource]:
    """What is installed that knows prices, as the ``prices:`` block says, for model calls that are made without a run.

    They are imported, which may take its time: best done in a thread.

    :param block: prices in place of that block.
    :raises PluginError: one of them cannot be imported.
    :raises ConfigurationError: the ``prices:`` block is not valid.
    """
    from treadle._settings.blocks import prices_of

    return prices_of(host or default_host(), block)


def _extended(host: Host, extras: Extras) -> Host:
    if not extras:
        return host
    from treadle._plugins.objects import extended_host

    return extended_host(host, extras)


async def run(
    workflow: Workflow | str | os.PathLike[str],
    *,
    state: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    on_event: Callable[[RunEvent], object] | None = None,
    **extras: Unpack[Extras],
) -> RunResult:
    """Run a workflow, or the file of one, in a session of its own.

    Works under trio, and under asyncio: there the run has a thread to itself, a cancelled task cancels it, and
    ``on_event`` is called in that thread.

    :param state: initial values that win over the workflow's own, key by key.
    :param config: values that win over the workflow's own ``config:``, such as ``{"provider": "mock"}``.
    :param extras: as for :func:`open`.
    :raises DocumentError: the file has problems.
    """
    if is_asyncio_running():
        again = functools.partial(run, workflow, state=state, config=config, on_event=on_event, **extras)
        return await await_on_trio(again)
    expect(Mapping | None, "a mapping of fields", config=config)
    host = _extended(workflow.host if isinstance(workflow, Workflow) else default_host(), extras)
    if isinstance(workflow, Workflow):
        checked = dataclasses.replace(workflow, host=host) if extras else workflow
        checked = checked.with_config(**(config or {}))
    else:
        checked = load_workflow(workflow, host=host, config=config, state_keys=state or ())
    async with open(host=host) as session:
        return await session.run(checked, state=state, on_event=on_event)


def run_sync(
    workflow: Workflow | str | os.PathLike[str],
    *,
    state: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    on_event: Callable[[RunEvent], object] | None = None,
    **extras: Unpack[Extras],
) -> RunResult:
    """As :func:`run`, for programs that are not asynchronous, and for notebooks.

    Where an asyncio loop is running, as in a notebook, it stands still until the run is over, which has a thread to
    itself.

    :raises RuntimeError: trio is running.
    """
    import trio

    main = functools.partial(run, workflow, state=state, config=config, on_event=on_event, **extras)
    if trio.lowlevel.in_trio_run():
        raise RuntimeError("run_sync would bring this program's trio to a stop; write await treadle.run(...)")
    return run_on_trio(main)
