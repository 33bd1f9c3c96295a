"""Step type ``router``: choose which of several steps run next."""
