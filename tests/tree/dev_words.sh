#!/usr/bin/env bash
# Shows what ./dev test and ./dev tidy build and run for the words that they are given: with stubs of cmake, ninja and
# ctest, which note what they are asked for.
#   dev_words.sh ROOT
set -euo pipefail
dev=$(realpath "$1")/dev
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
mkdir bin tests part tests/tree
cp "$dev" dev
echo '{}' >CMakePresets.json
touch part/a.c part/a.h
printf '#!/bin/sh\n' >tests/tree/tidy.sh
cat >bin/dpkg-query <<'END'
#!/bin/sh
shift 3
printf 'ii %s\n' "$@"
END
cat >bin/cmake <<'END'
#!/bin/sh
mkdir -p build/dev && touch -d 'next year' build/dev/build.ninja
END
cat >bin/ninja <<'END'
#!/bin/sh
case "$*" in
*' -t targets all') printf '%s: phony\n' all test-one test-one-more fuzz-one ringfence_share ;;
*' build.ninja') ;;
*) shift 2; echo "ninja $*" >>notes ;;
esac
END
cat >bin/ctest <<'END'
#!/bin/sh
case " $* " in
*' -N '*)
    for name in one one-more fuzz-one script; do
        echo "$name" | grep -q "$(echo "$*" | sed 's/.*-R //; s/ .*//')" && echo "  Test #1: $name"
    done ;;
*) shift 2; echo "ctest $*" >>notes ;;
esac
exit 0
END
chmod +x bin/* tests/tree/tidy.sh
export PATH=$directory/bin:$PATH

# notes WANTED ARGUMENTS...: what ./dev ARGUMENTS asks for.
notes() {
    local wanted=$1
    shift
    rm -f notes
    ./dev "$@" >said 2>&1 || {
        cat said
        exit 1
    }
    [ "$(paste -sd ';' notes)" = "$wanted" ] || {
        echo "./dev $* asks for: $(paste -sd ';' notes)"
        echo "and not for: $wanted"
        exit 1
    }
}
notes 'ninja ;ctest -LE slow|docker' test
notes 'ninja ;ctest -LE slow|docker' test dev
notes 'ninja test-one-more ringfence_share;ctest -R one-more' test one-more
notes 'ninja test-one-more ringfence_share;ctest -R one-more -V' test dev one-more -V
notes 'ninja test-one test-one-more fuzz-one ringfence_share;ctest -R one' test -R one
notes 'ninja ;ctest -R script' test script
notes 'ninja ;ctest -L unit' test -L unit
# a name that no test has is said before anything is built
rm notes
if ./dev test typo >said 2>&1 || [ -e notes ] || ! grep -q 'ctest -R typo: there is no such test' said; then
    echo "./dev test typo says: $(cat said)"
    exit 1
fi
notes 'ninja ' tidy
notes "ninja ringfence_proto_messages ringfence_build_commit $directory/part/a.c^" tidy part/a.c
notes 'ninja ringfence_proto_messages ringfence_build_commit' tidy part/a.h
echo "all good"
