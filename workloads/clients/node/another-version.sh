# Installs a client's packages with one of them in another version than the pinned one: FOLDER ENV PACKAGE@VERSION.
# What that version needs is npm's choice, so it is not held to our hashes; nothing of it runs while it is installed.
set -eu
cp "$1/package.json" "$2"
exec npm install --no-audit --no-fund --fetch-retries 1 --ignore-scripts --save-exact --prefix "$2" "$3"
