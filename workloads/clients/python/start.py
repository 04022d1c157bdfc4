"""Starts an adapter: `python3 -I start.py FOLDERS ADAPTER [ARGUMENT...]`.

With -I, Python imports nothing from the working directory, the user's own packages or PYTHONPATH. So what an adapter may
import is said here: FOLDERS, separated by colons, and the adapter's own folder.
"""

import os
import runpy
import sys

_, folders, adapter, *arguments = sys.argv
sys.path[:0] = [os.path.dirname(os.path.abspath(adapter)), *folders.split(":")]
sys.argv = [adapter, *arguments]
runpy.run_path(adapter, run_name="__main__")
