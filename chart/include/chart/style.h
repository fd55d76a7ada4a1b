/* The style sheet of charts. Pure. */
#ifndef CHART_STYLE_H
#define CHART_STYLE_H

#include "base/buffer.h"

/* For a page with charts: the colours, light and dark, as custom properties, and the rules. */
extern const char CHART_STYLE[];

/* The rules alone, in which var(--NAME) stands for a colour. */
extern const char CHART_RULES[];

/* Puts a text of ours with the light colour itself in place of each var(--NAME): not everything
 * that shows SVG knows custom properties. */
void chart_style_put_light(base_buffer *text, const char *with_names);

#endif
