#!/usr/bin/env bash
# Installs what BUILD has made into an empty folder, and uses libcoll from there as a stranger would:
# through pkg-config and through CMake, shared and static, under the installed launcher.
#   package.sh BUILD
# Ends with 77 where a part was skipped (and said so) and the rest passed.
set -euo pipefail

build=$1
skipped=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
prefix=$scratch/prefix
cmake --install "$build" --prefix "$prefix" >"$scratch/install.log"

lib=$(dirname "$(find "$prefix" -name libcoll.so)")
export PKG_CONFIG_PATH=$lib/pkgconfig LD_LIBRARY_PATH=$lib
example=$prefix/share/ringfence/examples/sum.c
wanted='4 ranks: sum[0] = 6000, sum[999] = 9996'

# Without who says it: one line of all ranks, unless one of them was a moment late.
check() {
    local got
    got=$("$prefix/bin/launcher" --ranks 4 --no-bind -- "$1" | sed 's/^\[ranks\{0,1\} [-0-9,]*\] //' | sort -u)
    [ "$got" = "$wanted" ] || {
        echo "$1 printed: $got"
        exit 1
    }
    echo "$(basename "$1"): right"
}

# Only coll_ symbols may be seen, in both.
hidden() {
    local others
    others=$(nm $1 --defined-only "$2" | awk 'NF == 3 && $2 ~ /[A-TV-Z]/ && $3 !~ /^coll_/ { print $3 }')
    [ -z "$others" ] || {
        echo "$2 shows more than coll_ symbols:" $others
        exit 1
    }
    nm $1 --defined-only "$2" | grep ' T coll_all_reduce$' >/dev/null
}
hidden -D "$lib/libcoll.so"
hidden "" "$lib/libcoll.a"

# Before 1.0, programs made with another minor version must not find it.
version=$(pkg-config --modversion libcoll)
case $version in
0.*) soname=libcoll.so.${version%.*} ;;
*) soname=libcoll.so.${version%%.*} ;;
esac
objdump -p "$lib/libcoll.so" | grep "SONAME *$soname\$" >/dev/null || {
    echo "libcoll.so $version is not called $soname"
    exit 1
}

cc "$example" $(pkg-config --cflags --libs libcoll) -o "$scratch/shared"
check "$scratch/shared"
static_libs=$(pkg-config --static --libs libcoll)
cc "$example" $(pkg-config --cflags libcoll) ${static_libs/-lcoll/-l:libcoll.a} -o "$scratch/static"
check "$scratch/static"

# The shared library's users need no headers, and no package files, of what it is made from.
PKG_CONFIG_LIBDIR=$PKG_CONFIG_PATH pkg-config --cflags --libs libcoll >/dev/null

# Each header by itself, as strictly as can be, in C and in C++; and the example is C++, too. What a
# header declares, the library has.
for header in coll/coll.h coll/tensor_parallel.h coll/tune.h coll/launched.h coll/version.h; do
    printf '#include <%s>\nint main(void) { return 0; }\n' "$header" | tee "$scratch/one.c" >"$scratch/one.cc"
    strict="-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"
    cc -std=c11 -Wstrict-prototypes $strict $(pkg-config --cflags libcoll) -c "$scratch/one.c" -o "$scratch/one.o"
    if command -v c++ >/dev/null; then
        c++ -std=c++11 -Wold-style-cast $strict $(pkg-config --cflags libcoll) -c "$scratch/one.cc" \
            -o "$scratch/one.o"
    fi
done
if command -v c++ >/dev/null; then
    c++ -x c++ "$example" $(pkg-config --cflags --libs libcoll) -o "$scratch/cplusplus"
    check "$scratch/cplusplus"
else
    echo "skipped: no C++ compiler (Debian: package g++)"
    skipped=77
fi
declared=$(cc -E -P $(pkg-config --cflags libcoll) -include coll/launched.h -include coll/tune.h \
    -include coll/tensor_parallel.h -include coll/version.h -x c /dev/null | grep -o '\<\(coll\|base\)_[a-z_]*(' | tr -d '(' | sort -u)
for name in $declared; do
    nm -D --defined-only "$lib/libcoll.so" | grep " T $name\$" >/dev/null || {
        echo "$name is declared, and libcoll.so does not have it"
        exit 1
    }
done
echo "headers: right"

mkdir "$scratch/project"
cat >"$scratch/project/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C)
find_package(libcoll 0.1 REQUIRED)
add_executable(by-cmake ${EXAMPLE})
target_link_libraries(by-cmake PRIVATE libcoll::coll)
add_executable(by-cmake-static ${EXAMPLE})
target_link_libraries(by-cmake-static PRIVATE libcoll::coll_static)
END
cmake -G Ninja -S "$scratch/project" -B "$scratch/project/build" -DCMAKE_PREFIX_PATH="$prefix" \
    -DEXAMPLE="$example" >"$scratch/cmake.log"
cmake --build "$scratch/project/build" >>"$scratch/cmake.log"
check "$scratch/project/build/by-cmake"
check "$scratch/project/build/by-cmake-static"

# MPI's launcher instead of ours, where there is an MPI.
if command -v mpicc >/dev/null && command -v mpirun >/dev/null; then
    mpicc "$prefix/share/ringfence/examples/sum_mpi.c" $(pkg-config --cflags --libs libcoll) \
        -o "$scratch/sum_mpi"
    # Open MPI wants to be told of these; MPICH just does it.
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
    got=$(timeout 60 mpirun -n 4 "$scratch/sum_mpi" 2>"$scratch/mpi.log" | sort -u) ||
        got="it failed: $got"
    [ "$got" = "1 + … + 4 = 10" ] || {
        cat "$scratch/mpi.log"
        echo "under MPI: $got"
        exit 1
    }
    echo "sum_mpi: right"
else
    echo "skipped: no MPI (Debian: packages mpich and libmpich-dev)"
    skipped=77
fi
exit "$skipped"
