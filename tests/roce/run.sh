#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Tests over soft-RoCE, in a guest: tests/roce/run.sh BUILD_DIR [TEST...]. BUILD_DIR is a build of this host, whose programs run
# in the guest. First one line for each test that will run, `plan NAME`; then one line a test: `ok NAME (N ms)`, `FAIL NAME ...` or
# `skip NAME: why`; suite.sh is what runs, and takes the names.
# Exits with 1 if any failed.
set -euo pipefail

build=$(cd "${1:?usage: run.sh BUILD_DIR [TEST...]}" && pwd)
shift
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../setup.sh
. "$here/../setup.sh"
# shellcheck source=guest.sh
. "$here/guest.sh"

skip() {
    echo "skip roce: $*"
    exit 0
}

status=0
"$here/suite.sh" --plan "$build" 1 "$@"
setup_packages rdma-core ibverbs-providers ibverbs-utils rdmacm-utils perftest iproute2 nftables ethtool 2>"$SETUP_SCRATCH/packages" ||
    skip "$(tail -n 1 "$SETUP_SCRATCH/packages")"
setup_slowness
# Far more than all tests take; each program in the guest has a limit of its own.
guest_run "$here/suite.sh" "$SETUP_SCRATCH/results" --timeout $((900 * LLM_SLOWNESS)) --share "$build" -- "$build" "$LLM_SLOWNESS" "$@" ||
    status=$?
# shellcheck disable=SC2154
[ "$status" != 77 ] || skip "$guest_reason"
exit "$status"
