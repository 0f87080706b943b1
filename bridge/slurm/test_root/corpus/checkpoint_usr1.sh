#!/bin/bash
#SBATCH --gres=gpu:1
#SBATCH --time=04:00:00
#SBATCH --signal=B:USR1@120
#SBATCH --open-mode=append
#SBATCH --requeue

trap 'touch stop; wait; scontrol requeue $SLURM_JOB_ID' USR1
python train.py --resume auto &
wait
