# Builds a client with its library in a different version than the pinned one: FOLDER ENV PROGRAM MODULE@VERSION.
# The hashes of unpinned modules are those of Go's checksum database.
set -eu
work=$(mktemp -d)
cp -r "$1/." "$work"
cd "$work"
go get "$4"
exec go build -mod=mod -buildvcs=false -o "$2/bin/$3" "./$3"
