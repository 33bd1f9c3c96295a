"""What a child run came to, for the step that ran it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from treadle import RunResult, RunStatus, StepError, StepStatus

__all__ = ["failure", "names_at_end"]


def failure(result: RunResult, where: str = "", *, again: bool) -> StepError:
    """The error of a step whose child run did not succeed.

    The steps of the child have been tried as often as they say. So the whole of it is tried again only where the
    step itself asks for that, and where that may help.

    :param where: what stands before the child's own error.
    :param again: whether the step says ``retry.max_retries`` itself.
    """
    failed = [each for each in result.step_results.values() if each.status in (StepStatus.FAILED, StepStatus.TIMEOUT)]
    may_help = result.status is RunStatus.TIMEOUT or any(each.error_classification == "transient" for each in failed)
    error = StepError(
        f"{where}{result.error or f'the workflow ended as {result.status}'}", transient=again and may_help
    )
    error.__cause__ = failed[0].exception if failed else None
    return error


def names_at_end(result: RunResult) -> Mapping[str, Any]:
    """``state`` and ``steps`` as they are at the end of a child run, for an expression."""
    steps = {
        name: {"output": each.output, "status": str(each.status)}
        for name, each in result.step_results.items()
        if each.output is not None or each.status is not StepStatus.SUCCESS
    }
    return {"state": result.final_state, "steps": steps}
