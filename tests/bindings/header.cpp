// The header in C++, without MPI's, and twice; and the sizes that kolo.F90 counts on.
#define KOLO_WITHOUT_MPI_H
#include <kolo/kolo.h>

#ifdef MPI_VERSION
#error "kolo.h includes mpi.h, though it shall not"
#endif

static_assert(sizeof(kolo_array) == 152 && sizeof(kolo_tick_report) == 80 &&
              sizeof(kolo_push_report) == 40);
static_assert(KOLO_ABI_VERSION == 1, "expected_abi_version in kolo_c.inc is another");
