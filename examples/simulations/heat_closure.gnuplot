# Levels of the other two fields, over that with the learned k.
set contour base
unset surface
set cntrparam levels discrete 0.1, 0.2, 0.3
set table $exact
splot file index "field" using 1:2:3
set table $mean
splot file index "field" using 1:2:5
unset table

eval panel(0.065, 0.28)
set title "Temperature at the end, learned k" offset 0,0.2
set xlabel "x"; set ylabel "y" offset 1,0
set xrange [0:1]; set yrange [0:1]; set cbrange [0:0.4]
set xtics 0.25; set ytics 0.25; set cbtics 0.1
set label 1 "levels 0.1, 0.2, 0.3 with the law," at screen 0.04,0.035 tc rgb "#333333"
set label 2 "with the mean k" at screen 0.232,0.035 tc rgb orange
plot file index "field" using 1:2:4 with image, \
     $exact using 1:2 with lines lc rgb "#333333" lw 1.5, \
     $mean using 1:2 with lines ls 2 dt 2

unset label
eval panel(0.405, 0.635)
set title "Conductivity"
set xlabel "temperature u"; set ylabel "k(u)"
set yrange [0:1.1]
set key at graph 0.05,0.95 left Left reverse
plot file index "closure" using 1:2 with lines ls 4 title "law", \
     file index "closure" using 1:3 with lines ls 1 title "learned", \
     file index "closure" using 1:4 with lines ls 2 title "mean"

eval panel(0.735, 0.985)
set title "Relative error of the temperature"
set xlabel "time"; set ylabel "|u - u_{law}| / |u_{law}|"
set logscale y; set format y "%g"; set ytics autofreq
set xrange [0.5:1]; set xtics 0.1; set yrange [1e-4:1]
set key at graph 0.98,0.6 right Right noreverse
plot file index "errors" using 1:3 with lines ls 2 title "with the mean k", \
     file index "errors" using 1:2 with lines ls 1 title "with the learned k"
unset multiplot
