/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sealing.h"

#include <stdlib.h>
#include <string.h>

#include "core/protect/protect.h"
#include "engine/objects.h"
#include "security/guard.h"
#include "security/signature.h"

#define SEALING_LOOK ((lli_ns)5000000)      /* between two looks at packets that wait for a seal */
#define SEALING_ASK_MAX ((lli_ns)320000000) /* longest interval of requests that are not answered */
#define SEALING_REPORT ((lli_ns)1000000000) /* between two reports on a session */
#define SEALING_IDLE ((lli_ns)10000000000)  /* after which a silent session's place may be taken */
#define SEALER_ANSWER ((lli_ns)500000)      /* between two answers to requests */

/* Session whose packets are verified; unused if session is 0. */
struct sealing_session {
    uint64_t session;
    int key; /* index of the key that signs it; -1: none did yet */
    struct lli_wire_address address;
    struct lli_seal_window window;
    lli_ns report_at; /* no report before */
    lli_ns ask_at;    /* no request before */
    lli_ns ask_ns;    /* interval of requests, which doubles until a seal verifies a packet */
};

struct lli_sealing {
    struct lli_verifier *verifier;
    struct lli_digest digest;
    bool holds;       /* option seal_hold: delivery waits for seals */
    lli_ns look_at;   /* LLI_NEVER: no packet waits */
    lli_ns report_at; /* no report before on sessions that have no place */
    uint32_t count;
    struct sealing_session sessions[];
};

struct lli_sealer {
    struct lli_signer *signer;
    struct lli_digest digest;
    struct lli_seal_log log;
    lli_ns answer_at;
};

/* ---------------------------------------------------------------------------------------- transmitters */

void lli_sealer_close(struct lli_sealer *sealer)
{
    if (sealer == NULL)
        return;
    lli_signer_close(sealer->signer);
    lli_digest_close(&sealer->digest);
    free(sealer->log.digests);
    free(sealer);
}

int lli_sealer_open(struct llm_transmitter *transmitter, const struct llm_options *options)
{
    const struct lli_log *log = &transmitter->context->log;
    struct lli_sealer *sealer;
    /* As many as a receiver may ask for, also where the history is shorter. */
    const uint32_t capacity = (uint32_t)lli_max(options->history_packets, LLI_SEAL_WINDOW);
    uint8_t(*digests)[LLI_SEAL_DIGEST];
    int error;

    if (options->seal[0] == '\0')
        return LLM_OK;
    if (transmitter->endpoint->guard == NULL)
        return lli_fail(log, LLM_EOPTION,
                        "option seal: \"%s\": the channel is without the option keys, which seals need: add "
                        "keys=FILE, a file of llm-key",
                        options->seal);
    sealer = calloc(1, sizeof *sealer);
    digests = calloc(capacity, sizeof *digests);
    if (sealer == NULL || digests == NULL || !lli_digest_open(&sealer->digest)) {
        free(digests);
        lli_sealer_close(sealer);
        return lli_fail(log, LLM_ENOMEM, "no memory for seals");
    }
    lli_seal_log_init(&sealer->log, digests, capacity);
    error = lli_signer_open(options->seal, log, &sealer->signer);
    if (error != LLM_OK) {
        lli_sealer_close(sealer);
        return error;
    }
    transmitter->sealer = sealer;
    return LLM_OK;
}

void lli_sealer_note(struct llm_transmitter *transmitter, lli_seq seq, const uint8_t *packet, uint32_t size)
{
    struct lli_sealer *sealer = transmitter->sealer;
    uint8_t digest[LLI_SEAL_DIGEST];

    if (!lli_digest_begin(&sealer->digest) || !lli_digest_add(&sealer->digest, packet, size) ||
        !lli_digest_end(&sealer->digest, digest))
        return;
    lli_seal_log_note(&sealer->log, seq, digest, lli_context_time(transmitter->context, lli_ticks()));
}

/* Fills the digests of a seal's ranges. */
static bool sealer_fill(struct lli_sealer *sealer, struct lli_seal *seal)
{
    bool done = true;

    for (uint32_t i = 0; done && i < seal->count; i++) {
        struct lli_seal_range *range = &seal->ranges[i];

        done = lli_digest_begin(&sealer->digest);
        for (uint32_t k = 0; done && k < range->count; k++)
            done = lli_digest_add(&sealer->digest, lli_seal_log_digest(&sealer->log, range->first + k),
                                  LLI_SEAL_DIGEST);
        done = done && lli_digest_end(&sealer->digest, range->digest);
    }
    return done;
}

