"""The Python API: load a workflow, open a session, run."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from treadle import _document
from treadle._document import Workflow
from treadle._plugins import Host

if TYPE_CHECKING:
    from treadle._engine import Session
    from treadle.contracts.events import RunEvent
    from treadle.contracts.journal import Journal
    from treadle.contracts.results import RunResult

__all__ = ["build_workflow", "default_host", "load_workflow", "open", "parse_workflow", "run", "run_sync"]


@functools.cache
def default_host() -> Host:
    """Everything installed, found once a process."""
    return Host.discover()


def load_workflow(
    path: str | os.PathLike[str], *, host: Host | None = None, config: Mapping[str, Any] | None = None
) -> Workflow:
    """Read and check a workflow file.

    :param host: the plugins to use; everything installed without it.
    :param config: values that win over the document's own ``config:``; None leaves a value as it is.
    :raises ConfigurationError: one of those values is not valid.
    :raises DocumentError: with every problem found, each with its place.
    """
    return _document.load_workflow(path, host=host or default_host(), config=config)


def parse_workflow(text: str, *, host: Host | None = None, config: Mapping[str, Any] | None = None) -> Workflow:
    """Read and check the text of a workflow; see :func:`load_workflow`."""
    return _document.parse_workflow(text, host=host or default_host(), config=config)


def build_workflow(
    data: Mapping[str, Any], *, host: Host | None = None, config: Mapping[str, Any] | None = None
) -> Workflow:
    """Check a workflow given as plain data; see :func:`load_workflow`."""
    return _document.build_workflow(data, host=host or default_host(), config=config)


def open(*, host: Host | None = None, journal: Journal | None = None) -> AbstractAsyncContextManager[Session]:
    """A session: ``async with treadle.open() as session: result = await session.run(workflow)``.

    :param host: the plugins to use; everything installed without it.
    :param journal: where runs are recorded; in memory without it.
    """
    from treadle._engine import open_session

    return open_session(host or default_host(), journal)


async def run(
    workflow: Workflow | str | os.PathLike[str],
    *,
    state: Mapping[str, Any] | None = None,
    on_event: Callable[[RunEvent], object] | None = None,
) -> RunResult:
    """Run a workflow, or the file of one, in a session of its own.

    :param state: initial values that win over the workflow's own, key by key.
    :raises DocumentError: the file has problems.
    """
    checked = workflow if isinstance(workflow, Workflow) else load_workflow(workflow)
    async with open(host=checked.host) as session:
        return await session.run(checked, state=state, on_event=on_event)


def run_sync(
    workflow: Workflow | str | os.PathLike[str],
    *,
    state: Mapping[str, Any] | None = None,
    on_event: Callable[[RunEvent], object] | None = None,
) -> RunResult:
    """As :func:`run`, for programs that are not asynchronous."""
    import trio

    return trio.run(functools.partial(run, workflow, state=state, on_event=on_event))
