/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files and directories in places where other users have files as well: opened without following a symbolic
 * link, and checked by descriptor before a change or removal.
 */
#ifndef LLI_OWNED_H
#define LLI_OWNED_H

#include <stdbool.h>
#include <sys/stat.h>

/* Opens a directory; its last component must not be a symbolic link. -1 with errno set. */
int lli_owned_directory(const char *path);

/*
 * Changes the mode of this user's directory from 0700 to 01777, so that every user can have files in it;
 * leaves any other directory unchanged. False with errno set.
 */
bool lli_owned_share(int directory);

/*
 * Returns true if files may be removed from a directory: this user or root owns it, and other users cannot
 * rename files in it (it is not writable for everybody, or it is sticky).
 */
bool lli_owned_is_safe(int directory);

/* Opens a regular file with a link count of 1, and fills `file`. -1: the name is not that of such a file. */
int lli_owned_open(int directory, const char *name, int flags, struct stat *file);

/* Removes a name if it still refers to the file that lli_owned_open() or fstat() described. */
bool lli_owned_remove(int directory, const char *name, const struct stat *file);

#endif
