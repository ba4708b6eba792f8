/* SPDX-License-Identifier: Apache-2.0 */
#include "core/rx/former.h"

/* True if entry a is to be overwritten rather than entry b. */
static bool former_is_staler(const struct lli_former_session *a, const struct lli_former_session *b)
{
    const bool free_a = a->noted == 0 || a->idle, free_b = b->noted == 0 || b->idle;

    return free_a != free_b ? free_a : a->noted < b->noted;
}

void lli_former_note(struct lli_former *former, const struct lli_former_session *session)
{
    struct lli_former_session *place = &former->sessions[0];

    for (int i = 0; i < LLI_FORMER_MAX; i++) {
        struct lli_former_session *other = &former->sessions[i];

        if (other->session == session->session) {
            place = other;
            break;
        }
        if (former_is_staler(other, place))
            place = other;
    }
    *place = *session;
    place->noted = ++former->noted;
}

void lli_former_forget(struct lli_former *former, uint64_t session)
{
    for (int i = 0; i < LLI_FORMER_MAX; i++)
        if (former->sessions[i].session == session)
            former->sessions[i] = (struct lli_former_session){.session = 0};
}

const struct lli_former_session *lli_former_find(const struct lli_former *former, uint64_t session)
{
    for (int i = 0; i < LLI_FORMER_MAX; i++)
        if (former->sessions[i].session == session && former->sessions[i].noted != 0)
            return &former->sessions[i];
    return NULL;
}
