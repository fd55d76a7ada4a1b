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
examples=$prefix/share/ringfence/examples
page=$(realpath "$(dirname "$0")/../../../docs/LIBCOLL.md")
doc=$prefix/share/doc/ringfence
forked='1 + … + 4 = 10'
launched='4 ranks: sum[0] = 6000, sum[999] = 9996'

# What pages tell to read or to copy is there, and the unit starts the program where the build would install it.
for file in "$doc"/{LICENSE,NOTICE,README.md,docs/BUDGET.md,docs/records/35-ddp-cpu/report.png} "$examples/kubernetes/job.yaml" \
    "$prefix"/share/ringfence/wireshark/ringfence{,_plan,_streams}.lua; do
    [ -s "$file" ] || {
        echo "$file is not installed"
        exit 1
    }
done
for script in "$examples"/{alarm,bundle,on-instance}.sh "$prefix"/share/ringfence/drivers/{aws,docker,lambda,runpod,vast}; do
    [ -x "$script" ] || {
        echo "$script is not installed"
        exit 1
    }
done
for program in launcher coll-bench coll-simulate pipeline-simulate budget-service tokenizer-encode tokenizer-learn random-checkpoint; do
    [ -x "$prefix/bin/$program" ] && [ -s "$prefix/share/man/man1/$program.1" ] || {
        echo "$program, or its manual page, is not installed"
        exit 1
    }
done
# An empty element of the path would be the current directory.
readelf -d "$prefix/bin/rank" | grep -qF '(RPATH)              Library rpath: [$ORIGIN/../lib]' || {
    echo "rank does not look for libraries beside itself"
    exit 1
}
bin=$(sed -n 's/^CMAKE_INSTALL_PREFIX:PATH=//p' "$build/CMakeCache.txt")/bin
for start in "budget-service:$bin/budget-service serve" "ringfence-head:$bin/launcher --nodes" "ringfence-agent:$bin/launcher --nodes"; do
    grep -q "^ExecStart=${start#*:}" "$examples/${start%%:*}.service" || {
        echo "the unit does not start ${start#*:}"
        exit 1
    }
done

# check WANTED COMMAND...: the lines that it prints are all WANTED.
check() {
    local wanted=$1 got
    shift
    got=$("$@" | sort -u)
    [ "$got" = "$wanted" ] || {
        echo "$* printed: $got"
        exit 1
    }
    echo "$(basename "${!#}"): right"
}

# Under our launcher; without who says it: one line of all ranks, unless one of them was a moment late.
under_launcher() {
    "$prefix/bin/launcher" --ranks 4 --no-bind -- "$1" | sed 's/^\[ranks\{0,1\} [-0-9,]*\] //'
}
check_launched() {
    check "$launched" under_launcher "$1"
}
check_forked() {
    check "$forked" "$1"
}

# shows FLAG LIBRARY PREFIX FUNCTION: of our symbols, only PREFIX* may be seen, and FUNCTION is among them. An absolute
# LIBCOLL_* is the name of a version.
shows() {
    local others
    others=$(nm $1 --defined-only "$2" | awk -v prefix="$3" \
        'NF == 3 && $2 ~ /[A-TV-Z]/ && index($3, prefix) != 1 && !($2 == "A" && /LIBCOLL_/) { print $3 }')
    [ -z "$others" ] || {
        echo "$2 shows more than $3 symbols:" $others
        exit 1
    }
    nm $1 --defined-only "$2" | grep " T $4\(@@.*\)\?\$" >/dev/null || {
        echo "$2 lacks $4"
        exit 1
    }
}
shows -D "$lib/libcoll.so" coll_ coll_all_reduce
shows "" "$lib/libcoll.a" coll_ coll_all_reduce
shows -D "$lib/libcoll-launched.so" coll_launched_ coll_launched_open
shows "" "$lib/libcoll-launched.a" coll_launched_ coll_launched_open

# Before 1.0, programs made with another minor version must not find it.
version=$(pkg-config --modversion libcoll)
case $version in
0.*) minor=${version%.*} ;;
*) minor=${version%%.*} ;;
esac
for name in libcoll.so libcoll-launched.so; do
    objdump -p "$lib/$name" | grep "SONAME *$name.$minor\$" >/dev/null || {
        echo "$name $version is not called $name.$minor"
        exit 1
    }
