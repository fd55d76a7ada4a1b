#!/usr/bin/env bash
# Shows that tidy.sh checks a source again when anything changes that the result may depend on, and only then:
# on a small tree, with a clang-tidy of its own, which notes what it is asked for and calls BAD a finding.
#   tidy_cache.sh COMPILER
set -euo pipefail
tidy=$(dirname "$(realpath "$0")")/tidy.sh
compiler=$1
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
export XDG_CACHE_HOME=$directory/cache PATH=$directory/bin:$PATH DURING='' NOTES=$directory/asked VERSION=1

mkdir bin
cat >bin/clang-tidy-14 <<'END'
#!/usr/bin/env bash
[ "$1" != --version ] || { echo "version $VERSION" && exit; }
[ -z "$DURING" ] || { sleep 0.02 && eval "$DURING"; }
basename "${@: -1}" >>"$NOTES"
! grep -H BAD "${@: -1}"
END
chmod +x bin/clang-tidy-14

fresh() { # TREE: two sources with a common header, of which one is compiled in two ways, and a test
    mkdir -p "$1"/{part,tests,build/dev}
    echo 'Checks: one' >"$1/.clang-tidy"
    echo 'int common;' >"$1/part/common.h"
    printf '#include "common.h"\nint a;\n' >"$1/part/a.c"
    printf '#include "common.h"\nint b;\n' >"$1/part/b.c"
    echo 'int c;' >"$1/tests/c.c"
    {
        printf 'rule cc\n  command = %s $flags -MD -MF $out.d -o $out -c $in\n' "$compiler"
        printf '  depfile = $out.d\n  deps = gcc\n'
        printf 'build %s: cc %s\n' a.o "$directory/$1/part/a.c" b.o "$directory/$1/part/b.c" \
            c.o "$directory/$1/tests/c.c"
        printf 'build b2.o: cc %s\n  flags = -O1\n' "$directory/$1/part/b.c"
    } >"$1/build/dev/build.ninja"
    built "$1"
}

built() { # TREE: builds it, and writes the commands as CMake does
    ninja -C "$1/build/dev" --quiet >ninja.log
    ninja -C "$1/build/dev" -t compdb cc >"$1/build/dev/compile_commands.json"
}

expect() { # WHAT FILES [TREE [ARGUMENTS...]]: the files that clang-tidy is asked for
    local what=$1 files=$2 tree=${3-tree} status=0
    [ $# -lt 3 ] || shift
    shift 2
    : >"$NOTES"
    built "$tree"
    "$tidy" "$tree" "$tree/build/dev" "$@" >said 2>&1 || status=$?
    [ "$(sort "$NOTES" | xargs)" = "$files" ] || {
        echo "$what: instead of '$files', these were checked: $(sort "$NOTES" | xargs)" && cat said && exit 1
    }
    echo "$what: '$files'"
    return "$status"
}

fresh tree
expect "at first" "a.c b.c c.c"
expect "again" ""
echo '// a comment' >>tree/part/a.c
expect "a comment" "a.c"
echo 'int more;' >>tree/part/common.h
expect "a header" "a.c b.c"
touch tree/part/common.h
expect "a header that is newer, and the same" ""
sed -i 's/-O1/-O2/' tree/build/dev/build.ninja
expect "one of two commands" "b.c"
sed -i 's/-O2/-O1/' tree/build/dev/build.ninja
expect "a command as it was once" ""
echo 'Checks: two' >tree/.clang-tidy
expect "other checks" "a.c b.c c.c"
VERSION=2 expect "another version" "a.c b.c c.c"
cp tree/part/a.c tree/tests/c.c && sed -i '/include/d' tree/tests/c.c
expect "a test" "c.c"

echo 'int x; // BAD' >>tree/part/a.c
! expect "a finding" "a.c" || { echo "a finding is no failure" && exit 1; }
! expect "a finding again" "a.c" || { echo "a finding is forgotten" && exit 1; }
grep -q 'part/a.c:int x; // BAD' said || { echo "the finding is not shown" && exit 1; }
sed -i '/BAD/d' tree/part/a.c
expect "a finding mended" ""
expect "a file without a command" "common.h" tree tree/part/common.h
expect "a file without a command again" "common.h" tree tree/part/common.h

echo 'int gone;' >tree/part/b_gone.h
printf '#include "b_gone.h"\n' >tree/part/d.c
printf 'build d.o: cc %s\n' "$directory/tree/part/d.c" >>tree/build/dev/build.ninja
expect "a new source" "d.c"
echo 'default a.o b.o b2.o c.o' >>tree/build/dev/build.ninja
rm tree/part/b_gone.h && : >tree/part/d.c
expect "a source that is no longer built, but was with a header that is gone" "d.c"
sed -i '/d\.o/d' tree/build/dev/build.ninja && rm tree/part/d.c

fresh clone
echo 'Checks: two' >clone/.clang-tidy
expect "another tree: what differs" "a.c b.c" clone

echo '// edited' >>tree/part/b.c
DURING="sed -i '\$d' $directory/tree/part/b.c" expect "a file that changes meanwhile" "b.c"
echo '// edited' >>tree/part/b.c
expect "its text of before" "b.c"
