#!/bin/bash
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=16
#SBATCH --gpus=a100:1
#SBATCH --time=3-0

namd3 +p16 +devices $CUDA_VISIBLE_DEVICES run.conf
