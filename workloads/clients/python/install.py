"""Installs packages: `python3 -I install.py [--instead NAME==VERSION] FOLDER REQUIREMENTS [BUILT_WITH]`.

REQUIREMENTS is a file for pip. pip builds a package without a wheel, and would download the newest versions of the
build's requirements. With BUILT_WITH, another such file, the build uses only the packages in that file. A package
that REQUIREMENTS names by its folder is built first, and setuptools leaves nothing in that folder.

With --instead, one package is installed in a different version than the pinned one, and so without hashes. All others
are installed as pinned, or, if that version conflicts with them, as pip chooses.
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
    """Returns the package's normalized name: all spellings of a name mean the same package (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def instead_of_pins(wanted, requirements, keep_others):
    """Returns the file's lines without hashes, with this version of one package. Without keep_others, pip chooses the
    versions of all other packages, and packages that are no longer needed are not named."""
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
    """Writes a file for pip with these lines. The caller of this program removes it, with all other temporary
    files."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", delete=False) as file:
        file.write("\n".join(lines) + "\n")
    return file.name


def folder_in(line):
    """Returns the folder that a line names, and the extras of its package that the line asks for; None without a
    folder."""
    named = re.fullmatch(r"([^\s\[;]+)(\[[^\]]*\])?\s*(?:[;#].*)?", line.strip())
    is_place = named and (named[1].startswith(".") or "/" in named[1]) and os.path.isdir(named[1])
    return (named[1], named[2] or "") if is_place else None


def wheel_of(folder, settings, environment, options):
    """Builds the package of a folder elsewhere: setuptools would leave `build` and its metadata in the folder."""
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
    """Returns the file with each folder replaced by a wheel; the same file if it names no folder."""
    with open(requirements) as file:
        lines = file.read().splitlines()
    folders = [folder_in(line) for line in lines]
    if not any(folders):
        return requirements
    including = re.compile(r"(-[rc]|--requirement|--constraint)[ =]*(?!\w+://)")
    # Options that say where to find packages.
    settings = [line for line in lines if line.startswith("--") and not including.match(line)]
    for number, (line, at) in enumerate(zip(lines, folders)):
        if at:
            lines[number] = wheel_of(at[0], settings, environment, options) + at[1]
        elif found := including.match(line):
            # A relative path starts at the old file's folder, not at the new file's.
            lines[number] = f"{found[1]} {os.path.abspath(line[found.end():].strip())}"
    return written(lines)


words = sys.argv[1:]
instead = words[1] if words[0] == "--instead" else None
# The files may name packages by paths relative to the file's folder.
folder, requirements, *built_with = map(os.path.abspath, words[2:] if instead else words)
os.chdir(os.path.dirname(requirements))
environment, options = dict(os.environ), []
if built_with:
    # The caller of this program removes it, with all other temporary files.
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
# Replaces this process, so that pip ends when the caller ends it.
os.execve(sys.executable, install(folder, requirements, *options), environment)
