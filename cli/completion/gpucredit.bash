# gpucredit: completion for bash, found by bash-completion under the name of the
# command: gpucredit, or, as a link, one of Slurm's.
#
# Commands and options are those that --help names. Numbers of jobs are those that
# the database shows to this login.

# The options in a help text
_gpucredit_options()
{
	"$@" --help 2>/dev/null | grep -oE -- '(^|[][ ,|])--?[[:alnum:]][[:alnum:]-]*' |
		tr -d '][ ,|' | sort -u
}

# Numbers of jobs, which a list has at the beginning of its lines
_gpucredit_jobs()
{
	PGCONNECT_TIMEOUT=2 "$@" 2>/dev/null | grep -oE '^ *[0-9]+(_[0-9]+)?' | tr -d ' '
}

# What of these words begins as the word under the cursor does. compgen expands its
# words, so they must be of letters, digits, "-" and "_".
_gpucredit_offer()
{
	mapfile -t COMPREPLY < <(compgen -W "$1" -- "${COMP_WORDS[COMP_CWORD]}")
}

_gpucredit()
{
	local program=$1 cur=${COMP_WORDS[COMP_CWORD]} command= i
	local -a before=()

	COMPREPLY=()
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
			-d | -O | -A | --database | --org | --account)
				before+=("${COMP_WORDS[i]}")
				# "=" is a word of its own
				[ "${COMP_WORDS[i + 1]}" = '=' ] && ((i++))
				((++i < COMP_CWORD)) || return 0
				before+=("${COMP_WORDS[i]}")
				;;
			-*) ;;
			*)
				command=${COMP_WORDS[i]}
				break
				;;
		esac
	done
	case $command in
		'')
			_gpucredit_offer "-d -O -A --database --org --account --help --version
				$("$program" --help 2>/dev/null | sed -n 's/^ *gpucredit \([a-z][a-z]*\).*/\1/p')"
			;;
		submit)
			if [[ $cur == -* ]]; then
				_gpucredit_offer "$(_gpucredit_options "$program" submit)"
			else
				compopt -o default 2>/dev/null
			fi
			;;
		*)
			if [[ $cur == -* ]]; then
				_gpucredit_offer "--help $(_gpucredit_options "$program" "$command")"
			elif [[ " job queue cancel requeue hold release wait logs attach shell forward explain " == *" $command "* ]]; then
				_gpucredit_offer "$(_gpucredit_jobs "$program" "${before[@]}" queue)"
			fi
			;;
	esac
	return 0
}

_gpucredit_slurm()
{
	local program=$1 cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
	local folder=

	COMPREPLY=()
	[[ $program == */* ]] && folder=${program%/*}/
	if [[ $cur == -* ]]; then
		_gpucredit_offer "$(_gpucredit_options "$program")"
		return 0
	fi
	case ${program##*/}:$before in
		scontrol:scontrol | scontrol:*/scontrol) _gpucredit_offer 'show hold release requeue update' ;;
		scontrol:show) _gpucredit_offer 'job node' ;;
		sbatch:*) compopt -o default 2>/dev/null ;;
		scontrol:job | scontrol:hold | scontrol:release | scontrol:requeue | *:-j | *:--jobs | \
			seff:* | scancel:scancel | scancel:*/scancel | scancel:[0-9]*)
			_gpucredit_offer "$(_gpucredit_jobs "${folder}squeue" -h -o %i)"
			;;
	esac
	return 0
}

case ${BASH_SOURCE[0]##*/} in
	gpucredit | gpucredit.bash) complete -F _gpucredit gpucredit ;;
	*) complete -F _gpucredit_slurm "${BASH_SOURCE[0]##*/}" ;;
esac
