# Installs a client's packages with one of them in a different version than the pinned one: FOLDER ENV PACKAGE@VERSION.
# npm chooses the requirements of this version, so the pinned hashes do not apply; no package's script runs during the
# installation.
set -eu
cp "$1/package.json" "$2"
exec npm install --no-audit --no-fund --fetch-retries 1 --ignore-scripts --save-exact --prefix "$2" "$3"