/* Signs and sends a seal of given ranges. One that cannot be sent is asked for. */
static void sealer_send(struct llm_transmitter *transmitter, struct lli_seal *seal)
{
    struct lli_endpoint *endpoint = transmitter->endpoint;
    uint8_t text[LLI_SEAL_TEXT_MAX], *buffer;
    struct lli_packet packet;
    uint32_t text_size;

    seal->session = transmitter->tx.config.session;
    seal->asks = false;
    if (!sealer_fill(transmitter->sealer, seal) || (buffer = lli_endpoint_scratch(endpoint)) == NULL)
        return;
    packet = (struct lli_packet){.data = buffer, .size = lli_seal_put(buffer, seal)};
    text_size = lli_seal_text(buffer, seal, text);
    if (!lli_signer_sign(transmitter->sealer->signer, text, text_size, buffer + text_size))
        return;
    endpoint->counters.seals_sent++;
    lli_endpoint_post_session(endpoint, transmitter, &packet);
}

static void sealer_send_due(struct llm_transmitter *transmitter, lli_ns now)
{
    struct lli_seal seal;

    while (lli_seal_log_due(&transmitter->sealer->log) <= now) {
        lli_seal_log_take(&transmitter->sealer->log, &seal, now);
        sealer_send(transmitter, &seal);
    }
}

void lli_sealer_posted(struct llm_transmitter *transmitter)
{
    sealer_send_due(transmitter, lli_context_time(transmitter->context, lli_ticks()));
    lli_endpoint_due(transmitter->endpoint, lli_seal_log_due(&transmitter->sealer->log));
}

void lli_sealer_finish(struct llm_transmitter *transmitter)
{
    const lli_ns now = lli_context_time(transmitter->context, lli_ticks());
    struct lli_seal seal;

    if (transmitter->sealer == NULL)
        return;
    while (lli_seal_log_due(&transmitter->sealer->log) != LLI_NEVER) {
        lli_seal_log_take(&transmitter->sealer->log, &seal, now);
        sealer_send(transmitter, &seal);
    }
    lli_endpoint_flush(transmitter->endpoint);
}

/* Answers a request for seals of a transmitter's session. */
static void sealer_answer(struct lli_endpoint *endpoint, struct lli_seal *seal, lli_ns now)
{
    for (struct llm_transmitter *transmitter = endpoint->transmitters; transmitter != NULL;
         transmitter = transmitter->next) {
        struct lli_sealer *sealer = transmitter->sealer;

        if (sealer == NULL || transmitter->tx.config.session != seal->session || now < sealer->answer_at)
            continue;
        lli_seal_log_answer(&sealer->log, seal);
        if (seal->count == 0)
            return;
        sealer->answer_at = now + SEALER_ANSWER;
        sealer_send(transmitter, seal);
        lli_endpoint_due(endpoint, 0);
    }
}

/* ------------------------------------------------------------------------------------------- receivers */

void lli_sealing_close(struct lli_endpoint *endpoint)
{
    struct lli_sealing *sealing = endpoint->sealing;

    endpoint->sealing = NULL;
    if (sealing == NULL)
        return;
    for (uint32_t i = 0; i < sealing->count; i++)
        free(sealing->sessions[i].window.entries);
    lli_digest_close(&sealing->digest);
    lli_verifier_close(sealing->verifier);
    free(sealing);
}

/* Allocates all sessions; pages of those that are never followed are never touched. */
static int sealing_fill(struct lli_sealing *sealing, uint32_t count, const struct lli_log *log)
{
    bool done = lli_digest_open(&sealing->digest);

    for (sealing->count = 0; done && sealing->count < count; sealing->count++) {
        struct lli_seal_window *window = &sealing->sessions[sealing->count].window;

        window->entries = calloc(LLI_SEAL_WINDOW, sizeof *window->entries);
        done = window->entries != NULL;
    }
    return done ? LLM_OK : lli_fail(log, LLM_ENOMEM, "no memory for seals");
}

