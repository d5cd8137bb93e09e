"""Imports everything a rank's first lines need, for the zygote to do once. Starts no thread and touches no device."""

import multiprocessing.popen_fork
import multiprocessing.queues
import multiprocessing.synchronize

import accelerate.data_loader
import accelerate.utils
import numpy
import torch.distributed
import torch.nn.parallel
import torch.optim.lr_scheduler
import torch.utils.data

import jtrain.worker.main

__all__ = ["accelerate", "jtrain", "multiprocessing", "numpy", "torch"]
