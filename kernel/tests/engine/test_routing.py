"""Branches: what a router does not choose is skipped, and what joins the branches runs."""

from engine_doubles import act, flow, host_of, pick, run, statuses

from treadle.contracts.step import StepOutcome


async def test_what_is_not_chosen_is_skipped_with_all_that_follows_and_each_names_the_router():
    workflow = flow(
        host_of(),
        pick("r", choices=["a", "b"], take=["a"]),
        act("a", "r"),
        act("b", "r"),
        act("b2", "b"),
        act("b3", "b2"),
    )
    result = await run(workflow)
    assert result.status == "success"
    assert statuses(result) == {"r": "success", "a": "success", "b": "skipped", "b2": "skipped", "b3": "skipped"}
    assert result.step_results["b"].reason == "'r' did not choose it"
    assert result.step_results["b2"].reason == "it follows a branch that 'r' did not choose"
    assert result.step_results["b3"].reason == "it follows a branch that 'r' did not choose"
    assert result.step_results["b"].error is None
    assert result.step_results["b"].attempts == 0


async def test_a_step_that_joins_the_branches_runs():
    workflow = flow(
        host_of(),
        pick("r", choices=["a", "b"], take=["b"]),
        act("a", "r"),
        act("a2", "a"),
        act("b", "r"),
        act("join", "a2", "b"),
        act("after", "join", "a"),
    )
    result = await run(workflow)
    assert statuses(result)["join"] == "success"
    assert statuses(result)["after"] == "success", "what follows a join lies on the taken branch, too"


async def test_the_router_itself_does_not_excuse_a_skipped_branch():
    result = await run(flow(host_of(), pick("r", choices=["a"]), act("a", "r"), act("j", "a", "r")))
    assert result.step_results["j"].reason == "it follows a branch that 'r' did not choose"


async def test_something_unrelated_does_not_excuse_a_skipped_branch():
    result = await run(flow(host_of(), pick("r", choices=["a"]), act("a", "r"), act("x"), act("j", "a", "x")))
    assert statuses(result)["j"] == "skipped"


async def test_a_taken_branch_that_failed_does_not_excuse_the_other_even_where_failures_are_passed_over():
    async def broken(ctx):
        raise ValueError("no")

    workflow = flow(
        host_of({"a": broken}),
        pick("r", choices=["a", "b"], take=["a"]),
        act("a", "r"),
        act("b", "r"),
        act("join", "a", "b"),
        act("a2", "a"),
        act("late", "a2", "b"),
        config={"on_step_failure": "continue"},
    )
    result = await run(workflow)
    assert result.step_results["join"].reason == "it follows a branch that 'r' did not choose"
    assert statuses(result)["late"] == "success", "a2 lies on the taken branch and succeeded"


async def test_an_inner_router_on_a_taken_branch_excuses_the_outer_branches_and_not_its_own():
    workflow = flow(
        host_of(),
        pick("outer", choices=["inner", "z"], take=["inner"]),
        pick("inner", "outer", choices=["x", "y"], take=["x"]),
        act("x", "inner"),
        act("y", "inner"),
        act("z", "outer"),
        act("all", "x", "y", "z"),
        act("outer_only", "inner", "z"),
        act("refused", "inner", "y"),
        act("nobody", "y", "z"),
    )
    result = await run(workflow)
    assert statuses(result)["all"] == "success"
    assert statuses(result)["outer_only"] == "success"
    assert result.step_results["refused"].reason == "it follows a branch that 'inner' did not choose"
    assert result.step_results["nobody"].reason == "it follows a branch that 'outer', 'inner' did not choose"


async def test_an_inner_router_that_was_not_chosen_takes_its_targets_along():
    workflow = flow(
        host_of(),
        pick("outer", choices=["inner", "z"], take=["z"]),
        pick("inner", "outer", choices=["x"], take=["x"]),
        act("x", "inner"),
        act("z", "outer"),
        act("join", "x", "z"),
    )
    result = await run(workflow)
    assert result.step_results["x"].reason == "it follows a branch that 'outer' did not choose"
    assert statuses(result)["join"] == "success"


async def test_a_step_that_two_routers_may_choose_needs_both():
    steps = [
        pick("r1", choices=["t"], take=["t"]),
        pick("r2", choices=["t"]),
        act("t", "r1", "r2"),
    ]
    result = await run(flow(host_of(), *steps))
    assert result.step_results["t"].reason == "'r2' did not choose it"


async def test_a_target_that_also_waits_elsewhere_runs_when_it_was_chosen_long_before():
    steps = [
        pick("r", choices=["late", "other"], take=["late"]),
        act("other", "r"),
        act("work"),
        pick("r2", "work", choices=["side"]),
        act("side", "r2"),
        act("late", "r", "r2"),
    ]
    assert statuses(await run(flow(host_of(), *steps)))["late"] == "success"


async def test_a_target_reached_by_its_router_and_over_another_step_runs_once_both_have_settled():
    steps = [pick("r", choices=["t", "a"], take=["t", "a"]), act("a", "r"), act("t", "r", "a")]
    assert statuses(await run(flow(host_of(), *steps)))["t"] == "success"


async def test_a_target_whose_other_way_was_not_chosen_is_skipped():
    steps = [pick("r", choices=["t", "a"], take=["t"]), act("a", "r"), act("t", "r", "a")]
    result = await run(flow(host_of(), *steps))
    assert result.step_results["t"].reason == "it follows a branch that 'r' did not choose"


async def test_nothing_behind_a_failed_router_runs():
    workflow = flow(
        host_of(), pick("r", choices=["a", "b"], fails=True), act("a", "r"), act("b", "r"), act("join", "a", "b")
    )
    result = await run(workflow)
    assert result.status == "failed"
    assert statuses(result) == {"r": "failed", "a": "skipped", "b": "skipped", "join": "skipped"}
    assert {each.reason for each in list(result.step_results.values())[1:]} == {"step 'r' failed"}


async def test_a_router_may_take_several_edges_or_all_by_default():
    steps = [pick("r", choices=["a", "b"], take=["a", "b"]), act("a", "r"), act("b", "r"), act("j", "a", "b")]
    assert set(statuses(await run(flow(host_of(), *steps))).values()) == {"success"}


async def test_a_step_that_does_not_depend_on_the_router_runs_whatever_it_chose():
    result = await run(flow(host_of(), pick("r", choices=["a"]), act("a")))
    assert statuses(result) == {"r": "success", "a": "success"}


async def test_an_edge_that_a_step_does_not_have_cannot_be_left_out():
    async def wrong(ctx):
        return StepOutcome(not_taken=frozenset({"b", "zz"}))

    result = await run(flow(host_of({"a": wrong}), act("a"), act("b", "a")))
    assert result.step_results["a"].error == "ValueError: step 'a' did not take edges that it does not have: b, zz"
