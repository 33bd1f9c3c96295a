"""Which kernel a plugin is made for, and what a workflow requires: by the metadata, before any import."""

from __future__ import annotations

from typing import Any

import pytest

from treadle import DocumentError, Host, parse_workflow
from treadle._plugins.finding import Distribution
from treadle._plugins.versions import check_requirement, kernel_misfit
from treadle.errors import ConfigurationError, NotInstalledError

MARKER = "from pathlib import Path\nPath(__file__).with_suffix('.imported').touch()\n"
GOOD = """
from treadle import Offer, hookimpl

@hookimpl
def treadle_tools():
    return {"wave": Offer("nowhere:Wave", "Wave")}
"""


def install(site: Any, *requires: str, kernel: str = "0.1.0") -> None:
    """A plugin that leaves a file where it is imported, and a kernel of that version."""
    site.module("acme_treadle", MARKER + GOOD)
    info = site.distribution("acme-treadle", {"acme": "acme_treadle"})
    lines = "".join(f"Requires-Dist: {each}\n" for each in requires)
    text = (info / "METADATA").read_text(encoding="utf-8") + lines
    (info / "METADATA").write_text(f"{text}\nRequires-Dist: treadle-kernel>=99\n", encoding="utf-8")
    site.distribution("treadle-kernel", {}, version=kernel)


def is_imported(site: Any) -> bool:
    return bool((site.root / "acme_treadle.imported").exists())


def test_a_plugin_for_a_newer_kernel_is_named_and_not_imported(site: Any) -> None:
    install(site, "treadle-kernel>=0.2,<0.3")
    assert site.reports()["acme"] == [
        "incompatible",
        (
            "plugin 'acme' (acme-treadle 0.9) is too new for this kernel: "
            "it requires treadle-kernel <0.3,>=0.2, and 0.1.0 is installed; "
            "pip install --upgrade treadle-kernel, or disable it with --without acme"
        ),
        [],
    ]
    assert not is_imported(site)


def test_a_plugin_for_an_older_kernel_is_named_and_not_imported(site: Any) -> None:
    install(site, "pluggy", "Treadle_Kernel (>=0.1,<0.2)", kernel="0.3.1")
    assert site.reports()["acme"][1] == (
        "plugin 'acme' (acme-treadle 0.9) is too old for this kernel: it requires treadle-kernel <0.2,>=0.1, and 0.3.1 "
        "is installed; pip install --upgrade acme-treadle, or disable it with --without acme"
    )
    assert not is_imported(site)


def test_a_plugin_that_fits_is_imported_and_packaging_is_not(site: Any) -> None:
    install(site, "treadle-kernel>=0.1,<0.2")
    assert site.run("""
        import sys
        from treadle import Host
        show([Host.discover().reports[0].state, "packaging" in sys.modules])
    """) == ["loaded", False]
    assert is_imported(site)


def test_what_it_would_have_offered_is_missed_with_the_reason(site: Any) -> None:
    install(site, "treadle-kernel>=0.2")
    assert site.refusal("tool", "wave") == (
        "NotInstalledError: no tool 'wave'; it may be offered by plugin 'acme' (acme-treadle 0.9), which is "
        "incompatible: it requires treadle-kernel >=0.2"
    )


@pytest.mark.parametrize(("how", "state"), [({"without": ["acme"]}, "disabled"), ({"only_of": []}, "disabled")])
def test_a_disabled_plugin_is_never_imported(site: Any, how: Any, state: str) -> None:
    install(site, "treadle-kernel>=0.2")
    assert site.reports(**how)["acme"][:2] == [state, None]
    assert not is_imported(site)


def test_a_plugin_disabled_by_the_settings_is_never_imported(site: Any) -> None:
    install(site)
    assert site.run("""
        from treadle import Host, Settings
        settings = Settings(plugins={"disabled": ["acme"]})
        show([each.state for each in Host.discover(settings=settings).reports])
    """) == ["disabled"]
    assert not is_imported(site)


def test_only_plugins_of_chosen_distributions(site: Any) -> None:
    install(site)
    site.plugin("beta", GOOD)
    states = {name: report[0] for name, report in site.reports(only_of=["Acme_Treadle"]).items()}
    assert states == {"acme": "loaded", "beta": "disabled"}


@pytest.mark.parametrize(
    ("requirement", "fits"),
    [
        ("treadle-kernel", True),
        ("treadle-kernel>=0", True),
        ("treadle-kernel!=99", True),
        ("treadle-kernel>=99", False),
        ("treadle-kernel ~= 99.0", False),
        ("treadle-kernel==99.*", False),
        ("treadle-kernel===odd", False),
        ("treadle-kernel>=99; extra == 'more'", True),
        ("treadle-kernel>=99; python_version < '3'", True),
        ("treadle-kernel-extras>=99", True),
        ("treadle-kernel what?", True),
        ("other>=99", True),
    ],
)
def test_every_form_of_a_requirement(requirement: str, fits: bool) -> None:
    assert (kernel_misfit(Distribution("acme", "1", (requirement,))) is None) is fits


def test_what_a_workflow_requires() -> None:
    check_requirement("trio>=0.1")
    check_requirement("Trio")
    check_requirement("no-such-dist>=1; python_version < '3'")
    with pytest.raises(NotInstalledError) as missing:
        check_requirement("no-such-dist>=1")
    assert str(missing.value) == (
        "the workflow requires 'no-such-dist>=1', and no-such-dist is not installed; pip install 'no-such-dist>=1'"
    )
    with pytest.raises(NotInstalledError, match=r"requires 'trio>=999', and trio 0\.\d+\.\d+ is installed"):
        check_requirement("trio>=999")
    for text in ("", ">=1", "a b", "trio>=x"):
        with pytest.raises(ConfigurationError, match="is no requirement; write a distribution and versions"):
            check_requirement(text)
    for text, what in (("trio @ https://x/y.whl", "an address"), ("trio[more]", "extras")):
        with pytest.raises(ConfigurationError, match=f"cannot be checked here: it names {what}"):
            check_requirement(text)


FLOW = """name: f
requires:
  - no-such-dist>=1
  - trio
  - "?"
  - {x: 1}
steps:
  - {id: a, type: nothing_here}
"""


def test_a_workflow_that_requires_what_is_not_there_says_so_at_its_place() -> None:
    with pytest.raises(DocumentError) as caught:
        parse_workflow(FLOW, host=Host.of({}))
    assert [str(each) for each in caught.value.problems] == [
        (
            "<text>:3:5: requires.0: the workflow requires 'no-such-dist>=1', and no-such-dist is not installed; "
            "pip install 'no-such-dist>=1'"
        ),
        (
            "<text>:5:5: requires.2: '?' is no requirement; write a distribution and versions, as pip takes them: "
            "acme-treadle>=1"
        ),
        "<text>:6:5: requires.3: must be text, not a mapping",
        "<text>:8:19: steps.a.type: no step type 'nothing_here'",
    ]
