# root.sh: another release of Debian, for its PostgreSQL
#
#   source "$(dirname "$0")/lib/root.sh"      # after server.sh
#   gc_root 17                    # makes that Debian, if it is not kept yet
#   gc_in_root 17 COMMAND...      # runs there as root, with our GC_* settings
#   gc_root_copy 17               # a copy of the checkout there: $GC_COPY
#
# debootstrap makes the root once, from the mirror that this machine's apt
# uses, and keeps it in ${XDG_CACHE_HOME:-/var/cache}/gpucredit.  Nothing of
# this machine is mounted there; files are copied.  If the kernel allows it,
# commands have a /proc, in a mount namespace that ends with them.  In a
# container that forbids it, only the tests that kill servers fail, because
# they look for processes there. /dev/shm is a folder, which suffices for
# shm_open().
#
# If there can be no such root, functions print why and return 1.

# The settings that our caller has, before we export our own.
GC_CALLERS=($(compgen -e GC_ || true))

# The release that has a version of PostgreSQL.
gc_root_suite()
{
	case $1 in
		15) echo bookworm ;;
		17) echo trixie ;;
		18) echo sid ;;
		*) return 1 ;;
	esac
}

gc_root_dir()
{
	echo "${XDG_CACHE_HOME:-/var/cache}/gpucredit/debian-$(gc_root_suite "$1")"
}

# Installs what makes a root.
gc_root_tools()
{
	[ -x /usr/sbin/debootstrap ] ||
		gc_install debootstrap debian-archive-keyring
}

# Makes the root for a version of PostgreSQL.  A second caller waits.
gc_root()
{
	local suite dir log=$GC_WORK/debootstrap-$1.log mirror

	suite=$(gc_root_suite "$1") || {
		gc_say "there is no Debian with PostgreSQL $1"
		return 1
	}
	dir=$(gc_root_dir "$1")
	[ ! -e "$dir/etc/gpucredit-root" ] || return 0
	gc_root_tools || return 1
	mirror=$(gc_root_mirror)
	[ -n "$mirror" ] || {
		gc_say "apt has no source of Debian's main"
		return 1
	}
	gc_say "making a Debian $suite in $dir"
	gc_child gc_as_root bash -c '
		set -euo pipefail
		dir=$1 suite=$2 mirror=$3 options=$4
		mkdir -p "${dir%/*}"
		exec 9>"$dir.lock"
		flock 9
		[ ! -e "$dir/etc/gpucredit-root" ] || exit 0
		rm -rf --one-file-system "$dir" "$dir.new"
		apart=
		! unshare --mount true 2>/dev/null || apart="unshare --mount"
		$apart debootstrap --variant=minbase --include=ca-certificates \
			$5 "$suite" "$dir.new" "$mirror" 9>&-
		umount "$dir.new/proc" "$dir.new/sys" 2>/dev/null || true
		chmod 1777 "$dir.new/dev/shm"
		printf "%s\n" "$options" >"$dir.new/etc/apt/apt.conf.d/00gpucredit"
		printf "#!/bin/sh\nexit 101\n" >"$dir.new/usr/sbin/policy-rc.d"
		chmod 755 "$dir.new/usr/sbin/policy-rc.d"
		echo "$suite" >"$dir.new/etc/gpucredit-root"
		mv "$dir.new" "$dir"
		' root "$dir" "$suite" "$mirror" "$(gc_root_apt)" \
		"$(gc_root_trust)" >"$log" 2>&1 || {
		tail -n 20 "$log" >&2
		gc_say "no Debian $suite can be made"
		return 1
	}
}

# Copies the checkout into the root.  The caller removes $GC_COPY.
gc_root_copy()
{
	gc_root "$1" || return 1
	GC_COPY=$(gc_as_root mktemp -d \
		"$(gc_root_dir "$1")/tmp/gpucredit-checkout.XXXXXX")
	gc_as_root chmod 755 "$GC_COPY"
	gc_copy "$GC_COPY"
}

# The mirror of Debian's main that this machine's apt uses; it has all
# releases.
gc_root_mirror()
{
	apt-get indextargets --format '$(COMPONENT) $(RELEASE) $(REPO_URI)' \
		'Created-By: Packages' | awk -v "release=$(. /etc/os-release &&
			echo "${VERSION_CODENAME:-}")" \
		'$1 == "main" && $2 == release { print $3; exit }'
}

# The apt options for the root.  The index of a release in preparation may have
# expired.
gc_root_apt()
{
	apt-config dump | grep -E \
		'^Acquire::(Allow|Check-|ForceIP|Retries|https?::(Proxy |Timeout|Verify))' ||
		true
	echo 'Acquire::Check-Valid-Until "false";'
	echo 'APT::Install-Recommends "false";'
}

# Whether this machine's apt trusts the mirror without a signature.
gc_root_trust()
{
	! grep -qsE '\[[^]]*trusted=yes|^Trusted: *yes' /etc/apt/sources.list \
		/etc/apt/sources.list.d/* || echo --no-check-gpg
}

# Runs a command in the root as root, in the folder /.
gc_in_root()
{
	local dir name settings=() ca=${NODE_EXTRA_CA_CERTS:-}
	dir=$(gc_root_dir "$1")
	shift

	for name in ${GC_CALLERS[@]+"${GC_CALLERS[@]}"}; do
		settings+=("$name=${!name}")
	done
	# npm goes through the proxy that this machine trusts
	[ -z "$ca" ] || settings+=(NODE_EXTRA_CA_CERTS=/etc/gpucredit-ca.crt)
	gc_child gc_as_root bash -c '
		dir=$1 ca=$2
		shift 2
		cp -L /etc/resolv.conf /etc/hosts "$dir/etc/" 2>/dev/null
		[ -z "$ca" ] || cp -L "$ca" "$dir/etc/gpucredit-ca.crt"
		if [ ! -e "$dir/proc/self" ] && unshare --mount true 2>/dev/null; then
			exec unshare --mount sh -c "
				mount -t proc proc \"\$0/proc\" 2>/dev/null
				exec chroot \"\$0\" \"\$@\"" "$dir" "$@"
		fi
		exec chroot "$dir" "$@"' root "$dir" "$ca" env -i HOME=/root TERM=dumb \
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		${settings[@]+"${settings[@]}"} "$@"
}