int lli_sealing_open(struct lli_endpoint *endpoint)
{
    const struct llm_options *options = &endpoint->channel.options;
    const struct lli_log *log = &endpoint->context->log;
    /* Each connection has a session of the other side. */
    const uint32_t places = options->sessions_max + options->connections_max;
    struct lli_sealing *sealing;
    int error;

    if (options->seal_keys[0] == '\0')
        return LLM_OK;
    if (options->keys[0] == '\0')
        return lli_fail(
            log, LLM_EOPTION,
            "option seal_keys: \"%s\": the channel is without the option keys, which seals need: add "
            "keys=FILE, a file of llm-key",
            options->seal_keys);
    sealing = calloc(1, sizeof *sealing + places * sizeof sealing->sessions[0]);
    if (sealing == NULL)
        return lli_fail(log, LLM_ENOMEM, "no memory for seals");
    sealing->look_at = LLI_NEVER;
    sealing->holds = options->seal_hold != 0;
    endpoint->sealing = sealing;
    error = lli_verifier_open(options->seal_keys, log, &sealing->verifier);
    return error != LLM_OK ? error : sealing_fill(sealing, places, log);
}

static struct sealing_session *sealing_find(struct lli_sealing *sealing, uint64_t session)
{
    for (uint32_t i = 0; i < sealing->count; i++)
        if (sealing->sessions[i].session == session)
            return &sealing->sessions[i];
    return NULL;
}

static enum lli_seal_state sealing_state(void *seals, uint64_t identity, lli_seq seq)
{
    const struct sealing_session *session = sealing_find(seals, identity);

    return session != NULL ? lli_seal_window_state(&session->window, seq) : LLI_SEAL_NONE;
}

void lli_sealing_hold(struct lli_endpoint *endpoint, struct lli_rx_config *config)
{
    if (endpoint->sealing == NULL || !endpoint->sealing->holds)
        return;
    config->seal_state = sealing_state;
    config->seals = endpoint->sealing;
}

/* Delivers what waited for seals, or is lost without them. */
static void sealing_resume(struct lli_endpoint *endpoint, const struct sealing_session *session, lli_ns now)
{
    if (!endpoint->sealing->holds)
        return;
    for (struct llm_receiver *receiver = endpoint->receivers; receiver != NULL; receiver = receiver->next)
        lli_sessions_resume(receiver, session->session, now);
}

/*
 * Reports packets of a session that its transmitter did not send, or for which that is not known. No report before
 * *report_at, which becomes a second later.
 */
static void sealing_report(struct lli_endpoint *endpoint, uint64_t session, lli_ns *report_at,
                           enum llm_reason reason, uint32_t packets, lli_ns now)
{
    const struct llm_event event = {
        .kind = LLM_EVENT_FORGED, .reason = reason, .session = session, .packets = packets};
    struct llm_context *context = endpoint->context;

    if (now < *report_at)
        return;
    *report_at = now + SEALING_REPORT;
    lli_log(
        &context->log, LLM_LEVEL_WARNING, "%s: session %016llx: %s: %s", endpoint->object,
        (unsigned long long)session, llm_reason_name(reason),
        reason == LLM_REASON_UNSEALED
            ? "its transmitter is without the option seal, its public key is not in seal_keys, the packets "
              "came from a store, the transmitter has ended, there are more sessions than sessions_max and "
              "connections_max, or another member of the group forges packets"
            : "another member of the group forges packets: withdraw its key");
    context->in_handler = true;
    for (struct llm_receiver *receiver = endpoint->receivers; receiver != NULL; receiver = receiver->next) {
        if (receiver->handlers.event == NULL)
            continue;
        lli_sessions_report(receiver, &event);
        context->delivered++;
    }
    context->in_handler = false;
}

