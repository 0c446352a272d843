! loopback SCRIPTS: the calls of the Fortran module on a network that doubles, with communicators of both kinds, on fields in halos.
program loopback
  use, intrinsic :: iso_fortran_env, only : error_unit, int64, real32, real64
  use mpi_f08
  use kolo
  implicit none
  integer, parameter :: nx = 5, ny = 4
  integer :: failures = 0, rank, ranks, status
  character(1024) :: scripts
  character(:), allocatable :: yaml
  type(kolo_session) :: session, second, third
  type(kolo_network) :: network, other, none
  type(kolo_tick_report) :: report
  type(kolo_push_report) :: pushed
  real(real64) :: u(0:nx+1,0:ny+1), v(0:nx+1,0:ny+1), loss
  real(real32) :: w(nx,ny)
  integer :: i, j

  call get_command_argument(1, scripts)
  yaml = "model: {name: torchscript, file: " // trim(scripts) // "/scale.pt}" // new_line("a") // &
         "optimizer: {name: sgd, lr: 0.001}" // new_line("a") // &
         "training: {samples: whole, batch_size: 1}" // new_line("a")

  call initialize(MPI_COMM_WORLD, session, status=status)
  call check("no MPI yet", status == status_state .and. index(last_message(), "MPI is not initialized") > 0)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)

  call initialize(MPI_COMM_WORLD, session, options="threads=1   ")       ! mpi_f08's type
  call initialize(MPI_COMM_WORLD%MPI_VAL, second)                        ! an integer
  call initialize(MPI_COMM_WORLD, session=third, options="colour=blue", status=status)
  call check("options", status == status_input .and. index(last_message(), "colour=blue") > 0)
  call network_create(session, yaml, network)
  call second%network_create(yaml, other)

  do j = 0, ny + 1
    do i = 0, nx + 1
      u(i, j) = 100 * rank + 10 * i + j
    end do
  end do
  v = -1
  call network%warm_up([kolo_array(u(1:nx,1:ny))])
  call network%infer([kolo_array(u(1:nx,1:ny))], [kolo_array(v(1:nx,1:ny))])
  call check("inside", all(v(1:nx,1:ny) == 2 * u(1:nx,1:ny)))
  call check("halo", all(v(0,:) == -1) .and. all(v(nx+1,:) == -1) .and. all(v(:,0) == -1) .and. all(v(:,ny+1) == -1))
  call infer(other, [kolo_array(u(nx:1:-1,1:ny))], [kolo_array(w)])
  call check("backwards", all(w == real(2 * u(nx:1:-1,1:ny), real32)))

  call train(network, [kolo_array(u(1:nx,1:ny))], [kolo_array(v(1:nx,1:ny))], loss=loss)
  call check("loss", loss == 0)
  call push(network, [kolo_array(u(1:nx,1:ny))], [kolo_array(v(1:nx,1:ny))], report=pushed)
  call check("pushed", pushed%taken >= 1 .and. pushed%refused == 0)
  call network%tick(1, report)
  call check("report", report%arrivals >= ranks .and. report%all_steps >= 1)
  call tick(network, 2_int64)
  call check("get", network%get("steps ") >= 1)
  call check("trains", trains(network))
  call network%log("energy", 1, 0.5_real64)
  call check("log() is still the intrinsic", abs(log(1.0_real64)) < 1e-12_real64)

  call push(network, [kolo_array(u(1:0,1:ny))], [kolo_array(v)], status=status)
  call check("no elements", status == status_input .and. index(last_message(), "inputs[0]: shape[0] is 0") > 0)
  call none%tick(1, status=status)
  call check("no network", status == status_state .and. index(last_message(), "null") > 0)
  call network%destroy(status)
  call check("destroyed", status == status_ok)
  call tick(network, 3, status=status)
  call check("dead", status == status_state .and. index(last_message(), "it was destroyed") > 0)
  call finalize(session)
  call second%finalize()
  call infer(other, [kolo_array(u)], [kolo_array(v)], status)
  call check("finalized", status == status_state .and. index(last_message(), "was finalized") > 0)
  call MPI_Finalize()
  call finalize(session, status)
  call check("after all", status == status_state)
  if (failures /= 0) error stop 1

contains


  subroutine check(what, holds)
    character(*), intent(in) :: what
    logical, intent(in) :: holds
    if (holds) return
    write (error_unit, '(a)') "not so: " // what // "; the last message: " // last_message()
    failures = failures + 1
  end subroutine

end program loopback
