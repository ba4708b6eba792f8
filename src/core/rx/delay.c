/* SPDX-License-Identifier: Apache-2.0 */
#include "core/rx/delay.h"

/*
 * Two clocks drift apart by less than one part in so many, and the quickest may take as much longer: so one that always reads late,
 * by 0.7 s, is known for 48 minutes, and one that seems to for a clock that jumped by 10 ms for 41 s.
 */
enum { DELAY_DRIFT = 4096 };

/* One that was quicker by more is believed when the next one was, too: a forged one may name any time. */
#define DELAY_DOUBT ((lli_ns)1000000)

/* Nothing waits for longer: a clock jumped, or somebody made it up. */
#define DELAY_MAX ((lli_ns)60000000000)

/* One that says it took so long is far quicker than the quickest: that counts as the slower of two in a row. */
static void delay_doubt(struct lli_delay *delay, uint64_t took, uint64_t quicker, lli_ns now)
{
    if (delay->doubted == 0)
        *delay = (struct lli_delay){.least = delay->least, .at = delay->at, .doubted = quicker};
    else
        *delay = (struct lli_delay){.least = took + (quicker > delay->doubted ? quicker - delay->doubted : 0), .at = now};
}

void lli_delay_heard(struct lli_delay *delay, uint64_t sent_at, lli_ns now)
{
    const uint64_t took = now - sent_at;
    const uint64_t least = delay->least + (now - delay->at) / DELAY_DRIFT;

    if (delay->at != 0 && least - took > DELAY_DOUBT && least - took <= DELAY_MAX) {
        delay_doubt(delay, took, least - took, now);
        return;
    }
    /* One that was a little quicker than the quickest counts as much later here. */
    if (delay->at == 0 || took - least > DELAY_MAX)
        *delay = (struct lli_delay){.least = took, .at = now};
    else
        *delay = (struct lli_delay){.least = least, .at = now, .queued = took - least};
}
