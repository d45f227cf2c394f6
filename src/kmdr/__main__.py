"""``python -m kmdr``."""

from kmdr.cli import main

if __name__ == "__main__":
    main()
