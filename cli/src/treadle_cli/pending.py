"""What steps wait for, in words."""

from __future__ import annotations

from treadle import Pending, StepResult

__all__ = ["question", "waits_for"]


def waits_for(result: StepResult) -> str:
    """What a step waits for, in a few words; nothing where it does not."""
    return "; ".join(
        question(each) if each.step_id == result.step_id else f"{each.step_id} waits" for each in result.pending
    )


def question(pending: Pending) -> str:
    """What is asked, and what may be answered."""
    return f"{pending.question} ({', '.join(pending.choices)})" if pending.choices else pending.question
