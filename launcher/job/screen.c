/* Writes to the terminal: whole lines, and one progress line below them. Called by everything in
 * job/ that says something to the user. */
#include "job/screen.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "launch/limits.h"

enum { WIDTH_DEFAULT = 80, WIDTH_MAX = 512 };

/* The progress line leaves the cursor at its first column. If the terminal is made narrower, it
 * wraps or cuts the line. In both cases the cursor stays where the line begins, and erasing from
 * there on removes all of it. */
static const char erase_line[] = "\r\033[J";

/* Returns 0, or the errno with which the descriptor refused the text. */
static int write_all(int fd, const char *text, size_t length)
{
    while (length > 0) {
        const ssize_t written = write(fd, text, length);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            return written < 0 ? errno : EIO;
        }
        text += written;
        length -= (size_t)written;
    }
    return 0;
}

void launch_screen_init(launch_screen *screen, bool quiet)
{
    const char *type = getenv("TERM");
    *screen = (launch_screen){
        .terminal = isatty(STDERR_FILENO) != 0 && type != NULL && strcmp(type, "dumb") != 0,
        .quiet = quiet,
    };
}

void launch_screen_clear(launch_screen *screen)
{
    if (screen->drawn) {
        (void)write_all(STDERR_FILENO, erase_line, sizeof erase_line - 1);
        screen->drawn = false;
    }
}

void launch_screen_write(launch_screen *screen, int fd, const char *line, size_t line_bytes)
{
    char whole[LAUNCH_LINE_BYTES_MAX + 512];
    launch_screen_clear(screen);
    if (line_bytes > sizeof whole - 1) {
        line_bytes = sizeof whole - 1;
    }
    memcpy(whole, line, line_bytes);
    whole[line_bytes] = '\n';
    const int reason = write_all(fd, whole, line_bytes + 1);
    if (fd == STDOUT_FILENO && reason != EPIPE && screen->lost == 0) {
        screen->lost = reason;
    }
}

void launch_screen_say(launch_screen *screen, const char *format, ...)
{
    char line[LAUNCH_LINE_BYTES_MAX];
    va_list args;
    const int prefix = snprintf(line, sizeof line, "launcher: ");
    va_start(args, format);
    (void)vsnprintf(line + prefix, sizeof line - (size_t)prefix, format, args);
    va_end(args);
    launch_screen_write(screen, STDERR_FILENO, line, strlen(line));
}

size_t launch_screen_width(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        return size.ws_col < WIDTH_MAX ? size.ws_col : WIDTH_MAX;
    }
    return WIDTH_DEFAULT;
}

void launch_screen_progress(launch_screen *screen, const char *text)
{
    char line[WIDTH_MAX + sizeof erase_line + 1];
    if (screen->quiet) {
        return;
    }
    if (!screen->terminal) {
        launch_screen_write(screen, STDERR_FILENO, text, strlen(text));
        return;
    }
    /* the last column stays free, so that no terminal wraps */
    const int length =
        snprintf(line, sizeof line, "%s%.*s\r", erase_line, (int)launch_screen_width() - 1, text);
    (void)write_all(STDERR_FILENO, line, (size_t)length);
    screen->drawn = true;
}
