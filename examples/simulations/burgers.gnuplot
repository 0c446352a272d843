eval panel(0.06, 0.33)
set title "Velocity in the coarse cells at the end"
set xlabel "x"; set ylabel "u" offset 1,0
set xrange [0:2*pi]
set xtics ("0" 0, "π/2" pi/2, "π" pi, "3π/2" 3*pi/2, "2π" 2*pi)
set yrange [-2.6:1.6]; set ytics 0.5
set key at graph 0.04,0.30 left Left reverse
plot file index "field" using 1:2 with lines ls 4 title "fine solver", \
     file index "field" using 1:3 with linespoints ls 1 pt 7 ps 0.35 title "learned flux", \
     file index "field" using 1:4 with linespoints ls 2 pt 7 ps 0.35 title "upwind flux"

eval panel(0.405, 0.66)
set title "Flux through coarse faces"
set xlabel "x"; set ylabel "u^2/2 - ν u_x"
set yrange [-0.2:1.4]; set ytics 0.2
set key at graph 0.04,0.95 left Left reverse
plot file index "field" using ($1-pi/32):5 with lines ls 4 title "fine solver", \
     file index "field" using ($1-pi/32):6 with linespoints ls 1 pt 7 ps 0.35 title "learned", \
     file index "field" using ($1-pi/32):7 with linespoints ls 2 pt 7 ps 0.35 title "upwind"

eval panel(0.745, 0.985)
set title "Relative error of the velocity"
set xlabel "time since the restart file"; set ylabel "|u - u_{fine}| / |u_{fine}|"
set logscale y; set format y "%g"; set ytics autofreq
set xrange [0:24]; set xtics 6; set yrange [1e-3:1]
set key at graph 0.98,0.08 right bottom Right noreverse
plot file index "errors" every 5 using 1:3 with lines ls 2 title "upwind flux", \
     file index "errors" every 5 using 1:2 with lines ls 1 title "learned flux"
unset multiplot
