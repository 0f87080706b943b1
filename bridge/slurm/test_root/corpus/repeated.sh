#!/bin/bash
#SBATCH --time=01:00:00
#SBATCH --gres=gpu:4
#SBATCH --mem=10G
#SBATCH --time=02:00:00
#SBATCH --gres=gpu:2
#SBATCH --mem=20G

python train.py
