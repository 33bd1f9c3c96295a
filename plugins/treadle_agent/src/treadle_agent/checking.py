"""An agent and all agents below it, checked with the document that names it."""

from __future__ import annotations

from pydantic import BaseModel

from treadle import DocumentCheck, LoadedDocument, Reference, Right
from treadle_agent.definition import AgentDefinition

__all__ = ["check_agent"]

_At = tuple[AgentDefinition, str, "LoadedDocument[BaseModel] | None", tuple[str, ...]]


def check_agent(check: DocumentCheck, agent: str | AgentDefinition, *, field: str) -> dict[str, AgentDefinition]:
    """Load an agent's file and those of the agents it uses as tools; look up their tools and classes.

    It gives the definitions that were loaded, by file.

    Agents that use each other in a circle are an error, told with the way round. A file is looked at once. It takes no
    recursion: there may be any number of agents below each other.
    """
    pending: list[_At] = []
    seen: set[str] = set()
    found: dict[str, AgentDefinition] = {}

    def enter(
        named: str | AgentDefinition, at: str, of: LoadedDocument[BaseModel] | None, way: tuple[str, ...]
    ) -> None:
        if isinstance(named, AgentDefinition):
            pending.append((named, f"{at}.", of, way))
            return
        if named in way:
            circle = " -> ".join((*way[way.index(named) :], named))
            check.note(f"agents use each other in a circle: {circle}", field=at, of=of, code="cycle")
            return
        if named in seen:
            return
        document = check.load(named, AgentDefinition, field=at, of=of)
        if document is not None:
            found[named] = document.value
            pending.append((document.value, "", document, (*way, named)))

    enter(agent, field, None, ())
    while pending:
        definition, prefix, of, way = pending.pop()
        if definition.model:
            check.ask(Right(kind="model", name=definition.model))
        for index, tool in definition.registered_tools:
            is_name = isinstance(definition.tools[index], str)
            place = f"{prefix}tools.{index}" if is_name else f"{prefix}tools.{index}.name"
            check.refer(Reference(role="tool", name=tool.name, field=place), of=of)
        if definition.memory.trim_policy is not None:
            policy = Reference(
                role="trim_policy", name=definition.memory.trim_policy, field=f"{prefix}memory.trim_policy"
            )
            check.refer(policy, of=of)
        if definition.output_schema is not None:
            for reference in definition.output_schema.references(f"{prefix}output_schema"):
                check.refer(reference, of=of)
        if way:
            seen.add(way[-1])
        for index, other in definition.agent_tools:
            enter(other.agent, f"{prefix}tools.{index}.agent", of, way)
    return found
