"""The plugin host: finds plugins, registers and checks them, and keeps what they offer by role and name."""

from treadle._plugins.catalogue import Catalogue
from treadle._plugins.host import Host, PluginReport, PluginState
from treadle._plugins.registry import Registered, Registry

__all__ = ["Catalogue", "Host", "PluginReport", "PluginState", "Registered", "Registry"]
