! unasked: a call that fails, and nobody asks for its status: a message, and the end.
program unasked
  use kolo
  implicit none
  type(kolo_network) :: network
  call network%tick(1)
  print '(a)', "went on"
end program unasked
