#compdef sbatch squeue scancel sacct seff scontrol sinfo sprio sshare
# Completion of Slurm's names of gpucredit's commands for zsh
autoload -Uz _gpucredit
_gpucredit "$@"
