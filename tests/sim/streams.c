/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: each session of a node continues those before it. Oracle: at a receiver one session of a stream is
 * followed at a time, terms do not fall, and where one session continues another, exactly what is missing or
 * comes again is reported.
 */
#include "check.h"

void sim_streams_open(struct sim_world *world, struct sim_session *session)
{
    const struct sim_session *before = NULL;
    uint64_t random = world->scenario.seed ^ (uint64_t)session->index << 32 ^ UINT64_C(0x73747265616d);
    uint64_t want, lost;

    if (!world->scenario.streams)
        return;
    (void)lli_random(&random);
    for (uint32_t i = 0; i < session->index; i++)
        if (world->sessions[i]->node == session->node)
            before = world->sessions[i];
    session->stream = session->node + 1;
    if (before == NULL)
        return;
    /* A store may lack the end of what was sent, and an application may leave numbers out. */
    lost = lli_random_below(&random, 2) == 0 ? lli_random_below(&random, 40) : 0;
    want = before->base + before->end;
    want = want > lost ? want - lost : 0;
    want += lli_random_below(&random, 5) == 0 ? lli_random_below(&random, 10) : 0;
    session->base = want > session->first ? want - session->first : 0;
    session->term = before->term + (lli_random_below(&random, 4) != 0);
}

static bool streams_is_continued(const struct sim_world *world, const struct sim_session *session)
{
    for (uint32_t i = session->index + 1; i < world->sessions_count; i++)
        if (world->sessions[i]->node == session->node)
            return true;
    return false;
}

bool sim_streams_may_supersede(const struct sim_world *world, const struct sim_session *session)
{
    return session->stream != 0 && streams_is_continued(world, session);
}

/* After the seam was reported, if there was one, delivery of the session begins. */
static void streams_settle(struct sim_world *world, const struct sim_node *node, struct sim_stream_view *view)
{
    if (view->pending && view->known && view->next != view->begin)
        sim_fail(world, "node %u session %u: begins with number %llu of its stream, %llu was next, not told",
                 node->index, view->session, (unsigned long long)view->begin, (unsigned long long)view->next);
    if (view->pending)
        view->next = view->begin;
    view->known |= view->pending;
    view->pending = false;
}

static void streams_new(struct sim_world *world, const struct sim_node *node,
                        const struct sim_session *session, struct sim_stream_view *view,
                        const struct llm_event *event)
{
    if (event->stream != session->stream || event->stream_base != session->base ||
        event->stream_term != session->term)
        sim_fail(world, "node %u session %u: the stream in its event is another one", node->index,
                 session->index);
    if (view->open)
        sim_fail(world, "node %u: session %u is followed beside session %u of the same stream", node->index,
                 session->index, view->session);
    if (session->term < view->term)
        sim_fail(world, "node %u: session %u is followed in term %u after term %u", node->index,
                 session->index, session->term, view->term);
    view->open = view->pending = true;
    view->session = session->index;
    view->term = session->term;
    view->begin = session->base + event->first;
}

static void streams_seam(struct sim_world *world, const struct sim_node *node, struct sim_stream_view *view,
                         const struct llm_event *event)
{
    const bool gap = event->kind == LLM_EVENT_STREAM_GAP;

    if (!view->pending || !view->known || event->reason != LLM_REASON_RESTARTED ||
        event->first != (gap ? view->next : view->begin) ||
        event->last + 1 != (gap ? view->begin : view->next) || event->last < event->first)
        sim_fail(world, "node %u: numbers %llu to %llu are told %s, %llu was next and it begins with %llu",
                 node->index, (unsigned long long)event->first, (unsigned long long)event->last,
                 gap ? "missing" : "to come again", (unsigned long long)view->next,
                 (unsigned long long)view->begin);
    view->next = view->begin;
}

/* True if a later session of the stream has a higher term. */
static bool streams_has_higher_term(const struct sim_world *world, const struct sim_session *session)
{
    for (uint32_t i = session->index + 1; i < world->sessions_count; i++)
        if (world->sessions[i]->node == session->node && world->sessions[i]->term > session->term)
            return true;
    return false;
}

/* A session may be refused for its term only. */
static void streams_refused(struct sim_world *world, const struct sim_node *node,
                            const struct sim_session *session, const struct sim_stream_view *view,
                            const struct llm_event *event)
{
    /* A session may be followed that did not begin yet: of this term, or of a higher one. */
    if (event->reason == LLM_REASON_SUPERSEDED
            ? session->term >= view->term && !streams_has_higher_term(world, session)
            : session->term < view->term)
        sim_fail(world, "node %u: session %u is refused in term %u, %u is followed", node->index,
                 session->index, session->term, view->term);
}

void sim_streams_item(struct sim_world *world, struct sim_node *node, const struct sim_session *session,
                      const struct lli_item *item)
{
    struct sim_stream_view *view = &node->follower->views[session->node];
    const enum llm_event_kind kind = item->kind == LLI_ITEM_MESSAGES ? 0 : item->event.kind;

    if (session->stream == 0 || kind == LLM_EVENT_JOIN_REFUSED)
        return;
    if (kind == LLM_EVENT_STREAM_REFUSED) {
        streams_refused(world, node, session, view, &item->event);
    } else if (kind == LLM_EVENT_SESSION_NEW) {
        streams_new(world, node, session, view, &item->event);
    } else if (!view->open || view->session != session->index) {
        sim_fail(world, "node %u: something of session %u, session %u of its stream is followed", node->index,
                 session->index, view->session);
    } else if (kind == LLM_EVENT_STREAM_GAP || kind == LLM_EVENT_STREAM_AGAIN) {
        streams_seam(world, node, view, &item->event);
        streams_settle(world, node, view);
    } else {
        streams_settle(world, node, view);
    }
    if (kind == LLM_EVENT_SESSION_END)
        sim_streams_left(node, session, item->event.first);
}

void sim_streams_left(struct sim_node *node, const struct sim_session *session, uint64_t number)
{
    struct sim_stream_view *view = &node->follower->views[session->node];

    if (session->stream == 0 || !view->open || view->session != session->index)
        return;
    view->open = false;
    view->next = session->base + number;
}
