! A wind carries a field over a periodic square: du/dt = -div(a u), by fourth-order differences and four Runge-Kutta stages,
! columns of cells dealt to the ranks. While the solver runs a network learns div(a u) of a cell from the nine cells around it.
! Then one solver has the network's divergence, and one that of second-order differences, which see no more cells.
!
!   mpirun -n 2 advection advection.yaml [STEPS [FILE]]       STEPS to learn from: 4000
program advection
  use, intrinsic :: iso_fortran_env, only : real64, error_unit
  use mpi
  use kolo  ! kolo
  implicit none

  integer, parameter :: nx = 32, halo = 2, fourth_order = 1, second_order = 2, learned = 3, shown_steps = 1000
  real(real64), parameter :: pi = acos(-1.0_real64), wind(2) = [1.0_real64, 0.789_real64]
  real(real64), parameter :: dt = 0.01_real64, dx = 2.0_real64 / nx
  type(kolo_session) :: session  ! kolo
  type(kolo_network) :: network  ! kolo
  real(real64), allocatable, target :: u(:, :, :), divergence(:, :, :)
  real(real64) :: errors(3), mse
  character(256) :: text, path = "advection.txt"
  integer :: rank, ranks, ny, step, steps = 4000, way, file, error

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  ny = nx / ranks
  if (ny < halo .or. ny * ranks /= nx) call give_up("32 columns of cells can't be dealt equally to so many ranks")
  if (command_argument_count() < 1) call give_up("expected CONFIGURATION [STEPS [FILE]]")
  call get_command_argument(2, text)
  if (text /= "") read (text, *) steps
  if (command_argument_count() > 2) call get_command_argument(3, path)
  if (rank > 0) path = "/dev/null"
  open (newunit=file, file=path, action="write", iostat=error)
  if (error /= 0) call give_up("can't write " // trim(path))
  call get_command_argument(1, text)
  allocate (u(1 - halo:nx + halo, 1 - halo:ny + halo, 3), divergence(nx, ny, 3))

  call initialize(MPI_COMM_WORLD, session)      ! kolo
  call network_create(session, text, network)   ! kolo
  u(:, :, 1) = field_at(0.0_real64)
  do step = 1, steps
    call find_divergence(u(:, :, 1), fourth_order, divergence(:, :, 1))
    call network%push(neighbours(u(:, :, 1)), [kolo_array(divergence(:, :, 1))])  ! kolo
    call network%tick(step)                                                       ! kolo
    call advance(u(:, :, 1), fourth_order)
  end do

  mse = 0
  do way = 1, 3
    u(:, :, way) = field_at(steps * dt)
  end do
  write (file, '(a)') "# errors: time, relative error of u with fourth-order differences, second-order ones, the network's"
  do step = steps + 1, steps + shown_steps
    do way = 1, 3
      call find_divergence(u(:, :, 1), way, divergence(:, :, way))
    end do
    mse = mse + sum_over((divergence(:, :, learned) - divergence(:, :, fourth_order))**2) / nx**2 / shown_steps
    do way = 1, 3
      call advance(u(:, :, way), way)
      errors(way) = error_of(u(:, :, way), step * dt)
    end do
    write (file, '(4es14.6)') step * dt, errors
  end do
  call write_fields()
  close (file)
  if (rank == 0) print '(a,i0,a,es9.2,a,3f9.4)', "advection on ", ranks, " ranks: validation MSE ", mse, &
    ", error in % of fourth order, second order, network: ", 100 * errors
  call finalize(session)  ! kolo
  call MPI_Finalize(error)

contains

  ! What kolo sees of the nine cells around each cell: sections of the field as they lie.
  function neighbours(f) result(nine)
    real(real64), target, intent(in) :: f(1 - halo:nx + halo, 1 - halo:ny + halo)
    type(kolo_array) :: nine(9)  ! kolo
    integer :: i, j
    do j = 0, 2
      do i = 0, 2
        nine(1 + i + 3 * j) = kolo_array(f(i:i + nx - 1, j:j + ny - 1))  ! kolo
      end do
    end do
  end function

  subroutine fill_halo(f)
    real(real64), intent(inout) :: f(1 - halo:nx + halo, 1 - halo:ny + halo)
    integer, parameter :: real_type = MPI_DOUBLE_PRECISION
    integer :: before, after, n
    before = modulo(rank - 1, ranks)
    after = modulo(rank + 1, ranks)
    n = halo * size(f, 1)
    call MPI_Sendrecv(f(:, 1:halo), n, real_type, before, 0, f(:, ny + 1:ny + halo), n, real_type, after, 0, MPI_COMM_WORLD, &
                      MPI_STATUS_IGNORE, error)
    call MPI_Sendrecv(f(:, ny + 1 - halo:ny), n, real_type, after, 1, f(:, 1 - halo:0), n, real_type, before, 1, MPI_COMM_WORLD, &
                      MPI_STATUS_IGNORE, error)
    f(1 - halo:0, :) = f(nx + 1 - halo:nx, :)
    f(nx + 1:nx + halo, :) = f(1:halo, :)
  end subroutine

  subroutine find_divergence(f, way, d)
    real(real64), target, intent(inout) :: f(1 - halo:nx + halo, 1 - halo:ny + halo)
    integer, intent(in) :: way
    real(real64), target, intent(out) :: d(nx, ny)
    real(real64) :: near, far
    call fill_halo(f)
    if (way == learned) then
      call network%infer(neighbours(f), [kolo_array(d)])  ! kolo
      return
    end if
    near = merge(2.0_real64 / 3, 0.5_real64, way == fourth_order) / dx
    far = merge(1.0_real64 / 12, 0.0_real64, way == fourth_order) / dx
    d = wind(1) * (near * (f(2:nx + 1, 1:ny) - f(0:nx - 1, 1:ny)) - far * (f(3:nx + 2, 1:ny) - f(-1:nx - 2, 1:ny))) &
      + wind(2) * (near * (f(1:nx, 2:ny + 1) - f(1:nx, 0:ny - 1)) - far * (f(1:nx, 3:ny + 2) - f(1:nx, -1:ny - 2)))
  end subroutine

  ! A time step by the classical Runge-Kutta method.
  subroutine advance(f, way)
    real(real64), intent(inout) :: f(1 - halo:nx + halo, 1 - halo:ny + halo)
    integer, intent(in) :: way
    real(real64), parameter :: part(4) = [0.5_real64, 0.5_real64, 1.0_real64, 0.0_real64], weight(4) = [1, 2, 2, 1] / 6.0_real64
    real(real64) :: stage(1 - halo:nx + halo, 1 - halo:ny + halo), d(nx, ny), total(nx, ny)
    integer :: i
    stage = f
    total = 0
    do i = 1, 4
      call find_divergence(stage, way, d)
      total = total + weight(i) * d
      stage(1:nx, 1:ny) = f(1:nx, 1:ny) - part(i) * dt * d
    end do
    f(1:nx, 1:ny) = f(1:nx, 1:ny) - dt * total
  end subroutine

  ! What the wind makes of the field of the beginning.
  function field_at(time) result(f)
    real(real64), intent(in) :: time
    real(real64) :: f(1 - halo:nx + halo, 1 - halo:ny + halo)
    integer :: i, j
    do j = 1 - halo, ny + halo
      do i = 1 - halo, nx + halo
        f(i, j) = sin(pi * (place(i) - wind(1) * time)) * sin(pi * (place(rank * ny + j) - wind(2) * time))
      end do
    end do
  end function

  pure function place(cell) result(x)
    integer, intent(in) :: cell
    real(real64) :: x
    x = dx * (cell - 0.5_real64)
  end function

  ! Over all ranks' cells.
  function sum_over(numbers) result(total)
    real(real64), intent(in) :: numbers(nx, ny)
    real(real64) :: total
    total = sum(numbers)
    call MPI_Allreduce(MPI_IN_PLACE, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
  end function

  ! Relative, in the Euclidean norm.
  function error_of(f, time) result(relative)
    real(real64), intent(in) :: f(1 - halo:nx + halo, 1 - halo:ny + halo), time
    real(real64) :: relative, right(1 - halo:nx + halo, 1 - halo:ny + halo)
    right = field_at(time)
    relative = sqrt(sum_over((f(1:nx, 1:ny) - right(1:nx, 1:ny))**2) / sum_over(right(1:nx, 1:ny)**2))
  end function

  ! The field with the network at the end, and what divergence two of the ways find in the exact one.
  subroutine write_fields()
    real(real64) :: whole(nx, nx, 3), mine(nx, ny)
    integer :: i, j, k
    do k = 1, 3
      if (k == 1) mine = u(1:nx, 1:ny, learned)
      if (k == 2) mine = divergence(:, :, fourth_order)
      if (k == 3) mine = divergence(:, :, learned)
      call MPI_Gather(mine, nx * ny, MPI_DOUBLE_PRECISION, whole(:, :, k), nx * ny, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD, error)
    end do
    if (rank > 0) return
    write (file, '(//a)') "# field: x, y, u with the network's divergence, divergence of fourth order, the network's"
    do j = 1, nx
      write (file, '(a)') ""
      write (file, '(5es14.6)') (place(i), place(j), whole(i, j, :), i = 1, nx)
    end do
  end subroutine

  subroutine give_up(why)
    character(*), intent(in) :: why
    write (error_unit, '(a)') "advection: " // why
    call MPI_Abort(MPI_COMM_WORLD, 2, error)
  end subroutine
end program
