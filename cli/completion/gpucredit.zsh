#compdef gpucredit
# gpucredit: completion for zsh; of Slurm's names, too, which slurm.zsh binds to it.
#
# Commands and options are those that --help names. Numbers of jobs are those that
# the database shows to this login.

# The options in a help text
_gpucredit_options()
{
	local -aU found

	found=(${(f)"$("$@" --help 2>/dev/null | grep -oE -- '(^|[][ ,|])--?[[:alnum:]][[:alnum:]-]*' | tr -d '][ ,|')"})
	compadd -a found
}

# Numbers of jobs, which a list has at the beginning of its lines
_gpucredit_jobs()
{
	local -a found

	found=(${(f)"$(PGCONNECT_TIMEOUT=2 "$@" 2>/dev/null | grep -oE '^ *[0-9]+(_[0-9]+)?' | tr -d ' ')"})
	compadd -a found
}

_gpucredit_command()
{
	local command
	local -a before found
	local -i i

	for ((i = 2; i < CURRENT; i++)); do
		case $words[i] in
			-d | -O | -A | --database | --org | --account)
				before+=($words[i])
				((++i < CURRENT)) || return 1
				before+=("${(Q)words[i]}")
				;;
			--*=*) before+=("${(Q)words[i]}") ;;
			-*) ;;
			*)
				command=$words[i]
				break
				;;
		esac
	done
	case $command in
		'')
			found=(-d -O -A --database --org --account --help --version
				${(f)"$($words[1] --help 2>/dev/null | sed -n 's/^ *gpucredit \([a-z][a-z]*\).*/\1/p')"})
			compadd -a found
			;;
		submit)
			if [[ $PREFIX == -* ]]; then
				_gpucredit_options $words[1] submit
			else
				_files
			fi
			;;
		*)
			if [[ $PREFIX == -* ]]; then
				_gpucredit_options $words[1] $command
			elif [[ " job queue cancel requeue hold release wait logs attach shell forward explain " == *" $command "* ]]; then
				_gpucredit_jobs $words[1] $before queue
			fi
			;;
	esac
}

_gpucredit_slurm_command()
{
	local folder

	[[ $words[1] == */* ]] && folder=${words[1]%/*}/
	if [[ $PREFIX == -* ]]; then
		_gpucredit_options $words[1]
		return
	fi
	case $service:$words[CURRENT-1] in
		scontrol:*scontrol) compadd show hold release requeue update ;;
		scontrol:show) compadd job node ;;
		sbatch:*) _files ;;
		scontrol:(job|hold|release|requeue) | *:(-j|--jobs) | seff:* | scancel:*scancel | scancel:[0-9]*)
			_gpucredit_jobs ${folder}squeue -h -o %i
			;;
	esac
}

_gpucredit()
{
	if [[ $service == gpucredit ]]; then
		_gpucredit_command
	else
		_gpucredit_slurm_command
	fi
}

_gpucredit "$@"
