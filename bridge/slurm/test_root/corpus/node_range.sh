#!/bin/bash
#SBATCH --nodes=1-4
#SBATCH --gpus-per-node=2

srun hostname
# refused: --nodes
