"""Starts an adapter: `python3 -I start.py FOLDERS ADAPTER [ARGUMENT...]`.

With -I, Python imports nothing from the working directory, the user's own packages or PYTHONPATH. So an adapter may
only import from FOLDERS, separated by colons, and from its own folder. Its own folder comes last, because it may also
contain the source of the package that was installed for it.
"""

import os
import runpy
import sys

_, folders, adapter, *arguments = sys.argv
sys.path[:0] = [*folders.split(":"), os.path.dirname(os.path.abspath(adapter))]
sys.argv = [adapter, *arguments]
runpy.run_path(adapter, run_name="__main__")
