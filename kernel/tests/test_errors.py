"""Errors: what they say, whether trying again helps, and the exit code they stand for."""

import inspect
import pickle
import re

import pytest

from treadle import errors
from treadle.errors import (
    ConfigurationError,
    DocumentError,
    Problem,
    ProviderError,
    RateLimitError,
    ToolError,
    TreadleError,
)

CLASSES = [each for each in vars(errors).values() if inspect.isclass(each) and issubclass(each, TreadleError)]
TRANSIENT = {"ToolError", "RateLimitError", "UnavailableError", "ProviderTimeoutError", "ResponseError"}


def make(kind: type[TreadleError]) -> TreadleError:
    if issubclass(kind, DocumentError):
        return kind([Problem(message="m", code="c")])
    if issubclass(kind, ProviderError):
        return kind("m", provider="p")
    return kind("m")


def test_the_tree_that_is_drawn_is_the_tree_that_is_there() -> None:
    drawn: dict[str, str] = {}
    trail: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"^([ │├└─]*)(\w+Error)\b", line)
        if match is None:
            continue
        depth = len(match[1])
        trail = [each for each in trail if each[0] < depth]
        if trail:
            drawn[match[2]] = trail[-1][1]
        trail.append((depth, match[2]))
    assert drawn == {each.__name__: each.__bases__[0].__name__ for each in CLASSES if each is not TreadleError}


def test_every_error_is_exported() -> None:
    assert {each.__name__ for each in CLASSES} <= set(errors.__all__)
    assert all(hasattr(errors, name) for name in errors.__all__)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_is_transient_or_permanent_by_its_class(kind: type[TreadleError]) -> None:
    assert make(kind).transient is (kind.__name__ in TRANSIENT)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_has_its_exit_code(kind: type[TreadleError]) -> None:
    user_mistake = issubclass(kind, DocumentError | ConfigurationError)
    assert kind.exit_code == (2 if user_mistake else 1)


def test_an_error_reads_as_its_message_and_its_hint() -> None:
    error = ConfigurationError("the key is missing", hint="export KEY=...")
    assert str(error) == "the key is missing; export KEY=..."
    assert (error.message, error.hint) == ("the key is missing", "export KEY=...")
    assert str(ConfigurationError("the key is missing")) == "the key is missing"


def test_one_error_may_differ_from_its_class() -> None:
    assert ToolError("x", transient=False).transient is False
    assert ToolError("x").transient is ToolError.transient is True
    assert ConfigurationError("x", transient=True).transient is True


def test_a_provider_error_says_how_far_the_exchange_had_come() -> None:
    error = RateLimitError(
        "slow down", provider="p", status_code=429, retry_after=1.5, request_id="r", phase="status", request_sent=True
    )
    assert (error.provider, error.status_code, error.retry_after) == ("p", 429, 1.5)
    assert (error.request_id, error.phase, error.request_sent) == ("r", "status", True)
    bare = ProviderError("x", provider="p")
    assert (bare.status_code, bare.retry_after, bare.request_id, bare.phase, bare.request_sent) == (None,) * 5


def test_a_problem_reads_as_place_path_cause_and_remedy() -> None:
    problem = Problem(
        message="unknown field",
        code="c",
        path="steps.a.modle",
        hint="did you mean 'model'?",
        file="f.yaml",
        line=3,
        column=7,
    )
    assert str(problem) == "f.yaml:3:7: steps.a.modle: unknown field; did you mean 'model'?"
    assert str(Problem(message="m", code="c")) == "m"
    assert str(Problem(message="m", code="c", path="a", severity="warning")) == "warning: a: m"
    assert str(Problem(message="m", code="c", file="f", severity="warning")) == "f: warning: m"


def test_a_document_error_holds_its_problems_in_the_order_of_the_file() -> None:
    at = [
        Problem(message=f"{line}:{column}", code="c", file="f", line=line, column=column)
        for line, column in [(10, 1), (2, 9), (2, 10)]
    ]
    error = DocumentError(at)
    assert [each.message for each in error.problems] == ["2:9", "2:10", "10:1"]
    assert str(error) == "f:2:9: 2:9\nf:2:10: 2:10\nf:10:1: 10:1"


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_survives_pickling(kind: type[TreadleError]) -> None:
    """Worker processes and test runners send errors home."""
    error = make(kind)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - what was pickled a moment ago
    assert type(again) is kind
    assert str(again) == str(error)
    assert vars(again) == vars(error)