/* Notes the session of a heartbeat, and where its transmitter is. */
static void sealing_take_heartbeat(struct lli_sealing *sealing, const struct lli_in *clear, lli_ns now)
{
    struct lli_wire_heartbeat heartbeat;
    struct lli_wire_header header;
    struct sealing_session *session;
    const uint8_t *body;
    size_t size;

    if (lli_wire_get_header(clear->data, clear->size, &header, &body, &size) != LLI_WIRE_OK ||
        !lli_wire_get_heartbeat(body, size, &header, &heartbeat) || heartbeat.session == 0)
        return;
    session = sealing_find(sealing, heartbeat.session);
    for (uint32_t i = 0; session == NULL && i < sealing->count; i++) {
        struct sealing_session *other = &sealing->sessions[i];

        /* A place with packets that wait would be taken without a report on them. */
        if (other->session != 0 &&
            (now < other->window.heard + SEALING_IDLE || other->window.waiting + other->window.displaced > 0))
            continue;
        session = other;
        if (session->session != 0)
            lli_seal_window_reset(&session->window);
        session->session = heartbeat.session;
        session->key = -1;
        session->report_at = session->ask_at = 0;
        session->ask_ns = SEALING_LOOK;
    }
    if (session == NULL)
        return;
    session->address = heartbeat.address;
    session->window.heard = now;
}

/* Returns true if a range of packets has the digest that was signed. */
static bool sealing_agrees(struct lli_sealing *sealing, const struct lli_seal_window *window,
                           const struct lli_seal_range *range)
{
    uint8_t digest[LLI_SEAL_DIGEST];
    bool done = lli_digest_begin(&sealing->digest);

    for (uint32_t i = 0; done && i < range->count; i++)
        done = lli_digest_add(&sealing->digest, lli_seal_window_digest(window, range->first + i),
                              LLI_SEAL_DIGEST);
    return done && lli_digest_end(&sealing->digest, digest) &&
           memcmp(digest, range->digest, LLI_SEAL_DIGEST) == 0;
}

/* Verifies packets by a seal. One that decides about none of them is not even verified itself, which takes long. */
static void sealing_take_seal(struct lli_endpoint *endpoint, const struct lli_in *clear,
                              const struct lli_seal *seal, lli_ns now)
{
    struct lli_sealing *sealing = endpoint->sealing;
    struct sealing_session *session = sealing_find(sealing, seal->session);
    uint8_t text[LLI_SEAL_TEXT_MAX];
    uint32_t text_size, refuted = 0;
    bool checked = false;

    if (session == NULL)
        return;
    for (uint32_t i = 0; i < seal->count; i++) {
        const struct lli_seal_range *range = &seal->ranges[i];
        uint32_t count;

        if (!lli_seal_window_needs(&session->window, range))
            continue;
        if (!checked) {
            int key;

            text_size = lli_seal_text(clear->data, seal, text);
            key =
                lli_verifier_check(sealing->verifier, session->key, text, text_size, clear->data + text_size);
            if (key < 0) {
                endpoint->counters.seals_invalid++;
                return;
            }
            session->key = key;
            checked = true;
        }
        if (sealing_agrees(sealing, &session->window, range)) {
            count = lli_seal_window_set(&session->window, range, LLI_SEAL_VERIFIED);
            endpoint->counters.packets_sealed += count;
            session->ask_ns = SEALING_LOOK;
        } else {
            /* One that is not delivered yet is requested again. */
            count = lli_seal_window_set(&session->window, range,
                                        sealing->holds ? LLI_SEAL_NONE : LLI_SEAL_REFUSED);
            endpoint->counters.packets_refuted += count;
            refuted += count;
        }
    }
    if (refuted > 0)
        sealing_report(endpoint, session->session, &session->report_at, LLM_REASON_SEAL, refuted, now);
    if (checked)
        sealing_resume(endpoint, session, now);
}

/* Notes a data packet as it came. False: another one of its number came before. */
static bool sealing_take_data(struct lli_endpoint *endpoint, const struct lli_in *packet, lli_ns now)
{
    struct lli_sealing *sealing = endpoint->sealing;
    uint8_t digest[LLI_SEAL_DIGEST];
    uint64_t identity;
    const lli_seq seq = lli_guard_opened(endpoint->guard, &identity);
    struct sealing_session *session = sealing_find(sealing, identity);

    if (session == NULL || !lli_digest_begin(&sealing->digest) ||
        !lli_digest_add(&sealing->digest, packet->data, packet->size) ||
        !lli_digest_end(&sealing->digest, digest)) {
        endpoint->counters.packets_unsealed++;
        sealing_report(endpoint, identity, &sealing->report_at, LLM_REASON_UNSEALED, 1, now);
        return !sealing->holds;
    }
    if (sealing->holds)
        lli_seal_window_forgive(&session->window, seq);
    switch (lli_seal_window_note(&session->window, seq, digest, now)) {
    case LLI_SEAL_NEW:
        if (sealing->look_at == LLI_NEVER) {
            sealing->look_at = now + SEALING_LOOK;
            lli_endpoint_due(endpoint, sealing->look_at);
        }
        return true;
    case LLI_SEAL_SAME:
        return true;
    case LLI_SEAL_DIFFERS:
        break;
    }
    endpoint->counters.packets_substituted++;
    sealing_report(endpoint, session->session, &session->report_at, LLM_REASON_SEAL, 1, now);
    return false;
}

