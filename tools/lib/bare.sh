#!/bin/bash
# bare.sh: runs scripts in a Debian 12 that has nothing yet, one after the other
#
#   tools/lib/bare.sh [--no-sys] [--no-services] FOLDER
#
# The root is a copy of a new minimal Debian 12 (root.sh).  It has /proc, process
# numbers and mounts of its own, and the checkout in /root/gpucredit.  Each file
# of FOLDER that is named NUMBER.sh runs there as a person would paste it into a
# shell of root, and each NUMBER.psql is pasted into "psql -d postgres".  What
# NUMBER printed is left in NUMBER.out, its exit status in NUMBER.status.  A
# script that fails is the last one.
#
#   --no-sys       the root has no /sys, so that there are no cgroups
#   --no-services  packages start no services, as in Docker's images of Debian
#
# Servers that the scripts started end with the last one.
set -euo pipefail
source "$(dirname "$0")/server.sh"
source "$(dirname "$0")/root.sh"

sys=1
services=1
while [[ ${1-} = --* ]]; do
	case $1 in
		--no-sys) sys= ;;
		--no-services) services= ;;
		*) gc_die "unknown option \"$1\"" ;;
	esac
	shift
done
folder=$(cd "$1" && pwd)
[ "$(id -u)" = 0 ] || gc_die "only root can enter another Debian"
unshare --mount --pid --fork true 2>/dev/null ||
	gc_die "this machine lets nobody have mounts of his own"

GC_BARE=
end()
{
	trap '' INT TERM HUP
	[ -z "$GC_CHILD" ] || kill -TERM -- "-$GC_CHILD" 2>/dev/null || true
	[ -z "$GC_CHILD" ] || wait "$GC_CHILD" 2>/dev/null || true
	GC_CHILD=
	[ -z "$GC_BARE" ] || rm -rf --one-file-system "$GC_BARE"
	gc_cleanup
}

gc_workdir bare
trap end EXIT
gc_root_bare
gc_copy "$GC_BARE/root/gpucredit"
chown -R root:root "$GC_BARE/root/gpucredit"
chmod 755 "$GC_BARE/root"
mkdir "$GC_BARE/root/steps"
cp "$folder"/*.* "$GC_BARE/root/steps/"
cp -L /etc/resolv.conf /etc/hosts "$GC_BARE/etc/"
[ -n "$services" ] || {
	printf '#!/bin/sh\nexit 101\n' >"$GC_BARE/usr/sbin/policy-rc.d"
	chmod 755 "$GC_BARE/usr/sbin/policy-rc.d"
}
cat >"$GC_BARE/root/steps/all" <<'END'
cd /root/gpucredit
for file in $(ls /root/steps/*.sh /root/steps/*.psql 2>/dev/null | sort); do
	name=${file%.*}
	status=0
	case $file in
		*.sh) bash -e "$file" </dev/null >"$name.out" 2>&1 || status=$? ;;
		*.psql) psql -d postgres <"$file" >"$name.out" 2>&1 || status=$? ;;
	esac
	echo $status >"$name.status"
	[ $status = 0 ] || break
done
END
status=0
gc_child unshare --mount --pid --fork --kill-child bash -c '
	mount --make-rprivate /
	mount -t proc proc "$1/proc"
	[ -z "$2" ] || mount --rbind /sys "$1/sys"
	exec chroot "$1" env -i HOME=/root TERM=dumb \
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		bash /root/steps/all' bare "$GC_BARE" "$sys" || status=$?
cp "$GC_BARE"/root/steps/*.out "$GC_BARE"/root/steps/*.status "$folder/"
exit $status
