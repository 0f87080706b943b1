#!/bin/bash
#SBATCH --account=ml-lab
#SBATCH --nodes=8
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=12
#SBATCH --time=1-23:59:00
#SBATCH --job-name=gpt-175b
#SBATCH --wait-all-nodes=1

export CUDA_DEVICE_MAX_CONNECTIONS=1
srun -l python pretrain_gpt.py --tensor-model-parallel-size 8
