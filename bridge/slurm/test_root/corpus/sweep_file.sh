#!/bin/bash
#SBATCH --array=1-100%10
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=4
#SBATCH --mem-per-cpu=4G
#SBATCH --time=1:30:00
#SBATCH -o logs/%A_%a.out -e logs/%A_%a.err

ARGS=$(sed -n "${SLURM_ARRAY_TASK_ID}p" params.txt)
python train.py $ARGS
