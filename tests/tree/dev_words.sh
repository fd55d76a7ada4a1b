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
mkdir -p build/dev/tests && touch -d 'next year' build/dev/build.ninja
build=$PWD/build/dev
cat >build/dev/tests/CTestTestfile.cmake <<TESTS
add_test([=[one]=] "$build/tests/bin/test-one")
set_tests_properties([=[one]=] PROPERTIES  LABELS "unit" WORKING_DIRECTORY "$build/tests")
add_test([=[one-more]=] "$build/tests/bin/test-one-more" "a word")
add_test(fuzz-one "$build/tests/bin/fuzz-one")
add_test(script-of-tool "/bin/sh" "$PWD/tool.sh" "$build/bin/tool")
add_test(script-of-all "/bin/sh" "$PWD/all.sh" "$build/bin")
add_test(script-of-build "/bin/sh" "$PWD/all.sh" "$build")
TESTS
END
cat >bin/ninja <<'END'
#!/bin/sh
case "$*" in
*' -t targets all') printf '%s: LINK\n' bin/tool tests/bin/test-one tests/bin/test-one-more tests/bin/fuzz-one ;;
*' build.ninja') ;;
*) shift 2; echo "ninja $*" >>notes ;;
esac
END
cat >bin/ctest <<'END'
#!/bin/sh
case " $* " in
*' -N '*)
    for name in one one-more fuzz-one script-of-tool script-of-all script-of-build; do
        echo "$name" | grep -q "$(echo "$*" | sed 's/.* -[RL] //; s/ .*//')" && echo "  Test #1: $name"
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
notes 'ninja tests/bin/test-one-more ringfence_share;ctest -R one-more' test one-more
notes 'ninja tests/bin/test-one-more ringfence_share;ctest -R one-more -V' test dev one-more -V
notes 'ninja tests/bin/test-one tests/bin/test-one-more tests/bin/fuzz-one ringfence_share;ctest -R one' test -R one
notes 'ninja bin/tool ringfence_share;ctest -R of-tool' test of-tool
notes 'ninja ;ctest -R of-all' test of-all
notes 'ninja ;ctest -R of-build' test of-build
notes 'ninja tests/bin/fuzz-one ringfence_share;ctest -L fuzz' test -L fuzz
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
