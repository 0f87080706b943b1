#!/bin/bash
#SBATCH --ntasks=15
#SBATCH --mem-per-cpu=2048
#SBATCH --time=3:00:00
#SBATCH --profile=task

srun ./simulate
