#!/usr/bin/env bash
# Makes a small Debian base image without a registry: debootstrap from the mirror that this host's apt
# uses, without manuals, locales and package lists. Needs root (or sudo), debootstrap and docker.
#   docker/make-base-image.sh [NAME]        (ringfence-base)
set -euo pipefail

name=${1:-ringfence-base}
sudo=()
[ "$(id -u)" -eq 0 ] || sudo=(sudo)
. /etc/os-release
suite=${RINGFENCE_BASE_SUITE:-${VERSION_CODENAME:?this host is not Debian: set RINGFENCE_BASE_SUITE}}
mirror=${RINGFENCE_BASE_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' \
    'Created-By: Packages' "Codename: $suite" 'Component: main' | head -n 1)}
[ -n "$mirror" ] || {
    echo "make-base-image: apt has no source of $suite main: set RINGFENCE_BASE_MIRROR" >&2
    exit 1
}
scratch=$(mktemp -d)
trap '"${sudo[@]}" rm -rf "$scratch"' EXIT
root=$scratch/root

"${sudo[@]}" debootstrap --variant=minbase --include=ca-certificates "$suite" "$root" "$mirror" \
    >"$scratch/log" 2>&1 || {
    tail -n 20 "$scratch/log" >&2
    exit 1
}
# So does what is installed on top of it.
"${sudo[@]}" tee "$root/etc/dpkg/dpkg.cfg.d/slim" >/dev/null <<'SLIM'
path-exclude /usr/share/doc/*
path-include /usr/share/doc/*/copyright
path-exclude /usr/share/man/*
path-exclude /usr/share/info/*
path-exclude /usr/share/locale/*
SLIM
# debootstrap knows one source; its updates belong to it.
apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Component: main' |
    grep -E " $suite(-updates|-security)? " | "${sudo[@]}" tee "$root/etc/apt/sources.list" >/dev/null || true
[ -s "$root/etc/apt/sources.list" ] || echo "deb $mirror $suite main" | "${sudo[@]}" tee "$root/etc/apt/sources.list" >/dev/null
"${sudo[@]}" find "$root/usr/share/doc" -type f ! -name copyright -delete
"${sudo[@]}" rm -rf "$root"/usr/share/{man,info,locale,lintian}/* "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* \
    "$root"/var/log/* "$root"/var/lib/dpkg/*-old "$root"/var/cache/debconf/*-old
"${sudo[@]}" tar -C "$root" --numeric-owner -c . | docker import --change 'CMD ["bash"]' - "$name" >/dev/null
docker image inspect --format "$name: {{.Size}} bytes" "$name"
