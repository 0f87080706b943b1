#!/bin/bash
#SBATCH --gpus=16
#SBATCH --gpus-per-node=8
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=32
#SBATCH --mem-per-gpu=60G
#SBATCH --time=23:59:59

srun accelerate launch --config_file fsdp.yaml --num_machines $SLURM_NNODES --machine_rank $SLURM_NODEID finetune.py
