#!/usr/bin/env bash
#SBATCH --gres gpu:1
#SBATCH --time 0-8
#SBATCH --mem 40g

colabfold_batch --num-recycle 3 seqs.fasta results
