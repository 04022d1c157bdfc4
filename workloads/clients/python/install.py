"""Installs packages: `python3 -I install.py FOLDER REQUIREMENTS [BUILT_WITH]`.

REQUIREMENTS is a file for pip. A package of which there is no wheel is built, and pip would download what that takes in
whatever version is the newest; with BUILT_WITH, another such file, it is built with what that one names, and nothing else.
"""

import os
import subprocess
import sys
import tempfile


def pip(target, requirements, *options):
    words = [sys.executable, "-I", "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
    return [*words, *options, "--target", target, "-r", requirements]


_, folder, requirements, *built_with = sys.argv
environment, options = dict(os.environ), []
if built_with:
    # Whoever has this run removes it, with all other temporary files.
    tools = tempfile.mkdtemp()
    done = subprocess.run(pip(tools, built_with[0]))
    if done.returncode != 0:
        sys.exit(done.returncode)
    # pip itself does not look there, but what it starts to build a package does.
    environment["PYTHONPATH"] = tools
    options = ["--no-build-isolation", "--use-pep517"]
# In the place of this process, so that it ends with whoever has this run.
os.execve(sys.executable, pip(folder, requirements, *options), environment)
