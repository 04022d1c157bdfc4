"""Installs packages: `python3 -I install.py [--instead NAME==VERSION] FOLDER REQUIREMENTS [BUILT_WITH]`.

REQUIREMENTS is a file for pip. A package of which there is no wheel is built, and pip would download what that takes in
whatever version is the newest; with BUILT_WITH, another such file, it is built with what that one names, and nothing else.
A package that REQUIREMENTS names by its folder is built first, and setuptools leaves nothing in that folder.

With --instead, one package is installed in another version than the file pins, and so without hashes: with all others as
they are pinned, or, if it can't live with them, with what pip finds for it.
"""

import os
import re
import subprocess
import sys
import tempfile


def pip(command, *options):
    return [sys.executable, "-I", "-m", "pip", command, "--no-input", "--disable-pip-version-check", *options]


def install(target, requirements, *options):
    return pip("install", *options, "--target", target, "-r", requirements)


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
    return written(lines)


def written(lines):
    """A file for pip with these lines. Whoever has this run removes it, with all other temporary files."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", delete=False) as file:
        file.write("\n".join(lines) + "\n")
    return file.name


def folder_in(line):
    """The folder that a line names, and the extras of the package there that it asks for; None if it names none."""
    named = re.fullmatch(r"([^\s\[;]+)(\[[^\]]*\])?\s*(?:[;#].*)?", line.strip())
    is_place = named and (named[1].startswith(".") or "/" in named[1]) and os.path.isdir(named[1])
    return (named[1], named[2] or "") if is_place else None


def wheel_of(folder, settings, environment, options):
    """Builds the package in a folder elsewhere: setuptools would leave `build` and what it knows of the package there."""
    made = tempfile.mkdtemp()
    with open(os.path.join(made, "setup.cfg"), "w") as file:
        file.write(f"[build]\nbuild_base = {made}/build\n[egg_info]\negg_base = {made}\n")
    its = {**environment, "DIST_EXTRA_CONFIG": file.name, "PYTHONDONTWRITEBYTECODE": "1"}
    wanted = ["--no-deps", "--wheel-dir", made, "-r", written([*settings, folder])]
    done = subprocess.run(pip("wheel", *options, *wanted), env=its)
    if done.returncode != 0:
        sys.exit(done.returncode)
    return next(os.path.join(made, name) for name in os.listdir(made) if name.endswith(".whl"))


def without_folders(requirements, environment, options):
    """The file with a wheel in the place of each folder; the same file if it names none."""
    with open(requirements) as file:
        lines = file.read().splitlines()
    folders = [folder_in(line) for line in lines]
    if not any(folders):
        return requirements
    including = re.compile(r"(-[rc]|--requirement|--constraint)[ =]*(?!\w+://)")
    # What says where packages are to be had.
    settings = [line for line in lines if line.startswith("--") and not including.match(line)]
    for number, (line, at) in enumerate(zip(lines, folders)):
        if at:
            lines[number] = wheel_of(at[0], settings, environment, options) + at[1]
        elif found := including.match(line):
            # It lies beside this file, and not beside the new one.
            lines[number] = f"{found[1]} {os.path.abspath(line[found.end():].strip())}"
    return written(lines)


words = sys.argv[1:]
instead = words[1] if words[0] == "--instead" else None
# The files may name packages by their places, which begin where the file is.
folder, requirements, *built_with = map(os.path.abspath, words[2:] if instead else words)
os.chdir(os.path.dirname(requirements))
environment, options = dict(os.environ), []
if built_with:
    # Whoever has this run removes it, with all other temporary files.
    tools = tempfile.mkdtemp()
    done = subprocess.run(install(tools, built_with[0]))
    if done.returncode != 0:
        sys.exit(done.returncode)
    # pip itself does not look there, but what it starts to build a package does.
    environment["PYTHONPATH"] = tools
    options = ["--no-build-isolation", "--use-pep517"]
if instead:
    pinned, requirements = requirements, instead_of_pins(instead, requirements, True)
    if subprocess.run(install(folder, requirements, *options), env=environment).returncode == 0:
        sys.exit(0)
    requirements = instead_of_pins(instead, pinned, False)
requirements = without_folders(requirements, environment, options)
# In the place of this process, so that it ends with whoever has this run.
os.execve(sys.executable, install(folder, requirements, *options), environment)
