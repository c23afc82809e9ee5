#!/bin/busybox sh
# /init of the virtual machine that guest_image.py makes: devices, network, and a shell on the first serial port, which
# virtual_machine.py speaks with. The network is QEMU's user networking: this machine is 10.0.2.15, the host 10.0.2.2.
/bin/busybox mkdir -p /usr/bin /sbin
/bin/busybox --install -s /bin
export PATH=/bin:/usr/bin HOME=/
mount -t devtmpfs devices /dev
mount -t proc processes /proc
mount -t sysfs system /sys
mount -t tmpfs temporary /tmp
for module in /lib/modules/*.ko; do insmod "$module" || echo "init: $module was not loaded"; done
ip link set lo up
ip link set eth0 up
ip address add 10.0.2.15/24 dev eth0
ip route add default via 10.0.2.2
if [ -b /dev/vda ]; then # a machine with a disk starts the system that is on it
    mount -t ext4 /dev/vda /disk
    umount /proc /sys /tmp
    mount --move /dev /disk/dev
    exec switch_root /disk /lib/systemd/systemd
fi
exec </dev/ttyS0 >/dev/ttyS0 2>&1
stty -echo -onlcr -icrnl -ixon
echo "init: ready"
# A line is a command. It is not an interactive shell, which would print prompts and what it reads.
sh -c 'while read -r line; do eval "$line" </dev/null; done'
poweroff -f
