#!/bin/bash
#SBATCH --ntasks=4
#SBATCH --gpus-per-task=1
#SBATCH --cpus-per-task=5
#SBATCH --mem-per-gpu=40G

srun dask-cuda-worker --scheduler-file s.json
