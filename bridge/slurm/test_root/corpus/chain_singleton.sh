#!/bin/bash
#SBATCH --job-name=llm-pretrain
#SBATCH --dependency=singleton
#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=8
#SBATCH --time=23:30:00

srun python pretrain.py --resume
