/* arrays SCRIPTS: arrays of random shapes, strides and orders, which a network that doubles takes
 * and gives. What is between their elements stays. */
#include <stdlib.h>

#include "doubling.h"

enum { room = 1 << 16, untouched = -12345 };

static uint64_t state = 20240611;

/* Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8(14), 2003. */
static int64_t random_below(int64_t end) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (int64_t)(state % (uint64_t)end);
}

typedef struct {
  kolo_array array;
  void* memory;
  int64_t first; /* index of the first element in memory */
} places;

static double value_at(const places* p, int64_t index) {
  return p->array.dtype == KOLO_FLOAT32 ? ((float*)p->memory)[index] : ((double*)p->memory)[index];
}

static void set_value(const places* p, int64_t index, double value) {
  if (p->array.dtype == KOLO_FLOAT32)
    ((float*)p->memory)[index] = (float)value;
  else
    ((double*)p->memory)[index] = value;
}

/* Dimensions one after another in random order, with gaps, some backwards; or dense. */
static places random_places(int rank, const int64_t* shape, int dense) {
  places p = {{0}, NULL, 0};
  int64_t next = 1;
  int used[8] = {0};
  p.array.dtype = random_below(2) == 0 ? KOLO_FLOAT32 : KOLO_FLOAT64;
  p.array.rank = rank;
  p.array.order = random_below(2) == 0 ? KOLO_ROW : KOLO_COLUMN;
  for (int i = 0; i < rank; ++i) /* the tensor's dimensions are the same in both orders */
    p.array.shape[i] = p.array.order == KOLO_ROW ? shape[i] : shape[rank - 1 - i];
  for (int i = 0; i < rank && !dense; ++i) {
    int d = (int)random_below(rank);
    while (used[d]) d = (d + 1) % rank;
    used[d] = 1;
    next += random_below(3);
    p.array.stride[d] = random_below(3) == 0 ? -next : next;
    next *= p.array.shape[d] + random_below(2);
    if (p.array.stride[d] < 0) p.first -= p.array.stride[d] * (p.array.shape[d] - 1);
  }
  p.memory = malloc(room * sizeof(double));
  for (int64_t i = 0; i < room; ++i) set_value(&p, i, untouched);
  p.array.data = p.array.dtype == KOLO_FLOAT32 ? (void*)((float*)p.memory + p.first)
                                               : (void*)((double*)p.memory + p.first);
  return p;
}

/* Where the tensor's element of these indices is, told from the meaning of shape, order and stride.
 */
static int64_t index_of(const places* p, const int64_t* indices) {
  const int rank = p->array.rank;
  int64_t dense[8], place = p->first;
  int all_zero = 1;
  for (int i = 0; i < rank; ++i) all_zero = all_zero && p->array.stride[i] == 0;
  dense[p->array.order == KOLO_ROW ? rank - 1 : 0] = 1;
  for (int i = 1; i < rank; ++i) {
    const int d = p->array.order == KOLO_ROW ? rank - 1 - i : i;
    const int before = p->array.order == KOLO_ROW ? d + 1 : d - 1;
    dense[d] = dense[before] * p->array.shape[before];
  }
  for (int i = 0; i < rank; ++i) {
    const int d = p->array.order == KOLO_ROW ? i : rank - 1 - i;
    place += indices[i] * (all_zero ? dense[d] : p->array.stride[d]);
  }
  return place;
}

static void one_round(kolo_network network) {
  int64_t shape[8], count = 1, indices[8];
  const int rank = 1 + (int)random_below(5);
  for (int i = 0; i < rank; ++i) count *= shape[i] = 1 + random_below(rank > 3 ? 3 : 5);
  places from = random_places(rank, shape, random_below(3) == 0);
  places to = random_places(rank, shape, random_below(3) == 0);
  for (int64_t k = 0; k < count; ++k) {
    int64_t rest = k;
    for (int i = rank - 1; i >= 0; rest /= shape[i--]) indices[i] = rest % shape[i];
    set_value(&from, index_of(&from, indices), (double)(k + 1));
  }
  SUCCEEDS(kolo_infer(network, &from.array, 1, &to.array, 1));
  for (int64_t k = 0; k < count; ++k) {
    int64_t rest = k;
    for (int i = rank - 1; i >= 0; rest /= shape[i--]) indices[i] = rest % shape[i];
    const int64_t place = index_of(&to, indices);
    CHECK(value_at(&to, place) == 2.0 * (double)(k + 1));
    set_value(&to, place, untouched);
  }
  for (int64_t i = 0; i < room; ++i)
    if (value_at(&to, i) != untouched) ++failures;
  free(from.memory);
  free(to.memory);
}

int main(int argc, char** argv) {
  char yaml[4096];
  kolo_session session = NULL;
  kolo_network network = NULL;
  write_yaml(yaml, sizeof yaml, argc > 1 ? argv[1] : ".", "");
  MPI_Init(&argc, &argv);
  SUCCEEDS(kolo_initialize(MPI_COMM_WORLD, NULL, &session));
  SUCCEEDS(kolo_network_create(session, yaml, &network));
  for (int i = 0; i < 200 && failures == 0; ++i) one_round(network);
  SUCCEEDS(kolo_finalize(session));
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}
