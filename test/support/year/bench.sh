#!/bin/sh
# A benchmark of a simulated year: prints the metrics of the file `levels` of the commit that it
# runs in, with noise. YEAR_WORLD is a folder with `host` (how slow the machine is tonight), `spike`
# and `count` (processes so far, which seeds the noise, so that each year is the same).
set -eu
count=$(($(cat "$YEAR_WORLD/count") + 1))
echo "$count" >"$YEAR_WORLD/count"
exec awk -v seed="$count" -v host="$(cat "$YEAR_WORLD/host")" -v spike="$(cat "$YEAR_WORLD/spike")" \
    -f bench.awk levels
