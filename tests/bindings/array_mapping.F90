! array_mapping: what kolo_array makes of Fortran's arrays: type, shape, strides, and the address of the very first element, so that
! nothing was copied. Without MPI; compiled with other default integers too.
program array_mapping
  use, intrinsic :: iso_c_binding, only : c_associated, c_int64_t, c_intptr_t, c_loc, c_ptr
  use, intrinsic :: iso_fortran_env, only : error_unit, int32, int64, real32, real64
  use kolo
  implicit none
  integer :: failures = 0

  call of_real32()
  call of_real64()
  call of_int32()
  call of_int64()
  call orders()
  call through_dummies()
  call without_elements()
  if (failures /= 0) error stop 1

contains

#define KOLO_CASE of_real32
#define KOLO_TYPE real(real32)
#define KOLO_DTYPE 1
#include "array_mapping.inc"

#define KOLO_CASE of_real64
#define KOLO_TYPE real(real64)
#define KOLO_DTYPE 2
#include "array_mapping.inc"

#define KOLO_CASE of_int32
#define KOLO_TYPE integer(int32)
#define KOLO_DTYPE 3
#include "array_mapping.inc"

#define KOLO_CASE of_int64
#define KOLO_TYPE integer(int64)
#define KOLO_DTYPE 4
#include "array_mapping.inc"

  ! Dimensions are reversed, unless they shall stay.
  subroutine orders()
    real(real64), target :: u(4, 3)
    type(kolo_array) :: array
    array = kolo_array(u)
    call check("reversed", array%order == 1)
    array = kolo_array(u, order=same)
    call check("same", array%order == 0)
    call expect("same", array, 2, [4, 3], [1, 4], c_loc(u(1,1)))
  end subroutine

  subroutine through_dummies()
    real(real64), allocatable, target :: u(:,:)
    real(real64), pointer :: p(:,:)
    allocate (u(-1:8, -1:6))
    p(0:, 0:) => u(1:6, 1:4)
    call expect("pointer", kolo_array(p), 2, [6, 4], [1, 10], c_loc(u(1,1)))
    call assumed_shape(u(1:6, 1:4), c_loc(u(1,1)))
    call explicit_shape(u, 10, 8)
    ! A vector subscript is an expression: the compiler makes a copy, which is gone after the statement.
    associate (array => kolo_array(u([1, 3, 2], 1)))
      call check("vector subscripts are copies", .not. c_associated(array%data, c_loc(u(1,1))))
    end associate
  end subroutine

  subroutine assumed_shape(v, first)
    real(real64), intent(in) :: v(:,:)
    type(c_ptr), intent(in) :: first
    call expect("assumed shape", kolo_array(v), 2, [6, 4], [1, 10], first)
  end subroutine

  subroutine explicit_shape(v, nx, ny)
    integer, intent(in) :: nx, ny
    real(real64), target, intent(inout) :: v(nx, ny)
    call expect("explicit shape", kolo_array(v(2:nx-1,2:ny-1)), 2, [nx - 2, ny - 2], [1, nx], c_loc(v(2,2)))
  end subroutine

  subroutine without_elements()
    real(real64), target :: u(0:5, 0)
    type(kolo_array) :: array
    array = kolo_array(u)
    call check("no elements", array%rank == 2 .and. array%shape(1) == 6 .and. array%shape(2) == 0 .and. &
                              .not. c_associated(array%data))
  end subroutine

  subroutine expect(name, array, dtype, lengths, strides, first)
    character(*), intent(in) :: name
    type(kolo_array), intent(in) :: array
    integer, intent(in) :: dtype, lengths(:), strides(:)
    type(c_ptr), intent(in) :: first
    integer :: n
    n = size(lengths)
    call check(name // ": dtype", array%dtype == dtype)
    call check(name // ": rank", array%rank == n)
    call check(name // ": shape", all(array%shape(1:n) == lengths))
    call check(name // ": strides", all(array%stride(1:n) == strides))
    call check(name // ": address", c_associated(array%data, first))
  end subroutine

  subroutine check(what, holds)
    character(*), intent(in) :: what
    logical, intent(in) :: holds
    if (holds) return
    write (error_unit, '(a)') "not so: " // what
    failures = failures + 1
  end subroutine

end program array_mapping
