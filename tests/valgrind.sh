#!/usr/bin/env bash
# Runs tests of preemption and of thread-local storage under valgrind's memcheck. Nothing is suppressed.
# The stack frame limit tells a switch of goroutines from a large frame: see src/stack/slab.rs.
set -euo pipefail
cd "$(dirname "$0")/.."
export RUST_BACKTRACE=0

binary() {
    cargo test --no-run --test "$1" --message-format=json 2>/dev/null |
        sed -n "s|.*\"executable\":\"\([^\"]*/$1-[^\"]*\)\".*|\1|p" | tail -1
}
check() {
    local test=$1
    shift
    valgrind -q --max-stackframe=50000 --fair-sched=yes --trace-children=yes --error-exitcode=9 \
        "$(binary "$test")" --test-threads=1 "$@"
}

check tls
check starve
check survive preemption_inside_anything wide_registers
