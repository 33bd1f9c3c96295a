"""``treadle serve``: takes answers over HTTP, and goes on with the runs that wait for them."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import treadle
from treadle import ConfigurationError, SecretRef

if TYPE_CHECKING:
    from treadle import Host, Journal

__all__ = ["serve"]


class _Secret(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.3 on
    name = "reference"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> SecretRef:
        try:
            return SecretRef(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command(short_help="Take answers to paused runs over HTTP, and go on with them.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", default=8642, show_default=True, type=click.IntRange(0, 65535), help="The port; 0 picks one.")
@click.option(
    "--token",
    type=_Secret(),
    metavar="env:NAME",
    help="Where the token is that every request must have: env:NAME or file:PATH. Needed for other addresses than this "
    "machine's own.",
)
@click.option("--token-file", metavar="FILE", help="The same as --token file:FILE.")
@click.option("--max-runs", default=16, show_default=True, type=click.IntRange(min=1), help="Runs under way at once.")
@click.option("--checkpoint-dir", metavar="DIR", help="Read DIR/journal.db, whatever treadle.yaml says.")
@click.option("--tools", metavar="FILE", multiple=True, help="Tools of one's own: a file, or module:name. Repeatable.")
@click.option("--without", metavar="PLUGIN", multiple=True, help="Leave a plugin out. Repeatable.")
@treadle.prints_on_stderr()
def serve(
    host: str,
    port: int,
    token: SecretRef | None,
    token_file: str | None,
    max_runs: int,
    checkpoint_dir: str | None,
    tools: Sequence[str],
    without: Sequence[str],
) -> None:
    """Take answers to what paused runs wait for, and go on with the runs in the background.

    \b
    GET  /pending                            the runs that wait, and at which gates
    POST /approve/RUN[/GATE]  /reject/...    answer a gate; 202, and the run goes on
    POST /answer    {"run_id", "gate", "answer"}
    POST /webhook                            print a JSON object, to try a webhook with

    The runs are those of the journal here. A gate whose time is over is answered as its on_timeout says. A run goes on
    as it was recorded, whatever has become of its file. Ctrl-C cancels the runs under way; they can be resumed.
    """
    if token is not None and token_file is not None:
        raise click.UsageError("--token and --token-file say the same thing twice")
    if token_file is not None:
        token = SecretRef(f"file:{token_file}")
    from treadle_approval.routes import is_loopback

    if token is None and not is_loopback(host):
        raise ConfigurationError(
            f"--host {host} may be reached by other machines, and there is no token",
            hint="--token env:NAME or --token-file FILE",
        )
    secret = None if token is None else token.reveal()
    found = _host(without, tools)
    journal = treadle.installed_journal(found, **({} if checkpoint_dir is None else _place(checkpoint_dir)))
    if journal is None:
        found.sole("journal", "treadle serve")
        raise AssertionError("the host has just said that there is none")
    received = _serve(found, journal, host, port, secret, max_runs)
    if received is not None:
        click.get_current_context().exit(128 + received)


def _place(folder: str) -> dict[str, Any]:
    return {"path": str(Path(folder).absolute() / "journal.db")}


def _serve(host: Host, journal: Journal, address: str, port: int, token: str | None, most: int) -> int | None:
    """Serve until a signal comes; gives it."""
    import trio

    from treadle_approval.server import open_listeners, serve

    received: list[int] = []

    async def main() -> None:
        async with treadle.open(host=host, journal=journal) as session:
            try:
                listeners = await open_listeners(address, port)
            except OSError as error:
                raise ConfigurationError(
                    f"cannot listen on {address} port {port}: {error.strerror or error}", hint="try --port 0"
                ) from error
            with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                async with trio.open_nursery() as nursery:

                    async def run(task_status: trio.TaskStatus[Callable[[str], object]]) -> None:
                        how: dict[str, Any] = {"host": address, "token": token, "most_runs": most, "say": _say}
                        await serve(session, listeners, **how, task_status=task_status)
                        nursery.cancel_scope.cancel()

                    stop: Callable[[str], object] = await nursery.start(run)
                    name = f"[{address}]" if ":" in address else address
                    url = f"http://{name}:{listeners[0].socket.getsockname()[1]}"
                    click.echo(f"listening on {url}", file=treadle.results_stream())
                    async for number in signals:
                        if received:
                            os._exit(128 + number)
                        received.append(number)
                        _say("stops; a second Ctrl-C does not wait for the runs under way")
                        stop(f"the server was stopped by {signal.Signals(number).name}")

    trio.run(main)
    return received[0] if received else None


def _say(line: str) -> None:
    """One line for whoever runs the server; what came from elsewhere cannot move the cursor."""
    text = treadle.hide_secrets(line)
    print("".join(each if each.isprintable() else " " for each in text), file=sys.stderr, flush=True)


def _host(without: Sequence[str], tools: Sequence[str]) -> Host:
    """What the main program says; on its own, everything installed as the nearest settings file says."""
    make: Callable[[Sequence[str]], Host] | None = click.get_current_context().meta.get("treadle.host")
    host = treadle.deployed_host(without=without) if make is None else make(without)
    return host.with_tools(tools, origin="--tools") if tools else host
