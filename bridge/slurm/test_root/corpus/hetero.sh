#!/bin/bash
#SBATCH --ntasks=1 --cpus-per-task=8
#SBATCH hetjob
#SBATCH --ntasks=1 --gpus=1

srun --het-group=0 ./server : --het-group=1 python client.py
# refused: hetjob
