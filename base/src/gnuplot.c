/* Runs gnuplot with a time limit. Called for the plots of records, and by coll-bench and
 * coll-simulate for theirs. */
#include "base/gnuplot.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/utf8.h"

enum { COMPLAINT_BYTES = 300 };

/* The last line of gnuplot's complaints that is neither blank nor its pointer to a column. */
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

base_status base_gnuplot_run(const base_gnuplot *run, base_error *reterr)
{
    char complaint[COMPLAINT_BYTES];
    int ended = 0;
    const int output_fd = memfd_create("gnuplot-output", MFD_CLOEXEC);
    if (output_fd < 0) {
        return base_fail_errno(reterr, errno, "cannot make a file for gnuplot's output");
    }
    /* Complaints come on stderr. On stdout there would be a picture whose file could not be opened. */
    const base_child child = {.program = "gnuplot",
                              .argv = (const char *const[]){"gnuplot", run->script, NULL},
                              .directory_fd = run->directory_fd,
                              .stdin_fd = run->script != NULL ? -1 : run->script_fd,
                              .stdout_fd = -1,
                              .stderr_fd = output_fd,
                              .timeout_ns = run->timeout_ns};
    base_status status = base_child_run(&child, &ended, reterr);
    if (status == BASE_ERR_NOTFOUND) {
        status = base_fail(reterr, status, "gnuplot is not installed");
    } else if (status == BASE_OK && (!WIFEXITED(ended) || WEXITSTATUS(ended) != 0)) {
        read_complaint(output_fd, complaint);
        status = base_fail(reterr, BASE_ERR_IO, "%s",
                           complaint[0] != '\0' ? complaint : "it said nothing");
    }
    (void)close(output_fd);
    return status;
}

static const char *ending_of(const char *path)
{
    const char *ending = strrchr(path, '.');
    return ending != NULL ? ending : "";
}

base_status base_gnuplot_name_check(const char *path, base_error *reterr)
{
    const char *ending = ending_of(path);
    return strcmp(ending, ".svg") == 0 || strcmp(ending, ".png") == 0
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID, "%s: a plot's name must end with .svg or .png",
                           path);
}

void base_gnuplot_put_head(FILE *script, const char *path, int width, int height)
{
    (void)fprintf(script, "set terminal %s size %d,%d noenhanced\nset output '",
                  strcmp(ending_of(path), ".svg") == 0 ? "svg" : "pngcairo", width, height);
    for (const char *at = path; *at != '\0'; at++) {
        (void)fprintf(script, *at == '\'' ? "''" : "%c", *at);
    }
    (void)fputs("'\n", script);
}

base_status base_gnuplot_draw(const char *path, base_gnuplot_write *write, const void *user,
                              base_error *reterr)
{
    base_status status = BASE_OK;
    const int fd = memfd_create("gnuplot-script", MFD_CLOEXEC);
    FILE *script = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (script != NULL) {
        write(script, user);
    }
    if (script == NULL || fflush(script) != 0 || lseek(fd, 0, SEEK_SET) != 0) {
        status = base_fail_errno(reterr, errno, "cannot write a script for gnuplot");
    } else {
        const base_gnuplot run = {
            .directory_fd = -1, .script_fd = fd, .timeout_ns = BASE_NO_DEADLINE};
        status = base_gnuplot_run(&run, reterr);
    }
    if (script != NULL) {
        (void)fclose(script);
    } else if (fd >= 0) {
        (void)close(fd);
    }
    return status == BASE_OK ? status : base_error_prepend(reterr, status, "no plot %s", path);
}
