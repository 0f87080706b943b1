#!/usr/bin/env python3
#SBATCH --gres=gpu:1
#SBATCH --time=5
#SBATCH --mem=2G
import os
print(os.environ["SLURM_JOB_ID"])
#SBATCH --nodes=4
