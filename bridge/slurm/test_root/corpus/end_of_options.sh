#!/bin/bash

#SBATCH --gres=gpu:1
# a comment and an empty line end nothing

#SBATCH --time=7

echo run
#SBATCH --time=9
