#!/bin/bash
#SBATCH --gres=gpu:2
#SBATCH -c 24
#SBATCH --mem=196G
#SBATCH --exclude=c[3-4]

pbrun germline --num-gpus 2
