/* Writes the data and script of the plots, and runs gnuplot on them with a time limit. Called by
 * record.c and inference.c when a run is finished. */
#include "record/plots.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/gnuplot.h"

static const char HEAD[] =
    "# Draws the .png files from the .dat files beside it: gnuplot plots.gp\n"
    "set encoding utf8\n"
    "set terminal pngcairo size 1200,720 font 'sans,15' background rgb '#ffffff'\n"
    "set border 3 linecolor rgb '#5c6877'\n"
    "set tics nomirror\n"
    "set key bmargin left horizontal Left reverse samplen 3 height 1\n"
    "set errorbars 0\n"
    "set style fill solid 1.0 noborder\n"
    "set lmargin 12\n"
    "set rmargin 4\n";

/* Writes the figure's data, and adds to the script what draws it. */
static base_status write_figure(const char *directory, const launch_plot_files *plot,
                                const char *subtitle, base_buffer *script, base_error *reterr)
{
    char data_name[32];
    char png_name[32];
    base_buffer data = {.failed = plot->figure == NULL};
    (void)snprintf(data_name, sizeof data_name, "%s.dat", plot->name);
    (void)snprintf(png_name, sizeof png_name, "%s.png", plot->name);
    if (plot->figure != NULL) {
        launch_figure_data(&data, plot->figure);
        launch_figure_script(script, plot->figure, subtitle, data_name, png_name);
    }
    const base_status status = base_buffer_save(&data, directory, data_name, reterr);
    base_buffer_fini(&data);
    return status;
}

base_status launch_plots_write(const char *directory, launch_plot_files *plots, int count,
                               const launch_run_info *info, base_error *reterr)
{
    char subtitle[2 * LAUNCH_INFO_BYTES];
    base_buffer script = {0};
    base_status status = BASE_OK;
    (void)snprintf(subtitle, sizeof subtitle, "%s, %d CPU%s, commit %s",
                   info->cpu[0] != '\0' ? info->cpu : info->host, info->cpus_allowed,
                   info->cpus_allowed == 1 ? "" : "s", info->git_commit);
    base_buffer_put(&script, HEAD);
    for (int i = 0; i < count; i++) {
        if (status == BASE_OK) {
            status = write_figure(directory, &plots[i], subtitle, &script, reterr);
        }
        free(plots[i].figure);
    }
    if (status == BASE_OK) {
        status = base_buffer_save(&script, directory, "plots.gp", reterr);
    }
    base_buffer_fini(&script);
    return status;
}

static void remove_pictures(int directory_fd)
{
    (void)unlinkat(directory_fd, "scaling.png", 0);
    (void)unlinkat(directory_fd, "loss.png", 0);
    (void)unlinkat(directory_fd, "steptime.png", 0);
    (void)unlinkat(directory_fd, "scaling-curve.png", 0);
}

void launch_plots_draw(int directory_fd, const char *path, int64_t timeout_ns, base_buffer *notes)
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
        base_buffer_printf(notes, "no plots: %s; %s/plots.gp draws them later\n", error.message,
                           path);
        return;
    }
    remove_pictures(directory_fd);
    if (status == BASE_ERR_TIMEOUT) {
        base_buffer_printf(notes, "no plots: %s\n", error.message);
    } else {
        base_buffer_printf(notes, "no plots: gnuplot failed on %s/plots.gp: %s\n", path,
                           error.message);
    }
}
