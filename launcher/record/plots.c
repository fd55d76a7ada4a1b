/* Writes the data and script of the plots, and runs gnuplot on them with a time limit. Called by
 * record.c when a run is finished. */
#include "record/plots.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/gnuplot.h"
#include "record/chart.h"

enum { PATH_BYTES = BASE_PATH_BYTES + 64 };

const char LAUNCH_PLOTS_HEAD[] =
    "# Draws the .png files from the .dat files beside it: gnuplot plots.gp\n"
    "set encoding utf8\n"
    "set terminal pngcairo size 1200,720 font 'sans,15' background rgb '#ffffff'\n"
    "set datafile missing 'nan'\n"
    "set border 3 linecolor rgb '#5c6877'\n"
    "set tics nomirror\n"
    "set grid ytics linetype 1 linecolor rgb '#dfe4ea'\n"
    "set style fill solid 1.0 noborder\n"
    "set lmargin 12\n"
    "set rmargin 4\n";

static const char SCRIPT_SCALING[] = "\n"
                                     "set output 'scaling.png'\n"
                                     "set xlabel 'processes'\n"
                                     "set ylabel 'tokens per second'\n"
                                     "set key top left Left reverse samplen 3\n"
                                     "stats 'scaling.dat' using 1 name 'RANKS' nooutput\n"
                                     "set xrange [0:RANKS_max + 0.5]\n"
                                     "set yrange [0:*]\n"
                                     "set offsets 0, 0, graph 0.1, 0\n"
                                     "if (RANKS_max <= 16) set xtics 1\n"
                                     "plot ";

static const char SCRIPT_SCALING_MEASURED[] =
    "'scaling.dat' using 1:2:3:4 with yerrorbars pointtype 7 pointsize 0 linewidth 2 linecolor rgb "
    "'#86aee6' title 'slowest and fastest round', \\\n"
    "     '' using 1:2 with linespoints pointtype 7 pointsize 1.8 linewidth 3 "
    "linecolor rgb '#2f6fd0' title 'measured', \\\n"
    "     '' using 1:2:(sprintf('%.0f', column(2))) with labels offset 0,-1.6 notitle\n"
    "unset key\n"
    "set offsets 0, 0, 0, 0\n"
    "set xtics autofreq\n";

static const char SCRIPT_LOSS[] =
    "\n"
    "set output 'loss.png'\n"
    "set title 'Loss against step'\n"
    "set xlabel 'step'\n"
    "set ylabel 'loss per token'\n"
    "set xrange [0:*]\n"
    "set yrange [0:*]\n"
    "plot 'loss.dat' using 1:2 with lines linewidth 2 linecolor rgb '#2f6fd0' notitle\n";

static const char SCRIPT_STEP_TIME[] =
    "\n"
    "set output 'steptime.png'\n"
    "set title 'Where an average step went, by rank'\n"
    "set xlabel 'rank'\n"
    "set ylabel 'ms per step'\n"
    "set key outside right top Left reverse invert\n"
    "set rmargin -1\n"
    "set style data histograms\n"
    "set style histogram rowstacked\n"
    "set boxwidth 0.6\n"
    "set xrange [-0.7:*]\n"
    "set yrange [0:*]\n"
    "plot 'steptime.dat' using 2:xtic(1) linecolor rgb '#3f7fd9' title columnheader(2), \\\n"
    "     '' using 3 linecolor rgb '#7b5cd6' title columnheader(3), \\\n"
    "     '' using 4 linecolor rgb '#d9483b' title columnheader(4), \\\n"
    "     '' using 5 linecolor rgb '#f0938a' title columnheader(5), \\\n"
    "     '' using 6 linecolor rgb '#d99a1c' title columnheader(6), \\\n"
    "     '' using 7 linecolor rgb '#98a3b0' title columnheader(7)\n";

/* Saves the text under that name and frees it. */
static base_status save(const launch_out_directory *directory, const char *name, launch_text *text,
                        base_error *reterr)
{
    char path[PATH_BYTES];
    launch_out_directory_path(directory, name, path);
    const base_status status = launch_text_save(text, path, reterr);
    launch_text_fini(text);
    return status;
}

static base_status write_scaling(const launch_out_directory *directory, const launch_run *run,
                                 base_error *reterr)
{
    const launch_summary *summary = run->summary;
    launch_text text = {0};
    launch_text_put(&text, "# processes  tokens_per_second  slowest_round  fastest_round\n");
    for (int i = 0; i < summary->scaling_count; i++) {
        const launch_scaling_point *point = &summary->scaling[i];
        launch_text_printf(&text, "%d %.3f %.3f %.3f\n", point->ranks, point->tokens_per_second,
                           point->tokens_per_second_low, point->tokens_per_second_high);
    }
    return save(directory, "scaling.dat", &text, reterr);
}

static base_status write_loss(const launch_out_directory *directory, const launch_run *run,
                              base_error *reterr)
{
    launch_text text = {0};
    launch_text_put(&text, "# step  loss  learning_rate  grad_norm\n");
    for (size_t i = 0; i < run->summary->steps_done; i++) {
        const launch_step *step = &run->steps->ranks[0].steps[i];
        launch_text_printf(&text, "%llu %.9g %.9g %.9g\n", (unsigned long long)step->step,
                           isfinite(step->loss_global) ? step->loss_global : NAN,
                           step->learning_rate, step->grad_norm);
    }
    return save(directory, "loss.dat", &text, reterr);
}

