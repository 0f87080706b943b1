#!/bin/bash
#SBATCH --gpus=8 --gpus-per-task=2
#SBATCH --cpus-per-task=4
#SBATCH --time=10:00

srun python worker.py
