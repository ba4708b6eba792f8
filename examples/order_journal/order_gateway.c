/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gateway: takes orders from clients, publishes each on a topic, and confirms it to its client when as many
 * stores as are wanted have it on disk.
 *
 *   order_gateway [STORES [CHANNEL [JOURNAL]]]
 *
 * STORES: which stores have to have an order before it is confirmed, "store-*:2" (any two) if not given; CHANNEL: on
 * which clients connect; JOURNAL: on which the stores listen. Ends with ctrl-C or SIGTERM.
 */
#include "order.h"

#include <signal.h>
#include <string.h>

enum { ORDERS_MAX = 1024 }; /* orders that may wait for the stores */

/* An order that is not confirmed. */
struct waiting {
    struct llm_connection *connection; /* NULL: confirmed, or the client is gone */
    uint64_t request;
};

struct gateway {
    struct llm_transmitter *journal;
    struct llm_topic *topic;
    uint64_t answered;                 /* messages before this one are confirmed ... */
    uint64_t stored;                   /* ... and before this one stored */
    struct waiting orders[ORDERS_MAX]; /* by number of the message, modulo ORDERS_MAX */
};

static volatile sig_atomic_t stopped;

static void stop(int signal_number)
{
    (void)signal_number;
    stopped = 1;
}

static void print_event(const struct llm_event *event)
{
    char text[256];

    llm_event_text(event, text, sizeof text);
    printf("* %s\n", text);
}

/* ------------------------------------------------------------------------------------------------- confirm */

/*
 * Confirms what is stored. LLM_EAGAIN: this client does not read its replies; it is tried again later, and the
 * others do not wait for it.
 */
static void confirm(struct gateway *gateway)
{
    static const char reply[] = "confirmed";

    for (uint64_t number = gateway->answered; number < gateway->stored; number++) {
        struct waiting *order = &gateway->orders[number % ORDERS_MAX];

        if (order->connection != NULL &&
            llm_connection_reply(order->connection, order->request, reply, sizeof reply - 1) != LLM_EAGAIN)
            order->connection = NULL;
    }
    while (gateway->answered < gateway->stored &&
           gateway->orders[gateway->answered % ORDERS_MAX].connection == NULL)
        gateway->answered++;
}

/*
 * Events of the journal. The numbers of an event are those of the session; the journal has a single topic, so all of
 * them are orders. Acknowledgements come in order.
 */
static void on_journal_event(void *arg, const struct llm_event *event)
{
    struct gateway *gateway = arg;

    if (event->kind == LLM_EVENT_ACKNOWLEDGED) {
        gateway->stored = event->last + 1;
        confirm(gateway);
    } else {
        print_event(event);
    }
}

/* ------------------------------------------------------------------------------------------------- clients */

static void refuse(struct llm_connection *connection, const struct llm_request *asked, const char *why)
{
    if (llm_connection_reply(connection, asked->id, why, strlen(why)) != LLM_OK)
        fprintf(stderr, "order_gateway: a refusal is dropped: %s\n", why);
}

static void on_order(void *arg, struct llm_connection *connection, const struct llm_request *asked)
{
    struct gateway *gateway = arg;
    const uint64_t number = llm_transmitter_next(gateway->journal);
    uint64_t ignored;
    int result;

    if (!order_number(asked->data, asked->size, &ignored)) {
        refuse(connection, asked, "refused: no order");
        return;
    }
    result = number - gateway->answered < ORDERS_MAX ? llm_send(gateway->topic, asked->data, asked->size, 0)
                                                     : LLM_EAGAIN;
    if (result == LLM_EAGAIN)
        refuse(connection, asked, "refused: too many orders wait for the stores, try again");
    else
        gateway->orders[number % ORDERS_MAX] = (struct waiting){connection, asked->id};
    if (result != LLM_EAGAIN)
        check(result, "llm_send");
}

static void on_client_event(void *arg, struct llm_connection *connection, const struct llm_event *event)
{
    struct gateway *gateway = arg;

    print_event(event);
    if (event->kind != LLM_EVENT_DISCONNECTED)
        return;
    /* Nobody is there to be told; the orders are stored all the same. */
    for (int i = 0; i < ORDERS_MAX; i++)
        if (gateway->orders[i].connection == connection)
            gateway->orders[i].connection = NULL;
    check(llm_connection_close(&connection), "llm_connection_close");
}

static int on_connect(void *arg, struct llm_listener *listener, const struct llm_caller *caller,
                      struct llm_connection_handlers *handlers)
{
    (void)listener;
    (void)caller;
    handlers->arg = arg;
    handlers->request = on_order;
    handlers->event = on_client_event;
    return LLM_OK;
}

/* ---------------------------------------------------------------------------------------------------- main */

static void open_journal(struct llm_context *context, const char *channel, const char *stores,
                         struct gateway *gateway)
{
    struct llm_transmitter_handlers handlers;
    struct llm_assurance assurance;

    llm_transmitter_handlers_init(&handlers);
    handlers.arg = gateway;
    handlers.event = on_journal_event;
    check(llm_transmitter_open(context, channel, NULL, &handlers, &gateway->journal), channel);
    check(llm_topic_open(gateway->journal, JOURNAL_TOPIC, 0, &gateway->topic), "llm_topic_open");
    llm_assurance_init(&assurance);
    assurance.receivers = 0; /* no number of any receivers, but these: */
    assurance.names = stores;
    assurance.messages_max = ORDERS_MAX;
    check(llm_topic_assure(gateway->topic, &assurance), stores);
}

int main(int argc, char **argv)
{
    const char *channel = argc > 2 ? argv[2] : ORDER_CHANNEL;
    static struct gateway gateway;
    struct llm_listener_handlers handlers;
    struct llm_context_options options;
    struct llm_context *context;
    struct llm_listener *listener;

    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGINT, stop);
    signal(SIGTERM, stop);

    llm_context_options_init(&options);
    options.wait = LLM_WAIT_BLOCK;
    check(llm_context_open(&options, &context), "llm_context_open");
    open_journal(context, argc > 3 ? argv[3] : JOURNAL_CHANNEL, argc > 1 ? argv[1] : "store-*:2", &gateway);
    llm_listener_handlers_init(&handlers);
    handlers.arg = &gateway;
    handlers.connect = on_connect;
    check(llm_listener_open(context, channel, NULL, &handlers, &listener), channel);
    printf("* listening on %s\n", channel);

    while (!stopped) {
        check(llm_wait(context, 100000000), "llm_wait");
        confirm(&gateway);
    }

    check(llm_listener_close(&listener), "llm_listener_close");
    if (check(llm_transmitter_close(&gateway.journal), "llm_transmitter_close") > 0)
        printf("* not all orders are known to be stored\n");
    check(llm_context_close(&context), "llm_context_close");
    return EXIT_SUCCESS;
}
