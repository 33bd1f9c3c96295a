"""What a usage costs: laws of the arithmetic, prices of one's own, and those of genai-prices."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import treadle
from treadle import DocumentError, Host, Usage
from treadle.testing import offering, reply, scripted
from treadle_llm_call import plugin as llm_call
from treadle_prices import plugin
from treadle_prices.price import Price, cost
from treadle_prices.source import GenaiPrices
from treadle_prices.table import PriceTable

PARTS = {
    "cache_read_tokens": "cache_read",
    "cache_write_tokens": "cache_write",
    "cache_write_1h_tokens": "cache_write_1h",
    "reasoning_tokens": "reasoning",
}

rates = st.floats(0, 1000)
prices = st.builds(
    Price,
    input=rates,
    output=rates,
    **{name: st.none() | rates for name in PARTS.values()},
)


@st.composite
def usages(draw: Any) -> Usage:
    """Known counts whose parts fit into the whole."""
    counts = {name: draw(st.integers(0, 10_000)) for name in PARTS}
    read = sum(counts.values()) - counts["reasoning_tokens"]
    return Usage(
        input_tokens=read + draw(st.integers(0, 10_000)),
        output_tokens=counts["reasoning_tokens"] + draw(st.integers(0, 10_000)),
        **counts,
    )


# --- arithmetic -------------------------------------------------------------------------------------------


@given(usages(), prices)
def test_the_parts_sum_to_the_whole(usage: Usage, price: Price):
    hour = price.cache_write if price.cache_write_1h is None else price.cache_write_1h
    own = {**{part: getattr(price, name) for part, name in PARTS.items()}, "cache_write_1h_tokens": hour}
    total = 0.0
    fresh = {"input": usage.input_tokens or 0, "output": usage.output_tokens or 0}
    for part, rate in own.items():
        side = "output" if part == "reasoning_tokens" else "input"
        fresh[side] -= getattr(usage, part)
        total += getattr(usage, part) * (getattr(price, side) if rate is None else rate)
    total += fresh["input"] * price.input + fresh["output"] * (price.output or 0)
    assert cost(usage, price) == pytest.approx(total / 1e6)


@given(usages(), usages(), prices)
def test_two_calls_cost_what_each_costs(one: Usage, other: Usage, price: Price):
    first, second = cost(one, price), cost(other, price)
    assert first is not None
    assert second is not None
    assert cost(one + other, price) == pytest.approx(first + second)


@given(usages(), prices, st.sampled_from([*PARTS, "input_tokens", "output_tokens"]), st.integers(0, 1000))
def test_more_tokens_never_cost_less(usage: Usage, price: Price, name: str, more: int):
    grown = {name: getattr(usage, name) + more}
    if name in PARTS:  # a further token of a part is a further token of the whole
        whole = "output_tokens" if name == "reasoning_tokens" else "input_tokens"
        grown[whole] = getattr(usage, whole) + more
    before, after = cost(usage, price), cost(dataclasses.replace(usage, **grown), price)
    assert before is not None
    assert after is not None
    assert after >= before - 1e-12


@given(usages(), prices, st.sampled_from([*PARTS, "input_tokens", "output_tokens"]))
def test_what_must_be_priced_and_is_unknown_makes_the_cost_unknown(usage: Usage, price: Price, name: str):
    """And it is never taken for 0: it is unknown, or what it costs whatever the count is."""
    least = dataclasses.replace(usage, **{name: 0})
    found = cost(dataclasses.replace(usage, **{name: None}), price)
    if found is not None:
        assert found == pytest.approx(cost(usage, price)) == pytest.approx(cost(least, price))


def test_a_part_without_a_price_of_its_own_need_not_be_known():
    usage = Usage(input_tokens=1_000_000, output_tokens=0)
    assert cost(usage, Price(input=2, output=8)) == 2
    assert cost(usage, Price(input=2, output=8, cache_read=1)) is None
    assert cost(dataclasses.replace(usage, cache_read_tokens=500_000), Price(input=2, output=8, cache_read=1)) == 1.5


def test_an_hour_in_the_cache_costs_its_own_price_or_that_of_the_usual_time():
    usage = Usage(
        input_tokens=1_000_000, output_tokens=0, cache_read_tokens=0, cache_write_tokens=0,
        cache_write_1h_tokens=1_000_000,
    )  # fmt: skip
    assert cost(usage, Price(input=1, cache_write=2, cache_write_1h=3)) == 3
    assert cost(usage, Price(input=1, cache_write=2)) == 2


def test_parts_beyond_the_whole_cost_nobody_knows_what():
    assert (
        cost(Usage(input_tokens=1, output_tokens=1, cache_read_tokens=2), Price(input=1, output=1, cache_read=2))
        is None
    )


def test_a_model_that_writes_has_a_price_for_it_or_none():
    assert cost(Usage(input_tokens=1_000_000, output_tokens=0), Price(input=1)) == 1
    assert cost(Usage(input_tokens=1_000_000, output_tokens=1), Price(input=1)) is None
    assert cost(Usage(input_tokens=1_000_000), Price(input=1)) is None


def test_what_is_free_is_free_however_much_it_was():
    assert cost(Usage(), Price(input=0, output=0)) == 0


# --- prices of one's own ----------------------------------------------------------------------------------


def table(**models: Any) -> PriceTable:
    return PriceTable.model_validate({name: {"input": value} for name, value in models.items()})


def found(prices: dict[str, float], provider: str, model: str) -> float | None:
    price = table(**prices).find(provider, model)
    return None if price is None else price.input


@pytest.mark.parametrize(
    ("prices", "model", "expected"),
    [
        ({"m-1": 1, "m-*": 2}, "m-1", 1),
        ({"m-*": 2, "m-1*": 3, "*": 4}, "m-12", 3),
        ({"here/m-1": 5, "m-1": 1}, "m-1", 5),
        ({"there/m-1": 5}, "m-1", None),
        ({"here/*": 6, "m": 1}, "x", 6),
        ({"openai/gpt-4o": 7}, "openai/gpt-4o", 7),
        ({"gpt-4o": 8}, "gpt-4o-2024-07-18", 8),
        ({"claude": 8}, "claude-20250929", 8),
        ({"gpt-4o": 8}, "gpt-4o-mini", None),
        ({"gpt-4o": 8, "gpt-4o-2024-07-18": 9}, "gpt-4o-2024-07-18", 9),
        ({"M": 1}, "m", None),
        ({}, "m", None),
    ],
)
def test_which_price_of_ones_own_holds(prices: dict[str, float], model: str, expected: float | None):
    assert found(prices, "here", model) == expected


def settings(tmp_path: Path, text: str, **files: str) -> Path:
    file = tmp_path / "treadle.yaml"
    file.write_text(text, encoding="utf-8")
    for name, content in files.items():
        (tmp_path / f"{name}.yaml").write_text(content, encoding="utf-8")
    return file


async def run_with(tmp_path: Path, text: str, model: str = "house-1", **files: str) -> float | None:
    usage = Usage(input_tokens=1_000_000, output_tokens=1_000_000)
    provider = scripted(reply("ok", model=model, usage=usage))
    provider.known_cost = lambda self, model: None  # type: ignore[assignment]  # the double's own is 0
    plugins = {"prices": plugin, "llm": llm_call, "p": offering({"provider": {"double": provider}})}
    host = Host.of(plugins, settings=treadle.load_settings(settings(tmp_path, text, **files)))
    flow = {"name": "t", "config": {"provider": "double"}, "steps": [{"id": "a", "type": "llm_call", "prompt": "x"}]}
    async with treadle.open(host=host) as session:
        result = await session.run(treadle.build_workflow(flow, host=host))
    assert result.ok, result.error
    return result.total_cost_usd


async def test_prices_of_the_settings_price_a_run(tmp_path: Path):
    assert await run_with(tmp_path, "prices: {house-1: {input: 1, output: 2}}") == 3


async def test_prices_stand_in_a_file_beside_the_settings_and_those_of_the_settings_win(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    own = "house-1: {input: 10, output: 20}\nhouse-2: {input: 5, output: 6}\n"
    assert await run_with(tmp_path, "prices: {file: own.yaml}", own=own) == 30
    assert await run_with(tmp_path, "prices: {file: own.yaml, house-1: {input: 1, output: 1}}", own=own) == 2
    assert await run_with(tmp_path, "prices: {file: own.yaml, house-1: {input: 1}}", model="house-2", own=own) == 11


async def test_an_unknown_model_costs_nobody_knows_what(tmp_path: Path):
    assert await run_with(tmp_path, "{}", model="no-such-model") is None


async def test_prices_of_ones_own_win_over_the_list(tmp_path: Path):
    assert await run_with(tmp_path, "prices: {double/gpt-4o: {input: 1, output: 1}}", model="gpt-4o") == 2


@pytest.mark.parametrize(
    ("text", "own", "expected"),
    [
        ("prices: {m: 3}", "", "treadle.yaml:1:13: prices.m: must be a mapping, not 3"),
        ("prices: {m: {inptu: 3}}", "", "treadle.yaml:1:14: prices.m.inptu: unknown field"),
        ("prices: {m: {input: -3}}", "", "treadle.yaml:1:21: prices.m.input: must be at least 0, not -3"),
        ("prices: {m: {}}", "", "treadle.yaml:1:13: prices.m: the field 'input' is missing"),
        ("prices: {file: none.yaml}", "", "none.yaml: no such file or directory"),
        ("prices: {file: own.yaml}", "m: {input: 1}\nn:\n  output: x\n", "own.yaml:3:3: n.input: field required"),
        ("prices: {file: own.yaml}", "m: {input: x}", "own.yaml:1:12: m.input: "),
        ("prices: {file: own.yaml}", "m: {input: 1}\nm: {input: 2}\n", "own.yaml:2:1: m: 'm' stands here twice"),
        ("prices: {file: own.yaml}", "m: {input: 1", "own.yaml:1:13: "),
        ("prices: {file: own.yaml}", "- m", "own.yaml:1:1: prices are a mapping, by model"),
    ],
)
def test_mistakes_are_told_where_they_stand(text: str, own: str, expected: str, tmp_path: Path):
    with pytest.raises(DocumentError) as caught:
        treadle.deployed_host(settings(tmp_path, text, own=own))
    problems = [str(each).replace(f"{tmp_path}/", "") for each in caught.value.problems]
    assert any(each.startswith(expected) for each in problems), problems


# --- genai-prices -----------------------------------------------------------------------------------------

MILLION = Usage(
    input_tokens=1_000_000, output_tokens=1_000_000, cache_read_tokens=0, cache_write_tokens=0,
    cache_write_1h_tokens=0, reasoning_tokens=0,
)  # fmt: skip
SMALL = Usage(**{each.name: getattr(MILLION, each.name) // 1000 for each in dataclasses.fields(Usage)})


@pytest.fixture(scope="module")
def listed() -> GenaiPrices:
    return GenaiPrices()


@pytest.mark.parametrize(
    ("kind", "model", "like"),
    [
        ("openai", "gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
        ("anthropic", "claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("google", "models/gemini-2.5-pro", "gemini-2.5-pro"),
        ("generic_openai", "openai/gpt-4o-mini", "openai/gpt-4o-mini"),
    ],
)
def test_dated_names_cost_what_the_model_costs(listed: GenaiPrices, kind: str, model: str, like: str):
    price = listed.price(provider=kind, model=model, usage=SMALL)
    assert price is not None
    assert price > 0
    assert price == listed.price(provider="ours", kind=kind, model=like, usage=SMALL)


@pytest.mark.parametrize(
    ("kind", "base_url", "model", "is_known"),
    [
        ("openai", None, "no-such-model", False),
        ("nobody", None, "gpt-4o-mini", False),
        ("generic_openai", None, "gpt-4o-mini", False),
        ("generic_openai", "http://127.0.0.1:8000/v1", "openai/gpt-4o-mini", False),
        ("generic_openai", "https://openrouter.ai/api/v1", "openai/gpt-4o-mini", True),
        ("openai", "https://proxy.example.com/v1", "gpt-4o-mini", True),
    ],
)
def test_whose_prices_hold(listed: GenaiPrices, kind: str, base_url: str | None, model: str, is_known: bool):
    price = listed.price(provider="ours", kind=kind, base_url=base_url, model=model, usage=SMALL)
    assert (price is not None) is is_known


def test_a_tier_holds_for_the_whole_request(listed: GenaiPrices):
    def price(tokens: int) -> float:
        usage = dataclasses.replace(SMALL, input_tokens=tokens, output_tokens=0)
        found = listed.price(provider="google", model="gemini-2.5-pro", usage=usage)
        assert found is not None
        return found / tokens

    assert price(100_000) == pytest.approx(price(200_000))
    assert price(200_001) > 1.5 * price(200_000)


def test_an_unknown_size_of_the_input_leaves_the_tier_unknown(listed: GenaiPrices):
    usage = dataclasses.replace(SMALL, input_tokens=None)
    assert listed.price(provider="google", model="gemini-2.5-pro", usage=usage) is None


def test_our_arithmetic_is_that_of_genai_prices(listed: GenaiPrices):
    from genai_prices import Usage as TheirUsage
    from genai_prices import calc_price

    theirs = TheirUsage(
        input_tokens=9000, output_tokens=700, cache_read_tokens=3000, cache_write_tokens=1500,
        cache_write_1h_tokens=500,
    )  # fmt: skip
    ours = Usage(
        input_tokens=9000, output_tokens=700, cache_read_tokens=3000, cache_write_tokens=1000,
        cache_write_1h_tokens=500, reasoning_tokens=0,
    )  # fmt: skip
    model = "claude-sonnet-4-5"
    expected = calc_price(theirs, model, provider_id="anthropic").total_price
    assert listed.price(provider="anthropic", model=model, usage=ours) == pytest.approx(float(expected))


def test_nothing_large_is_imported_before_a_price_is_wanted():
    code = (
        "import sys, treadle, treadle_prices.plugin, treadle_prices.source; treadle.Host.discover();"
        "print('genai_prices' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
