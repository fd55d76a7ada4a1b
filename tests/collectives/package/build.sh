#!/usr/bin/env bash
# Builds libcoll anew, as packagers do: alone, with link-time optimization, and into absolute directories. What is
# installed must serve its users. All in one build directory, so that nothing is compiled twice.
#   build.sh ROOT DIRECTORY
# The build directory is DIRECTORY: in one below ROOT ccache finds again what it has compiled there.
set -euo pipefail

root=$1
build=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch" "$build"' EXIT
rm -rf "$build"
unset CFLAGS LDFLAGS
forked='1 + … + 4 = 10'

# quietly COMMAND...: its output only if it fails.
quietly() {
    "$@" >"$scratch/log" 2>&1 || {
        cat "$scratch/log"
        echo "this failed: $*"
        exit 1
    }
}

# make TARGETS FLAGS...
make() {
    local targets
    read -ra targets <<<"$1"
    quietly cmake -G Ninja -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Debug -DBUILD_TESTING=OFF \
        -DCMAKE_INTERPROCEDURAL_OPTIMIZATION=ON "${@:2}"
    quietly cmake --build "$build" --target "${targets[@]}"
}

# runs NAME FLAGS...: sum_fork.c, compiled so, prints what it should.
runs() {
    quietly cc "$root/collectives/examples/sum_fork.c" "${@:2}" -pthread -o "$scratch/sum"
    [ "$("$scratch/sum" | sort -u)" = "$forked" ] || {
        echo "$1: sum_fork.c does not print $forked"
        exit 1
    }
    echo "$1: right"
}

# libcoll alone, where of its libraries only those are that docs/LIBCOLL.md names.
own=$scratch/own
mkdir "$scratch/pkgconfig"
for name in libzmq libsodium; do
    directory=$(env -u PKG_CONFIG_PATH pkg-config --variable=pcfiledir $name)
    cp "$directory/$name.pc" "$scratch/pkgconfig"
    sed -i '/^Requires.private/d' "$scratch/pkgconfig/$name.pc"
done
path_before=${PKG_CONFIG_PATH-}
export PKG_CONFIG_PATH="" PKG_CONFIG_LIBDIR=$scratch/pkgconfig
make all -DRINGFENCE_LIBCOLL_ONLY=ON -DCMAKE_INSTALL_PREFIX="$own" -DCMAKE_INSTALL_LIBDIR=lib
# installs COMPONENT NAMES: these files, under the prefix.
installs() {
    rm -rf "$own"
    quietly cmake --install "$build" --component "$1"
    local got
    got=$(cd "$own" && find . \( -type f -o -type l \) | sed 's|.*/||; s|\.so\.[0-9.]*$|.so.N|' | sort | xargs)
    [ "$got" = "$2" ] || {
        echo "component $1 installs: $got"
        exit 1
    }
}
installs runtime "coll-bench coll-simulate"
installs libcoll "libcoll.so.N libcoll.so.N"
installs dev "backend.h bootstrap.h coll.h libcoll-static.pc libcoll.a libcoll.pc libcoll.so libcollConfig.cmake\
 libcollConfigVersion.cmake libcollTargets-debug.cmake libcollTargets.cmake status.h tensor_parallel.h tune.h types.h version.h"
quietly cmake --install "$build" --component libcoll
quietly cmake --install "$build" --component runtime
PKG_CONFIG_PATH=$own/lib/pkgconfig LD_LIBRARY_PATH=$own/lib runs "libcoll alone" \
    $(PKG_CONFIG_PATH=$own/lib/pkgconfig pkg-config --cflags --libs libcoll)
quietly "$own/bin/coll-simulate" all_reduce --algorithm ring --ranks 3 --trace

# The benchmark measures, and says what it lacks.
quietly "$own/bin/coll-bench" all_reduce -b 1K -e 1K -n 5 --plot "$scratch/plot.svg"
[ -s "$scratch/plot.svg" ] && grep -q '# Out of bounds values : 0 OK' "$scratch/log" || {
    cat "$scratch/log"
    exit 1
}
# lacks MESSAGE COMMAND...: it fails, and says so.
lacks() {
    if "${@:2}" >"$scratch/log" 2>&1 || ! grep -q "$1" "$scratch/log"; then
        cat "$scratch/log"
        echo "${*:2} does not say: $1"
        exit 1
    fi
}
lacks 'writes no JSON' "$own/bin/coll-bench" all_reduce -J "$scratch/out.json"
lacks 'cannot join a launcher' env RINGFENCE_JOB_FD=3 "$own/bin/coll-bench" all_reduce
echo "programs alone: right"

# Absolute directories stay as they are in what users read.
unset PKG_CONFIG_LIBDIR
export PKG_CONFIG_PATH=$path_before
there=$scratch/there
make "coll_shared coll_static coll-launched_shared coll-launched_static" -DRINGFENCE_LIBCOLL_ONLY=OFF \
    -DCMAKE_INSTALL_PREFIX="$there/prefix" -DCMAKE_INSTALL_LIBDIR="$there/out/lib" \
    -DCMAKE_INSTALL_INCLUDEDIR="$there/dev/include"
quietly cmake --install "$build/collectives/package"
export PKG_CONFIG_PATH=$there/out/lib/pkgconfig LD_LIBRARY_PATH=$there/out/lib
for name in libcoll libcoll-launched; do
    [ "$(pkg-config --variable=libdir $name)" = "$there/out/lib" ]
    [ "$(pkg-config --variable=includedir $name)" = "$there/dev/include/ringfence" ]
done
runs "shared, built with link-time optimization" $(pkg-config --cflags --libs libcoll)
runs "static, built with link-time optimization" $(pkg-config --cflags --libs libcoll-static)
quietly cc "$root/collectives/examples/sum.c" $(pkg-config --cflags --libs libcoll-launched-static) -o "$scratch/sum"
