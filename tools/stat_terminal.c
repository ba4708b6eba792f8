/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "stat_terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* Enter the alternate screen, without cursor and line wrapping; and leave it. */
static const char enter[] = "\033[?1049h\033[?25l\033[?7l";
static const char leave[] = "\033[0m\033[?7h\033[?25h\033[?1049l";

static struct termios before;
static volatile sig_atomic_t is_open;
static char *frame; /* frame being drawn */
static size_t frame_size;
static FILE *frame_to;
static int height = 24, width = 80, drawn;

/* ----------------------------------------------------------------------------------------- open and close */

/* Restores the terminal. Async-signal-safe. */
static void give_back(void)
{
    if (!is_open)
        return;
    is_open = 0;
    (void)!write(STDOUT_FILENO, leave, sizeof leave - 1);
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

static void take(void)
{
    struct termios raw = before;

    raw.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    is_open = 1;
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    (void)!write(STDOUT_FILENO, enter, sizeof enter - 1);
}

static void on_end(int number)
{
    give_back();
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

static void on_stop(int number)
{
    const int error = errno;

    (void)number;
    give_back();
    (void)raise(SIGSTOP);
    take();
    errno = error;
}

static void on_size(int number)
{
    (void)number; /* The signal ends the wait for a key. */
}

static void handle(int number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};

    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(number, &action, NULL);
}

int terminal_open(void)
{
    static const int ends[] = {SIGINT,  SIGTERM, SIGHUP, SIGQUIT, SIGPIPE,
                               SIGABRT, SIGSEGV, SIGBUS, SIGFPE,  SIGILL};
    const char *kind = getenv("TERM");

    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || kind == NULL || strcmp(kind, "dumb") == 0 ||
        tcgetattr(STDIN_FILENO, &before) != 0) {
        fprintf(stderr, "llm-stat: no usable terminal; use --once or --json\n");
        return -1;
    }
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        handle(ends[i], on_end);
    handle(SIGTSTP, on_stop);
    handle(SIGWINCH, on_size);
    (void)atexit(give_back);
    take();
    return 0;
}

void terminal_close(void)
{
    give_back();
}

/* --------------------------------------------------------------------------------------------------- draw */

static void measure(void)
{
    struct winsize size;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0) {
        height = size.ws_row;
        width = size.ws_col;
    }
}

int terminal_height(void)
{
    return height;
}

void terminal_begin(void)
{
    measure();
    drawn = 0;
    frame_to = open_memstream(&frame, &frame_size);
    if (frame_to != NULL)
        fputs("\033[H", frame_to);
}

void terminal_line(char how, const char *format, ...)
{
    char text[1024];
    va_list arguments;

    if (frame_to == NULL || drawn == height)
        return;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(frame_to, "%s%s%.*s\033[0m\033[K", drawn > 0 ? "\r\n" : "",
            how == '!'   ? "\033[1m"
            : how == '#' ? "\033[1;31m"
                         : "",
            width, text);
    drawn++;
}

/* Writes the frame at once, so that nothing flickers. */
void terminal_end(void)
{
    size_t done = 0;

    if (frame_to == NULL)
        return;
    fputs("\033[J", frame_to);
    (void)fclose(frame_to);
    frame_to = NULL;
    while (done < frame_size) {
        const ssize_t wrote = write(STDOUT_FILENO, frame + done, frame_size - done);

        if (wrote < 0 && errno != EINTR)
            break;
        done += wrote < 0 ? 0 : (size_t)wrote;
    }
    free(frame);
    frame = NULL;
}

/* --------------------------------------------------------------------------------------------------- keys */

static enum terminal_key key_of(const char *bytes)
{
    static const struct {
        const char *bytes;
        enum terminal_key key;
    } keys[] = {{"q", KEY_QUIT},
                {"Q", KEY_QUIT},
                {"\033[A", KEY_UP},
                {"\033OA", KEY_UP},
                {"k", KEY_UP},
                {"\033[B", KEY_DOWN},
                {"\033OB", KEY_DOWN},
                {"j", KEY_DOWN},
                {"\033[5~", KEY_PAGE_UP},
                {"\033[6~", KEY_PAGE_DOWN},
                {" ", KEY_PAGE_DOWN},
                {"b", KEY_PAGE_UP}};

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(bytes, keys[i].bytes) == 0)
            return keys[i].key;
    return KEY_NONE;
}

enum terminal_key terminal_wait(double seconds)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char bytes[16] = "";
    ssize_t got;

    if (poll(&input, 1, seconds <= 0 ? 0 : (int)(seconds * 1000) + 1) <= 0)
        return KEY_NONE;
    got = read(STDIN_FILENO, bytes, sizeof bytes - 1);
    /* The terminal was closed. */
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN))
        return KEY_QUIT;
    return got < 0 ? KEY_NONE : key_of(bytes);
}
