"""The wire server lives with the end-to-end tests, which use it too."""

from wire.anthropic_server import AnthropicServer
from wire.fixtures import no_settings_of_the_machine, server_of

__all__ = ["no_settings_of_the_machine", "server"]

server = server_of(AnthropicServer)
