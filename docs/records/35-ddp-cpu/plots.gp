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

set title "Tokens per second against processes\nAMD EPYC, 2 CPUs, commit b974e7ff19fa6d1bcdab3f5230fec2ddb0aa73cd" noenhanced
set output 'scaling.png'
set xlabel 'processes'
set ylabel 'tokens per second'
set key top left Left reverse samplen 3
stats 'scaling.dat' using 1 name 'RANKS' nooutput
set xrange [0:RANKS_max + 0.5]
set yrange [0:*]
set offsets 0, 0, graph 0.1, 0
if (RANKS_max <= 16) set xtics 1
plot sample [0:2] '+' using 1:(78705.341 * column(1)) with lines dashtype 2 linewidth 2 linecolor rgb '#5c6877' title 'one process times as many', \
     'scaling.dat' using 1:2:3:4 with yerrorbars pointtype 7 pointsize 0 linewidth 2 linecolor rgb '#86aee6' title 'slowest and fastest round', \
     '' using 1:2 with linespoints pointtype 7 pointsize 1.8 linewidth 3 linecolor rgb '#2f6fd0' title 'measured', \
     '' using 1:2:(sprintf('%.0f', column(2))) with labels offset 0,-1.6 notitle
unset key
set offsets 0, 0, 0, 0
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
plot 'steptime.dat' using 2:xtic(1) linecolor rgb '#3f7fd9' title columnheader(2), \
     '' using 3 linecolor rgb '#7b5cd6' title columnheader(3), \
     '' using 4 linecolor rgb '#d9483b' title columnheader(4), \
     '' using 5 linecolor rgb '#f0938a' title columnheader(5), \
     '' using 6 linecolor rgb '#d99a1c' title columnheader(6), \
     '' using 7 linecolor rgb '#98a3b0' title columnheader(7)
