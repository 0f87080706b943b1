#!/bin/bash
#SBATCH --reservation=workshop
#SBATCH --gres=gpu:1

python tutorial.py
# refused: --reservation
