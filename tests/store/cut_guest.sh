#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# In the guest that cut.sh cuts off: cut_guest.sh BUILD_DIR ENGINE. A store on the guest's disk, and a transmitter that prints what
# is acknowledged, until the end of the guest.
set -euo pipefail

build=$1 channel="shm://cut?shm_directory=/tmp&receiver_name=book"
mkdir -p /run/disk /tmp/log
mount -t ext4 /dev/vda /run/disk
mkdir -p /run/disk/store
"$build/tools/llm-store" record --engine "$2" --segment 16 --spares 1 --reserve 0 /run/disk/store "$channel" &
exec "$build/tests/e2e/e2e_store_node" send "$channel" /tmp/log --name book --say 1