static void put_step_time(launch_text *text, const char *name, const launch_breakdown *breakdown)
{
    launch_text_put(text, name);
    for (int p = 0; p < LAUNCH_PARTS; p++) {
        launch_text_printf(text, " %.6f", breakdown->part_ms[p]);
    }
    launch_text_put(text, "\n");
}

static base_status write_step_times(const launch_out_directory *directory, const launch_run *run,
                                    base_error *reterr)
{
    launch_text text = {0};
    launch_text_put(&text, "rank");
    for (int p = 0; p < LAUNCH_PARTS; p++) {
        launch_text_printf(&text, " \"%s\"", launch_part_name(p));
    }
    launch_text_put(&text, "\n");
    if (run->summary->steps_done > 0) {
        put_step_time(&text, "slowest", &run->summary->slowest);
    }
    for (int r = 0; r < run->job->job.world_size && run->summary->steps_done > 0; r++) {
        char name[16];
        (void)snprintf(name, sizeof name, "%d", r);
        put_step_time(&text, name, &run->summary->ranks[r]);
    }
    return save(directory, "steptime.dat", &text, reterr);
}

/* Text for a string in gnuplot's double quotes, without the characters that gnuplot interprets. */
static void put_quoted(launch_text *text, const char *quoted)
{
    for (; *quoted != '\0'; quoted++) {
        const char letter[2] = {*quoted, '\0'};
        launch_text_put(text, strchr("\"\\`", *quoted) == NULL ? letter : "");
    }
}

/* The picture shows machine and commit, and the ideal line if it was measured. */
static void put_scaling_script(launch_text *text, const launch_run *run)
{
    const launch_run_info *info = run->info;
    const int ideal_ranks = launch_chart_ideal_ranks(run);
    launch_text_put(text, "\nset title \"Tokens per second against processes\\n");
    put_quoted(text, info->cpu[0] != '\0' ? info->cpu : info->host);
    launch_text_printf(text, ", %d CPU%s, commit ", info->cpus_allowed,
                       info->cpus_allowed == 1 ? "" : "s");
    put_quoted(text, info->git_commit);
    launch_text_put(text, "\" noenhanced");
    launch_text_put(text, SCRIPT_SCALING);
    if (ideal_ranks > 0) {
        launch_text_printf(text,
                           "sample [0:%d] '+' using 1:(%.3f * column(1)) with lines dashtype 2 "
                           "linewidth 2 linecolor rgb '#5c6877' title 'one process times as "
                           "many', \\\n     ",
                           ideal_ranks, run->summary->scaling[0].tokens_per_second);
    }
    launch_text_put(text, SCRIPT_SCALING_MEASURED);
}

/* A drawing without data would end gnuplot. So it is left out. */
static base_status write_script(const launch_out_directory *directory, const launch_run *run,
                                base_error *reterr)
{
    launch_text text = {0};
    launch_text_put(&text, LAUNCH_PLOTS_HEAD);
    if (run->summary->scaling_count > 0) {
        put_scaling_script(&text, run);
    }
    if (isfinite(run->summary->loss_first) && run->summary->steps_done > 1) {
        launch_text_put(&text, SCRIPT_LOSS);
    }
    if (run->summary->steps_done > 0) {
        launch_text_put(&text, SCRIPT_STEP_TIME);
    }
    return save(directory, "plots.gp", &text, reterr);
}

base_status launch_plots_write(const launch_out_directory *directory, const launch_run *run,
                               base_error *reterr)
{
    base_status status = write_scaling(directory, run, reterr);
    if (status == BASE_OK) {
        status = write_loss(directory, run, reterr);
    }
    if (status == BASE_OK) {
        status = write_step_times(directory, run, reterr);
    }
    return status == BASE_OK ? write_script(directory, run, reterr) : status;
}

static void remove_pictures(int directory_fd)
{
    (void)unlinkat(directory_fd, "scaling.png", 0);
    (void)unlinkat(directory_fd, "loss.png", 0);
    (void)unlinkat(directory_fd, "steptime.png", 0);
    (void)unlinkat(directory_fd, LAUNCH_CURVE_PNG, 0);
}

void launch_plots_draw(int directory_fd, const char *path, int64_t timeout_ns, launch_text *notes)
{
    base_error error;
    const base_status status = base_gnuplot_run(&(base_gnuplot){.directory_fd = directory_fd,
                                                                .script = "plots.gp",
                                                                .timeout_ns = timeout_ns},
                                                &error);
    if (status == BASE_OK) {
        return;
    }
    if (status == BASE_ERR_NOTFOUND) {
        launch_text_printf(notes, "no plots: %s; %s/plots.gp draws them later\n", error.message,
                           path);
        return;
    }
    remove_pictures(directory_fd);
    if (status == BASE_ERR_TIMEOUT) {
        launch_text_printf(notes, "no plots: %s\n", error.message);
    } else {
        launch_text_printf(notes, "no plots: gnuplot failed on %s/plots.gp: %s\n", path,
                           error.message);
    }
}
