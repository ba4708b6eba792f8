/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Catalogue of a store's directory: its recordings and their segments (docs/store.md section 1), from the
 * headers of the segments alone. A running store keeps it up to date; other programs read it once.
 *
 * Not for several threads at a time. Cursors look up their recording each time they need it, so segments and
 * recordings may be added and removed while cursors are open.
 */
#ifndef LLI_CATALOGUE_H
#define LLI_CATALOGUE_H

#include "core/recording/segment.h"
#include "security/opener.h"
#include "system/log.h"

/* An age that steps of the wall clock do not change, once it is known. */
struct lli_catalogue_age {
    lli_ns at;  /* monotonic clock; 0: the age is not known */
    lli_ns age; /* at that time */
};

struct lli_catalogue_segment {
    lli_seq packet;    /* its first packet */
    uint64_t message;  /* the greatest message number before that packet, or near it */
    uint64_t number;   /* of the first message that starts in it; LLI_BLOCK_UNNUMBERED: not known */
    uint64_t ordinal;  /* number of the segment in its recording, which names its file */
    uint64_t sequence; /* of its first block; blocks of earlier segments from this one on do not count */
    uint64_t previous; /* hash of the block before that */
    lli_ns wall;       /* wall clock of the block before that: nothing in the segment arrived earlier */
    lli_ns begun;      /* wall clock when the segment was begun */
    uint64_t size;     /* bytes of the file */
    bool failed;       /* a write to it has failed, in this process */
    struct lli_catalogue_age age; /* since it was begun; of retention */
};

struct lli_recording {
    uint64_t session;
    lli_seq start; /* the first packet that the session sent */
    struct lli_segment_stream stream;
    char channel[LLI_SEGMENT_CHANNEL_MAX + 1];
    struct lli_catalogue_segment *segments; /* in ascending order of ordinals; at least one */
    uint32_t count;
    uint32_t capacity;
    struct lli_catalogue_age age; /* since the last write, or since it was followed; of retention */
};

/* A file with a cleared header in the place of a segment. */
struct lli_catalogue_ready {
    uint64_t session;
    uint64_t ordinal;
};

struct lli_catalogue {
    char *directory; /* its path, for messages */
    int fd;          /* of the directory */
    struct lli_log log;
    struct lli_recording **recordings; /* in ascending order of sessions */
    uint32_t count;
    uint32_t capacity;
    struct lli_catalogue_ready *ready; /* files that wait to become segments; of a process that was killed */
    uint32_t ready_count;
    uint32_t ready_capacity;
    uint64_t
        ignored; /* other files without the header that their name asks for, when the directory was read */
    uint64_t versions;         /* of these, segments of another version */
    struct lli_opener *opener; /* keys of recordings; NULL: none were added */
};

/*
 * Reads the headers of all segments. What lies beside them in the directory is not read. A segment of another
 * version is logged as a warning, and ignored. Allocates. LLM_ENOTFOUND: there is no such directory;
 * LLM_EACCESS: it, or a file in it, may not be read; LLM_ESYSTEM; LLM_ENOMEM.
 */
int lli_catalogue_open(const char *directory, const struct lli_log *log, struct lli_catalogue **catalogue);

/* Adds the keys of a file, with which cursors open packets. Errors as lli_opener_add(); LLM_ENOMEM. */
int lli_catalogue_add_keys(struct lli_catalogue *catalogue, const char *path);

/* Returns the recording of a session, valid until a segment is added or removed; NULL: there is none. */
const struct lli_recording *lli_catalogue_find(const struct lli_catalogue *catalogue, uint64_t session);

/*
 * Notes a segment that was begun; one with the same number, which has nothing but names, is replaced. Allocates.
 * LLM_ENOMEM.
 */
int lli_catalogue_add(struct lli_catalogue *catalogue, const struct lli_segment *segment);

/* Notes the number of the first message that starts in a segment. No effect if there is no such segment. */
void lli_catalogue_number(struct lli_catalogue *catalogue, uint64_t session, uint64_t ordinal,
                          uint64_t number);

/* Notes that a write to a segment has failed. No effect if there is no such segment. */
void lli_catalogue_fail(struct lli_catalogue *catalogue, uint64_t session, uint64_t ordinal);

/*
 * Forgets a segment, and with the last one its recording. False: there is no such segment. Files stay.
 */
bool lli_catalogue_remove(struct lli_catalogue *catalogue, uint64_t session, uint64_t ordinal);

void lli_catalogue_close(struct lli_catalogue **catalogue);

/* Returns the segment's header as far as the catalogue has it. */
struct lli_segment lli_catalogue_segment(const struct lli_recording *recording,
                                         const struct lli_catalogue_segment *segment);

enum lli_catalogue_suffix { LLI_CATALOGUE_SEGMENT, LLI_CATALOGUE_INDEX };

enum { LLI_CATALOGUE_NAME = 48 }; /* bytes of the name of a file, with that of its folder */

/* Writes the name of a file in the directory: "<session>/<number of the segment>.segment" or ".index". */
void lli_catalogue_name(char name[static LLI_CATALOGUE_NAME], uint64_t session, uint64_t ordinal,
                        enum lli_catalogue_suffix suffix);

#endif
