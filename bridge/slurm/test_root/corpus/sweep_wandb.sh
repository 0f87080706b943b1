#!/bin/bash
#SBATCH --array=1-8
#SBATCH --gpus=1
#SBATCH --mem=16G
#SBATCH --export=ALL,WANDB_MODE=offline

wandb agent --count 1 team/project/sweep
