#!/bin/bash -l
#SBATCH --nodes=4             # as Trainer(num_nodes=4)
#SBATCH --gres=gpu:8
#SBATCH --ntasks-per-node=8   # as Trainer(devices=8)
#SBATCH --cpus-per-task=6
#SBATCH --mem=400G
#SBATCH --time=0-20:00:00

export NCCL_DEBUG=INFO
srun python fit.py --trainer.num_nodes=4
