"""The wire server lives with the end-to-end tests, which use it too."""

from wire.fixtures import no_settings_of_the_machine, server_of
from wire.ollama_server import OllamaServer

__all__ = ["no_settings_of_the_machine", "server"]

server = server_of(OllamaServer)