done

# Each symbol has the version of its interface. A package manager reads from it what a program needs.
for name in libcoll libcoll-launched; do
    node=$(tr 'a-z-' 'A-Z_' <<<"$name")_$minor
    objdump -T "$lib/$name.so" | awk -v node="$node" '
        / \.text/ { all++; versioned += $(NF - 1) == node } END { exit all == 0 || versioned != all }' || {
        echo "$name.so has symbols without the version $node"
        exit 1
    }
done
objdump -p "$lib/libcoll-launched.so" | grep " LIBCOLL_$minor\$" >/dev/null || {
    echo "libcoll-launched.so needs no version of libcoll.so's symbols"
    exit 1
}

# Two build directories give the same library: where it was built is not in it.
readelf -d "$build/lib/libcoll-launched.so" | grep 'R.*PATH.*\[$ORIGIN:*\]' >/dev/null || {
    echo "libcoll-launched.so has the build directory's name:"
    readelf -d "$build/lib/libcoll-launched.so" | grep 'R.*PATH'
    exit 1
}

# libcoll alone loads what the launcher's protocol is made of neither by itself nor through others. libcoll-launched does,
# which shows that this looks in the right place.
control='protobuf|jansson'
if ldd "$lib/libcoll.so" | grep -E "$control"; then
    echo "libcoll.so loads that"
    exit 1
fi
ldd "$lib/libcoll-launched.so" | grep -E "$control" >/dev/null
direct=$(readelf -d "$lib/libcoll.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\.so.*/\1/p' |
    grep -vE '^(libzmq|libsodium|libc|libpthread|ld-linux.*)$' || true)
[ -z "$direct" ] || {
    echo "libcoll.so needs more than ZeroMQ, libsodium and the C library:" $direct
    exit 1
}
if nm -u "$lib/libcoll.a" | grep -E ' (protobuf_c|json)_'; then
    echo "libcoll.a needs that"
    exit 1
fi

# The archives alone, as on a system that has no shared library of ours.
archives=$scratch/archives
cp -r "$prefix" "$archives"
find "$archives" -name 'libcoll*.so*' -delete
only_archives() {
    PKG_CONFIG_PATH=${lib/#"$prefix"/"$archives"}/pkgconfig pkg-config --static "$@"
}

# compile NAME LANGUAGE EXAMPLE FLAGS...
compile() {
    local compiler=cc
    [ "$2" = c ] || compiler=c++
    $compiler -x "$2" "$examples/$3" -x none "${@:4}" -o "$scratch/$1"
    case $1 in
    *-shared) ldd "$scratch/$1" | grep "$prefix.*/libcoll\.so" >/dev/null ;;
    *) ! ldd "$scratch/$1" | grep libcoll ;;
    esac || {
        echo "$1 is linked with the wrong one"
        exit 1
    }
}
languages=c
if command -v c++ >/dev/null; then
    languages="c c++"
else
    echo "skipped: no C++ compiler (Debian: package g++)"
    skipped=77
fi
for language in $languages; do
    compile "$language-shared" "$language" sum.c $(pkg-config --cflags --libs libcoll-launched)
    compile "$language-static" "$language" sum.c $(pkg-config --cflags --libs libcoll-launched-static)
    compile "$language-archives" "$language" sum.c $(only_archives --cflags --libs libcoll-launched)
    for kind in shared static archives; do
        check_launched "$scratch/$language-$kind"
    done
