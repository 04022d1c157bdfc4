"""Installs packages: `python3 -I install.py [--instead NAME==VERSION] FOLDER REQUIREMENTS [BUILT_WITH]`.

REQUIREMENTS is a file for pip. A package of which there is no wheel is built, and pip would download what that takes in
whatever version is the newest; with BUILT_WITH, another such file, it is built with what that one names, and nothing else.

With --instead, one package is installed in another version than the file pins, and so without hashes: with all others as
they are pinned, or, if it can't live with them, with what pip finds for it.
"""

import os
import re
import subprocess
import sys
import tempfile


def pip(target, requirements, *options):
    words = [sys.executable, "-I", "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
    return [*words, *options, "--target", target, "-r", requirements]


def normal(name):
    """All spellings of a name mean the same package (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def instead_of_pins(wanted, requirements, keep_others):
    """The file without its hashes, and with this version of one package; without keep_others, the versions of all others
    are left to pip, and those that are not needed any more are not named."""
    name = normal(wanted.split("==")[0])
    lines = []
    with open(requirements) as file:
        for line in file:
            line = line.split("#")[0].rstrip("\\ \n")
            if line.startswith("--") and line != "--require-hashes":
                lines.append(line)
            elif "==" in line and not line.startswith(" "):
                is_it = normal(line.split("==")[0]) == name
                if is_it or keep_others:
                    lines.append(wanted if is_it else line)
    with tempfile.NamedTemporaryFile("w", suffix=".txt", delete=False) as file:
        file.write("\n".join(lines) + "\n")
    return file.name


words = sys.argv[1:]
instead = words[1] if words[0] == "--instead" else None
# The files may name packages by their places, which begin where the file is.
folder, requirements, *built_with = map(os.path.abspath, words[2:] if instead else words)
os.chdir(os.path.dirname(requirements))
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
if instead:
    pinned, requirements = requirements, instead_of_pins(instead, requirements, True)
    if subprocess.run(pip(folder, requirements, *options), env=environment).returncode == 0:
        sys.exit(0)
    requirements = instead_of_pins(instead, pinned, False)
# In the place of this process, so that it ends with whoever has this run.
os.execve(sys.executable, pip(folder, requirements, *options), environment)
