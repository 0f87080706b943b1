#!/bin/bash
#SBATCH --array=0-11
#SBATCH -G1 -c2
#SBATCH -t 45

LRS=(1e-4 3e-4 1e-3 3e-3)
SEEDS=(1 2 3)
python run.py --lr ${LRS[$((SLURM_ARRAY_TASK_ID / 3))]} --seed ${SEEDS[$((SLURM_ARRAY_TASK_ID % 3))]}
