"""The hooks, and what each one's offers must lead to."""

from __future__ import annotations

import ast
import inspect
import sys
from types import ModuleType
from typing import Any

from reference.markdown import prose
from treadle import fields, hookspecs, messages, testing
from treadle.contracts import budget, journal, memory, offers, provider, recording, sandbox, sources, step, tool
from treadle.contracts.events import Observer
from treadle.hookspecs import CONTRACT_VERSION, TreadleHooks

__all__ = ["messages_page", "page", "testing_page"]

# What a step's fields may be, besides what pydantic knows.
FIELDS = (fields.Template, fields.Expression, fields.StatePath, fields.ArgumentTree)
# By hook: what its offers lead to, and what that is handed.
TARGETS: dict[str, tuple[type[Any], ...]] = {
    "treadle_step_types": (step.Step, *FIELDS, step.StepContext, step.StepOutcome, step.StepDetails, step.Reference),
    "treadle_providers": (provider.Provider, provider.ProviderSettings, provider.Features, provider.FromEnv),
    "treadle_provider_layers": (provider.ProviderLayer,),
    "treadle_tools": (tool.Tool, tool.ToolContext),
    "treadle_trim_policies": (memory.TrimPolicy, memory.Trimmed),
    "treadle_memories": (memory.Memory, memory.Conversation),
    "treadle_token_counters": (memory.TokenCounter,),
    "treadle_attachment_fetchers": (sources.AttachmentFetcher, sources.AttachmentRequest),
    "treadle_sandboxes": (
        sandbox.Sandbox,
        sandbox.CommandResult,
        sandbox.HttpClient,
        sandbox.HttpRequest,
        sandbox.HttpReply,
    ),
    "treadle_journals": (journal.Journal, journal.JournalEntry),
    "treadle_recorders": (recording.Recorder, recording.Playback),
    "treadle_price_sources": (sources.PriceSource,),
    "treadle_budgets": (budget.Budget, budget.BudgetTerms, budget.PlannedCall),
    "treadle_observers": (Observer,),
    "treadle_config_fields": (),
}
OFFERS = (offers.Offer, offers.ProviderOffer, offers.LayerOffer, offers.ConfigOffer)


def page() -> str:
    """The page about hooks."""
    text = (
        f"# Hooks\n\nThe contract for plugins, version {CONTRACT_VERSION}; [how it changes](../compatibility.md).\n\n"
    )
    text += prose(hookspecs.__doc__ or "") + "\n\n## What hooks return\n"
    text += "".join(map(described, OFFERS))
    for name, hook in vars(TreadleHooks).items():
        if not name.startswith("treadle_"):
            continue
        returns = inspect.signature(hook).return_annotation
        text += f"\n## {name}\n\nReturns `{returns}`. {prose(hook.__doc__ or '')}\n"
        text += "".join(map(described, TARGETS[name]))
    return text


def messages_page() -> str:
    """The page about messages, requests and replies."""
    introduction = (messages.__doc__ or "").partition("\n\n====")[0].removesuffix(" One shape serves every vendor:")
    text = f"# Messages\n\n{prose(introduction)}\n"
    return text + "".join(described(each) for each in _public(messages) if isinstance(each, type))


def testing_page() -> str:
    """The page about the test kit."""
    text = "# The test kit\n\nEverything in `treadle.testing`.\n\n" + prose(testing.__doc__ or "") + "\n"
    return text + "".join(
        described(each) for each in _public(testing) if isinstance(each, type) or inspect.isfunction(each)
    )


def _public(module: ModuleType) -> list[Any]:
    return [getattr(module, name) for name in module.__all__]


def described(thing: Any) -> str:
    """A class with every method that is its own, or a function: what it is for and how it is written."""
    node = _source(thing)
    text = f"\n### `{thing.__name__}`\n\nFrom `{_home(thing)}`. {prose(inspect.getdoc(thing) or '')}\n"
    if not isinstance(node, ast.ClassDef):
        return f"{text}\n```text\n{_signature(node)}\n```\n"
    values = [
        ast.unparse(each)
        for each in node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and each.target.id[0] != "_"
    ]
    if values:
        text += "\n```text\n" + "\n".join(values) + "\n```\n"
    for each in node.body:
        if not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if not ast.get_docstring(each) and each.name != "__init__":
            continue
        if each.name.startswith("_") and each.name not in ("__init__", "__aenter__", "__aexit__"):
            continue
        marks = {ast.unparse(mark) for mark in each.decorator_list}
        note = " *Must be written.*" if "abstractmethod" in marks else ""
        shown = f"{each.name}{_returns(each)}" if "property" in marks else _signature(each)
        text += f"\n`{shown}`{note}\n"
        if docstring := ast.get_docstring(each):
            text += f"\n{_quoted(prose(docstring))}\n"
    return text


def _home(thing: Any) -> str:
    import treadle

    for module in (treadle, testing):
        if thing.__name__ in module.__all__ and getattr(module, thing.__name__) is thing:
            return module.__name__
    return str(thing.__module__)


def _source(thing: Any) -> ast.AST:
    """The definition, as it is written. Looked up by name in its module, which every Python version does alike."""
    module = ast.parse(inspect.getsource(sys.modules[thing.__module__]))
    return next(each for each in module.body if getattr(each, "name", None) == thing.__name__)


def _signature(node: Any) -> str:
    arguments = ast.unparse(node.args)
    shown = arguments.removeprefix("self, ").removeprefix("cls, ")
    shown = "" if shown in ("self", "cls") else shown
    return f"{'async ' if isinstance(node, ast.AsyncFunctionDef) else ''}{node.name}({shown}){_returns(node)}"


def _returns(node: Any) -> str:
    return f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())
