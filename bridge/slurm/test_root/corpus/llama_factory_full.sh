#!/bin/bash
#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-task=8
#SBATCH -c 90
#SBATCH -t 2-0

srun bash -c 'FORCE_TORCHRUN=1 NNODES=$SLURM_NNODES NODE_RANK=$SLURM_NODEID llamafactory-cli train llama3_full_sft.yaml'
