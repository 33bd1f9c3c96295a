"""Installed plugins: found, asked, and kept from harming each other."""

import re
from pathlib import Path
from typing import Any

import pytest

GOOD = """
    from treadle import Offer, hookimpl

    @hookimpl
    def treadle_step_types():
        return {"NAME": Offer("NAME_treadle_step:Step", "a step")}
"""


def good(name: str) -> str:
    return GOOD.replace("NAME", name)


def test_plugins_come_in_the_order_of_their_names(site: Any) -> None:
    for name in ("zeta", "alpha", "mid"):
        site.plugin(name, good(name))
    reports = site.reports()
    assert list(reports) == ["alpha", "mid", "zeta"]
    assert reports["mid"] == ["loaded", None, ["step_type mid"]]


def test_each_plugin_is_known_by_its_distribution(site: Any) -> None:
    site.plugin("acme", good("acme"), version="2.5")
    assert site.run("""
        from treadle import Host
        (report,) = Host.discover().reports
        show([report.source, report.distribution.name, report.distribution.version, report.load_seconds > 0])
    """) == ["acme_treadle", "acme-treadle", "2.5", True]


def test_nothing_installed_is_an_empty_host(site: Any) -> None:
    assert site.reports() == {}


def test_listing_imports_nothing_that_is_offered(site: Any) -> None:
    site.plugin("acme", good("acme"))
    site.module("acme_treadle_step", "class Step: pass")
    assert site.run("""
        import sys
        from treadle import Host
        host = Host.discover()
        before = "acme_treadle_step" in sys.modules
        registered = host.get("step_type", "acme")
        between = "acme_treadle_step" in sys.modules
        loaded = host.load("step_type", "acme")
        show([before, between, loaded.__qualname__, [each for each in ("pydantic", "trio") if each in sys.modules]])
    """) == [False, False, "Step", []]


REMEDY = "disable it with --without acme, or upgrade it"

BROKEN = [
    ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
    ("def (", "SyntaxError: invalid syntax (acme_treadle.py, line 1)"),
    ("assert False", "AssertionError"),
    ("assert False, 'on import'", "AssertionError: on import"),
    ("raise SystemExit(3)", "SystemExit: 3"),
    ("class Panic(BaseException): pass\nraise Panic('rust')", "Panic: rust"),
    ("raise GeneratorExit", "GeneratorExit"),
    (
        "from treadle import hookimpl\n@hookimpl\ndef treadle_tools(): raise KeyError('x')",
        "KeyError: 'x'",
    ),
    ("from treadle import hookimpl\n@hookimpl\ndef treadle_tools(): raise SystemExit", "SystemExit"),
    (
        "from treadle import hookimpl\n@hookimpl\ndef treadle_tools(): return [1]",
        "treadle_tools must return a mapping of offers, not list",
    ),
    (
        "from treadle import hookimpl\n@hookimpl\ndef treadle_tools(): pass",
        "treadle_tools must return a mapping of offers, not None",
    ),
    (
        "from treadle import hookimpl\n@hookimpl\ndef treadle_tools(): yield {}",
        "treadle_tools must return a mapping of offers, not generator",
    ),
    (
        "from treadle import hookimpl\n@hookimpl\ndef treadle_tools(): return {'x': 'a:b'}",
        "treadle_tools must return Offer objects; 'x' is str",
    ),
    (
        "from treadle import hookimpl, Offer\n@hookimpl\ndef treadle_tools(): return {1: Offer('a:b', '')}",
        "treadle_tools must return offers by name; 1 is no name",
    ),
    (
        "from treadle import hookimpl, Offer\n@hookimpl\ndef treadle_providers(): return {'x': Offer('a:b', '')}",
        "treadle_providers must return ProviderOffer objects; 'x' is Offer",
    ),
    (
        "from treadle import hookimpl, Offer\n@hookimpl\ndef treadle_tools(): return {'x': Offer('a.b', '')}",
        "ValueError: the target 'a.b' is not of the form package.module:attribute",
    ),
    (
        "from treadle import hookimpl\n@hookimpl\nasync def treadle_tools(): return {}",
        "hook 'treadle_tools' is async; hooks are plain functions",
    ),
    (
        "from treadle import hookimpl\n@hookimpl\nasync def treadle_tools(): yield {}",
        "hook 'treadle_tools' is async; hooks are plain functions",
    ),
    (
        "from treadle import hookimpl\n@hookimpl\ndef treadle_tool(): return {}",
        "unknown hook 'treadle_tool'; did you mean 'treadle_tools'?",
    ),
    (
        "from treadle import hookimpl\n@hookimpl\ndef treadle_zzzzzzzz(): return {}",
        "unknown hook 'treadle_zzzzzzzz'; see treadle.hookspecs",
    ),
    (
        "from treadle import hookimpl\n@hookimpl(specname='treadle_toolz')\ndef tools(): return {}",
        "unknown hook 'treadle_toolz'; did you mean 'treadle_tools'?",
    ),
    (
        "from treadle import hookimpl\n@hookimpl\ndef treadle_tools(config): return {}",
        "hook 'treadle_tools' takes no arguments, and this one asks for 'config'",
    ),
    (
        "from treadle import hookimpl\n@hookimpl(wrapper=True)\ndef treadle_tools():\n    return (yield)",
        "hook 'treadle_tools' is a wrapper; a plugin speaks for itself only",
    ),
    ("def treadle_tools(): return {}", "'treadle_tools' is not marked as a hook; put @hookimpl above it"),
]


