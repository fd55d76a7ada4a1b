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

set output 'scaling.png'
set title 'Tokens per second against processes'
set xlabel 'processes'
set ylabel 'tokens per second'
set key top left Left reverse samplen 3
stats 'scaling.dat' using 1 name 'RANKS' nooutput
stats 'scaling.dat' using (column(2) > column(3) ? column(2) : column(3)) name 'SPEED' nooutput
set xrange [0:RANKS_max + 0.5]
set yrange [0:1.12 * SPEED_max]
if (RANKS_max <= 16) set xtics 1
stats 'scaling.dat' using 3 name 'IDEAL' nooutput
plot sample [0:RANKS_max] '+' using 1:(IDEAL_max / RANKS_max * column(1)) with lines dashtype 2 linewidth 2 linecolor rgb '#5c6877' title 'ideal', \
     'scaling.dat' using 1:2 with linespoints pointtype 7 pointsize 1.8 linewidth 3 linecolor rgb '#2f6fd0' title 'measured', \
     '' using 1:2:(sprintf('%.0f', column(2))) with labels offset 0,-1.6 notitle
unset key
set xtics autofreq

set output 'loss.png'
set title 'Loss against step'
set xlabel 'step'
set ylabel 'loss per token'
set xrange [0:*]
set yrange [0:*]
plot 'loss.dat' using 1:2 with lines linewidth 2 linecolor rgb '#2f6fd0' notitle

set output 'steptime.png'
set title 'Where an average step went, by rank'
set xlabel 'rank'
set ylabel 'ms per step'
set key outside right top Left reverse invert
set rmargin -1
set style data histograms
set style histogram rowstacked
set boxwidth 0.6
set xrange [-0.7:*]
set yrange [0:*]
plot 'steptime.dat' using 2:xtic(1) linecolor rgb '#3f7fd9' title 'forward and backward', \
     '' using 3 linecolor rgb '#d9483b' title 'waiting for the all-reduce', \
     '' using 4 linecolor rgb '#d99a1c' title 'optimizer', \
     '' using 5 linecolor rgb '#98a3b0' title 'other'
