#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

usage() {
    cat <<'END'
usage: tests/packaging/run.sh

Builds every package of libllm and uses it: the Debian packages, which it builds twice, has lintian check, and installs over this
system in a file system that ends with the test, and in a fresh root, with nothing else but what they depend on; the recipe of
Conan; and the wrap of meson. tests/run --suite packages is the same.
END
}

[ "${1:-}" != --help ] || { usage && exit 0; }

# shellcheck source=../setup.sh
. "$(dirname "$0")/../setup.sh"
# shellcheck source=../check.sh
. "$SETUP_ROOT/tests/check.sh"

check_label='packages: '
packages=$SETUP_SCRATCH/packages

two_builds_are_the_same_and_lintian_is_silent() {
    [ "$(id -u)" = 0 ] || [ -z "$(setup_missing debhelper lintian)" ] || { why="debhelper or lintian is not installed" && return 77; }
    "$SETUP_ROOT/packaging/build" --twice "$packages" || { why="packaging/build failed" && return 1; }
}

# over COMMAND...: runs it with / as it is, and everything that it writes in memory.
over() {
    # shellcheck disable=SC2016
    unshare --mount --pid --fork bash -c '
        layers=$1 && shift
        mount -t tmpfs none "$layers" && mkdir "$layers/upper" "$layers/work" "$layers/root" &&
        mount -t overlay -o "lowerdir=/,upperdir=$layers/upper,workdir=$layers/work" none "$layers/root" &&
        mount -t proc none "$layers/root/proc" && mount --rbind /dev "$layers/root/dev" && mount --rbind /sys "$layers/root/sys" &&
        mount -t tmpfs none "$layers/root/dev/shm" && mkdir "$layers/root/packages" && mount --bind "$packages" "$layers/root/packages" &&
        exec chroot "$layers/root" "$@"' bash "$SETUP_SCRATCH/layers" "$@"
}

the_tutorial_runs_from_the_packages() {
    [ "$(id -u)" = 0 ] || { why="needs root" && return 77; }
    ls "$packages"/*.deb >/dev/null 2>&1 || { why="there are no packages" && return 77; }
    mkdir "$SETUP_SCRATCH/layers"
    cp -r "$SETUP_ROOT/packaging/debian/tests" "$packages/"
    export packages
    # shellcheck disable=SC2016
    over bash -euc '
        export DEBIAN_FRONTEND=noninteractive AUTOPKGTEST_TMP=/tmp/tutorial
        dpkg -i $(ls /packages/*.deb | grep -v dbgsym)
        mkdir "$AUTOPKGTEST_TMP"
        # Nothing of the source or of another installation is used.
        [ "$(command -v llm)" = /usr/bin/llm ]
        /packages/tests/tutorial
        ! command -v cargo || /packages/tests/languages
        /packages/tests/benchmark
        man -w llm llm-doctor llm-bench llm_send >/dev/null || ! command -v man
        ! command -v systemd-analyze || SYSTEMD_LOG_LEVEL=warning systemd-analyze verify --man=no llm-store@orders.service llm-stat-prometheus.service
        ! command -v tshark || tshark -G protocols | grep -q "libllm"
        dpkg -r llm-wireshark llm-bench llm-tools python3-llm libllm-dev libllm0
        ! ls /usr/lib/*/libllm* 2>/dev/null' || { why="the packages do not work" && return 1; }
}

# in_fresh_root ROOT MIRROR: installs Debian there, with the host's way to the archive, and runs the tutorials from the packages.
in_fresh_root() {
    debootstrap --variant=minbase "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$1" "$2" >"$1.log" 2>&1 ||
        { tail -n 5 "$1.log" && return 1; }
    rm "$1/etc/apt/sources.list" && cp -r /etc/apt/apt.conf.d /etc/apt/sources.list* "$1/etc/apt/" &&
        cp -r /usr/share/keyrings/. "$1/usr/share/keyrings/" &&
        cp /etc/resolv.conf "$1/etc/" && mkdir "$1/packages" && cp -r "$packages"/*.deb "$packages/tests" "$1/packages/" || return
    rm "$1"/packages/*-dbgsym_*
    # shellcheck disable=SC2016
    unshare --mount --pid --fork bash -euc '
        root=$1
        mount -t proc none "$root/proc" && mount --rbind /dev "$root/dev" && mount -t tmpfs none "$root/dev/shm"
        exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive bash -euc "
            apt-get update -qq
            apt-get install -qq -y --no-install-recommends /packages/*.deb gcc g++ cmake make pkg-config cargo >/dev/null
            for test in tutorial languages; do
                begin=\$SECONDS
                mkdir -p /tmp/\$test
                AUTOPKGTEST_TMP=/tmp/\$test /packages/tests/\$test
                echo \"\$test took \$((SECONDS - begin)) s\"
            done"' bash "$1"
}

the_tutorials_of_each_language_run_in_a_fresh_root() {
    [ "$(id -u)" = 0 ] || { why="needs root" && return 77; }
    setup_packages debootstrap || { why="debootstrap is not installed" && return 77; }
    ls "$packages"/*.deb >/dev/null 2>&1 || { why="there are no packages" && return 77; }
    local mirror
    mirror=$(apt-get indextargets --format '$(SITE)' 2>/dev/null | grep -v security | head -n 1)
    in_fresh_root "$SETUP_SCRATCH/fresh" "${mirror:-http://deb.debian.org/debian}" || { why="the tutorials do not run" && return 1; }
}

the_recipe_of_conan_makes_a_package() {
    command -v conan >/dev/null || { why="conan, of PyPI, is not installed" && return 77; }
    export CONAN_HOME=$SETUP_SCRATCH/conan
    conan profile detect && conan create -c "tools.cmake.cmake_layout:test_folder=$SETUP_SCRATCH/conan_test" \
        "$SETUP_ROOT/packaging/conan" || { why="conan create failed" && return 1; }
}

a_project_of_meson_takes_the_wrap() {
    local project=$SETUP_SCRATCH/project
    ls "$packages"/*.orig.tar.xz >/dev/null 2>&1 || { why="there is no archive" && return 77; }
    mkdir -p "$project/subprojects/packagefiles"
    cp "$packages/libllm.wrap" "$project/subprojects/"
    cp "$packages"/*.orig.tar.xz "$project/subprojects/packagefiles/"
    cp "$SETUP_ROOT/examples/transmitter.c" "$project/"
    cat >"$project/meson.build" <<'END'
project('app', 'c')
executable('app', 'transmitter.c', dependencies: dependency('llm',
  default_options: ['tests=false', 'bench=false', 'examples=false']))
END
    meson setup "$project/build" "$project" --wrap-mode=forcefallback && ninja -C "$project/build" app &&
        "$project/build/app" loop://wrap:1 greetings 2 1 || { why="the project does not build" && return 1; }
}

tests=(two_builds_are_the_same_and_lintian_is_silent the_tutorial_runs_from_the_packages
    the_tutorials_of_each_language_run_in_a_fresh_root the_recipe_of_conan_makes_a_package
    a_project_of_meson_takes_the_wrap)
for test in "${tests[@]}"; do
    check_named "$test"
    echo "plan $check_name"
done
for test in "${tests[@]}"; do
    check "$test"
done
[ "$check_failures" = 0 ]
