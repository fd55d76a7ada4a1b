/* Reads the list of widths in infer.curve. job.c checks it, and the ranks measure these widths. */
#include <stdlib.h>

#include "proto/job.h"

int proto_job_curve(const proto_job *job, int widths[PROTO_CURVE_WIDTHS_MAX])
{
    const char *at = job->infer.curve;
    int count = 0;
    while (*at != '\0') {
        char *end = NULL;
        const long width = strtol(at, &end, 10);
        const bool in_range = width > 0 && width <= PROTO_CURVE_WIDTH_MAX &&
                              width % PROTO_CURVE_WIDTH_UNIT == 0 && *at >= '0' && *at <= '9';
        const bool ends = *end == '\0' || (*end == ',' && end[1] != '\0');
        if (!in_range || !ends || count == PROTO_CURVE_WIDTHS_MAX) {
            return -1;
        }
        widths[count++] = (int)width;
        at = *end == ',' ? end + 1 : end;
    }
    return count;
}
