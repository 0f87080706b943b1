#!/bin/bash
#SBATCH --gres=gpu:a100:2
#SBATCH --cpus-per-task=16
#SBATCH --mem=96G
#SBATCH --nodelist=c1

dorado basecaller sup pod5 > calls.bam
