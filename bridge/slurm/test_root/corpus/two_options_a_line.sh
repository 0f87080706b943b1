#!/bin/bash
#SBATCH -N 1 -n 2 -c 3 -t 30 --mem=6G -J "two words" # a comment
##SBATCH --gres=gpu:8
# SBATCH --gres=gpu:8
#SBATCH --gres=gpu:1

srun hostname