bool lli_sealing_take(struct lli_endpoint *endpoint, const struct lli_in *packet, const struct lli_in *clear)
{
    const uint8_t type = clear->data[0] & 15;
    struct lli_seal seal;
    lli_ns now;

    if (endpoint->sealing == NULL && type != LLI_SEAL_TYPE)
        return true;
    now = lli_context_time(endpoint->context, lli_ticks());
    if (type == LLI_SEAL_TYPE) {
        if (!lli_seal_get(clear->data, clear->size, &seal))
            endpoint->counters.packets_malformed++;
        else if (seal.asks)
            sealer_answer(endpoint, &seal, now);
        else if (endpoint->sealing != NULL)
            sealing_take_seal(endpoint, clear, &seal, now);
        return false;
    }
    if (type == LLI_WIRE_HEARTBEAT)
        sealing_take_heartbeat(endpoint->sealing, clear, now);
    return type != LLI_WIRE_DATA || sealing_take_data(endpoint, packet, now);
}

/* Asks for the seals of a session's packets, and reports those that were asked for in vain. */
static void sealing_look_at(struct lli_endpoint *endpoint, struct sealing_session *session, lli_ns now)
{
    const uint32_t unsealed = lli_seal_window_give_up(&session->window, now);
    struct lli_seal seal = {.session = session->session};
    uint8_t *buffer;

    endpoint->counters.packets_unsealed += unsealed;
    if (unsealed > 0) {
        sealing_report(endpoint, session->session, &session->report_at, LLM_REASON_UNSEALED, unsealed, now);
        sealing_resume(endpoint, session, now);
    }
    if (now < session->ask_at || !lli_seal_window_ask(&session->window, now, &seal) ||
        (buffer = lli_endpoint_scratch(endpoint)) == NULL)
        return;
    endpoint->counters.seals_requested++;
    session->ask_at = now + session->ask_ns;
    session->ask_ns = lli_min(2 * session->ask_ns, SEALING_ASK_MAX);
    lli_endpoint_post_control(
        endpoint,
        &(struct lli_packet){.data = buffer, .size = lli_seal_put(buffer, &seal), .to = &session->address},
        LLI_GROUP_NONE);
}

void lli_sealing_service(struct lli_endpoint *endpoint, lli_ns now)
{
    struct lli_sealing *sealing = endpoint->sealing;
    bool waits = false;

    for (struct llm_transmitter *transmitter = endpoint->transmitters; transmitter != NULL;
         transmitter = transmitter->next)
        if (transmitter->sealer != NULL)
            sealer_send_due(transmitter, now);
    if (sealing == NULL || now < sealing->look_at)
        return;
    for (uint32_t i = 0; i < sealing->count; i++) {
        struct sealing_session *session = &sealing->sessions[i];

        if (session->session == 0)
            continue;
        sealing_look_at(endpoint, session, now);
        waits |= session->window.waiting > 0;
    }
    sealing->look_at = waits ? now + SEALING_LOOK : LLI_NEVER;
}

lli_ns lli_sealing_deadline(const struct lli_endpoint *endpoint)
{
    lli_ns at = endpoint->sealing != NULL ? endpoint->sealing->look_at : LLI_NEVER;

    for (const struct llm_transmitter *transmitter = endpoint->transmitters; transmitter != NULL;
         transmitter = transmitter->next)
        if (transmitter->sealer != NULL)
            at = lli_min(at, lli_seal_log_due(&transmitter->sealer->log));
    return at;
}
