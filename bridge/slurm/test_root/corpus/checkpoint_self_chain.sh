#!/bin/bash
#SBATCH --job-name=chain
#SBATCH --gres=gpu:1
#SBATCH --time=0:55:00
#SBATCH --no-requeue

timeout 50m python train.py --resume latest.pt
[ $? -ne 124 ] || sbatch --dependency=afterany:$SLURM_JOB_ID "$0"
