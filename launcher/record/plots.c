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

static const char SCRIPT_SCALING[] =
    "\n"
    "set output 'scaling.png'\n"
    "set title 'Tokens per second against processes'\n"
    "set xlabel 'processes'\n"
    "set ylabel 'tokens per second'\n"
    "set key top left Left reverse samplen 3\n"
    "stats 'scaling.dat' using 1 name 'RANKS' nooutput\n"
    "stats 'scaling.dat' using (column(2) > column(3) ? column(2) : column(3)) name 'SPEED' "
    "nooutput\n"
    "set xrange [0:RANKS_max + 0.5]\n"
    "set yrange [0:1.12 * SPEED_max]\n"
    "if (RANKS_max <= 16) set xtics 1\n"
    "stats 'scaling.dat' using 3 name 'IDEAL' nooutput\n"
    "plot sample [0:RANKS_max] '+' using 1:(IDEAL_max / RANKS_max * column(1)) with lines "
    "dashtype 2 linewidth 2 linecolor rgb '#5c6877' title 'ideal', \\\n"
    "     'scaling.dat' using 1:2 with linespoints pointtype 7 pointsize 1.8 linewidth 3 "
    "linecolor rgb '#2f6fd0' title 'measured', \\\n"
    "     '' using 1:2:(sprintf('%.0f', column(2))) with labels offset 0,-1.6 notitle\n"
    "unset key\n"
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
    "plot 'steptime.dat' using 2:xtic(1) linecolor rgb '#3f7fd9' title 'forward and backward', \\\n"
    "     '' using 3 linecolor rgb '#d9483b' title 'waiting for the all-reduce', \\\n"
    "     '' using 4 linecolor rgb '#d99a1c' title 'optimizer', \\\n"
    "     '' using 5 linecolor rgb '#98a3b0' title 'other'\n";

/* Saves the text under that name and frees it. */
static base_status save(const launch_out_folder *folder, const char *name, launch_text *text,
                        base_error *reterr)
{
    char path[PATH_BYTES];
    launch_out_folder_path(folder, name, path);
    const base_status status = launch_text_save(text, path, reterr);
    launch_text_fini(text);
    return status;
}

static base_status write_scaling(const launch_out_folder *folder, const launch_run *run,
                                 base_error *reterr)
{
    const launch_summary *summary = run->summary;
    launch_text text = {0};
    launch_text_put(&text, "# processes  tokens_per_second  ideal  step_ms_p50  compute_ms_p50  "
                           "allreduce_ms_p50\n");
    for (int i = 0; i < summary->scaling_count; i++) {
        const launch_scaling_point *point = &summary->scaling[i];
        const double slope = summary->scaling[0].tokens_per_second / summary->scaling[0].ranks;
        launch_text_printf(&text, "%d %.3f %.3f %.6f %.6f %.6f\n", point->ranks,
                           point->tokens_per_second, slope * point->ranks, point->step_ms_p50,
                           point->compute_ms_p50, point->allreduce_ms_p50);
    }
    return save(folder, "scaling.dat", &text, reterr);
}

static base_status write_loss(const launch_out_folder *folder, const launch_run *run,
                              base_error *reterr)
{
    launch_text text = {0};
    launch_text_put(&text, "# step  loss  learning_rate  grad_norm\n");
    for (size_t i = 0; i < run->summary->steps_done; i++) {
        const launch_step *step = &run->steps->ranks[0].steps[i];
        launch_text_printf(&text, "%zu %.9g %.9g %.9g\n", i,
                           isfinite(step->loss_global) ? step->loss_global : NAN,
                           step->learning_rate, step->grad_norm);
    }
    return save(folder, "loss.dat", &text, reterr);
}

