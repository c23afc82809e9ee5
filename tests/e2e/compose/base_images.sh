#!/usr/bin/env bash
# Stand-ins for the base images of docker/Dockerfile, for machines that reach no registry: Debian by debootstrap, and on
# top of it the machine's own Rust toolchain, under the official images' names. An image that is there is left alone.
#
#     tests/e2e/compose/base_images.sh        needs root, debootstrap, a Rust toolchain, Debian's mirrors
set -euo pipefail

DEBIAN=debian:bookworm-slim
RUST=rust:1-bookworm
MIRROR=${MIRROR:-http://deb.debian.org/debian}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if ! docker image inspect "$DEBIAN" >/dev/null 2>&1; then
    debootstrap --variant=minbase --include=ca-certificates bookworm "$work/debian" "$MIRROR" >"$work/log" || {
        tail -5 "$work/log" >&2
        exit 1
    }
    # Certificates that this machine trusts besides, as behind a proxy.
    cp /etc/ssl/certs/ca-certificates.crt "$work/debian/etc/ssl/certs/ca-certificates.crt"
    rm -rf "$work/debian/var/cache/apt/archives" "$work/debian/usr/share/doc" "$work/debian/usr/share/man"
    mkdir -p "$work/debian/var/cache/apt/archives/partial"
    tar -C "$work/debian" -c . | docker import --change 'CMD ["bash"]' - "$DEBIAN" >/dev/null
    echo "made $DEBIAN"
fi

if ! docker image inspect "$RUST" >/dev/null 2>&1; then
    mkdir "$work/rust"
    sysroot=$(rustc --print sysroot)
    tar -C "$sysroot" -c --exclude=share/doc . | tar -x -C "$work/rust" --one-top-level=toolchain
    cat >"$work/rust/Dockerfile" <<-END
	FROM $DEBIAN
	RUN apt-get update && apt-get install -y --no-install-recommends build-essential ca-certificates python3 && rm -rf /var/lib/apt/lists/*
	COPY toolchain /usr/local
	END
    docker build --quiet --tag "$RUST" "$work/rust" >/dev/null
    echo "made $RUST"
fi
