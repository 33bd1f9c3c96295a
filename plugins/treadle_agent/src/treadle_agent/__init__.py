"""Agents: step ``agent``, agents as tools, and ``Agent`` for programs.

.. code-block:: python

    agent = Agent.from_yaml("desk.yaml")
    result = await agent.invoke("My bill seems wrong")

The names are loaded when they are touched: every command of Treadle imports this package for its plugin's sake.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treadle_agent.agent import Agent, AgentError, AgentResult
    from treadle_agent.definition import AgentDefinition

__all__ = ["Agent", "AgentDefinition", "AgentError", "AgentResult"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'treadle_agent' has no attribute '{name}'")
    home = "definition" if name == "AgentDefinition" else "agent"
    return getattr(import_module(f"treadle_agent.{home}"), name)
