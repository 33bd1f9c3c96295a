"""Where the program starts: ``treadle``, and ``python -m treadle_cli``."""

from __future__ import annotations

import gc

__all__ = ["main"]


def main() -> None:
    """What the console script calls."""
    # Nearly all that start-up makes lives to the end: looking through it again and again was a tenth of its time.
    # It makes some 60,000 objects.
    gc.set_threshold(100_000, 20, 20)
    from treadle_cli.main import main as run

    run()


if __name__ == "__main__":
    main()
