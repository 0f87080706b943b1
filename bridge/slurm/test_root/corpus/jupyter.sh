#!/bin/bash
#SBATCH --job-name=jupyter
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=4
#SBATCH --mem=20G
#SBATCH --time=8:00:00
#SBATCH --output=jupyter-%j.log

port=$(shuf -i8000-9999 -n1)
jupyter lab --no-browser --ip=$(hostname) --port=$port
