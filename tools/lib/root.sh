# root.sh: another release of Debian, for its PostgreSQL
#
#   source "$(dirname "$0")/lib/root.sh"      # after server.sh
#   gc_root 17                    # makes that Debian, if it is not kept yet
#   gc_in_root 17 COMMAND...      # runs there as root, with our GC_* settings
#   gc_root_copy 17               # a copy of the checkout there: $GC_COPY
#
#   gc_root_bare                  # a Debian 12 without any package of ours: $GC_BARE
#
# debootstrap makes the root once, from the mirror that this machine's apt
# uses, and keeps it in ${XDG_CACHE_HOME:-/var/cache}/gpucredit.  A root that a
# killed run left broken is repaired, or made again.  Nothing of
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

# Makes the root for a version of PostgreSQL, if it is not kept yet, and repairs
# it if it is broken.
gc_root()
{
	local suite

	suite=$(gc_root_suite "$1") || {
		gc_report "there is no Debian with PostgreSQL $1"
		return 1
	}
	gc_root_make "$suite" "$(gc_root_dir "$1")"
}

# Makes a copy of a root in which nothing was ever installed: what a person has
# who meets Debian 12 for the first time.  The caller removes $GC_BARE.
gc_root_bare()
{
	local kept=${XDG_CACHE_HOME:-/var/cache}/gpucredit/debian-bookworm-bare

	gc_root_make bookworm "$kept" || return 1
	GC_BARE=$(gc_as_root mktemp -d "${kept%/*}/bare.XXXXXX")
	gc_as_root cp -a --reflink=auto "$kept/." "$GC_BARE"
	# services start there, as they do on a machine
	gc_as_root rm -f "$GC_BARE/usr/sbin/policy-rc.d" "$GC_BARE/etc/gpucredit-root"
}

# Makes the root DIR of a release, unless there is one that works.  Whoever runs
# something in a root holds its lock shared, so it is repaired or made again only
# while nobody uses it.
gc_root_make()
{
	local suite=$1 dir=$2 log=$GC_WORK/debootstrap-${2##*/}.log mirror

	gc_root_tools || return 1
	mirror=$(gc_root_mirror)
	[ -n "$mirror" ] || {
		gc_report "apt has no source of Debian's main"
		return 1
	}
	gc_root_works "$dir" || gc_report "making or repairing a Debian $suite in $dir"
	gc_child gc_as_root bash -c "$(declare -f gc_as_root gc_root_works gc_root_settings)"'
		set -euo pipefail
		dir=$1 suite=$2 mirror=$3 options=$4 trust=$5
		mkdir -p "${dir%/*}"
		exec 9>"$dir.lock"
		if gc_root_works "$dir"; then
			flock -n 9 || exit 0
			gc_root_settings "$dir" "$options"
			exit 0
		fi
		flock -w 1800 9 || {
			echo "$dir is broken, and somebody still runs something there"
			exit 1
		}
		if [ -e "$dir/etc/gpucredit-root" ] && ! gc_root_works "$dir"; then
			echo "repairing $dir"
			gc_root_settings "$dir" "$options" || true
			chroot "$dir" sh -c "
				export DEBIAN_FRONTEND=noninteractive
				dpkg --force-confold --configure -a
				apt-get -q update
				apt-get -q -y --fix-broken install" 9>&- </dev/null || true
		fi
		! gc_root_works "$dir" || exit 0
		rm -rf --one-file-system "$dir" "$dir.new"
		apart=
		! unshare --mount true 2>/dev/null || apart="unshare --mount"
		$apart debootstrap --variant=minbase --include=ca-certificates \
			$trust "$suite" "$dir.new" "$mirror" 9>&-
		umount "$dir.new/proc" "$dir.new/sys" 2>/dev/null || true
		chmod 1777 "$dir.new/dev/shm"
		gc_root_settings "$dir.new" "$options"
		printf "#!/bin/sh\nexit 101\n" >"$dir.new/usr/sbin/policy-rc.d"
		chmod 755 "$dir.new/usr/sbin/policy-rc.d"
		echo "$suite" >"$dir.new/etc/gpucredit-root"
		mv "$dir.new" "$dir"
		' root "$dir" "$suite" "$mirror" "$(gc_root_apt)" \
		"$(gc_root_trust)" >"$log" 2>&1 || {
		tail -n 20 "$log" >&2
		gc_report "no Debian $suite can be made"
		return 1
	}
}

# Whether the root DIR is complete: programs run there, and no package was left
# half installed by a run that was killed.
gc_root_works()
{
	[ -e "$1/etc/gpucredit-root" ] && [ -d "$1/tmp" ] &&
		[ -z "$(gc_as_root chroot "$1" dpkg --audit 2>&1 || echo broken)" ] &&
		gc_as_root chroot "$1" apt-get -q check >/dev/null 2>&1
}

# Whether a file is missing that a package installed in the root of a version.
# This reads the whole root, which takes seconds.
gc_root_lacks_files()
{
	gc_as_root chroot "$(gc_root_dir "$1")" dpkg --verify 2>&1 |
		grep -vE '^missing +c |/usr/share/(doc|man|info|locale)/' |
		grep -E '^(missing|dpkg: error|chroot: )' >&2
}

# Has the root of a version made again when it is used next.
gc_root_discard()
{
	gc_as_root rm -f "$(gc_root_dir "$1")/etc/gpucredit-root"
}

# Gives the root DIR the way to the mirror that this machine has now.
gc_root_settings()
{
	printf '%s\n' "$2" >"$1/etc/apt/apt.conf.d/00gpucredit"
	cp -L /etc/resolv.conf /etc/hosts "$1/etc/" 2>/dev/null || true
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
		exec 9>>"$dir.lock"
		flock -s 9
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
