"""A program with mistakes: mypy --strict must find each of them, and nothing else."""

import treadle
from treadle import Offer, Step, StepContext, StepOutcome, TextPart, Usage


class Late(Step):
    def run(self, ctx: StepContext) -> StepOutcome:  # error: override
        return StepOutcome()


def main() -> None:
    TextPart("positional")  # error: call-arg arg-type
    Usage(input_token=1)  # error: call-arg
    Offer("a:b")  # error: call-arg
    part = TextPart(text="x")
    part.text = "y"  # error: misc
    total: int = Usage().total_tokens  # error: assignment
    print(total)
    result = treadle.run_sync(5)  # error: arg-type
    print(result.total_tokns)  # error: attr-defined
    print(treadle.Stepp)  # error: attr-defined
    treadle.open(tool=[])  # error: call-arg
    treadle.run_sync("flow.yaml", steps=[Late])  # error: arg-type
    treadle.workflow("x").step("say")  # error: call-arg
    shout(5)  # error: arg-type


@treadle.tool
def shout(text: str) -> str:
    return text.upper()
