/* What the user sees: whole lines, and on a terminal one progress line below them.
 *
 * The progress line is on stderr. Any other line first erases it, and the next progress draws it
 * again. Nothing here fails or blocks: job/writer.h has the queues. One thread. */
#ifndef LAUNCH_SCREEN_H
#define LAUNCH_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct launch_screen {
    bool terminal; /* stderr is one that can redraw a line, and nobody else writes to it */
    bool quiet;    /* no progress */
    bool drawn;    /* the progress line is on the terminal now */
} launch_screen;

void launch_screen_init(launch_screen *screen, bool quiet);

/* One line of a rank (without its newline) on fd, in one write. */
void launch_screen_write(launch_screen *screen, int fd, const char *line, size_t line_bytes);

/* A line of the launcher's own on stderr: "launcher: …". */
void launch_screen_say(launch_screen *screen, const char *format, ...) BASE_PRINTF(2, 3);

/* A line of progress that stays. */
void launch_screen_note(launch_screen *screen, const char *format, ...) BASE_PRINTF(2, 3);

/* Columns of the terminal; 80 if that is not known. */
size_t launch_screen_width(void);

/* Draws the progress line anew (terminal), or prints it as a line. ASCII; cut at the width. Not while
 * the terminal has not taken what came before. */
void launch_screen_progress(launch_screen *screen, const char *text);

/* Erases the progress line. */
void launch_screen_clear(launch_screen *screen);

#endif
