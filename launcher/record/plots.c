/* Writes the data and script of the plots, and runs gnuplot on them with a time limit. Called by
 * record.c when a run is finished. */
#include "record/plots.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "record/chart.h"

enum { COMPLAINT_BYTES = 300, PATH_BYTES = BASE_PATH_BYTES + 64 };

static const char SCRIPT_HEAD[] =
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
    launch_text_put(&text, SCRIPT_HEAD);
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

/* Starts `gnuplot plots.gp` in the directory, with its output on output_fd. Returns 0 or an
 * errno. */
static int start_gnuplot(const launch_out_directory *directory, int output_fd, pid_t *pid)
{
    static char program[] = "gnuplot";
    static char script[] = "plots.gp";
    char *const argv[] = {program, script, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigset_t all;
    int failed = posix_spawn_file_actions_init(&actions);
    if (failed != 0) {
        return failed;
    }
    failed = posix_spawnattr_init(&attributes);
    if (failed == 0) {
        (void)sigemptyset(&none);
        (void)sigfillset(&all);
        failed =
            posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF) ||
            posix_spawnattr_setsigmask(&attributes, &none) ||
            posix_spawnattr_setsigdefault(&attributes, &all) ||
            posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0) ||
            posix_spawn_file_actions_adddup2(&actions, output_fd, 1) ||
            posix_spawn_file_actions_adddup2(&actions, output_fd, 2) ||
            posix_spawn_file_actions_addfchdir_np(&actions, directory->fd);
        failed = failed ? ENOMEM : posix_spawnp(pid, program, &actions, &attributes, argv, environ);
        (void)posix_spawnattr_destroy(&attributes);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return failed;
}

/* Waits for the child until the deadline, then ends it. Returns whether it ended in time; *status
 * is waitpid's. */
static bool wait_for(pid_t pid, int64_t deadline_ns, int *status)
{
    struct pollfd watched = {.fd = pidfd_open(pid, 0), .events = POLLIN};
    int ready = 0;
    while (watched.fd >= 0 && ready == 0) {
        const int timeout_ms = base_deadline_poll_ms(deadline_ns, 1000);
        ready = poll(&watched, 1, timeout_ms);
        if (timeout_ms == 0 || (ready < 0 && errno != EINTR)) {
            break;
        }
        ready = ready < 0 ? 0 : ready;
    }
    if (ready <= 0) {
        (void)kill(pid, SIGKILL);
    }
    if (watched.fd >= 0) {
        (void)close(watched.fd);
    }
    while (waitpid(pid, status, 0) < 0 && errno == EINTR) {
    }
    return ready > 0;
}

/* The first line of gnuplot's output that is neither blank nor its pointer to a column. */
static void read_complaint(int output_fd, char complaint[COMPLAINT_BYTES])
{
    char said[4096];
    const ssize_t got = pread(output_fd, said, sizeof said - 1, 0);
    said[got > 0 ? got : 0] = '\0';
    complaint[0] = '\0';
    char *rest = NULL;
    for (char *line = strtok_r(said, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        line += strspn(line, " \t");
        if (line[0] != '\0' && line[0] != '^') {
            base_utf8_copy(complaint, COMPLAINT_BYTES, line);
        }
    }
}

static void remove_pictures(const launch_out_directory *directory)
{
    (void)unlinkat(directory->fd, "scaling.png", 0);
    (void)unlinkat(directory->fd, "loss.png", 0);
    (void)unlinkat(directory->fd, "steptime.png", 0);
}

void launch_plots_draw(const launch_out_directory *directory, int64_t timeout_ns,
                       launch_text *notes)
{
    char complaint[COMPLAINT_BYTES];
    pid_t pid = 0;
    int status = 0;
    const int output_fd = memfd_create("gnuplot-output", MFD_CLOEXEC);
    const int failed = output_fd < 0 ? errno : start_gnuplot(directory, output_fd, &pid);
    if (failed != 0) {
        launch_text_printf(notes, "no plots: %s; %s/plots.gp draws them later\n",
                           failed == ENOENT ? "gnuplot is not installed" : strerrordesc_np(failed),
                           directory->path);
    } else if (!wait_for(pid, base_deadline_after_ns(timeout_ns), &status)) {
        remove_pictures(directory);
        launch_text_printf(notes, "no plots: gnuplot took longer than %lld s and was ended\n",
                           (long long)(timeout_ns / BASE_NS_PER_S));
    } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        remove_pictures(directory);
        read_complaint(output_fd, complaint);
        launch_text_printf(notes, "no plots: gnuplot failed on %s/plots.gp: %s\n", directory->path,
                           complaint[0] != '\0' ? complaint : "it said nothing");
    }
    if (output_fd >= 0) {
        (void)close(output_fd);
    }
}
