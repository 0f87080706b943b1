#!/bin/bash
#SBATCH --nodes=1 --ntasks=1 --cpus-per-task=7
#SBATCH --gpus=1
#SBATCH --mem=30720
#SBATCH --time=0-03:00

python -c 'import tensorflow as tf; print(tf.config.list_physical_devices("GPU"))'
