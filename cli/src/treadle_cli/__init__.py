"""The ``treadle`` command: runs and checks workflows, and says what is installed."""
