"""``python -m treadle_cli`` is the command ``treadle``."""

from treadle_cli.main import main

main()