done
"$prefix/bin/coll-simulate" all_reduce --algorithm ring --ranks 3 --trace >/dev/null # as README says
compile ring-shared c ring.c -std=c11 $(pkg-config --cflags --libs libcoll-launched)
rings=$("$prefix/bin/launcher" --ranks 3 --quiet -- "$scratch/ring-shared" 3000 2>&1)
grep -q 'the two rings have the same bits' <<<"$rings" || {
    echo "a ring by hand is another one than the library's: $rings"
    exit 1
}
compile halo-shared c halo.c $(pkg-config --cflags --libs libcoll-launched) -lm
# A rank that is late prints a line of its own.
plates=$("$prefix/bin/launcher" --ranks 4 --quiet -- "$scratch/halo-shared" 2>/dev/null | sed 's/^\[[^]]*\] //' | sort -u)
[ "$plates" = '2 x 2 blocks, 300 steps: 0 cells differ from those of one process' ] || {
    echo "four ranks compute another plate than one: $plates"
    exit 1
}
compile env-shared c sum_env.c -std=c11 $(pkg-config --cflags --libs libcoll)
compile fork-shared c sum_fork.c -std=c11 $(pkg-config --cflags --libs libcoll)
compile fork-static c sum_fork.c $(pkg-config --cflags --libs libcoll-static) -pthread
compile fork-archives c sum_fork.c $(only_archives --cflags --libs libcoll) -pthread
for kind in shared static archives; do
    check_forked "$scratch/fork-$kind"
done

# Of a failure of its own the ring tells the status, too: whatever else was in that memory.
cat >"$scratch/seen.c" <<'END'
#include <coll/launched.h>
#include <stdio.h>
void seen_fail(coll_launched *launched, const coll_error *error);
void seen_fail(coll_launched *launched, const coll_error *error)
{
    fprintf(stderr, "it is %s: %s\n", coll_status_name(error->status), error->message);
    coll_launched_fail(launched, error);
}
END
cc "$scratch/seen.c" $(pkg-config --cflags libcoll-launched) -c -o "$scratch/seen.o"
compile ring-seen-shared c ring.c -ftrivial-auto-var-init=pattern -Dcoll_launched_fail=seen_fail \
    "$scratch/seen.o" $(pkg-config --cflags --libs libcoll-launched)
seen=$("$prefix/bin/launcher" --ranks 1 --quiet -- "$scratch/ring-seen-shared" 1000000000000000 2>&1) || true
grep -q 'it is out of memory: no memory' <<<"$seen" || {
    echo "a ring without memory says something else: $seen"
    exit 1
}

# The shared libraries' users need no headers, and no package files, of what these are made from.
PKG_CONFIG_LIBDIR=$PKG_CONFIG_PATH pkg-config --cflags --libs libcoll-launched >/dev/null

# Each header by itself, as strictly as can be, in C and in C++; and the example is C++, too. What a
# header declares, the library has.
headers=$(cd "$prefix/include/ringfence" && find . -name '*.h' | sed 's|^\./||' | sort)
[ "$headers" = "$(printf 'coll/%s.h\n' backend bootstrap coll launched status tensor_parallel tune types version)" ] || {
    echo "these headers are installed:" $headers
    exit 1
}
for header in $headers; do
    printf '#include <%s>\nint main(void) { return 0; }\n' "$header" | tee "$scratch/one.c" >"$scratch/one.cc"
    strict="-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"
    cc -std=c11 -Wstrict-prototypes $strict $(pkg-config --cflags libcoll) -c "$scratch/one.c" -o "$scratch/one.o"
    if command -v c++ >/dev/null; then
        c++ -std=c++11 -Wold-style-cast $strict $(pkg-config --cflags libcoll) -c "$scratch/one.cc" \
            -o "$scratch/one.o"
    fi
done
declared=$(cc -E -P $(pkg-config --cflags libcoll) -include coll/launched.h -include coll/tune.h \
    -include coll/bootstrap.h -include coll/tensor_parallel.h -include coll/version.h -x c /dev/null | grep -o '\<coll_[a-z_]*(' | tr -d '(' | sort -u)
for name in $declared; do
    library=$lib/libcoll.so
    [[ $name != coll_launched_* ]] || library=$lib/libcoll-launched.so
    nm -D --defined-only "$library" | grep " T $name@@" >/dev/null || {
        echo "$name is declared, and $library does not have it"
        exit 1
    }
done
# The page says of each function of coll.h, bootstrap.h and launched.h what it is for.
for name in $(cc -E -P $(pkg-config --cflags libcoll) -include coll/launched.h -include coll/bootstrap.h -x c /dev/null | grep -o '\<coll_[a-z_]*(' |
    tr -d '(' | sort -u); do
    grep -qw "$name" "$page" || {
        echo "$page does not mention $name"
        exit 1
    }
