! kolo for Fortran: networks that learn and infer inside a running simulation.
!
!   use kolo
!   type(kolo_session) :: session
!   type(kolo_network) :: network
!   call initialize(MPI_COMM_WORLD, session)
!   call network_create(session, "closure.yaml", network)
!   do step = 1, n_steps
!     ...
!     call network%push([kolo_array(u(1:nx,1:ny))], [kolo_array(k(1:nx,1:ny))])
!     call network%tick(step)
!   end do
!   call finalize(session)
!
! The calls are those of kolo/kolo.h, which says which are collective and what threads may do; docs/library/simulations.md has a table.
! Each has an optional last argument `status`: 0 or the kind of error (status_input, ...), which last_message() describes.
! Without it an error is written to standard error, and the program ends with `error stop`.
!
! Fortran 2008 with the preprocessor, without mpi_f08. Compile this file with the program's own compiler, because module files
! are the compiler's own, and with its options, also those that change default kinds (-fdefault-integer-8).

! Kind of the component MPI_VAL of mpi_f08's handles, if MPI was built with other default integers than C's int.
#ifndef KOLO_MPI_INTEGER
#define KOLO_MPI_INTEGER c_int
#endif

#include "kolo_c.inc"

#define KOLO_TYPE real(real32)
#define KOLO_DTYPE 1
module kolo_arrays_real32
#include "kolo_arrays.inc"
end module

#define KOLO_TYPE real(real64)
#define KOLO_DTYPE 2
module kolo_arrays_real64
#include "kolo_arrays.inc"
end module

#define KOLO_TYPE integer(int32)
#define KOLO_DTYPE 3
module kolo_arrays_int32
#include "kolo_arrays.inc"
end module

#define KOLO_TYPE integer(int64)
#define KOLO_DTYPE 4
module kolo_arrays_int64
#include "kolo_arrays.inc"
end module

module kolo
  use, intrinsic :: iso_c_binding, only : c_char, c_int, c_int32_t, c_int64_t, c_null_char, c_null_ptr, c_ptr, c_size_t
  use, intrinsic :: iso_fortran_env, only : error_unit, int32, int64, real64
  use kolo_c
  use kolo_arrays_real32, only : kolo_array
  use kolo_arrays_real64, only : kolo_array
  use kolo_arrays_int32, only : kolo_array
  use kolo_arrays_int64, only : kolo_array
  implicit none
  private
  public :: kolo_array, same, kolo_session, kolo_network, kolo_tick_report, kolo_push_report
  public :: initialize, finalize, network_create, network_destroy, push, tick, train, serve, refresh, finish, start, pause, infer, &
            warm_up, save, restore, get, trains, last_message

  integer, parameter, public :: status_ok = 0, status_failed = 1, status_input = 2, status_rank = 3, status_state = 4, &
                                status_memory = 5

  ! Handles: copies mean the same session or network. Nothing happens when one goes out of scope.
  type :: kolo_session
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: network_create
    procedure :: finalize
  end type

  type :: kolo_network
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: destroy => network_destroy
    procedure :: push
    procedure, private :: tick_int32, tick_int64
    generic :: tick => tick_int32, tick_int64
    procedure :: train
    procedure :: serve
    procedure :: refresh
    procedure :: finish
    procedure :: start
    procedure :: pause
    procedure :: infer
    procedure :: warm_up
    procedure, private :: save_int32, save_int64
    generic :: save => save_int32, save_int64
    procedure, private :: restore_int32, restore_int64
    generic :: restore => restore_int32, restore_int64
    ! Bound to the type only: a module procedure of this name would hide the intrinsic function log().
    procedure, private :: log_int32, log_int64
    generic :: log => log_int32, log_int64
    procedure :: get
    procedure :: trains
  end type

  ! The same type as mpi_f08's (Fortran 2008, 4.5.2.4: of one name and one set of components, both bind(C)), without needing it.
  type, bind(C) :: MPI_Comm
    integer(KOLO_MPI_INTEGER) :: MPI_VAL
  end type

  ! `communicator`: an integer of any kind, or a type(MPI_Comm) of mpi_f08.
  interface initialize
    module procedure :: initialize_int32, initialize_int64, initialize_f08
  end interface

  interface tick
    module procedure :: tick_int32, tick_int64
  end interface

  interface save
    module procedure :: save_int32, save_int64
  end interface

  interface restore
    module procedure :: restore_int32, restore_int64
  end interface

