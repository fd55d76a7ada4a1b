/* Makes what the user sees: whole lines, and one progress line below them. Called by everything in
 * job/ that says something to the user. */
#include "job/screen.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "job/writer.h"
#include "launch/limits.h"

enum { WIDTH_DEFAULT = 80, WIDTH_MAX = 512 };

/* The progress line leaves the cursor at its first column. If the terminal is made narrower, it
 * wraps or cuts the line. In both cases the cursor stays where the line begins, and erasing from
 * there on removes all of it. */
static const char erase_line[] = "\r\033[J";

/* Whether another process takes standard output: it may write to the same terminal at any time, as tee
 * does, also between a progress line and its end. */
static bool is_piped(void)
{
    struct stat info;
    return fstat(STDOUT_FILENO, &info) == 0 && (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode));
}

void launch_screen_init(launch_screen *screen, bool quiet)
{
    const char *type = getenv("TERM");
    *screen = (launch_screen){
        .terminal =
            isatty(STDERR_FILENO) != 0 && !is_piped() && type != NULL && strcmp(type, "dumb") != 0,
        .quiet = quiet,
    };
}

void launch_screen_clear(launch_screen *screen)
{
    if (screen->drawn) {
        launch_writer_put(STDERR_FILENO, LAUNCH_TEXT_RANK, erase_line, sizeof erase_line - 1);
        screen->drawn = false;
    }
}

/* A line without its newline, after the progress line is erased. */
static void put_line(launch_screen *screen, int fd, launch_text_kind kind, const char *line,
                     size_t line_bytes)
{
    char whole[LAUNCH_LINE_BYTES_MAX + 512];
    launch_screen_clear(screen);
    if (line_bytes > sizeof whole - 1) {
        line_bytes = sizeof whole - 1;
    }
    memcpy(whole, line, line_bytes);
    whole[line_bytes] = '\n';
    launch_writer_put(fd, kind, whole, line_bytes + 1);
}

void launch_screen_write(launch_screen *screen, int fd, const char *line, size_t line_bytes)
{
    put_line(screen, fd, LAUNCH_TEXT_RANK, line, line_bytes);
}

void launch_screen_say(launch_screen *screen, const char *format, ...)
{
    char line[LAUNCH_LINE_BYTES_MAX];
    va_list args;
    const int prefix = snprintf(line, sizeof line, "launcher: ");
    va_start(args, format);
    (void)vsnprintf(line + prefix, sizeof line - (size_t)prefix, format, args);
    va_end(args);
    put_line(screen, STDERR_FILENO, LAUNCH_TEXT_OWN, line, strlen(line));
}

void launch_screen_note(launch_screen *screen, const char *format, ...)
{
    char line[LAUNCH_LINE_BYTES_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    put_line(screen, STDERR_FILENO, LAUNCH_TEXT_OWN, line, strlen(line));
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
        put_line(screen, STDERR_FILENO, LAUNCH_TEXT_OWN, text, strlen(text));
        return;
    }
    if (!launch_writer_is_idle(STDERR_FILENO)) {
        return; /* the next one says more */
    }
    /* the last column stays free, so that no terminal wraps */
    const int length =
        snprintf(line, sizeof line, "%s%.*s\r", erase_line, (int)launch_screen_width() - 1, text);
    launch_writer_put(STDERR_FILENO, LAUNCH_TEXT_OWN, line, (size_t)length);
    screen->drawn = true;
}
