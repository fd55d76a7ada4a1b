/* Writes the plots of a record. Called by record.c and inference.c when a run is finished. */
#include "record/plots.h"

#include <stdio.h>
#include <stdlib.h>

#include "chart/picture.h"

static base_status write_plot(const char *directory, const launch_plot_files *plot,
                              const char *subtitle, base_error *reterr)
{
    char data_name[32];
    char picture_name[32];
    const chart_figure *figure = plot->figure;
    base_buffer data = {.failed = figure == NULL};
    base_buffer picture = {0};
    (void)snprintf(data_name, sizeof data_name, "%s.dat", plot->name);
    (void)snprintf(picture_name, sizeof picture_name, "%s.svg", plot->name);
    if (figure != NULL) {
        chart_figure_data(&data, figure);
        chart_picture_svg(&picture, &(chart_picture){figure->title, subtitle, &figure, 1});
    }
    base_status status = base_buffer_save(&data, directory, data_name, reterr);
    if (status == BASE_OK && (picture.length_bytes > 0 || picture.failed)) {
        status = base_buffer_save(&picture, directory, picture_name, reterr);
    }
    base_buffer_fini(&data);
    base_buffer_fini(&picture);
    return status;
}

base_status launch_plots_write(const char *directory, launch_plot_files *plots, int count,
                               const launch_run_info *info, base_error *reterr)
{
    char subtitle[2 * LAUNCH_INFO_BYTES];
    base_status status = BASE_OK;
    (void)snprintf(subtitle, sizeof subtitle, "%s, %d CPU%s, commit %s",
                   info->cpu[0] != '\0' ? info->cpu : info->host, info->cpus_allowed,
                   info->cpus_allowed == 1 ? "" : "s", info->git_commit);
    for (int i = 0; i < count; i++) {
        if (status == BASE_OK) {
            status = write_plot(directory, &plots[i], subtitle, reterr);
        }
        free(plots[i].figure);
    }
    return status;
}
