"""Get every dataset that can be had: ``python scripts/fetch.py [name ...]`` is ``kmdr data get [name ...]``."""

import sys

from kmdr.__main__ import main

sys.argv[1:1] = ["data", "get"]
main()
