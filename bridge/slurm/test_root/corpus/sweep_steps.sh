#!/bin/bash
#SBATCH --array=10-50:10,99
#SBATCH --gres=gpu:1
#SBATCH --time=00:20:00

python eval.py --step $SLURM_ARRAY_TASK_ID
