#pragma once

// Layers whose weights the ranks of a group share, for training loops beside kolo/parallel.h.

#include "kolo/tensor_parallel/group_functions.h"
#include "kolo/tensor_parallel/mesh_gradients.h"
#include "kolo/tensor_parallel/parallel_attention.h"
#include "kolo/tensor_parallel/parallel_linear.h"
#include "kolo/tensor_parallel/parameter_parts.h"
#include "kolo/tensor_parallel/part_dropout.h"
#include "kolo/tensor_parallel/part_layer_norm.h"
#include "kolo/tensor_parallel/vocabulary_parallel.h"
