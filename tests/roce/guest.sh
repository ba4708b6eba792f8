# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# A guest with soft-RoCE (rdma_rxe): Debian's kernel under QEMU's emulation, with this host's root file system as its own, read
# only. Needs no hardware, no KVM and, but for installing packages, no root. Source it after setup.sh:
#
#   guest_run SCRIPT RESULTS_DIR [OPTION...] [-- ARGUMENT...]
#
# Boots the guest, runs SCRIPT with its ARGUMENTs in it as root, and returns its status. What it prints comes out as it is
# printed; its standard error goes to the guest's console, whose end is shown if it fails. In the guest:
#
#   /run/results       is RESULTS_DIR, and the only place of this host that can be written
#   GUEST_RESULTS      the same, for the environment
#   /tmp, /run, /dev   are the guest's own; nothing else differs from the host. The source and the build are there under their
#                      names, wherever they are.
#
#   --timeout SECONDS  after which the guest is ended, and the status is 124 (120)
#   --memory MIB       of the guest (1536)
#   --cpus N           of the guest (2)
#   --share DIR        is in the guest too although it lies below /tmp, /run or /dev; read only
#   --disk FILE        is the disk /dev/vda of the guest, which writes to the file without this host's page cache
#   --pidfile FILE     has the number of the process of QEMU
#
# Status 77 means that the guest cannot be had here; guest_reason says why and what to install. Nothing outlives the script that
# called: no process, and no file but RESULTS_DIR and the kernel, which is kept in the build directory.

GUEST_HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
GUEST_BUILD=${LLM_BUILD:-$SETUP_ROOT/build}
guest_reason=""

# Modules loaded in the guest, besides their dependencies: for its disks, RDMA, cables, and packet loss.
guest_modules="virtio_pci virtio_blk ext4 9pnet_virtio 9p crc32_generic crc32c_generic rdma_rxe ib_uverbs rdma_ucm veth bridge
    nf_tables nft_numgen sch_netem"

# --------------------------------------------------------------------------------------------------------------- image

guest_why() {
    # shellcheck disable=SC2034
    guest_reason=$*
    return 77
}

# The packages as apt would download them now, PACKAGE=VERSION: the kernel, which linux-image-amd64 only names, and busybox.
guest_packages() {
    apt-cache show linux-image-amd64 busybox-static 2>/dev/null | awk '
        $1 == "Package:" { package = $2 }
        package == "busybox-static" && $1 == "Version:" && !busybox { busybox = $2 }
        package == "linux-image-amd64" && $1 == "Depends:" && !kernel { kernel = $2 "=" substr($4, 1, length($4) - 1) }
        END {
            if (kernel !~ /^linux-image-[0-9].*=[0-9]/ || !busybox) exit 1
            print kernel "\nbusybox-static=" busybox
        }'
}

