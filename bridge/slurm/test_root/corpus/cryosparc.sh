#!/usr/bin/env bash
#SBATCH --job-name cryosparc_P1_J2
#SBATCH -n 4
#SBATCH --gres=gpu:2
#SBATCH --mem=48000MB
#SBATCH --output=job.log
#SBATCH --error=job.log

cryosparcw run --project P1 --job J2
