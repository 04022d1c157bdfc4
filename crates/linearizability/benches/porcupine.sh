#!/bin/sh
# Runs Porcupine, from your copy at DIR, and then our search on Porcupine's public histories, and prints how many times
# longer Porcupine takes. Needs Go. Usage: benches/porcupine.sh --porcupine DIR
set -eu
[ "${1:-}" = --porcupine ] && [ -d "${2:-}" ] || { echo "usage: $0 --porcupine DIR" >&2; exit 254; }
porcupine=$(cd "$2" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cp "$here/porcupine.go" "$work/main.go"
cat > "$work/go.mod" <<END
module compare
go 1.16
require github.com/anishathalye/porcupine v0.0.0
replace github.com/anishathalye/porcupine => $porcupine
END
(cd "$work" && GOFLAGS=-mod=mod go build -o theirs .)
(cd "$here/.." && cargo bench --quiet --bench porcupine --no-run)
(cd "$here/.." && cargo bench --quiet --bench porcupine -- "$porcupine") | sort > "$work/ours.csv"
"$work/theirs" "$porcupine" | sort > "$work/theirs.csv"

join -t, "$work/theirs.csv" "$work/ours.csv" | awk -F, '
    $3 != $6 { print "DIFFERENT: " $0; differ++ }
    { ratio = $4 / $7; theirs += $4; ours += $7; files++; slower += ratio < 1; printf "%-16s %6d operations %9.1f us %9.1f us %7.1f times\n", $1, $2, $4, $7, ratio }
    !least || ratio < least { least = ratio }
    END { printf "%d files: Porcupine %.1f ms, redjepsen %.1f ms, %.0f times; least %.1f; slower on %d; different on %d\n", files, theirs / 1e3, ours / 1e3, theirs / ours, least, slower, differ; exit differ > 0 }'
