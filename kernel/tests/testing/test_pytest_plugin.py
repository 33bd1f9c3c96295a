"""The pytest plugin: what an isolated test may not do, how it is allowed, and that it is quiet until it is asked."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

TESTS = """
import socket
import threading

import pytest
import treadle
from treadle import Host


def test_discovery():
    Host.discover()


def test_the_default_host():
    treadle.load_workflow("flow.yaml")


@pytest.mark.treadle_discovery
def test_discovery_allowed():
    Host.discover()


def test_given_plugins():
    Host.of({})


def test_another_machine():
    with socket.socket() as sock:
        sock.settimeout(0.05)
        sock.connect(("192.0.2.1", 80))


def test_another_machine_without_an_error():
    with socket.socket() as sock:
        sock.setblocking(False)
        sock.connect_ex(("192.0.2.1", 80))


def test_a_name():
    socket.getaddrinfo("example.invalid", 80)


def test_a_datagram():
    with socket.socket(type=socket.SOCK_DGRAM) as sock:
        sock.sendto(b"x", ("192.0.2.1", 9))


def test_a_server_of_somebody_else():
    with socket.socket() as sock:
        sock.connect(("127.0.0.1", PORT))


def test_a_server_of_its_own():
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(("localhost", server.getsockname()[1])):
            pass


def test_a_server_of_a_wider_fixture(server):
    with socket.create_connection(server.getsockname()):
        pass


@pytest.fixture(scope="module")
def server():
    with socket.create_server(("127.0.0.1", 0)) as opened:
        yield opened


@pytest.mark.treadle_network
def test_network_allowed():
    with socket.socket() as sock:
        sock.connect(("127.0.0.1", PORT))


def test_a_socket_pair():
    one, other = socket.socketpair()
    one.close()
    other.close()
"""

REFUSED = {
    "test_discovery",
    "test_the_default_host",
    "test_another_machine",
    "test_another_machine_without_an_error",
    "test_a_name",
    "test_a_datagram",
    "test_a_server_of_somebody_else",
}

Run = Callable[..., tuple[set[str], set[str], str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run tests in a pytest of their own; those that passed, those that failed, and what was printed."""

    def run(tests: str, *arguments: str, ini: str = "") -> tuple[set[str], set[str], str]:
        (tmp_path / "test_it.py").write_text(textwrap.dedent(tests), encoding="utf-8")
        (tmp_path / "pytest.ini").write_text(f"[pytest]\n{ini}\n", encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTEST_ADDOPTS": "", "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        passed, failed = (
            {line.split()[1].partition("::")[2] for line in done.stdout.splitlines() if line.startswith(word)}
            for word in ("PASSED", "FAILED")
        )
        return passed, failed, done.stdout + done.stderr

    return run


@pytest.fixture
def tests() -> str:
    # Nobody listens on port 9 of the loopback address, and with the network allowed that is what is said.
    return TESTS.replace("PORT", "9")


@pytest.mark.parametrize(
    ("ini", "arguments"),
    [("treadle_isolation = true", ()), ("", ("-p", "treadle.testing.pytest_plugin"))],
    ids=["setting", "option"],
)
def test_isolated_tests_get_what_they_are_given_and_nothing_else(
    run: Run, tests: str, ini: str, arguments: tuple[str, ...]
) -> None:
    passed, failed, printed = run(tests, *arguments, ini=ini)
    assert failed == REFUSED | {"test_network_allowed"}, printed
    assert "ConnectionRefusedError" in printed  # of test_network_allowed, which was let through
    assert len(passed) == 5
    assert "this test looks for installed plugins; give them itself, as run_workflow(plugins=...)" in printed
    assert "this test reaches for 192.0.2.1:80; start a server on 127.0.0.1 in the test, or mark it" in printed
    assert "this test reaches for the name 'example.invalid'" in printed
    assert "this test reaches for 127.0.0.1:9, where the test has opened no server" in printed


def test_whoever_merely_has_treadle_installed_sees_nothing_of_it(run: Run) -> None:
    passed, failed, printed = run(
        """
        import sys
        from treadle import Host

        def test_discovery():
            Host.discover()

        def test_nothing_was_brought_along(request):
            plugins = request.config.pluginmanager
            assert plugins.has_plugin("treadle.testing.pytest_plugin")

        def test_a_name():
            import socket
            try:
                socket.getaddrinfo("name.invalid", 80)
            except OSError:
                pass
        """
    )
    assert (len(passed), failed) == (3, set()), printed


def test_one_test_may_ask_for_itself(run: Run) -> None:
    passed, failed, printed = run(
        """
        import pytest
        from treadle import Host

        def test_before():
            Host.discover()

        @pytest.mark.treadle_isolated
        def test_isolated():
            Host.discover()

        def test_after():
            Host.discover()
        """,
        "--strict-markers",
    )
    assert (passed, failed) == ({"test_before", "test_after"}, {"test_isolated"}), printed


def test_it_is_light_and_needs_no_trio() -> None:
    program = """
    import sys
    sys.modules["trio"] = None
    import pytest, socket, ipaddress
    before = set(sys.modules)
    import treadle.testing.pytest_plugin
    print(sorted(each for each in set(sys.modules) - before if not each.startswith("treadle")))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"
