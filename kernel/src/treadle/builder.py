"""Workflows written in Python: the same fields as in a file, and the same checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from treadle import api

if TYPE_CHECKING:
    from treadle._document import Workflow
    from treadle._plugins import Host

__all__ = ["WorkflowBuilder", "workflow"]


class WorkflowBuilder:
    """A workflow in the making; see :func:`workflow`. Every method but :meth:`build` gives the builder itself.

    Nothing is checked before :meth:`build`, so that it can name all mistakes at once.
    """

    def __init__(self, name: str, description: str = "", version: str = "1.0", **config: Any) -> None:
        self._head = {"name": name, "description": description, "version": version}
        self._config = config
        self._state: dict[str, Any] = {}
        self._steps: list[dict[str, Any]] = []

    def state(self, values: Mapping[str, Any] | None = None, /, **more: Any) -> WorkflowBuilder:
        """Add to the initial state; what is given later wins, key by key."""
        self._state |= {**(values or {}), **more}
        return self

    def step(
        self,
        type: str,  # noqa: A002 - the field's name in documents
        *,
        id: str,  # noqa: A002
        depends_on: Iterable[str] = (),
        **fields: Any,
    ) -> WorkflowBuilder:
        """Add a step. ``fields`` are those of its type, as a file would have them: templates and paths as text."""
        # A single text would be taken for its letters; as it is, the checks name the mistake.
        waits_for: Any = depends_on
        if isinstance(waits_for, Iterable) and not isinstance(waits_for, str):
            waits_for = list(waits_for)
        self._steps.append({"id": id, "type": type, **({"depends_on": waits_for} if waits_for else {}), **fields})
        return self

    def build(self, host: Host | None = None) -> Workflow:
        """Check everything, as when a file is loaded.

        :param host: the plugins to use, such as ``session.host``; :func:`treadle.default_host` without it.
        :raises DocumentError: with every problem found, each with its path.
        """
        data = {**self._head, "config": self._config, "state": self._state, "steps": self._steps}
        return api.build_workflow(data, host=host)


def workflow(name: str, description: str = "", version: str = "1.0", **config: Any) -> WorkflowBuilder:
    """Begin a workflow in Python.

    .. code-block:: python

        greeting = (
            treadle.workflow("greeting", provider="mock")
            .state(who="you")
            .step("llm_call", id="greet", prompt="Greet {state.who}.", output="text")
            .build()
        )

    :param config: the fields of the ``config:`` block.
    """
    return WorkflowBuilder(name, description, version, **config)
