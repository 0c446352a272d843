! A program in Fortran with an MPI of its own, whose network learns y = 3 x - 1 on fields within halos while it runs.
program host
  use, intrinsic :: iso_fortran_env, only : real64
  use mpi
  use kolo
  implicit none
  integer, parameter :: nx = 8, ny = 8
  character(*), parameter :: nl = new_line("a")
  character(*), parameter :: yaml = &
    "model: {name: mlp, inputs: [1], outputs: [1], hidden: []}" // nl // &
    "training: {samples: cells, loss: mse, batch_size: 64, n_steps: 5}" // nl // &
    "optimizer: {name: adam, lr: 0.05}" // nl
  real(real64), target :: x(0:nx+1,0:ny+1) = -1000, y(0:nx+1,0:ny+1) = -1000
  type(kolo_session) :: session
  type(kolo_network) :: network
  integer :: step, i, j, rank, ranks, code

  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
  call initialize(MPI_COMM_WORLD, session, "threads=1")
  call network_create(session, yaml, network)
  do step = 1, 100
    do j = 1, ny
      do i = 1, nx
        x(i,j) = mod(7 * (i + nx * j) + 3 * rank + step, 64) / 16.0_real64 - 2
        y(i,j) = 3 * x(i,j) - 1
      end do
    end do
    call network%push([kolo_array(x(1:nx,1:ny))], [kolo_array(y(1:nx,1:ny))])
    call network%tick(step)
  end do
  x(1,1) = 1
  call network%infer([kolo_array(x(1:nx,1:ny))], [kolo_array(y(1:nx,1:ny))])
  if (rank == 0) print '(a,i0,a,f0.1)', "Fortran on ", ranks, " ranks: y(1) = ", y(1,1)
  if (any(y(0,:) > -1000) .or. any(y(:,ny+1) > -1000)) error stop "the halo was written"
  call finalize(session)
  call MPI_Finalize(code)
end program host
