"""``treadle agent``: look at an agent, ask it, talk with it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import treadle
from treadle import ConfigurationError, DocumentError, Problem, Usage, Workflow

if TYPE_CHECKING:
    from treadle import Host
    from treadle_agent.agent import Agent, AgentError
    from treadle_agent.definition import AgentDefinition

__all__ = ["agent"]

_CHATS = Path(".treadle", "chats")


@click.group(short_help="Look at an agent, ask it, or talk with it.")
def agent() -> None:
    """Agents by their files, without a workflow around them."""


def _options(function: Any) -> Any:
    for option in reversed(
        (
            click.option(
                "-s",
                "--state",
                "assignments",
                metavar="KEY=VALUE",
                multiple=True,
                help="What the system prompt's templates read. Repeatable.",
            ),
        )
    ):
        function = option(function)
    return _which(function)


def _which(function: Any) -> Any:
    """What an agent is made with, for every command."""
    for option in (
        click.option("--without", metavar="PLUGIN", multiple=True, help="Leave a plugin out. Repeatable."),
        click.option("--tools", metavar="FILE", multiple=True, help="Tools of one's own: a file, or module:name."),
        click.option("--model", metavar="NAME", help="The model, for a file that names none."),
        click.option("-p", "--provider", metavar="NAME", help="The provider; the deployment's without it."),
    ):
        function = option(function)
    return function


@agent.command(short_help="Show an agent as it loads.")
@click.argument("file", metavar="FILE")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@_which
@treadle.prints_on_stderr()
def inspect(
    file: str, as_json: bool, provider: str | None, model: str | None, tools: Sequence[str], without: Sequence[str]
) -> None:
    """Show the agent in FILE: model and prices, prompt, tools, the agents it uses, the shape of its reply.

    Nothing runs. Mistakes are told as `treadle validate` does it, in the files of agents below too.
    """
    from treadle_agent.inspecting import describe, lines_of

    host = _host(without, tools)
    workflow = _checked(file, host, provider, model)
    for warning in workflow.warnings:
        click.echo(str(warning), err=True)
    prices = partial(_prices, host, provider or host.default_provider())
    described = describe(_definition(workflow, file), partial(_definition, workflow), host, prices, model=model)
    if as_json:
        _print(json.dumps(described, ensure_ascii=False, indent=2))
    else:
        _print("\n".join(lines_of(described)))


@agent.command(short_help="Take one turn of an agent.")
@click.argument("file", metavar="FILE")
@click.option("-m", "--message", required=True, metavar="TEXT", help="What to say; - reads stdin.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: reply, cost, tokens, error.")
@_options
@treadle.prints_on_stderr()
def run(
    file: str,
    message: str,
    as_json: bool,
    provider: str | None,
    model: str | None,
    assignments: Sequence[str],
    tools: Sequence[str],
    without: Sequence[str],
) -> None:
    """Say TEXT to the agent in FILE and print its reply, as it is written where its rules let it be seen."""
    import trio

    from treadle_agent.agent import AgentError
    from treadle_agent.chatting import TurnView, shown

    host = _host(without, tools)
    text = sys.stdin.read() if message == "-" else message
    if not text.strip():
        raise ConfigurationError("--message: there is no text" + (" on stdin" if message == "-" else ""))
    state = _state(assignments)
    view = TurnView(partial(_print, nl=False))

    async def take() -> Any:
        async with treadle.open(host=host) as session:
            made = _agent(file, host, session, provider=provider, model=model)
            return await made.invoke(text, state=state, on_event=None if as_json else view)

    try:
        result = trio.run(take)
    except AgentError as error:
        view.end_line()
        if as_json:
            tokens = None if error.usage is None else error.usage.total_tokens
            _print_json(None, error, error.cost_usd, tokens, None, None)
        if isinstance(error.__cause__, ConfigurationError):  # of which trying again is no use
            raise error.__cause__ from error
        raise
    for warning in result.warnings:
        click.echo(f"warning: {warning}", err=True)
    if as_json:
        _print_json(
            result.reply, None, result.cost_usd, result.usage.total_tokens, result.iterations, result.conversation
        )
    elif view.has_text:
        view.end_line()
    else:
        _print(shown(result.reply))


def _print_json(
    reply: Any, error: AgentError | None, cost: float | None, tokens: int | None, iterations: int | None, kept: Any
) -> None:
    from treadle.contracts.results import json_value

    data = {
        "reply": json_value(reply),
        "error": None if error is None else str(error),
        "error_classification": None if error is None else "transient" if error.transient else "permanent",
        "cost_usd": cost,
        "total_tokens": tokens,
        "iterations": iterations,
        "conversation": json_value(kept),
    }
    _print(json.dumps(data, ensure_ascii=False, indent=2))


def _print(text: str, *, nl: bool = True) -> None:
    """A result, apart from what tools print."""
    click.echo(text, nl=nl, file=treadle.results_stream())


@agent.command(short_help="Talk with an agent.")
@click.argument("file", metavar="FILE")
@click.option(
    "--name", metavar="NAME", help=f"Keep the chat below {_CHATS} under this name, and take it up from there."
)
@_options
def chat(
    file: str,
    name: str | None,
    provider: str | None,
    model: str | None,
    assignments: Sequence[str],
    tools: Sequence[str],
    without: Sequence[str],
) -> None:
    """Talk with the agent in FILE. Ctrl-C stops the turn that is under way; /quit or Ctrl-D ends the chat, /help lists
    the commands.

    Calls of the tools that the agent lists under `approve` are asked about.
    """
    import trio

    from treadle_agent.chatting import Chat, Saved
    from treadle_agent.console import Console

    host = _host(without, tools)
    if not host.names("memory"):
        raise ConfigurationError(
            "a chat needs something that keeps conversations", hint="pip install treadle-conversation"
        )
    saved = Saved(_CHATS, name) if name is not None else None
    console, state = Console(), _state(assignments)

    async def hold() -> None:
        async with treadle.open(host=host) as session:
            made = _agent(file, host, session, provider=provider, model=model, approve=console.ask)
            await Chat(made, console, saved, state).hold()

    with console.restored():
        trio.run(hold)


def _host(without: Sequence[str], tools: Sequence[str]) -> Host:
    """What the main program says; on its own, everything installed as the nearest settings file says."""
    make: Callable[[Sequence[str]], Host] | None = click.get_current_context().meta.get("treadle.host")
    host = treadle.deployed_host(without=without) if make is None else make(without)
    return host.with_tools(tools, origin="--tools") if tools else host


def _checked(file: str, host: Host, provider: str | None = None, model: str | None = None) -> Workflow:
    """The agent within a workflow of one step, so that it is checked as a workflow's would be."""
    step = {"id": "agent", "type": "agent", "agent": file, "prompt": "-"}
    config = {"provider": provider, "model": model}
    try:
        return treadle.build_workflow({"name": "agent", "steps": [step]}, host=host, config=config)
    except DocumentError as error:
        if missing := next((each.message for each in error.problems if each.code == "no-model"), None):
            raise ConfigurationError(f"{file}: {missing}", hint="set it in the file, or pass --model") from error
        raise DocumentError(each if each.file else _of_file(each, file) for each in error.problems) from error


