"""``treadle init``: a first workflow and its settings."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

import treadle
from treadle import ConfigurationError, PluginError, SecretRef
from treadle_cli.options import debug_option
from treadle_cli.output import err, out

if TYPE_CHECKING:
    from treadle import Host

__all__ = ["init"]

_OFFLINE = "mock"

_WORKFLOW = """\
# `treadle run workflow.yaml` runs this, `treadle validate workflow.yaml` checks it without running anything.
name: first
description: Explain a topic in one sentence, then ask a question about it.

state:                             # values that steps read as {state.topic}
  topic: tides                     # another one for one run: -s topic=rainbows

steps:
  - id: explain
    type: llm_call
    prompt: "Explain {state.topic} in one sentence."
    output: explanation            # where the reply goes in the state

  - id: ask
    type: llm_call
    depends_on: [explain]          # waits for it; steps that do not wait for each other run at the same time
    prompt: |
      {state.explanation}

      Ask one question about that.
    output: question
"""

_SETTINGS = """\
# Settings of this deployment, read from the working directory upward. Workflows stay as they are.
# What a workflow says in its own `config:` wins over this file, and the command line over both.

{provider:<34} # the model provider of workflows that name none; `treadle plugins` lists them
# model: a-model                   # the model of steps that name none

# A server of your own. Keys are never written here, only where they are: env:NAME or file:PATH.
# providers:
#   ours:
#     kind: generic_openai         # the provider that it is; `treadle info` says which keys are set
#     base_url: http://localhost:8000
#     api_key: env:OUR_API_KEY

# roles:                           # which plugin serves where several could
#   sandbox: policy

# aliases:                         # what workflows call by the first name is served by the second
#   tools: {{read: file_read}}

# plugins:
#   disabled: [some_plugin]

# sandbox:                         # limits of tools, which a workflow's config.sandbox can only narrow
#   allow_network: true

# prices:                          # US dollars for a million tokens, where a model is in no list
#   our_model: {{input: 0.2, output: 0.8}}

# journal:                         # where runs are recorded
#   path: .treadle/journal.db

# redaction:
#   keys: [password]               # state keys whose values are in no result and no log; keys of providers never are

# tools: [tools.py]                # tools of your own: functions under @treadle.tool in a file beside this one

# config:                          # defaults for the config of workflows
#   max_concurrent_steps: 4
"""


@click.command(short_help="Write a first workflow and its settings.")
@click.argument("folder", metavar="[DIR]", default=".")
@click.option("--force", is_flag=True, help="Overwrite files that are there.")
@click.option("-p", "--provider", metavar="NAME", help="The model provider; without it one that can be used at once.")
@debug_option
def init(folder: str, force: bool, provider: str | None) -> None:
    """Write workflow.yaml and treadle.yaml into DIR, by default the working directory. It is made where it is missing.

    They can be run at once. Without --provider it is the default one if its key is set, else one that answers
    offline. Nothing that is there is overwritten without --force.
    """
    host = treadle.Host.discover()  # without settings: those that are written come to count
    chosen = provider or _usable_provider(host)
    host.get("provider", chosen)
    settings = _SETTINGS.format(provider=f"provider: {chosen}")
    written = _write(Path(folder), {"workflow.yaml": _WORKFLOW, "treadle.yaml": settings}, force=force)
    stdout = out()
    for file in written:
        stdout.line(f"{file} written")
    if lack := _lack_of(host, chosen):
        err().line(f"warning: {lack}")
    stdout.line()
    stdout.line("next:")
    if Path(folder) != Path():
        stdout.line(f"  cd {shlex.quote(folder)}")
    stdout.line("  treadle run workflow.yaml")
    stdout.line("  treadle schema --write workflow.yaml    # completion in an editor")
    if chosen == _OFFLINE:
        stdout.line(f"provider '{_OFFLINE}' answers without a model; name another in treadle.yaml to ask one")


def _usable_provider(host: Host) -> str:
    """The default provider if it has its key, else the one that answers offline, else the default all the same.

    :raises ConfigurationError: there is neither.
    """
    offline = _OFFLINE in host.registry.all("provider")
    try:
        default = host.default_provider()
    except ConfigurationError:
        if not offline:
            raise
        return _OFFLINE
    return _OFFLINE if offline and _lack_of(host, default) else default


def _lack_of(host: Host, provider: str) -> str | None:
    """Why the provider cannot be used as it is, where that is known."""
    try:
        fields = host.load("provider", provider).settings_model.model_fields.values()
    except PluginError as error:
        return str(error)
    for field in fields:
        key = field.get_default(call_default_factory=True)
        # A key that may be None is one that may be unset.
        if field.annotation is SecretRef and isinstance(key, SecretRef) and not key.is_set():
            return f"provider '{provider}' needs a key, and {key.reference.removeprefix('env:')} is not set"
    return None


def _write(folder: Path, files: Mapping[str, str], *, force: bool) -> list[Path]:
    """Write the files into the folder: all of them, or none where one is in the way.

    :raises ConfigurationError: it cannot be written.
    :raises UsageError: a file is there.
    """
    paths = {folder / name: text for name, text in files.items()}
    in_the_way = [str(path) for path in paths if path.exists() or path.is_symlink()]
    if in_the_way and not force:
        raise click.UsageError(f"{' and '.join(in_the_way)} would be overwritten; say --force, or name another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in paths.items():
            path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise ConfigurationError(f"{error.filename or folder} cannot be written: {error.strerror or error}") from error
    return list(paths)
