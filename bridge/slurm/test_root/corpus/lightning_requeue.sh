#!/bin/bash
#SBATCH --nodes=1
#SBATCH --gres=gpu:2
#SBATCH --ntasks-per-node=2
#SBATCH --signal=SIGUSR1@90
#SBATCH --requeue

srun python fit.py
