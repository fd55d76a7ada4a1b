#!/bin/sh
# Copies programs, with the C libraries that they need, into a directory, for a machine that has none of our packages. It must have a
# glibc as new as this one's. Called by on-instance.sh beside it, and by ./dev gpu-bundle.
#   bundle.sh PREFIX DIRECTORY PROGRAM...
# PREFIX has bin/ and share/ringfence, as a build and an installation have. DIRECTORY gets bin, share/ringfence, lib with the
# libraries, and lib/ringfence with the plugin for GPUs, if PREFIX has it.
set -eu

# The machine's own: libc and its parts, which go with the kernel's loader; the driver and the toolkit.
not_ours='ld-linux|libc\.so|libm\.so|libdl\.so|libpthread\.so|librt\.so|libresolv\.so|libcublas|libnccl|libcuda|libcupti'

die() {
    printf 'bundle: %s\n' "$*" >&2
    exit 1
}

# copy FROM TO: without what only a debugger reads, where there is a strip.
copy() { strip --strip-debug -o "$2" "$1" 2>/dev/null || cp "$1" "$2"; }

[ $# -ge 3 ] || die "usage: bundle.sh PREFIX DIRECTORY PROGRAM..."
prefix=$1
to=$2
shift 2
mkdir -p "$to/bin" "$to/lib" "$to/share/ringfence"
for name; do
    [ -x "$prefix/bin/$name" ] || die "there is no $prefix/bin/$name: ./dev build makes it"
    copy "$prefix/bin/$name" "$to/bin/$name"
    ldd "$prefix/bin/$name"
done >"$to/libraries"
grep -Ev "$not_ours" "$to/libraries" | sort -u | while read -r name arrow path rest; do
    [ "$arrow" = "=>" ] || continue
    [ -f "$path" ] || die "$name is not found here"
    cp -L "$path" "$to/lib/$name"
done
rm "$to/libraries"
for file in "$prefix"/share/ringfence/*; do
    [ ! -f "$file" ] || cp "$file" "$to/share/ringfence/"
done
for plugin in "$prefix"/lib*/ringfence/ringfence-cuda.so "$prefix"/lib/*/ringfence/ringfence-cuda.so; do
    [ -f "$plugin" ] || continue
    mkdir -p "$to/lib/ringfence"
    copy "$plugin" "$to/lib/ringfence/ringfence-cuda.so"
done
