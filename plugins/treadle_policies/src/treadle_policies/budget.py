"""The budget: the most that a call may cost is set aside before it is made, and given back afterwards."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import trio

from treadle import BudgetExceededError, BudgetTerms, ConfigurationError, ModelRequest, PlannedCall, Usage
from treadle_policies.estimate import ASSUMED_REPLY, most_read
from treadle_policies.unknown_price import Rates

__all__ = ["ReservingBudget"]

_LEAST_REPLY = 256
"""Tokens. A reply that is cut shorter than that is money for nothing."""
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class _Most:
    """What a call may cost at most.

    :param usd: None where it is not counted.
    :param reading: what the request alone costs.
    """

    usd: float | None
    reading: float = 0.0
    read: int = 0
    written: int = 0
    is_known: bool = False


class ReservingBudget:
    """Holds calls to a limit in US dollars.

    What was spent, what is reserved for calls under way and what a call may cost at most are together never more than
    the limit. A call that does not fit waits where calls under way may give enough back, first come, first served;
    else it is refused. Where nobody says what a call cost that may have cost something, all that was reserved for it
    is taken to be spent.

    :param terms: the limit, and whose it is.
    """

    def __init__(self, terms: BudgetTerms) -> None:
        self._terms = terms
        self._spent = terms.spent_usd
        self._held: dict[PlannedCall, _Most] = {}
        self._turn = trio.Lock()
        self._given_back = trio.lowlevel.ParkingLot()
        self._longest: dict[tuple[str, str], int] = {}
        self._factor: dict[tuple[str, str], float] = {}
        self._warned: set[str] = set()
        self._is_exceeded = False

    @property
    def spent_usd(self) -> float:
        """What calls that have ended came to, those of earlier processes included."""
        return self._spent

    @property
    def reserved_usd(self) -> float:
        """What is set aside for calls under way."""
        return sum(most.usd or 0.0 for most in self._held.values())

    async def reserve(self, call: PlannedCall) -> None:
        """Set aside the most that the call may cost.

        :raises BudgetExceededError: it does not fit, and would not if all calls under way cost nothing.
        :raises ConfigurationError: nobody knows what the model costs.
        """
        most = await self._most(call)
        if most.usd:
            async with self._turn:
                most = await self._fitting(call, most)
        self._held[call] = most
        call.reserved_usd = max(call.reserved_usd, most.usd or 0.0)

    def settle(self, call: PlannedCall) -> None:
        """Give back what the call has not cost."""
        most = self._held.pop(call)
        # A soft limit does not count what nobody knows the price of; whoever set it is warned of that.
        unknown = 0.0 if self._terms.soft else most.usd or 0.0
        self._spent += unknown if call.cost_usd is None else call.cost_usd
        self._learn(call, most)
        self._given_back.unpark_all()
        if self._spent > self._terms.limit_usd * (1 + _ROUNDING) and not self._is_exceeded and not self._terms.soft:
            self._is_exceeded = True
            self._terms.exceeded(
                self._error(
                    f"{self._terms.whose} has spent {_usd(self._spent)}, which is more than its budget of "
                    f"{_usd(self._terms.limit_usd)}: a call of {call.step} cost {_usd(call.cost_usd or 0.0)}, and "
                    f"{_usd(most.usd or 0.0)} had been reserved for it"
                )
            )

    # --- fitting ---

    async def _fitting(self, call: PlannedCall, most: _Most) -> _Most:
        """The call's most, once there is room for it; perhaps with a request whose reply is limited to the rest."""
        while True:
            assert most.usd is not None
            if self._has_room(most.usd + self.reserved_usd):
                return most
            narrowest = self._narrowed(call, most, self._terms.limit_usd - self._spent)
            could_fit = (
                narrowest is not None or self._has_room(most.usd) or (self._terms.soft and self._is_something_left)
            )
            if not could_fit:
                raise self._refusal(call, most)
            if self.reserved_usd:
                await self._given_back.park()
                continue
            if self._terms.soft:
                return most
            assert narrowest is not None, "with nothing reserved, there is room or there is not"
            self._warn(
                f"the budget of {self._terms.whose} has room for a reply of {narrowest.written:,} tokens in "
                f"{call.step}; max_tokens is set to that"
            )
            assert isinstance(call.request, ModelRequest)
            call.request = replace(call.request, max_tokens=narrowest.written)
            return narrowest

    def _has_room(self, usd: float) -> bool:
        return self._spent + usd <= self._terms.limit_usd * (1 + _ROUNDING)

    @property
    def _is_something_left(self) -> bool:
        return self._spent < self._terms.limit_usd

    def _narrowed(self, call: PlannedCall, most: _Most, left: float) -> _Most | None:
        """What the call costs with a reply of as many tokens as the rest buys; None where it has a limit of its own,
        or that would be too few."""
        request = call.request
        if not isinstance(request, ModelRequest) or request.max_tokens is not None or most.is_known or not most.written:
            return None
        assert most.usd is not None
        for_a_token = (most.usd - most.reading) / most.written
        if for_a_token <= 0:
            return None
        thinking = (request.reasoning.budget_tokens or 0) if request.reasoning else 0
        tokens = min(int((left - most.reading) / for_a_token), most.written)
        if tokens < _LEAST_REPLY + thinking:
            return None
        return replace(most, usd=most.reading + tokens * for_a_token, written=tokens)

    # --- estimating ---

    async def _most(self, call: PlannedCall) -> _Most:
        if call.known_usd is not None:
            return _Most(call.known_usd, is_known=True)
        request, key = call.request, (call.provider, call.request.model)
        read = int(most_read(request, call.counter) * self._factor.get(key, 1.0)) + 1
        written = 0
        if isinstance(request, ModelRequest):
            thinking = (request.reasoning.budget_tokens or 0) if request.reasoning else 0
            written = request.max_tokens or max(ASSUMED_REPLY, 2 * self._longest.get(key, 0)) + thinking
        has_cache = isinstance(request, ModelRequest) and bool(request.provider_options)
        usd = await _dearest(call, read, written, has_cache=has_cache)
        if usd is None:
            return self._of_unknown_price(call, read, written)
        reading = await _dearest(call, read, 0, has_cache=has_cache) if written else usd
        return _Most(usd, min(reading or 0.0, usd), read, written)

    def _of_unknown_price(self, call: PlannedCall, read: int, written: int) -> _Most:
        rule = getattr(self._terms.config, "unknown_price", None) or "error"
        if isinstance(rule, Rates):
            reading = read * rule.input / 1_000_000
            return _Most(reading + written * rule.output / 1_000_000, reading, read, written)
        if self._terms.soft:
            return _Most(None)
        model = f"model '{call.request.model}' of provider '{call.provider}'"
        if rule == "warn":
            self._warn(f"nobody knows the price of {model}, so the budget of {self._terms.whose} does not count it")
            return _Most(None)
        raise ConfigurationError(
            f"nobody knows the price of {model}, so it cannot be held to the budget of {self._terms.whose}",
            hint="add the model under prices: in treadle.yaml, or set config.unknown_price",
        )

    def _learn(self, call: PlannedCall, most: _Most) -> None:
        """What models really read and write makes the next estimate better; never a lower one than at first."""
        usage, key = call.usage, (call.provider, call.request.model)
        if usage is None or not most.read:
            return
        self._longest[key] = max(self._longest.get(key, 0), usage.output_tokens or 0)
        if usage.input_tokens is not None and usage.input_tokens > most.read:
            self._factor[key] = self._factor.get(key, 1.0) * usage.input_tokens / most.read

    # --- words ---

    def _refusal(self, call: PlannedCall, most: _Most) -> BudgetExceededError:
        what = f"{_usd(most.usd or 0.0)} for a call of '{call.request.model}'"
        if not most.is_known:
            limit = "max_tokens" if getattr(call.request, "max_tokens", None) else "assumed"
            reply = f" and {most.written:,} to write ({limit})" if most.written else ""
            what += f" with about {most.read:,} tokens to read{reply}"
        reserved = f", {_usd(self.reserved_usd)} reserved for calls under way" if self.reserved_usd else ""
        return self._error(
            f"{self._terms.whose} has a budget of {_usd(self._terms.limit_usd)}, {_usd(self._spent)} of it spent"
            f"{reserved}; asked for: at most {what}"
        )

    def _error(self, message: str) -> BudgetExceededError:
        terms = self._terms
        return BudgetExceededError(
            message,
            budget_usd=terms.limit_usd,
            spent_usd=self._spent,
            whose=terms.whose,
            run_id=terms.run_id,
            step_id=terms.step_id,
            hint=f"raise budget_usd of {terms.whose}" if terms.step_id else None,
        )

    def _warn(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            self._terms.warn(message)


async def _dearest(call: PlannedCall, read: int, written: int, *, has_cache: bool) -> float | None:
    """What the call costs at most: a token costs more where it is reasoned with, or written to a cache."""
    none = {"cache_read_tokens": 0, "cache_write_tokens": 0, "cache_write_1h_tokens": 0, "reasoning_tokens": 0}
    usage = Usage(input_tokens=read, output_tokens=written, **none)
    found = await call.price(usage)
    if found is None:
        return None
    reads = [{}, {"cache_write_tokens": read}, {"cache_write_1h_tokens": read}] if has_cache else [{}]
    writes = [{}, {"reasoning_tokens": written}] if written else [{}]
    for parts in itertools.product(reads, writes):
        if any(parts):
            found = max(found, await call.price(replace(usage, **parts[0], **parts[1])) or 0.0)
    return found


def _usd(amount: float) -> str:
    return f"${amount:.6g}"
