#!/bin/bash
#SBATCH -N2 -n2 -c48 --gres=gpu:8
#SBATCH --time 10:00:00
#SBATCH --exclusive

srun --jobid $SLURM_JOBID bash -c 'python -m torch.distributed.run --nproc_per_node 8 --nnodes $SLURM_NNODES --node_rank $SLURM_PROCID main.py'
