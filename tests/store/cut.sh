#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

usage() {
    cat <<'END'
usage: tests/store/cut.sh BUILD [TIMES]

A machine that is cut off while a store writes: a guest under QEMU, whose disk is a file that bypasses the page cache of this host. In
the guest llm-store records with level synced, and a transmitter prints what is acknowledged. QEMU is killed by SIGKILL at a random
instant, TIMES (2) times, up to five times with the same disk. Each time this host repairs the file system of the disk from its journal, checks the
recordings by llm-store verify, and reads them: every acknowledged message has to be there, in order and unchanged. BUILD is a build
directory. Prints `plan NAME`, then one line a cut, `ok NAME (N ms)`, `FAIL NAME: why` or `skip NAME: why`. Exits with 1 if any failed.
END
}

[[ ${1:-} != --help && ${1:-} != -h ]] || { usage && exit 0; }
[ -d "${1:-}" ] || { echo "cut.sh: no build directory; try 'tests/store/cut.sh --help'" >&2 && exit 2; }
build=$(cd "$1" && pwd)
times=${2:-2}
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../setup.sh
. "$here/../setup.sh"
# shellcheck source=../check.sh
. "$here/../check.sh"
# shellcheck source=../roce/guest.sh
. "$here/../roce/guest.sh"

disk=$SETUP_SCRATCH/disk
check_label="store, cut off: "

# Not in memory: the disk has to be one that can be written without the page cache.
case $(stat -f -c %T "$SETUP_SCRATCH") in
tmpfs | ramfs)
    disk=$(mktemp /var/tmp/libllm-disk-XXXXXX)
    setup_at_exit "rm -f '$disk'"
    ;;
esac

# Waits until the transmitter in the guest has printed so many lines.
said() {
    local tenths
    for ((tenths = 0; tenths < 600 * LLM_SLOWNESS; tenths++)); do
        [ "$(grep -c '^acknowledged ' "$SETUP_SCRATCH/output")" -lt "$1" ] || return 0
        kill -0 "$guest" 2>/dev/null || break
        sleep 0.1
    done
    why="nothing is acknowledged in the guest: $(tail -n 3 "$SETUP_SCRATCH/console" | tr '\n' ' ')"
    return 1
}

# boot_and_cut ENGINE: runs the guest, and kills it.
boot_and_cut() {
    local status=0 ms=$((RANDOM % 3000))
    : >"$SETUP_SCRATCH/output"
    rm -f "$SETUP_SCRATCH/pid"
    guest_run "$here/cut_guest.sh" "$SETUP_SCRATCH/results" --timeout $((120 * LLM_SLOWNESS)) --share "$build" --disk "$disk" \
        --pidfile "$SETUP_SCRATCH/pid" -- "$build" "$1" >"$SETUP_SCRATCH/output" 2>"$SETUP_SCRATCH/console" &
    guest=$!
    said 3 || status=$?
    sleep "$((ms / 1000)).$(printf %03d $((ms % 1000)))"
    [ ! -e "$SETUP_SCRATCH/pid" ] || kill -KILL "$(cat "$SETUP_SCRATCH/pid")"
    wait "$guest" || true
    return "$status"
}

# Writes what was printed as the files that e2e_store_node reads, one for each session. The last line may be cut.
note_acknowledged() {
    python3 - "$SETUP_SCRATCH/output" "$SETUP_SCRATCH/log" <<'PYTHON'
import pathlib, re, struct, sys
last = {}
for session, number in re.findall(r"^acknowledged ([0-9a-f]{16}) (\d+)\r?\n", pathlib.Path(sys.argv[1]).read_text(), re.M):
    last[session] = int(number)
for session, number in last.items():
    # The number of messages sent is not known.
    (pathlib.Path(sys.argv[2]) / session).write_bytes(struct.pack("<QQQ", 2**63, number, 0).ljust(4096, b"\0"))
PYTHON
}

# Copies the directory of the store from the disk to this host.
read_disk() {
    local status=0
    e2fsck -p "$disk" || status=$?
    # 1: errors were corrected.
    [ "$status" -le 1 ] || { why="e2fsck has status $status" && return 1; }
    rm -rf "$SETUP_SCRATCH/copy"
    mkdir "$SETUP_SCRATCH/copy"
    debugfs -R "rdump /store $SETUP_SCRATCH/copy" "$disk" && [ -d "$SETUP_SCRATCH/copy/store" ] || { why="the disk has no store" && return 1; }
}

# cut_off ENGINE: sets figures.
cut_off() {
    boot_and_cut "$1" && note_acknowledged && read_disk || return
    "$build/tools/llm-store" verify "$SETUP_SCRATCH/copy/store" || { why="llm-store verify has status $?" && return 1; }
    figures=$("$build/tests/e2e/e2e_store_node" read "$SETUP_SCRATCH/copy/store" "$SETUP_SCRATCH/log") || {
        why="acknowledged messages are not as they were sent: $figures"
        return 1
    }
    rm -rf "$SETUP_SCRATCH/copy"
}

# An empty disk, for a number of cuts.
new_disk() {
    rm -rf "$SETUP_SCRATCH/log" "$disk"
    mkdir "$SETUP_SCRATCH/log"
    truncate -s 2G "$disk"
    setup_run mkfs.ext4 -q -F "$disk"
}

engine_of() {
    (($1 % 2)) && echo auto || echo thread
}

for ((cut = 1; cut <= times; cut++)); do
    echo "plan ${check_label}cut $cut, engine $(engine_of "$cut")"
done
if ! setup_packages e2fsprogs 2>"$SETUP_SCRATCH/packages"; then
    echo "skip store, cut off: $(tail -n 1 "$SETUP_SCRATCH/packages")"
    exit 0
fi
setup_slowness
PATH=$PATH:/usr/sbin:/sbin
guest_prepare || { echo "skip store, cut off: $guest_reason" && exit 0; }
for ((cut = 1; cut <= times; cut++)); do
    figures=''
    (((cut - 1) % 5)) || new_disk
    check "cut $cut, engine $(engine_of "$cut")" cut_off "$(engine_of "$cut")"
    [ -z "$figures" ] || echo "    $figures"
done
exit $((check_failures > 0))
