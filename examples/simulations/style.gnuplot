# What the pictures of the examples have in common: three panels beside one another, colours that are told apart by everyone.
blue = "#0072b2"; orange = "#d55e00"; green = "#009e73"; grey = "#999999"
set border lc rgb "#333333"
set tics nomirror
set key noautotitle
set palette defined (0 "#f7fbff", 0.25 "#c6dbef", 0.5 "#6baed6", 0.75 "#2171b5", 1 "#08306b")
set style line 1 lc rgb blue lw 2
set style line 2 lc rgb orange lw 2
set style line 3 lc rgb green lw 2
set style line 4 lc rgb grey lw 5
set key samplen 2.5 spacing 1.2 textcolor rgb "#333333"

# The place of a panel, in shares of the picture's width.
set multiplot
panel(left, right) = sprintf("set lmargin at screen %g; set rmargin at screen %g; set bmargin at screen 0.22; set tmargin at screen 0.88", left, right)
