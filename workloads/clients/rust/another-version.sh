# Builds a client with its library in a different version than the pinned one: FOLDER ENV PROGRAM CRATE@=VERSION.
# cargo chooses the requirements of this version; everything else stays pinned.
set -eu
work=$(mktemp -d)
cp -r "$1/." "$work"
cd "$work/$3"
cargo add --quiet "$4"
cargo build --release --target-dir "$work/target"
mkdir -p "$2/bin"
cp "$work/target/release/$3-client" "$2/bin/"
