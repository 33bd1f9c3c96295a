"""Nothing of the machine reaches these tests."""

from wire.fixtures import no_settings_of_the_machine

__all__ = ["no_settings_of_the_machine"]
