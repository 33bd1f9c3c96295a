"""An agent as it loads, described: as data, and in words."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from treadle import Host, NotInstalledError, Tool
from treadle_agent.definition import AgentDefinition
from treadle_loop.tools import FINAL_TOOL

__all__ = ["describe", "lines_of"]

Definitions = Callable[[str], AgentDefinition]


def describe(
    definition: AgentDefinition,
    definitions: Definitions,
    host: Host,
    prices: Callable[[str], Mapping[str, Any] | None],
    *,
    model: str | None = None,
) -> dict[str, Any]:
    """The agent as plain data; those that it uses are described in turn.

    :param definitions: gives an agent by its file. Circles must have been refused.
    :param prices: of a model, in US dollars a million tokens; None where nobody knows.
    :param model: that of agents which name none.
    """
    own_model = definition.model or model
    shape = None
    if definition.output_schema is not None:
        shape = definition.output_schema.shape(definition.name).output.schema
    return {
        "name": definition.name,
        "description": definition.description,
        "model": own_model,
        "prices_usd_per_million": None if own_model is None else prices(own_model),
        "system_prompt": None if definition.system_prompt is None else definition.system_prompt.source,
        "temperature": definition.temperature,
        "max_tokens": definition.max_tokens,
        "tools": [_registered(tool.name, tool.max_calls, host) for _, tool in definition.registered_tools],
        "agents": [
            {
                "tool": other.name,
                "file": other.agent if isinstance(other.agent, str) else None,
                **describe(
                    definitions(other.agent) if isinstance(other.agent, str) else other.agent,
                    definitions,
                    host,
                    prices,
                    model=model,
                ),
                **({} if other.description is None else {"description": other.description}),
            }
            for _, other in definition.agent_tools
        ],
        "approve": list(definition.approve),
        "memory": definition.memory.model_dump(),
        "loop_policy": definition.loop_policy.model_dump(),
        "output_schema": shape,
        "constraints": definition.constraints.model_dump(mode="json"),
    }


def _registered(name: str, max_calls: int | None, host: Host) -> dict[str, Any]:
    try:
        loaded = host.load("tool", name)
        tool: Tool = loaded if isinstance(loaded, Tool) else loaded()
    except NotInstalledError as error:
        return {"name": name, "registered": False, "problem": error.message}
    return {
        "name": name,
        "registered": True,
        "description": tool.description,
        "parameters": dict(tool.parameters),
        "max_calls": max_calls,
    }


def lines_of(agent: Mapping[str, Any], *, indent: str = "") -> Iterator[str]:
    """The same for reading, one line after the other."""
    yield f"{indent}{agent['name']}{': ' + agent['description'] if agent['description'] else ''}"
    inner = indent + "  "
    model = agent["model"] or "config.model, --model, or the provider's own"
    prices = agent["prices_usd_per_million"]
    cost = f" (${prices['input']:g} in, ${prices['output']:g} out, a million tokens)" if prices else ""
    if agent["model"] and not prices:
        cost = " (price unknown)"
    yield f"{inner}model: {model}{cost}"
    for name in ("temperature", "max_tokens"):
        if agent[name] is not None:
            yield f"{inner}{name}: {agent[name]}"
    if agent["system_prompt"] is not None:
        yield f"{inner}system prompt:"
        yield from (f"{inner}  {line}" for line in agent["system_prompt"].rstrip().splitlines())
    for tool in agent["tools"]:
        yield from _tool_lines(tool, inner, asks=tool["name"] in agent["approve"])
    for other in agent["agents"]:
        where = f" ({other['file']})" if other["file"] else ""
        yield f"{inner}tool {other['tool']}: the agent{where}"
        yield from lines_of(other, indent=inner + "  ")
    memory = {name: value for name, value in agent["memory"].items() if value is not None}
    if memory:
        yield f"{inner}memory: {', '.join(f'{name} {value}' for name, value in memory.items())}"
    policy = agent["loop_policy"]
    yield f"{inner}at most {policy['max_iterations']} model calls a turn, then {policy['on_max_iterations']}"
    if agent["output_schema"] is not None:
        how = f", given by {FINAL_TOOL}" if agent["tools"] or agent["agents"] else ""
        yield f"{inner}reply{how}: {json.dumps(agent['output_schema'], ensure_ascii=False)}"
    for name, value in agent["constraints"].items():
        if value:
            yield f"{inner}{name}: {', '.join(map(repr, value)) if isinstance(value, list) else f'{value:g}'}"


def _tool_lines(tool: Mapping[str, Any], indent: str, *, asks: bool) -> Iterator[str]:
    if not tool["registered"]:
        yield f"{indent}tool {tool['name']}: not registered; {tool['problem']}"
        return
    notes = [f"at most {tool['max_calls']} calls"] if tool["max_calls"] is not None else []
    notes += ["asks a person"] if asks else []
    about = f" ({', '.join(notes)})" if notes else ""
    yield f"{indent}tool {tool['name']}{about}: {_first_line(tool['description'])}"
    yield f"{indent}  {json.dumps(tool['parameters'], ensure_ascii=False)}"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
