#!/bin/bash
#SBATCH --wckey=grant42
#SBATCH --gpus=3
#SBATCH --cpus-per-gpu=4
#SBATCH --acctg-freq=30

python train.py
