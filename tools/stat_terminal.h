/* SPDX-License-Identifier: Apache-2.0 */
/* A terminal that is drawn over whole, and is given back as it was however the program ends. */
#ifndef STAT_TERMINAL_H
#define STAT_TERMINAL_H

enum terminal_key { KEY_NONE, KEY_QUIT, KEY_UP, KEY_DOWN, KEY_PAGE_UP, KEY_PAGE_DOWN };

/* 0, or -1 after saying why there is none. */
int terminal_open(void);
void terminal_close(void);

/* Lines of the window, as it is now. */
int terminal_height(void);

/* Draws the window: lines from the top, each cut to its width; those that do not fit are left out. how: ' ' plain, '!' bold, '#' bold red. */
void terminal_begin(void);
void terminal_line(char how, const char *format, ...) __attribute__((format(printf, 2, 3)));
void terminal_end(void);

/* Waits for a key, a new size of the window, or until so many seconds have passed. */
enum terminal_key terminal_wait(double seconds);

#endif
