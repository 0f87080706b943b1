#compdef sbatch squeue scancel sacct salloc seff scontrol sinfo sprio srun sshare
# Completion of Slurm's names of gpucredit's commands for zsh
autoload -Uz _gpucredit
_gpucredit "$@"
