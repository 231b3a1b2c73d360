#!/bin/sh
# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Holds one lab host: mounts its disk, boots it, boots it again when it reboots or when it is told to.
#   supervise.sh DIR CGROUP LOWER DISK_SIZE STATE_DIRECTORIES NSPAWN_COMMAND...
# Runs in a mount namespace of its own, so that the mounts end with the last process of the host, whatever ended it.
set -eu
dir=$1 group=$2 lower=$3 size=$4 state=$5
shift 5

echo $$ > "$group/cgroup.procs"
# systemd-nspawn never removes its lock files: here they go with the namespace.
mkdir -p /run/systemd/nspawn
mount -t tmpfs -o mode=755 lab-locks /run/systemd/nspawn
mount -t tmpfs -o "mode=755,size=$size" lab-disk "$dir/disk"
mkdir "$dir/disk/upper" "$dir/disk/work" "$dir/disk/root"
mount -t overlay -o "lowerdir=$lower,upperdir=$dir/disk/upper,workdir=$dir/disk/work" lab-root "$dir/disk/root"
for path in $state; do
    mkdir -p "$dir/disk/state$path"
done
exec 3<>"$dir/control"
while :; do
    echo on > "$dir/power"
    code=0
    # systemd-nspawn makes its groups below the one it is started in; with --keep-unit it ends with 133 when the host reboots.
    sh -c 'echo $$ > "$0/box/cgroup.procs" && exec "$@"' "$group" "$@" </dev/null >>"$dir/console.log" 2>&1 3>&- || code=$?
    [ "$code" != 133 ] || continue
    echo "off $code" > "$dir/power"
    read -r _ <&3
done
