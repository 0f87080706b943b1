#!/bin/bash
#SBATCH --ntasks=5
#SBATCH --cpus-per-task=6
#SBATCH --gres=gpu:4
#SBATCH --mem-per-cpu=6g
#SBATCH --nice=100

mpirun -n 5 relion_refine_mpi --gpu "0:1:2:3"
