#!/bin/bash
#SBATCH --job-name="llama lora"
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --gpus-per-task=4
#SBATCH --cpus-per-task=24
#SBATCH --mem=240G
#SBATCH --time=18:00:00
#SBATCH --comment="sft run 3"

FORCE_TORCHRUN=1 llamafactory-cli train examples/train_lora/llama3_lora_sft.yaml
