#!/usr/bin/env bash
# Shows that in rank/ only the CPU backend names an instruction set, and only tables, tests
# and benchmarks name a family or a backend. tests/tree/arrows.txt says who may include whom.
#   names.sh RANK_DIRECTORY
set -euo pipefail
cd "$1"
flaws=0

if names=$(grep -rnE --include='*.[ch]' 'avx|__m(256|512)|immintrin' . |
    sed 's#^\./##' | grep -vE '^backend/(cpu/|backend\.h)'); then
    echo "named outside backend/cpu:" "$names"
    flaws=$((flaws + 1))
fi
if names=$(grep -rnE --include='*.[ch]' 'rank_gpt2|rank_cpu_backend' . | sed 's#^\./##' |
    grep -vE '^(model/(families\.c|gpt2/)|backend/(backend\.c|cpu/))'); then
    echo "named outside its directory and its table:" "$names"
    flaws=$((flaws + 1))
fi
[ "$flaws" -eq 0 ] || exit 1
echo "backends and families are named in their directories and tables alone"