def _of_file(problem: Problem, file: str) -> Problem:
    """A problem of the step, which nobody has written, as one of the agent's file."""
    return replace(problem, file=file, path="", message=problem.message.removesuffix(f": {file}"))


def _definition(workflow: Workflow, file: str) -> AgentDefinition:
    from treadle_agent.definition import AgentDefinition

    found = workflow.documents[file, AgentDefinition]
    assert isinstance(found, AgentDefinition)
    return found


def _agent(file: str, host: Host, session: Any, **options: Any) -> Agent:
    from treadle_agent.agent import Agent

    workflow = _checked(file, host, options.get("provider"), options.get("model"))
    for warning in workflow.warnings:
        click.echo(str(warning), err=True)
    return Agent(_definition(workflow, file), gateway=session, **options)


def _state(assignments: Sequence[str]) -> dict[str, Any]:
    """What ``-s`` means in every command of the main program, which reads it."""
    read: Callable[[Sequence[str]], dict[str, Any]] | None = click.get_current_context().meta.get("treadle.state")
    if read is not None:
        return read(assignments)
    if assignments:
        raise click.UsageError("-s is read by the program treadle, and this command runs without it")
    return {}


def _prices(host: Host, name: str, model: str) -> Mapping[str, Any] | None:
    """What a million tokens cost, read and written, with the provider of that name."""
    import trio

    async def ask() -> Mapping[str, Any] | None:
        async with treadle.open(host=host) as session:
            provider = session.built_provider(host.resolve("provider", name), {})
            none = Usage(input_tokens=0, output_tokens=0, cache_read_tokens=0, cache_write_tokens=0, reasoning_tokens=0)
            read = await session.price(provider, model, replace(none, input_tokens=1_000_000))
            written = await session.price(provider, model, replace(none, output_tokens=1_000_000))
        return None if read is None or written is None else {"input": read, "output": written}

    return trio.run(ask)