@pytest.mark.parametrize(("source", "cause"), BROKEN, ids=range(len(BROKEN)))
def test_a_broken_plugin_is_named_and_the_others_work(site: Any, source: str, cause: str) -> None:
    site.module("acme_treadle", source)
    site.distribution("acme-treadle", {"acme": "acme_treadle"})
    site.plugin("beta", good("beta"))
    site.plugin("aaa", good("aaa"))
    reports = site.reports()
    place = re.compile(r" \(acme_treadle\.py:\d+\)")
    reports["acme"] = [place.sub("", each) if isinstance(each, str) else each for each in reports["acme"]]
    assert reports["acme"] == [
        "broken",
        f"plugin 'acme' (acme-treadle 0.9) could not be loaded from acme_treadle: {cause}; {REMEDY}",
        [],
    ]
    assert reports["aaa"] == ["loaded", None, ["step_type aaa"]]
    assert reports["beta"] == ["loaded", None, ["step_type beta"]]


def test_ctrl_c_during_an_import_is_not_a_broken_plugin(site: Any) -> None:
    site.plugin("acme", "raise KeyboardInterrupt")
    assert (
        site.run("""
        from treadle import Host
        try:
            Host.discover()
        except KeyboardInterrupt:
            show("stopped")
    """)
        == "stopped"
    )


def test_an_entry_point_that_names_an_attribute_that_is_not_there(site: Any) -> None:
    site.module("acme_treadle", "x = 1")
    site.distribution("acme-treadle", {"acme": "acme_treadle:plugin"})
    assert site.reports()["acme"][1] == (
        "plugin 'acme' (acme-treadle 0.9) could not be loaded from acme_treadle:plugin: "
        f"AttributeError: module 'acme_treadle' has no attribute 'plugin'; {REMEDY}"
    )


def test_a_plugin_may_be_an_object_of_a_module(site: Any) -> None:
    site.module(
        "acme_treadle",
        """
        from treadle import Offer, hookimpl

        class Plugin:
            @hookimpl
            def treadle_tools(self):
                return {"t": Offer("a:b", "a tool")}

            @hookimpl(specname="treadle_step_types")
            def steps(self):
                return {"s": Offer("a:b", "a step")}

        plugin = Plugin()
        """,
    )
    site.distribution("acme-treadle", {"acme": "acme_treadle:plugin"})
    state, error, offers = site.reports()["acme"]
    assert (state, error, sorted(offers)) == ("loaded", None, ["step_type s", "tool t"])


def test_a_plugin_that_breaks_halfway_offers_nothing(site: Any) -> None:
    site.plugin(
        "acme",
        """
        from treadle import Offer, hookimpl

        @hookimpl
        def treadle_step_types():
            return {"fine": Offer("a:b", "a step")}

        @hookimpl
        def treadle_tools():
            raise RuntimeError("no")
        """,
    )
    assert site.reports()["acme"][0] == "broken"
    assert site.refusal("step_type", "fine") == (
        "NotInstalledError: no step type 'fine'; it may be offered by plugin 'acme' (acme-treadle 0.9), which is "
        "broken: RuntimeError: no (acme_treadle.py:10)"
    )


