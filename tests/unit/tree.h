/* SPDX-License-Identifier: Apache-2.0 */
/* Removal of a directory with everything in it. Include it first, with _GNU_SOURCE. */
#ifndef TESTS_TREE_H
#define TESTS_TREE_H

#include <ftw.h>
#include <stdio.h>

static inline int tree_remove_one(const char *path, const struct stat *file, int type, struct FTW *walk)
{
    (void)file;
    (void)type;
    (void)walk;
    return remove(path);
}

/* Returns 0, or what nftw() does if something remains. */
static inline int tree_remove(const char *path)
{
    return nftw(path, tree_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

#endif
