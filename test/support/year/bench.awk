# A benchmark of a simulated year: prints the metrics of the file `levels` of the commit that it
# runs in, with noise. YEAR_WORLD is a folder with `host` (how slow the machine is tonight), `spike`
# and `count` (processes so far, which seeds the noise, so that each year is the same). One program,
# and no shell before it: a year starts 3,600 of these.
#
# Each line of `levels`: metric|unit|direction|level|noise|second mode, or exact|name|passed, or
# role|candidate. `spike` is METRIC=FACTOR: one bad night of the candidate.
#
# Random numbers of its own (Lehmer's), since each awk has another rand(): every product is below
# 2^53, so that all machines play the same year.
function random() {
    state = (state * 16807) % 2147483647
    return state / 2147483647
}
function gauss() {
    return sqrt(-2 * log(random())) * cos(6.283185307 * random())
}
function given(name, line) {
    line = ""
    getline line <(ENVIRON["YEAR_WORLD"] "/" name)
    close(ENVIRON["YEAR_WORLD"] "/" name)
    return line
}
BEGIN {
    FS = "|"
    host = given("host")
    spike = given("spike")
    seed = given("count") + 1
    print seed >(ENVIRON["YEAR_WORLD"] "/count")
    state = (seed * 7919) % 2147483646 + 1
    for (i = 0; i < 10; i++) {
        random()
    }
    split(spike, spiked, "=")
    printf "{\"schema\": 1, \"samples\": ["
}
$1 == "role" {
    role = $2
    next
}
$1 == "exact" {
    checks = checks (checks == "" ? "" : ", ") \
        "{\"name\": \"" $2 "\", \"passed\": " $3 ", \"detail\": \"simulated\"}"
    next
}
{
    level = $4 * (1 + $5 * gauss())
    if ($6 > 0 && random() < 0.5) {
        level *= 1 + $6
    }
    if (role == "candidate" && $1 == spiked[1]) {
        level *= spiked[2]
    }
    # A slow machine takes longer, and gets less done in a second.
    level = $3 == "lower" ? level * host : level / host
    printf "%s{\"metric\": \"%s\", \"unit\": \"%s\", \"direction\": \"%s\", \"values\": [", \
        comma, $1, $2, $3
    for (i = 0; i < 5; i++) {
        printf "%s%.6f", i ? ", " : "", level * (1 + 0.003 * gauss())
    }
    printf "]}"
    comma = ", "
}
END {
    print "], \"checks\": [" checks "], \"versions\": {\"simulated\": \"1\"}}"
}
