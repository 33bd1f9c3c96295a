"""What can be said of an offer without using it: its words, and whether what it names fits its contract."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

from pydantic import BaseModel, TypeAdapter

from treadle._plugins.registry import Registered, cause_of
from treadle.contracts.budget import BudgetTerms
from treadle.contracts.journal import Journal
from treadle.contracts.offers import LayerOffer, ProviderOffer, Role
from treadle.contracts.recording import Recorder
from treadle.errors import PluginError
from treadle.testing.fetchers import check_fetcher_class
from treadle.testing.providers import check_provider_class
from treadle.testing.sandboxes import check_sandbox_class
from treadle.testing.steps import check_step_class
from treadle.testing.tools import check_tool_class
from treadle.tools import as_tool

__all__ = ["faults_of_offer"]

_CALLS: dict[Role, dict[str, tuple[int, tuple[str, ...]]]] = {
    "trim_policy": {"trim": (1, ("budget", "summary", "count", "complete"))},
    "memory": {
        "begin": (1, ("key", "system_prompt", "turn", "speaker", "model", "settings")),
        "commit": (3, ()),
    },
    "token_counter": {"count": (1, ("model",))},
    "attachment_fetcher": {"fetch": (2, ())},
    "budget": {"reserve": (1, ()), "settle": (1, ())},
    "price_source": {"price": (0, ("provider", "model", "usage"))},
    "observer": {"observe": (1, ())},
    "provider_layer": {"exchange": (2, ())},
}
"""How the engine calls what serves a role: method -> number of arguments by place, and those by name."""

_ASYNC = {"trim", "begin", "fetch", "observe", "reserve"}


def faults_of_offer(registered: Registered, raised: list[BaseException]) -> Iterator[str]:
    """A sentence for each thing that is wrong. Imports what is offered; what that raises goes to ``raised`` too."""
    name, offer, what = registered.name, registered.offer, f"{registered.role.replace('_', ' ')} '{registered.name}'"
    if re.search(r"\s", name):
        yield f"{what}: a name that users type has no white space"
    summary: Any = offer.summary
    if not isinstance(summary, str) or not summary.strip() or "\n" in summary:
        yield f"{what}: its summary is {summary!r}; one line for listings is wanted"
    elif summary.endswith("."):
        yield f"{what}: its summary ends with a full stop"
    default: Any = offer.default_model if isinstance(offer, ProviderOffer) else None
    if default is not None and not isinstance(default, str):
        yield f"{what}: its default_model is {default!r}; a name or None is wanted"
    try:
        loaded = registered.load()
    except PluginError as error:
        yield error.message  # without the hint: who checks a plugin mends it, and does not disable it
        raised += [error.__cause__] if error.__cause__ else []
        return
    try:
        _check(registered, loaded)
    except AssertionError as error:
        yield f"{what}: {error}"
    except Exception as error:
        yield f"{what}: looking at it raised {cause_of(error, str(offer.target))}"
        raised.append(error)


def _check(registered: Registered, loaded: Any) -> None:
    role, name = registered.role, registered.name
    checks: dict[Role, Callable[[Any], None]] = {
        "step_type": check_step_class,
        "provider": check_provider_class,
        "sandbox": check_sandbox_class,
        "tool": check_tool_class,
        "config_field": lambda kind: _check_field(name, kind),
        "journal": lambda kind: _check_subclass(kind, Journal),
        "recorder": lambda kind: _check_subclass(kind, Recorder),
    }
    if role in checks:
        checks[role](loaded)
    if role == "tool" and (own := as_tool(loaded).name) != name:
        raise AssertionError(f"it calls itself '{own}'; models would call it by that name, and nobody would answer")
    limits = isinstance(registered.offer, LayerOffer) and registered.offer.limits
    for method, (places, names) in _CALLS.get(role, {}).items():
        if limits:
            _check_limiting_layer(loaded)
        elif role == "budget":
            _check_factory(loaded, BudgetTerms(limit_usd=1.0, whose="the run"))
        else:
            _check_factory(loaded)
        _check_method(loaded, method, places, names)
    if role == "attachment_fetcher" and isinstance(loaded, type):
        check_fetcher_class(loaded)
        if name not in getattr(loaded, "schemes", ()):
            raise AssertionError(f"it is offered as '{name}', and {loaded.__name__} does not read that scheme")


def _check_field(name: str, kind: Any) -> None:
    TypeAdapter(kind).json_schema()


def _check_subclass(kind: Any, base: type[Any]) -> None:
    _check_factory(kind)
    if isinstance(kind, type) and not issubclass(kind, base):
        raise AssertionError(f"{kind.__name__} is no subclass of treadle.{base.__name__}")
    if missing := sorted(getattr(kind, "__abstractmethods__", ())):
        raise AssertionError(f"{kind.__name__} lacks {', '.join(missing)}")


def _check_factory(loaded: Any, *given: BudgetTerms) -> None:
    """Called with no arguments, or with the terms of a budget."""
    what = "with the terms of the budget" if given else "without arguments"
    if not callable(loaded):
        kind = "that takes BudgetTerms" if given else "without arguments"
        raise AssertionError(f"it is {type(loaded).__name__}; a class or function {kind} is wanted")
    try:
        inspect.signature(loaded).bind(*given)
    except TypeError as error:
        raise AssertionError(f"it is called {what}, and {error}") from error


def _check_limiting_layer(loaded: Any) -> None:
    """Called with a provider's name and what its ``limits`` set."""
    model = getattr(loaded, "settings_model", None)
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise AssertionError(f"it holds limits, and its settings_model is {model!r}; a pydantic model is wanted")
    try:
        inspect.signature(loaded).bind("provider", None)
    except TypeError as error:
        raise AssertionError(f"it is called with a provider's name and settings, and {error}") from error


def _check_method(loaded: Any, method: str, places: int, names: tuple[str, ...]) -> None:
    if not isinstance(loaded, type):
        return  # what a function makes is seen when it is used
    function = getattr(loaded, method, None)
    if not callable(function):
        raise AssertionError(f"{loaded.__name__} has no method {method}")
    if method in _ASYNC and not inspect.iscoroutinefunction(function):
        raise AssertionError(f"{loaded.__name__}.{method} must be async")
    try:
        inspect.signature(function).bind(None, *range(places), **dict.fromkeys(names))
    except TypeError as error:
        raise AssertionError(f"{loaded.__name__}.{method} does not take what it is called with: {error}") from error