# guest_unpack DIR PACKAGE=VERSION...: without installing them.
guest_unpack() {
    local dir=$1 archive
    shift
    mkdir "$dir/archives" "$dir/files" || return
    (cd "$dir/archives" && { apt-get download "$@" || { guest_update && apt-get download "$@"; }; }) || return
    for archive in "$dir"/archives/*.deb; do
        dpkg-deb -x "$archive" "$dir/files" || return
    done
}

# guest_collect FROM TO MODULE...: copies modules and what they need, and writes the order in which they load.
guest_collect() {
    python3 - "$@" <<'PYTHON'
import pathlib, re, shutil, sys
source, target, wanted = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
directory = next(source.glob("lib/modules/*"))
built_in = {pathlib.Path(line).stem.replace("-", "_") for line in (directory / "modules.builtin").read_text().split()}
paths = {path.stem.replace("-", "_"): path for path in directory.rglob("*.ko")}
order = []

def visit(name):
    name = name.replace("-", "_")
    if name in built_in or name in order:
        return
    if name not in paths:
        sys.exit(f"the kernel has no module {name}")
    needs = re.search(rb"\0depends=([^\0]*)\0", paths[name].read_bytes())
    for other in needs.group(1).decode().split(",") if needs else ():
        if other:
            visit(other)
    order.append(name)

for name in wanted:
    visit(name)
for name in order:
    shutil.copy(paths[name], target)
(target / "order").write_text("".join(paths[name].name + "\n" for name in order))
PYTHON
}

# guest_decompress VMLINUZ VMLINUX: in the guest, decompression would take seven seconds of every boot. The offsets are those of
# the kernel's Documentation/arch/x86/boot.rst.
guest_decompress() {
    python3 - "$@" <<'PYTHON'
import lzma, pathlib, struct, sys
image = pathlib.Path(sys.argv[1]).read_bytes()
offset, length = struct.unpack_from("<II", image, 0x248)
start = (image[0x1F1] + 1) * 512 + offset
payload = image[start:start + length]
if not payload.startswith(b"\xfd7zXZ\0"):
    sys.exit(f"{sys.argv[1]}: its payload is not compressed by xz")
pathlib.Path(sys.argv[2]).write_bytes(lzma.LZMADecompressor().decompress(payload))
PYTHON
}

guest_build() {
    local dir=$1 image=$1/image tree=$1/tree
    shift
    mkdir -p "$image" "$tree"/{bin,dev,modules,proc,root,sys} && guest_unpack "$dir" "$@" || return
    guest_decompress "$dir"/files/boot/vmlinuz-* "$image/vmlinux" && cp "$dir/files/bin/busybox" "$tree/bin/" &&
        cp "$GUEST_HERE/init" "$tree/init" && chmod 755 "$tree/init" || return
    # shellcheck disable=SC2086
    guest_collect "$dir/files" "$tree/modules" $guest_modules || return
    (cd "$tree" && find . | cpio --quiet -o -H newc | gzip -1) >"$image/initrd"
}

guest_update() {
    [ "$(id -u)" = 0 ] && setup_run apt-get -q update >&2
}

# Sets guest_image to a directory with vmlinux and initrd for the current kernel of apt; creates it if it is absent.
guest_prepare() {
    local packages key work
    [ "$(uname -m)" = x86_64 ] || guest_why "the guest needs an x86-64 host" || return
    command -v apt-get >/dev/null || guest_why "the guest is made of Debian's packages: needs apt-get" || return
    setup_packages qemu-system-x86 cpio python3 2>"$SETUP_SCRATCH/guest.log" ||
        guest_why "$(tail -n 1 "$SETUP_SCRATCH/guest.log")" || return
    packages=$(guest_packages) || packages=$(guest_update && guest_packages) ||
        guest_why "apt knows no linux-image-amd64 or busybox-static: someone with root has to run: apt-get update" || return
    key=$(cat "$GUEST_HERE/init" "$GUEST_HERE/guest.sh" - <<<"$packages" | sha256sum | cut -c 1-16)
    guest_image=$GUEST_BUILD/guest/$key
    [ ! -d "$guest_image" ] || return 0
    say "making the guest of ${packages%%$'\n'*}"
    mkdir -p "$GUEST_BUILD/guest" && work=$(mktemp -d "$GUEST_BUILD/guest/making-XXXXXX") || return
    setup_at_exit "rm -rf '$work'"
    # shellcheck disable=SC2086
    if ! setup_run guest_build "$work" $packages >"$SETUP_SCRATCH/guest.log" 2>&1; then
        tail -n 20 "$SETUP_SCRATCH/guest.log" >&2
        rm -rf "$work"
        guest_why "cannot make the guest; if apt's lists are old, someone with root has to run: apt-get update"
        return
    fi
    # Another run may have been faster. QEMU reads these files only when it starts, so older ones can be removed.
    mv -T "$work/image" "$guest_image" 2>/dev/null || [ -d "$guest_image" ] || return
    find "$GUEST_BUILD/guest" -mindepth 1 -maxdepth 1 ! -name "$key" ! -name 'making-*' -exec rm -rf {} +
    rm -rf "$work"
}

# ----------------------------------------------------------------------------------------------------------------- run

# Checks if a directory of the guest hides one of the host.
guest_hides() {
    [[ $1/ =~ ^/(tmp|run|dev|proc|sys)/ ]]
}

# Sets guest_shares, options of QEMU, and writes the list of shares for the guest.
guest_share() {
    local dir number=0
    guest_shares=()
    : >"$guest_control/shares"
    for dir in "$@"; do
        dir=$(realpath "$dir") || return
        guest_hides "$dir" || continue
        number=$((number + 1))
        echo "share$number $dir" >>"$guest_control/shares"
        guest_shares+=(-virtfs "local,path=${dir//,/,,},mount_tag=share$number,security_model=none,readonly=on,multidevs=remap")
    done
}

# The kernel's options make the emulation faster. The clock that the kernel would distrust is read in a tenth of the other's time;
# and programs at constant addresses start in half the time, because translated code is reused. Replaces the shell of a job, so
# that the end of the job is the end of the guest, which also ends if no process is left to end it.
guest_boot() {
    exec setpriv --pdeathsig KILL -- timeout -k 5 "$1" setpriv --pdeathsig KILL -- qemu-system-x86_64 \
        -accel tcg,thread=multi -cpu max -m "$2" -smp "$3" -nodefaults -no-user-config -display none -no-reboot \
        -kernel "$guest_image/vmlinux" -initrd "$guest_image/initrd" \
        -append "console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable clocksource=tsc norandmaps" \
        -chardev "file,id=console,path=$guest_control/console" -serial chardev:console \
        -chardev "file,id=output,path=$guest_control/output" -serial chardev:output \
        -virtfs local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap \
        -virtfs "local,path=$guest_control,mount_tag=control,security_model=none" \
        -virtfs "local,path=${4//,/,,},mount_tag=results,security_model=none" "${guest_shares[@]}" "${guest_more[@]}" </dev/null >&2
}

guest_run() {
    local script results timeout=120 memory=1536 cpus=2 share=("$SETUP_ROOT" "$GUEST_BUILD") status=0 reader
    guest_more=()
    script=$(realpath "$1") && mkdir -p "$2" && results=$(realpath "$2") && shift 2 || return
    while [ $# -gt 0 ]; do
        case $1 in
        --timeout) timeout=$2 && shift 2 ;;
        --memory) memory=$2 && shift 2 ;;
        --cpus) cpus=$2 && shift 2 ;;
        --share) share+=("$2") && shift 2 ;;
        --disk)
            guest_more+=(-drive "if=none,id=disk,file=${2//,/,,},format=raw,cache=none" -device virtio-blk-pci,drive=disk)
            shift 2
            ;;
        --pidfile) guest_more+=(-pidfile "$2") && shift 2 ;;
        --) shift && break ;;
        *) say "guest_run: $1: no such option" && return 2 ;;
        esac
    done
    guest_prepare || return
    guest_control=$SETUP_SCRATCH/guest
    rm -rf "$guest_control" && mkdir "$guest_control" && mkfifo "$guest_control/output" && guest_share "${share[@]}" || return
    printf 'export GUEST_RESULTS=/run/results PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LC_ALL=C.UTF-8\ncd /tmp\nexec%s\n' \
        "$(printf ' %q' /bin/bash "$script" "$@")" >"$guest_control/command"
    cat "$guest_control/output" &
    reader=$!
    setup_run guest_boot "$timeout" "$memory" "$cpus" "$results" || status=$?
    guest_end "$reader" "$status" "$timeout"
}

# Derives the guest's status from that of QEMU.
guest_end() {
    local status=$2
    # The other end was never opened if QEMU did not start.
    [ -e "$guest_control/console" ] || kill "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
    case $status in
    0) status=$(cat "$guest_control/status" 2>/dev/null) || { say "the guest ended before its script" && status=1; } ;;
    124) say "the guest did not end in $3 s" ;;
    *) say "QEMU ended with status $status" ;;
    esac
    [ "$status" = 0 ] || [ ! -e "$guest_control/console" ] || tail -n 60 "$guest_control/console" | sed 's/^/    guest: /' >&2
    return "$status"
}
