"""The step ``foreach``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, model_validator

from treadle import DocumentCheck, RunStatus, StepContext, StepError, StepOutcome
from treadle_flow.body import BodyStep, Name
from treadle_flow.items import Item, Items, items_of
from treadle_flow.results import failure

if TYPE_CHECKING:
    import trio

__all__ = ["Foreach"]


class Foreach(BodyStep):
    """Run the body once for each item of a list or mapping. ``output`` receives what each made, in the items' order.

    Inside the body the item is ``{item}``, its place ``{index}`` (from 0) and, of a mapping, its key ``{key}``. Each
    item is a child run of its own over the state that the step sees; what it writes no other item sees.
    """

    items: Items = Field(description="what to go over: a path, an expression, or the list or mapping itself")
    as_: Name = Field(default="item", alias="as", description="what the item is called inside the body")
    index: Name = Field(default="index", description="what its number, from 0, is called inside the body")
    key: Name = Field(default="key", description="what its key is called: of a list, its number again")
    concurrency: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        strict=True,
        description="most items at once; config.max_concurrent_steps without it",
    )
    on_error: Literal["stop", "continue", "collect"] = Field(
        default="stop",
        description="where an item fails: stop and fail, or go on, with null or {error: ...} in its place",
    )

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [self.as_, self.index, self.key]
        if len(set(names)) < len(names):
            raise ValueError(f"as, index and key must be three names, not {', '.join(names)}")
        return self

    def check_document(self, check: DocumentCheck) -> None:
        """Have the body checked, in which the item has a name."""
        self.check_body(check, (self.as_, self.index, self.key), repeats=False)

    async def run(self, ctx: StepContext) -> StepOutcome:
        """Run the body for every item.

        :raises StepError: there is nothing to go over, or an item failed.
        """
        import trio  # here, as checking a document needs none

        from treadle.nurseries import open_nursery

        items, is_mapping = items_of(ctx, self.items)
        body = ctx.workflow(self.body_field)
        shown = self.shown_names(ctx, "as_", "index", "key")
        values: list[Any] = [None] * len(items)
        failed: dict[int, StepError] = {}
        paused = False

        async def work(left: Iterator[Item], scope: trio.CancelScope) -> None:
            nonlocal paused
            for item in left:
                named = {"as_": item.value, "index": item.index, "key": item.key}
                state = {getattr(self, field): named[field] for field in shown}
                result = await ctx.run_child(body, key=item.run, state=state, inherit=True)
                if result.status is RunStatus.PAUSED:
                    paused = True
                    continue
                try:
                    if result.status is not RunStatus.SUCCESS:
                        raise failure(result, again=self.retry.max_retries is not None)
                    values[item.index] = self.value_of(ctx, body, result)
                except StepError as error:
                    failed[item.index] = error
                    if self.on_error == "stop":
                        scope.cancel()

        await trio.lowlevel.checkpoint()
        left = iter(items)
        async with open_nursery() as nursery:
            for _ in range(min(self.concurrency or ctx.config.max_concurrent_steps, len(items))):
                nursery.start_soon(work, left, nursery.cancel_scope)
        if failed and self.on_error == "stop":
            index, error = min(failed.items())
            raise StepError(f"item {items[index].run}: {error}", transient=error.transient) from error.__cause__
        if paused:
            return StepOutcome()  # the engine knows what for
        self._note_failed(ctx, items, values, failed)
        made = {str(item.key): value for item, value in zip(items, values, strict=True)} if is_mapping else values
        return StepOutcome(value=made)

    def _note_failed(
        self, ctx: StepContext, items: list[Item], values: list[Any], failed: dict[int, StepError]
    ) -> None:
        """Put something in the place of the items that failed."""
        for index, error in sorted(failed.items()):
            if self.on_error == "collect":
                values[index] = {"error": str(error)}
            else:
                ctx.warn(f"item {items[index].run}: {error}; its place in the results is null")
