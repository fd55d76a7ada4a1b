#!/usr/bin/env bash
# What base/build_commit.cmake says of trees without git: equal sources are equal, others are not.
#   build_sources.sh CMAKE SOURCE
set -euo pipefail

cmake=$1 source=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# sources TREE: the digest of its sources.
sources() {
    "$cmake" -DGIT= -DSOURCE="$1" -DHEADER="$scratch/header" -P "$source/base/build_commit.cmake" >/dev/null
    grep -q 'BASE_BUILD_COMMIT  "unknown"' "$scratch/header"
    sed -n 's/^#define BASE_BUILD_SOURCES "\([0-9a-f]\{16\}\)"$/\1/p' "$scratch/header"
}

fail() {
    echo "$*" >&2
    exit 1
}

for tree in one "another one"; do
    mkdir -p "$scratch/$tree/rank/src" "$scratch/$tree/docs"
    echo 'project(x)' >"$scratch/$tree/CMakeLists.txt"
    echo 'int main(void);' >"$scratch/$tree/rank/src/main.c"
    echo "$tree" >"$scratch/$tree/docs/page.md"
done
first=$(sources "$scratch/one")
[ -n "$first" ] || fail "no digest"
[ "$first" = "$(sources "$scratch/another one")" ] || fail "equal sources have different digests"
mkdir -p "$scratch/one/build/dev"
touch "$scratch/one/build/dev/CMakeLists.txt"
[ "$first" = "$(sources "$scratch/one")" ] || fail "a build directory changes the digest"
touch "$scratch/one/rank/new.h"
[ "$first" != "$(sources "$scratch/one")" ] || fail "a new file does not change the digest"
rm "$scratch/one/rank/new.h"
[ "$first" = "$(sources "$scratch/one")" ] || fail "the digest does not come back"
echo 'int main(void); ' >"$scratch/one/rank/src/main.c"
[ "$first" != "$(sources "$scratch/one")" ] || fail "a changed file does not change the digest"
