"""Starts an adapter: `python3 -I start.py FOLDERS ADAPTER [ARGUMENT...]`.

With -I, Python imports nothing from the working directory, the user's own packages or PYTHONPATH. So what an adapter may
import is said here: FOLDERS, separated by colons, and the adapter's own folder. That one comes last: beside an adapter may lie
the source of the package that was installed for it.
"""

import os
import runpy
import sys

_, folders, adapter, *arguments = sys.argv
sys.path[:0] = [*folders.split(":"), os.path.dirname(os.path.abspath(adapter))]
sys.argv = [adapter, *arguments]
runpy.run_path(adapter, run_name="__main__")
