/* Figures as an SVG file, which needs no other file: on a white page, with title, subtitle and key. Pure. */
#ifndef CHART_PICTURE_H
#define CHART_PICTURE_H

#include "chart/figure.h"

/* Several figures have the same series: the key of the first is that of all. */
typedef struct chart_picture {
    const char *title;                  /* escaped, as the next one is */
    const char *subtitle;               /* empty: none */
    const chart_figure *const *figures; /* under each other, but those without points */
    int figure_count;
} chart_picture;

/* Nothing if no figure has a point. */
void chart_picture_svg(base_buffer *text, const chart_picture *picture);

/* Writes it to a file, completely or not at all. BASE_ERR_INVALID: no figure has a point. */
BASE_MUST_CHECK base_status chart_picture_write(const chart_picture *picture, const char *path,
                                                base_error *reterr);

/* BASE_ERR_INVALID unless a picture may have this name, which ends with .svg. */
BASE_MUST_CHECK base_status chart_picture_name_check(const char *path, base_error *reterr);

#endif