done
echo "headers: right"

cat >"$scratch/version.c" <<'END'
#include <coll/version.h>
#include <stdio.h>
int main(void) { return puts(coll_version()) < 0; }
END
cc "$scratch/version.c" $(pkg-config --cflags --libs libcoll) -o "$scratch/version"
[ "$("$scratch/version")" = "$version" ] || {
    echo "pkg-config says version $version, and coll_version says $("$scratch/version")"
    exit 1
}

mkdir "$scratch/project"
cat >"$scratch/project/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C)
find_package(libcoll 0.1 REQUIRED)
add_executable(by-cmake ${EXAMPLES}/sum.c)
target_link_libraries(by-cmake PRIVATE libcoll::launched)
add_executable(by-cmake-static ${EXAMPLES}/sum.c)
target_link_libraries(by-cmake-static PRIVATE libcoll::launched_static)
find_package(Threads REQUIRED)
add_executable(fork-by-cmake ${EXAMPLES}/sum_fork.c)
target_link_libraries(fork-by-cmake PRIVATE libcoll::coll Threads::Threads)
add_executable(fork-by-cmake-static ${EXAMPLES}/sum_fork.c)
target_link_libraries(fork-by-cmake-static PRIVATE libcoll::coll_static Threads::Threads)
END
cmake -G Ninja -S "$scratch/project" -B "$scratch/project/build" -DCMAKE_PREFIX_PATH="$prefix" \
    -DEXAMPLES="$examples" >"$scratch/cmake.log"
cmake --build "$scratch/project/build" >>"$scratch/cmake.log"
check_launched "$scratch/project/build/by-cmake"
check_launched "$scratch/project/build/by-cmake-static"
check_forked "$scratch/project/build/fork-by-cmake"
check_forked "$scratch/project/build/fork-by-cmake-static"

# The commands of the page, in this prefix instead of /usr/local, but for those of another host, node0. Without an MPI,
# those for MPI are left out.
# Where Debian has several, mpicc and mpirun may be of different ones, and openmpi-bin alone has an mpicc
# without mpi.h: so MPICH's are taken. tests/engines runs sum_pmi where an engine is.
mkdir "$scratch/mpi"
for tool in mpicc mpirun; do
    if command -v $tool.mpich >/dev/null; then # a link would not find what lies beside it
        printf '#!/bin/sh\nexec %s "$@"\n' "$(command -v $tool.mpich)" >"$scratch/mpi/$tool"
        chmod +x "$scratch/mpi/$tool"
    fi
done
PATH=$scratch/mpi:$PATH
others='^\(mpirun\|srun\) .*sum_pmi$\|^torchrun \| srun \|=node0 '
if echo '#include <mpi.h>' | mpicc -fsyntax-only -xc - 2>/dev/null && command -v mpirun >/dev/null; then
    # Open MPI wants to be told of these; MPICH just does it.
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
else
    echo "skipped: no MPI (Debian: packages mpich and libmpich-dev)"
    skipped=77
    others='^\(mpi\|srun\|torchrun\)\| srun \| mpirun \|=node0 '
fi
mkdir "$scratch/page"
awk '/^## / { install = /Install/ } /^```/ { shell = $0 == "```sh"; next } shell && !install' "$page" |
    grep -v "$others" | sed "s|/usr/local|$prefix|g; s|=29500|=$((20000 + $$ % 10000))|" >"$scratch/page.sh"
got=$(cd "$scratch/page" && PATH=$prefix/bin:$PATH timeout 60 bash -euo pipefail "$scratch/page.sh" |
    sed 's/^\[ranks\{0,1\} [-0-9,]*\] //' | sort -u) || got="a command failed: $got"
joined='4000 numbers: mean 1999.5, deviation 1154.7; the largest is 3999, of rank 3'
[ "$got" = "$(printf '%s\n' "$forked" "$launched" "$joined" "$plates" | sort)" ] || {
    echo "the commands of $page printed: $got"
    exit 1
}
echo "$(wc -l <"$scratch/page.sh") commands of the page: right"
exit "$skipped"
