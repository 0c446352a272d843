#include "comm/mpi/mpi_group.h"

#include <array>
#include <string_view>

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) length = 0;
  throw MpiError(fmt::format("comm: {} failed with code {}: {}", call, code,
                             std::string_view(text.data(), static_cast<std::size_t>(length))));
}

MpiGroup::MpiGroup(MPI_Comm communicator) : communicator_(communicator) {
  if (communicator_ != MPI_COMM_NULL) {
    check_mpi(MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  }
}

MpiGroup MpiGroup::of(MPI_Comm communicator) {
  MPI_Comm same_ranks = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(communicator, 0, 0, &same_ranks), "MPI_Comm_split");
  return MpiGroup(same_ranks);
}

MpiGroup MpiGroup::split(int color, int key) const {
  MPI_Comm part = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(communicator_, color < 0 ? MPI_UNDEFINED : color, key, &part),
            "MPI_Comm_split");
  return MpiGroup(part);
}

void MpiGroup::free() {
  if (communicator_ != MPI_COMM_NULL) check_mpi(MPI_Comm_free(&communicator_), "MPI_Comm_free");
}

int MpiGroup::rank() const {
  int rank = 0;
  check_mpi(MPI_Comm_rank(communicator_, &rank), "MPI_Comm_rank");
  return rank;
}

int MpiGroup::size() const {
  int size = 0;
  check_mpi(MPI_Comm_size(communicator_, &size), "MPI_Comm_size");
  return size;
}

bool MpiGroup::all_ranks(bool mine) const {
  return least(mine ? 1 : 0) == 1;
}

int MpiGroup::least(int mine) const {
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_INT, MPI_MIN, communicator_),
            "MPI_Allreduce");
  return mine;
}

}  // namespace kolo
