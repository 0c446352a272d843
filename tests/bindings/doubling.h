#ifndef KOLO_TESTS_BINDINGS_DOUBLING_H
#define KOLO_TESTS_BINDINGS_DOUBLING_H

/* A network that doubles what it is given, and fields for it. */

#include "check.h"

enum { ny = 3, nx = 4 };

static inline kolo_array dense(double (*values)[nx]) {
  const kolo_array array = {values, KOLO_FLOAT64, 2, KOLO_ROW, {ny, nx}, {0}};
  return array;
}

/* Its configuration: scale.pt in the folder of scripts, trained by single samples. */
static inline void write_yaml(char* text, size_t size, const char* scripts,
                              const char* more_of_training) {
  snprintf(text, size,
           "model: {name: torchscript, file: %s/scale.pt}\n"
           "optimizer: {name: sgd, lr: 0.001}\n"
           "training: {samples: whole, batch_size: 1%s}\n",
           scripts, more_of_training);
}

#endif
