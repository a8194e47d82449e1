#!/bin/sh
# A benchmark of a simulated year: prints the metrics of the file `levels` of the commit that it
# runs in, with noise. YEAR_WORLD is a folder with `host` (how slow the machine is tonight), `spike`
# and `count` (processes so far, which seeds the noise, so that each year is the same).
set -eu
# `read`, not `cat`: a year starts 3,600 of these. It fails where a file does not end in a newline.
read -r count <"$YEAR_WORLD/count" || true
read -r host <"$YEAR_WORLD/host" || true
read -r spike <"$YEAR_WORLD/spike" || true
count=$((count + 1))
echo "$count" >"$YEAR_WORLD/count"
exec awk -v seed="$count" -v host="$host" -v spike="$spike" -f bench.awk levels