contains

  subroutine initialize_int64(communicator, session, options, status)
    integer(int64), intent(in) :: communicator
    type(kolo_session), intent(out) :: session
    character(*), intent(in), optional :: options
    integer, intent(out), optional :: status
    if (c_abi_version() /= expected_abi_version) then
      if (present(status)) then
        status = status_failed
        return
      end if
      write (error_unit, '(a)') "kolo: kolo.F90 is of another version than libkolo_online; compile the one that came with it"
      error stop 1
    end if
    if (present(options)) then
      call settle(c_initialize(communicator, c_text(options), session%handle), status)
    else
      call settle(c_initialize(communicator, c_text(""), session%handle), status)
    end if
  end subroutine

  subroutine initialize_int32(communicator, session, options, status)
    integer(int32), intent(in) :: communicator
    type(kolo_session), intent(out) :: session
    character(*), intent(in), optional :: options
    integer, intent(out), optional :: status
    call initialize_int64(int(communicator, int64), session, options, status)
  end subroutine

  subroutine initialize_f08(communicator, session, options, status)
    type(MPI_Comm), intent(in) :: communicator
    type(kolo_session), intent(out) :: session
    character(*), intent(in), optional :: options
    integer, intent(out), optional :: status
    call initialize_int64(int(communicator%MPI_VAL, int64), session, options, status)
  end subroutine

  subroutine finalize(session, status)
    class(kolo_session), intent(in) :: session
    integer, intent(out), optional :: status
    call settle(c_finalize(session%handle), status)
  end subroutine

  subroutine network_create(session, yaml, network, status)
    class(kolo_session), intent(in) :: session
    character(*), intent(in) :: yaml  ! a file or, with a line break (new_line("a")) in it, the YAML itself
    type(kolo_network), intent(out) :: network
    integer, intent(out), optional :: status
    call settle(c_network_create(session%handle, c_text(yaml), network%handle), status)
  end subroutine

  subroutine network_destroy(network, status)
    class(kolo_network), intent(in) :: network
    integer, intent(out), optional :: status
    call settle(c_network_destroy(network%handle), status)
  end subroutine

  subroutine push(network, inputs, targets, extras, report, status)
    class(kolo_network), intent(in) :: network
    type(kolo_array), intent(in) :: inputs(:), targets(:)
    type(kolo_array), intent(in), optional :: extras(:)
    type(kolo_push_report), intent(out), optional :: report
    integer, intent(out), optional :: status
    type(kolo_push_report) :: done
    type(kolo_array) :: none(0)
    integer(c_int) :: code
    if (present(extras)) then
      code = c_push(network%handle, inputs, count_of(inputs), targets, count_of(targets), extras, count_of(extras), done)
    else
      code = c_push(network%handle, inputs, count_of(inputs), targets, count_of(targets), none, 0_c_int32_t, done)
    end if
    if (present(report)) report = done
    call settle(code, status)
  end subroutine

  subroutine tick_int64(network, time_step, report, status)
    class(kolo_network), intent(in) :: network
    integer(int64), intent(in) :: time_step
    type(kolo_tick_report), intent(out), optional :: report
    integer, intent(out), optional :: status
    type(kolo_tick_report) :: done
    integer(c_int) :: code
    code = c_tick(network%handle, time_step, done)
    if (present(report)) report = done
    call settle(code, status)
  end subroutine

  subroutine tick_int32(network, time_step, report, status)
    class(kolo_network), intent(in) :: network
    integer(int32), intent(in) :: time_step
    type(kolo_tick_report), intent(out), optional :: report
    integer, intent(out), optional :: status
    call tick_int64(network, int(time_step, int64), report, status)
  end subroutine

  subroutine train(network, inputs, targets, extras, loss, status)
    class(kolo_network), intent(in) :: network
    type(kolo_array), intent(in) :: inputs(:), targets(:)
    type(kolo_array), intent(in), optional :: extras(:)
    real(real64), intent(out), optional :: loss
    integer, intent(out), optional :: status
    type(kolo_array) :: none(0)
    real(real64) :: mean
    integer(c_int) :: code
    mean = 0
    if (present(extras)) then
      code = c_train(network%handle, inputs, count_of(inputs), targets, count_of(targets), extras, count_of(extras), mean)
    else
      code = c_train(network%handle, inputs, count_of(inputs), targets, count_of(targets), none, 0_c_int32_t, mean)
    end if
    if (present(loss)) loss = mean
    call settle(code, status)
  end subroutine

  subroutine serve(network, report, status)
    class(kolo_network), intent(in) :: network
    type(kolo_tick_report), intent(out), optional :: report
    integer, intent(out), optional :: status
    type(kolo_tick_report) :: done
    integer(c_int) :: code
    code = c_serve(network%handle, done)
    if (present(report)) report = done
    call settle(code, status)
  end subroutine

  subroutine refresh(network, version, status)
    class(kolo_network), intent(in) :: network
    integer(int64), intent(out), optional :: version
    integer, intent(out), optional :: status
    integer(c_int64_t) :: newest
    integer(c_int) :: code
    newest = 0
    code = c_refresh(network%handle, newest)
    if (present(version)) version = newest
    call settle(code, status)
  end subroutine

  subroutine finish(network, status)
    class(kolo_network), intent(in) :: network
    integer, intent(out), optional :: status
    call settle(c_finish(network%handle), status)
  end subroutine

  subroutine start(network, status)
    class(kolo_network), intent(in) :: network
    integer, intent(out), optional :: status
    call settle(c_start(network%handle), status)
  end subroutine

  subroutine pause(network, status)
    class(kolo_network), intent(in) :: network
    integer, intent(out), optional :: status
    call settle(c_pause(network%handle), status)
  end subroutine

  subroutine infer(network, inputs, outputs, status)
    class(kolo_network), intent(in) :: network
    type(kolo_array), intent(in) :: inputs(:), outputs(:)
    integer, intent(out), optional :: status
    call settle(c_infer(network%handle, inputs, count_of(inputs), outputs, count_of(outputs)), status)
  end subroutine

  subroutine warm_up(network, inputs, status)
    class(kolo_network), intent(in) :: network
    type(kolo_array), intent(in) :: inputs(:)
    integer, intent(out), optional :: status
    call settle(c_warm_up(network%handle, inputs, count_of(inputs)), status)
  end subroutine

  subroutine save_int64(network, folder, tag, status)
    class(kolo_network), intent(in) :: network
    character(*), intent(in) :: folder
    integer(int64), intent(in) :: tag
    integer, intent(out), optional :: status
    call settle(c_save(network%handle, c_text(folder), tag), status)
  end subroutine

  subroutine save_int32(network, folder, tag, status)
    class(kolo_network), intent(in) :: network
    character(*), intent(in) :: folder
    integer(int32), intent(in) :: tag
    integer, intent(out), optional :: status
    call save_int64(network, folder, int(tag, int64), status)
  end subroutine

  subroutine restore_int64(network, folder, tag, status)
    class(kolo_network), intent(in) :: network
    character(*), intent(in) :: folder
    integer(int64), intent(in) :: tag
    integer, intent(out), optional :: status
    call settle(c_restore(network%handle, c_text(folder), tag), status)
  end subroutine

  subroutine restore_int32(network, folder, tag, status)
    class(kolo_network), intent(in) :: network
    character(*), intent(in) :: folder
    integer(int32), intent(in) :: tag
    integer, intent(out), optional :: status
    call restore_int64(network, folder, int(tag, int64), status)
  end subroutine

  subroutine log_int64(network, name, step, number, status)
    class(kolo_network), intent(in) :: network
    character(*), intent(in) :: name
    integer(int64), intent(in) :: step
    real(real64), intent(in) :: number
    integer, intent(out), optional :: status
    call settle(c_log(network%handle, c_text(name), step, number), status)
  end subroutine

  subroutine log_int32(network, name, step, number, status)
    class(kolo_network), intent(in) :: network
    character(*), intent(in) :: name
    integer(int32), intent(in) :: step
    real(real64), intent(in) :: number
    integer, intent(out), optional :: status
    call log_int64(network, name, int(step, int64), number, status)
  end subroutine

  function get(network, name, status) result(number)
    class(kolo_network), intent(in) :: network
    character(*), intent(in) :: name
    integer, intent(out), optional :: status
    real(real64) :: number
    number = 0
    call settle(c_get(network%handle, c_text(name), number), status)
  end function

  function trains(network, status) result(yes)
    class(kolo_network), intent(in) :: network
    integer, intent(out), optional :: status
    logical :: yes
    integer(c_int32_t) :: answer
    answer = 0
    call settle(c_trains(network%handle, answer), status)
    yes = answer /= 0
  end function

  ! Message of this thread's last call that failed.
  function last_message() result(message)
    character(:), allocatable :: message
    character(kind=c_char) :: text(4096)
    integer(c_size_t) :: i, length
    length = min(c_last_message(text, size(text, kind=c_size_t)), size(text, kind=c_size_t) - 1)
    allocate (character(length) :: message)
    do i = 1, length
      message(i:i) = text(i)
    end do
  end function

  ! Returns the status of a call if it is asked for; otherwise an error ends the program.
  subroutine settle(code, status)
    integer(c_int), intent(in) :: code
    integer, intent(out), optional :: status
    if (present(status)) then
      status = int(code)
    else if (code /= 0) then
      write (error_unit, '(a)') "kolo: " // last_message()
      error stop 1
    end if
  end subroutine

  function c_text(text)
    character(*), intent(in) :: text
    character(kind=c_char, len=:), allocatable :: c_text
    c_text = trim(text) // c_null_char
  end function

  function count_of(arrays) result(number)
    type(kolo_array), intent(in) :: arrays(:)
    integer(c_int32_t) :: number
    number = size(arrays, kind=c_int32_t)
  end function

end module kolo
