/* SPDX-License-Identifier: Apache-2.0 */
/* A full-screen terminal, which is restored however the program ends. */
#ifndef STAT_TERMINAL_H
#define STAT_TERMINAL_H

enum terminal_key { KEY_NONE, KEY_QUIT, KEY_UP, KEY_DOWN, KEY_PAGE_UP, KEY_PAGE_DOWN };

/* Returns 0, or -1 after printing why there is no terminal. */
int terminal_open(void);
void terminal_close(void);

/* Returns the lines of the window. */
int terminal_height(void);

/*
 * Draw the window: lines from the top, each truncated to its width; lines that do not fit are left out. how:
 * ' ' plain, '!' bold, '#' bold red.
 */
void terminal_begin(void);
void terminal_line(char how, const char *format, ...) __attribute__((format(printf, 2, 3)));
void terminal_end(void);

/* Waits for a key, a new size of the window, or until seconds have passed. */
enum terminal_key terminal_wait(double seconds);

#endif