def test_two_distributions_with_one_plugin_name_are_both_refused(site: Any) -> None:
    site.plugin("acme", good("acme"))
    site.module("other", good("other"))
    site.distribution("other-dist", {"acme": "other"}, version="3")
    site.plugin("beta", good("beta"))
    points = site.run("""
        from treadle import Host
        show([[each.name, each.state, str(each.error)] for each in Host.discover().reports])
    """)
    said = (
        "plugin 'acme' is in two distributions, and serves from neither: it is offered by acme-treadle 0.9 and by "
        "other-dist 3; uninstall one of them, or leave both out with --without acme"
    )
    assert points[:2] == [["acme", "broken", said], ["acme", "broken", said]]
    assert points[2][:2] == ["beta", "loaded"]


def test_two_names_for_one_object_are_one_plugin(site: Any) -> None:
    site.module("acme_treadle", good("acme"))
    site.distribution("acme-treadle", {"acme": "acme_treadle", "acme2": "acme_treadle"})
    reports = site.reports()
    assert reports["acme"] == ["loaded", None, ["step_type acme"]]
    assert reports["acme2"][:2] == [
        "broken",
        (
            "plugin 'acme2' (acme-treadle 0.9) could not be loaded from acme_treadle: it is the same object as plugin "
            "'acme'; disable it with --without acme2, or upgrade it"
        ),
    ]


def test_one_name_offered_twice_serves_for_neither(site: Any) -> None:
    both = """
        from treadle import Offer, hookimpl

        @hookimpl
        def treadle_step_types():
            return {"shout": Offer("json:dumps", "a step"), "NAME": Offer("json:dumps", "a step")}
    """
    site.plugin("acme", both.replace("NAME", "own_acme"))
    site.plugin("beta", both.replace("NAME", "own_beta"), version="1.1")
    clash = (
        "step type 'shout' is offered by plugin 'acme' (acme-treadle 0.9) and by plugin 'beta' (beta-treadle 1.1); "
        "disable one with --without acme or --without beta"
    )
    assert site.refusal("step_type", "shout") == f"PluginError: {clash}"
    assert site.run("""
        from treadle import Host
        host = Host.discover()
        only = Host.discover(without=["beta"])
        show([
            [str(each) for each in host.problems()],
            sorted(host.registry.all("step_type")),
            host.load("step_type", "own_beta").__name__,
            only.get("step_type", "shout").plugin,
        ])
    """) == [[clash], ["own_acme", "own_beta"], "dumps", "acme"]


def test_one_name_for_two_roles_is_no_clash(site: Any) -> None:
    site.plugin("acme", good("acme").replace("NAME", "x"))
    site.plugin("beta", good("acme").replace("treadle_step_types", "treadle_tools"))
    assert site.run("from treadle import Host\nshow(len(list(Host.discover().problems())))") == 0


def test_without_does_not_import(site: Any, tmp_path: Path) -> None:
    trace = tmp_path / "imported"
    site.plugin("acme", f"open({str(trace)!r}, 'w', encoding='utf-8').close()\nraise SystemExit")
    site.plugin("beta", good("beta"))
    assert site.reports(without=["acme"])["acme"] == ["disabled", None, []]
    assert not trace.exists()
    assert site.reports()["acme"][0] == "broken"
    assert trace.exists()


def test_without_an_unknown_plugin_is_an_error(site: Any) -> None:
    site.plugin("acme", good("acme"))
    program = """
        from treadle import Host, PluginError
        try:
            Host.discover(without=[NAME])
        except PluginError as error:
            show(str(error))
    """
    assert site.run(program.replace("NAME", "'acmee'")) == "no plugin 'acmee' is installed; did you mean 'acme'?"
    assert site.run(program.replace("NAME", "'zzz'")) == "no plugin 'zzz' is installed; there is acme"


def test_a_distribution_without_metadata_is_unknown_and_works(site: Any) -> None:
    site.plugin("acme", good("acme"))
    (site.root / "acme_treadle-0.9.dist-info" / "METADATA").unlink()
    site.plugin("beta", "x = 1 / 0")
    reports = site.reports()
    assert reports["acme"][0] == "loaded"
    assert reports["beta"][1].startswith("plugin 'beta' (beta-treadle 0.9) could not be loaded")


def test_discovery_twice_in_one_process_is_the_same(site: Any) -> None:
    site.plugin("acme", good("acme"))
    site.plugin("beta", "raise ImportError('no')")
    first, second = site.run("""
        from treadle import Host
        show([[[each.name, each.state, str(each.error)] for each in Host.discover().reports] for _ in range(2)])
    """)
    assert first == second
    assert len(first) == 2
