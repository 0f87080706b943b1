#!/bin/bash
#SBATCH --job-name=nnunet
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=12
#SBATCH --mem=64GB
#SBATCH --time=1-12:00:00
#SBATCH --array=0-4
#SBATCH --output=nnunet_fold%a_%A.out

export nnUNet_n_proc_DA=12
nnUNetv2_train 501 3d_fullres $SLURM_ARRAY_TASK_ID --npz
