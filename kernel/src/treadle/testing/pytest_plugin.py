"""A pytest plugin: tests see no plugins that happen to be installed, and no network.

It is found by pytest wherever treadle is installed, and does nothing until it is asked: by ``treadle_isolation = true``
in the pytest settings, by ``-p treadle.testing.pytest_plugin``, or for one test by ``@pytest.mark.treadle_isolated``.

A test that is isolated may not

- look for installed plugins: ``Host.discover()``, ``treadle.run("flow.yaml")`` without a host, and the like; it gives
  its plugins itself. ``@pytest.mark.treadle_discovery`` allows it.
- reach the network or resolve names. Servers that the test's own process opened on a loopback address are there, and
  so are Unix sockets. ``@pytest.mark.treadle_network`` allows everything.

Other processes that a test starts are not seen. Fixtures of a wider scope than one test are set up before it.
"""

from __future__ import annotations

import ipaddress
import socket
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

__all__ = ["NotIsolatedError"]

_NAME = "treadle.testing.pytest_plugin"
_MARKERS = (
    "treadle_isolated: the test may neither look for installed plugins nor reach the network",
    "treadle_discovery: an isolated test may look for installed plugins",
    "treadle_network: an isolated test may reach the network",
)


class NotIsolatedError(AssertionError):
    """A test reached for what it was not given."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The setting."""
    parser.addini("treadle_isolation", "tests see no installed plugins and no network", type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    """The markers; and, where tests are isolated, note from now on which servers are opened."""
    for line in _MARKERS:
        config.addinivalue_line("markers", line)
    if _is_asked(config):
        _network.watch()


def _is_asked(config: pytest.Config) -> bool:
    return bool(config.getini("treadle_isolation")) or _NAME in (config.getoption("plugins", None) or ())


@pytest.fixture(autouse=True)
def _treadle_isolation(request: pytest.FixtureRequest) -> Iterator[None]:
    node = request.node
    if not _is_asked(request.config) and node.get_closest_marker("treadle_isolated") is None:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        if node.get_closest_marker("treadle_discovery") is None:
            _refuse_discovery(patch)
        if node.get_closest_marker("treadle_network") is None:
            _network.watch()
            patch.setattr(_network, "is_refused", True)
        yield


def _refuse_discovery(patch: pytest.MonkeyPatch) -> None:
    from treadle import Host, api

    def discover(cls: Any, /, **options: Any) -> Any:
        raise NotIsolatedError(
            "this test looks for installed plugins; give them itself, as run_workflow(plugins=...) and "
            "Host.of({...}) take them, or mark it @pytest.mark.treadle_discovery"
        )

    # One that was found before would be given without a look.
    api.default_host.cache_clear()
    patch.setattr(Host, "discover", classmethod(discover))


class _Network:
    """Sees what sockets do by the interpreter's audit events, which nothing goes around.

    An audit hook cannot be taken away again; this one looks at three kinds of events, and does nothing with them while
    nothing is refused.
    """

    is_refused = False

    def __init__(self) -> None:
        self._is_watching = False
        self._bound: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    def watch(self) -> None:
        """Begin to note which servers are opened."""
        if not self._is_watching:
            self._is_watching = True
            sys.addaudithook(self._see)

    def _see(self, event: str, args: tuple[Any, ...]) -> None:
        if not event.startswith("socket."):
            return
        if event == "socket.bind":
            self._bound.add(args[0])
        elif not self.is_refused:
            return
        elif event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
            self._check_address(args[0], args[1])
        elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
            self._check_name(args[0])

    def _check_address(self, sock: socket.socket, address: Any) -> None:
        if sock.family not in (socket.AF_INET, socket.AF_INET6) or address is None:
            return
        host, port = str(address[0]), address[1]
        if not _is_loopback(host):
            raise _refusal(f"{host}:{port}")
        if port not in self._ports():
            raise _refusal(f"{host}:{port}, where the test has opened no server")

    def _ports(self) -> set[int]:
        found = set()
        for sock in list(self._bound):
            try:
                found.add(sock.getsockname()[1])
            except (OSError, IndexError):  # closed, or a Unix socket
                continue
        return found

    def _check_name(self, host: Any) -> None:
        name = host.decode("ascii", "replace") if isinstance(host, bytes) else host
        if name is not None and not _is_address(name) and name != "localhost":
            raise _refusal(f"the name {name!r}")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host == ""
    return True


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"


def _refusal(what: str) -> NotIsolatedError:
    return NotIsolatedError(
        f"this test reaches for {what}; "
        "start a server on 127.0.0.1 in the test, or mark it @pytest.mark.treadle_network"
    )


_network = _Network()
