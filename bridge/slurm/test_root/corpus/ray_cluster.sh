#!/bin/bash
#SBATCH --nodes=3
#SBATCH --tasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --gpus-per-task=2

nodes=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))
srun --nodes=1 --ntasks=1 -w "${nodes[0]}" ray start --head --block &
srun --nodes=2 --ntasks=2 --exclude "${nodes[0]}" ray start --address ${nodes[0]}:6379 --block &
python tune.py
