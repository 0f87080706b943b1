#!/bin/sh
#SBATCH -p gpu
#SBATCH --job-name snakejob.align.12 --cpus-per-task=4
#SBATCH --mem 8000 -t 120
#SBATCH --output=.snakemake/slurm_logs/%j.log

snakemake --cores 4 --allowed-rules align --nolock
