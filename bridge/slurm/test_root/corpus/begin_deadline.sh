#!/bin/bash
#SBATCH --begin=now+1hour
#SBATCH --deadline=now+3days
#SBATCH --time=60
#SBATCH --gres=gpu:1

python nightly.py
