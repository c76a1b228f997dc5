"""``python -m paloma`` is the command ``paloma``."""

from .cli import main

if __name__ == "__main__":
    main()
