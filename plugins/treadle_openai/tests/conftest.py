"""The wire server lives with the end-to-end tests, which use it too."""

from wire.fixtures import no_settings_of_the_machine, server_of
from wire.openai_server import OpenAIServer

__all__ = ["no_settings_of_the_machine", "server"]

server = server_of(OpenAIServer)
