#!/bin/bash
#SBATCH --job-name=zero3-13b
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=a100:8
#SBATCH --cpus-per-task=96
#SBATCH --time=2-00:00:00
#SBATCH --output=%x_%j.log
#SBATCH --error=%x_%j.err

GPUS=8
scontrol show hostnames $SLURM_JOB_NODELIST | sed "s/\$/ slots=$GPUS/" > hostfile.$SLURM_JOB_ID
deepspeed --hostfile hostfile.$SLURM_JOB_ID --no_ssh train.py --deepspeed ds_zero3.json
