# Draws the .png files from the .dat files beside it: gnuplot plots.gp
set encoding utf8
set terminal pngcairo size 1200,720 font 'sans,15' background rgb '#ffffff'
set datafile missing 'nan'
set border 3 linecolor rgb '#5c6877'
set tics nomirror
set grid ytics linetype 1 linecolor rgb '#dfe4ea'
set style fill solid 1.0 noborder
set lmargin 12
set rmargin 4

set output 'scaling-curve.png'
set title "Time of a token against the width of the model\nAMD EPYC, 2 CPUs, 2 ranks, commit b974e7ff19fa6d1bcdab3f5230fec2ddb0aa73cd" noenhanced
set xlabel 'd_model' noenhanced
set ylabel 'ms for a token' noenhanced
set logscale xy
set key top left Left reverse samplen 3
set xrange [51.2:5120]
set yrange [*:*]
set offsets 0, 0, 0, 0
set xtics (64, 256, 1024, 4096)
plot 'scaling-curve.dat' using 1:2 with lines dashtype 2 linewidth 3 linecolor rgb '#d9483b' title 'one rank, predicted', \
     'scaling-curve.dat' using 1:3 with linespoints pointtype 7 pointsize 1.6 linewidth 3 linecolor rgb '#d9483b' title 'one rank, measured', \
     'scaling-curve.dat' using 1:4 with lines dashtype 2 linewidth 3 linecolor rgb '#2f6fd0' title 'all ranks, predicted', \
     'scaling-curve.dat' using 1:5 with linespoints pointtype 7 pointsize 1.6 linewidth 3 linecolor rgb '#2f6fd0' title 'all ranks, measured'
unset arrow
unset label
unset logscale
set xtics autofreq