static base_status write_step_times(const launch_out_folder *folder, const launch_run *run,
                                    base_error *reterr)
{
    launch_text text = {0};
    launch_text_put(&text, "# rank  compute_ms  allreduce_exposed_ms  optimizer_ms  other_ms\n");
    for (int r = 0; r < run->job->world_size && run->summary->steps_done > 0; r++) {
        const launch_breakdown *part = &run->summary->ranks[r];
        launch_text_printf(&text, "%d %.6f %.6f %.6f %.6f\n", r, part->compute_ms, part->exposed_ms,
                           part->optimizer_ms, part->other_ms);
    }
    return save(folder, "steptime.dat", &text, reterr);
}

/* A drawing without data would end gnuplot, so it is left out. */
static base_status write_script(const launch_out_folder *folder, const launch_run *run,
                                base_error *reterr)
{
    launch_text text = {0};
    launch_text_put(&text, SCRIPT_HEAD);
    if (run->summary->scaling_count > 0) {
        launch_text_put(&text, SCRIPT_SCALING);
    }
    if (isfinite(run->summary->loss_first) && run->summary->steps_done > 1) {
        launch_text_put(&text, SCRIPT_LOSS);
    }
    if (run->summary->steps_done > 0) {
        launch_text_put(&text, SCRIPT_STEP_TIME);
    }
    return save(folder, "plots.gp", &text, reterr);
}

base_status launch_plots_write(const launch_out_folder *folder, const launch_run *run,
                               base_error *reterr)
{
    base_status status = write_scaling(folder, run, reterr);
    if (status == BASE_OK) {
        status = write_loss(folder, run, reterr);
    }
    if (status == BASE_OK) {
        status = write_step_times(folder, run, reterr);
    }
    return status == BASE_OK ? write_script(folder, run, reterr) : status;
}

/* Starts `gnuplot plots.gp` in the folder with its output going to output_fd; 0 or an errno. */
static int start_gnuplot(const launch_out_folder *folder, int output_fd, pid_t *pid)
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
            posix_spawn_file_actions_addfchdir_np(&actions, folder->fd);
        failed = failed ? ENOMEM : posix_spawnp(pid, program, &actions, &attributes, argv, environ);
        (void)posix_spawnattr_destroy(&attributes);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return failed;
}

/* Waits for the child until the deadline, then ends it. Whether it was in time; *status as waitpid
 * gives it. */
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

/* The first line of what gnuplot said that is not blank nor its pointer to a place. */
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
            launch_utf8_copy(complaint, COMPLAINT_BYTES, line);
        }
    }
}

static void remove_pictures(const launch_out_folder *folder)
{
    (void)unlinkat(folder->fd, "scaling.png", 0);
    (void)unlinkat(folder->fd, "loss.png", 0);
    (void)unlinkat(folder->fd, "steptime.png", 0);
}

void launch_plots_draw(const launch_out_folder *folder, int64_t timeout_ns, launch_text *notes)
{
    char complaint[COMPLAINT_BYTES];
    pid_t pid = 0;
    int status = 0;
    const int output_fd = memfd_create("gnuplot-output", MFD_CLOEXEC);
    const int failed = output_fd < 0 ? errno : start_gnuplot(folder, output_fd, &pid);
    if (failed != 0) {
        launch_text_printf(notes, "no plots: %s; %s/plots.gp draws them later\n",
                           failed == ENOENT ? "gnuplot is not installed" : strerrordesc_np(failed),
                           folder->path);
    } else if (!wait_for(pid, base_deadline_after_ns(timeout_ns), &status)) {
        remove_pictures(folder);
        launch_text_printf(notes, "no plots: gnuplot took longer than %lld s and was ended\n",
                           (long long)(timeout_ns / BASE_NS_PER_S));
    } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        remove_pictures(folder);
        read_complaint(output_fd, complaint);
        launch_text_printf(notes, "no plots: gnuplot failed on %s/plots.gp: %s\n", folder->path,
                           complaint[0] != '\0' ? complaint : "it said nothing");
    }
    if (output_fd >= 0) {
        (void)close(output_fd);
    }
}
