"""A graph in AgentLoom, through its Python interface: the run only, with the workflow built.

usage: graph_agentloom.py chain|fan-out N. Its steps call a tool that does nothing.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

import anyio
from agentloom.core.engine import WorkflowEngine
from agentloom.core.parser import WorkflowParser
from agentloom.providers.gateway import ProviderGateway
from agentloom.tools.decorator import tool
from agentloom.tools.registry import ToolRegistry
from shapes import SHAPES


@tool(name="noop", description="Do nothing")  # type: ignore[untyped-decorator]  # it is not installed here
async def noop() -> str:
    return "1"


def document(shape: str, count: int) -> dict[str, Any]:
    steps = [
        {"id": step, "type": "tool", "tool_name": "noop", "depends_on": list(earlier), "output": f"v{number}"}
        for number, (step, earlier) in enumerate(SHAPES[shape](count).items())
    ]
    return {"name": "graph", "config": {"provider": "mock"}, "steps": steps}


async def main(shape: str, count: int) -> None:
    logging.disable(logging.WARNING)
    tools = ToolRegistry()
    tools.register(noop)
    workflow = WorkflowParser.from_dict(document(shape, count))
    engine = WorkflowEngine(workflow=workflow, provider_gateway=ProviderGateway(), tool_registry=tools)
    start = time.perf_counter()
    result = await engine.run()
    seconds = time.perf_counter() - start
    assert result.status.value == "success", result.error
    assert len(result.step_results) == count
    print(json.dumps({"seconds": seconds, "n": count}))


anyio.run(main, sys.argv[1], int(sys.argv[2]))
