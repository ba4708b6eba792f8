/* SPDX-License-Identifier: Apache-2.0 */
#include "delay.h"

/*
 * Two clocks drift apart by less than one part in so many, and the quickest may take as much longer: so one that always reads late,
 * by 0.7 s, is known for 48 minutes, and one that seems to for a clock that jumped by 10 ms for 41 s.
 */
enum { DELAY_DRIFT = 4096 };

/* Nothing waits for longer: a clock jumped, or somebody made it up. */
#define DELAY_MAX ((lli_ns)60000000000)

void lli_delay_heard(struct lli_delay *delay, uint64_t sent_at, lli_ns now)
{
    const uint64_t took = now - sent_at;
    const uint64_t least = delay->least + (now - delay->at) / DELAY_DRIFT;

    /* One that was quicker than the quickest counts as much later here. */
    if (delay->at == 0 || took - least > DELAY_MAX)
        *delay = (struct lli_delay){.least = took, .at = now};
    else
        *delay = (struct lli_delay){.least = least, .at = now, .queued = took - least};
}
