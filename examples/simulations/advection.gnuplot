eval panel(0.065, 0.28)
set title "Field at the end, by the network" offset 0,0.2
set xlabel "x"; set ylabel "y" offset 1,0
set xrange [0:2]; set yrange [0:2]; set cbrange [-1:1]
set xtics 0.5; set ytics 0.5; set cbtics 0.5
set palette defined (0 "#d55e00", 0.25 "#f2b58c", 0.5 "#ffffff", 0.75 "#8cc6e8", 1 "#0072b2")
plot file index "field" using 1:2:3 with image

eval panel(0.405, 0.655)
set title "Divergence along y = 1"
set xlabel "x"; set ylabel "∇·(a u)"
set yrange [-4:5]; set ytics 2
set key at graph 0.98,0.95 right
row(y) = abs(y - 1.03125) < 0.01
plot file index "field" using (row($2) ? $1 : 1/0):4 with lines ls 4 title "fourth order", \
     file index "field" using (row($2) ? $1 : 1/0):5 with points pt 7 ps 0.5 lc rgb blue title "network"

eval panel(0.74, 0.985)
set title "Relative error of the field"
set xlabel "time"; set ylabel "|u - u_{exact}| / |u_{exact}|"
set logscale y; set format y "%g"; set ytics autofreq
set xrange [40:50]; set xtics 2; set yrange [1e-5:1]
set key at graph 0.98,0.05 right bottom
plot file index "errors" every 5 using 1:3 with lines ls 2 title "second order", \
     file index "errors" every 5 using 1:4 with lines ls 1 title "network", \
     file index "errors" every 5 using 1:2 with lines lc rgb grey lw 2 dt 2 title "fourth order"
unset multiplot
