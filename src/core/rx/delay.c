/* SPDX-License-Identifier: Apache-2.0 */
#include "core/rx/delay.h"

/*
 * Maximum drift of two clocks: one part in 4096. The least delay grows at this rate, so a reader that is
 * always late by 0.7 s is recognized as such for 48 minutes, and one that only seems late because a clock
 * jumped by 10 ms for 41 s.
 */
enum { DELAY_DRIFT = 4096 };

/*
 * A delay below the least by more than this needs a second one to confirm it: a forged heartbeat may carry
 * any time.
 */
#define DELAY_CONFIRM ((lli_ns)1000000)

/* Maximum of a plausible delay: beyond it a clock jumped, or the time was forged. */
#define DELAY_MAX ((lli_ns)60000000000)

/* Takes a delay far below the least: the greater of two in a row becomes the new least. */
static void delay_confirm(struct lli_delay *delay, uint64_t took, uint64_t quicker, lli_ns now)
{
    if (delay->suspect == 0)
        *delay = (struct lli_delay){.least = delay->least, .at = delay->at, .suspect = quicker};
    else
        *delay = (struct lli_delay){.least = took + (quicker > delay->suspect ? quicker - delay->suspect : 0),
                                    .at = now};
}

void lli_delay_heard(struct lli_delay *delay, uint64_t sent_at, lli_ns now)
{
    const uint64_t took = now - sent_at;
    const uint64_t least = delay->least + (now - delay->at) / DELAY_DRIFT;

    if (delay->at != 0 && least - took > DELAY_CONFIRM && least - took <= DELAY_MAX) {
        delay_confirm(delay, took, least - took, now);
        return;
    }
    /* A delay slightly below the least wraps to a huge difference here and replaces it. */
    if (delay->at == 0 || took - least > DELAY_MAX)
        *delay = (struct lli_delay){.least = took, .at = now};
    else
        *delay = (struct lli_delay){.least = least, .at = now, .queued = took - least};
}
