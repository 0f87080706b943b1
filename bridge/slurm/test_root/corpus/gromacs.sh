#!/bin/bash
#SBATCH -J md
#SBATCH -N 1
#SBATCH -n 4
#SBATCH -c 8
#SBATCH --gres=gpu:4
#SBATCH --hint=nomultithread
#SBATCH -t 24:00:00

export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
srun gmx_mpi mdrun -deffnm md -nb gpu
