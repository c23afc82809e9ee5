#!/usr/bin/env bash
# Stand-ins for the base images of docker/Dockerfile, for machines that reach no registry: Debian by debootstrap, and on
# top of it the machine's own Rust toolchain, under the official images' names. An image that is there is left alone.
#
#     tests/e2e/commands/compose/base_images.sh        needs root, debootstrap, a Rust toolchain, Debian's mirrors
set -euo pipefail

DEBIAN=debian:bookworm-slim
RUST=rust:1-slim-bookworm
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
    # As in the official slim image: no documentation or translations, and neither they nor caches from packages installed later.
    cat >"$work/debian/etc/dpkg/dpkg.cfg.d/slim" <<-END
	path-exclude /usr/share/doc/*
	path-exclude /usr/share/info/*
	path-exclude /usr/share/locale/*
	path-exclude /usr/share/man/*
	END
    cat >"$work/debian/etc/apt/apt.conf.d/slim" <<-END
	APT::Keep-Downloaded-Packages "false";
	Dir::Cache::pkgcache "";
	Dir::Cache::srcpkgcache "";
	DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb"; };
	END
    (cd "$work/debian" && rm -rf usr/share/{doc,info,locale,man}/* var/lib/apt/lists/* var/cache/apt/*.bin \
        var/cache/apt/archives/*.deb var/log/*)
    tar -C "$work/debian" -c . | docker import --change 'CMD ["bash"]' - "$DEBIAN" >/dev/null
    echo "made $DEBIAN"
fi

if ! docker image inspect "$RUST" >/dev/null 2>&1; then
    mkdir -p "$work/rust/toolchain"
    sysroot=$(rustc --print sysroot)
    (cd "$sysroot" && tar -c bin/rustc bin/cargo lib/*.so* lib/rustlib/x86_64-unknown-linux-gnu) |
        tar -x -C "$work/rust/toolchain"
    cat >"$work/rust/Dockerfile" <<-END
	FROM $DEBIAN
	RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
	COPY toolchain /usr/local
	RUN rustc --version && cargo --version
	END
    docker build --quiet --tag "$RUST" "$work/rust" >/dev/null
    echo "made $RUST"
fi
