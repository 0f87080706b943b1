#!/bin/bash
#SBATCH --nodes=1
#SBATCH --gpus-per-node=8
#SBATCH --container-image=nvcr.io#nvidia/pytorch:23.10-py3

python train.py
# refused: --container-image
