#!/bin/bash
#SBATCH --nodes 2
#SBATCH --ntasks-per-node 8
#SBATCH --gpus-per-node 8
#SBATCH --gpu-bind=closest
#SBATCH --time 6:00:00

srun lmp -k on g 8 -sf kk -in in.lj
