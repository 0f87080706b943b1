#!/bin/bash
#SBATCH --job-name=sif
#SBATCH --gres=gpu:1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=10
#SBATCH --mem=50G
#SBATCH --tmp=200G

singularity exec --nv image.sif python train.py
# refused: --tmp
