/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Client: sends orders to the gateway, and adds a line with the number of each order that was confirmed to a file.
 *
 *   order_client FILE FIRST COUNT [RATE [CHANNEL]]
 *
 * Sends the orders FIRST to FIRST + COUNT - 1, RATE of them a second (1000 if not given), with at most 16 unanswered.
 * Fails if an order is not confirmed.
 */
#include "order.h"

#include <string.h>

#define PATIENCE_NS UINT64_C(60000000000)

enum { UNANSWERED_MAX = 16 };

struct client;

/* An order that was sent and is not answered. */
struct sent {
    struct client *client;
    uint64_t number;
    bool waits;
};

struct client {
    struct llm_connection *connection;
    FILE *file;
    bool connected;
    bool over;
    uint64_t confirmed;
    uint64_t answered;
    uint64_t slowest_ns;
    struct sent sent[UNANSWERED_MAX];
    uint64_t sent_at[UNANSWERED_MAX];
};

static void on_event(void *arg, struct llm_connection *connection, const struct llm_event *event)
{
    struct client *client = arg;

    (void)connection;
    client->connected |= event->kind == LLM_EVENT_CONNECTED;
    client->over |= event->kind == LLM_EVENT_DISCONNECTED;
}

/* Called once for each order. Without a reply nobody knows whether the order is stored. */
static void on_reply(void *arg, enum llm_reason reason, const void *data, size_t size)
{
    struct sent *sent = arg;
    struct client *client = sent->client;
    const uint64_t took = llm_clock() - client->sent_at[sent - client->sent];

    sent->waits = false;
    client->answered++;
    if (reason != LLM_REASON_NONE) {
        printf("order %" PRIu64 ": no answer: %s\n", sent->number, llm_reason_name(reason));
        return;
    }
    if (size != strlen("confirmed") || memcmp(data, "confirmed", size) != 0) {
        printf("order %" PRIu64 ": %.*s\n", sent->number, (int)size, (const char *)data);
        return;
    }
    client->confirmed++;
    if (took > client->slowest_ns)
        client->slowest_ns = took;
    fprintf(client->file, "%" PRIu64 "\n", sent->number);
}

/* Sends an order. False: 16 are unanswered, or the connection is full; try again after a poll. */
static bool send_order(struct client *client, uint64_t number)
{
    char text[ORDER_BYTES_MAX];
    int place = 0, size, result;

    while (place < UNANSWERED_MAX && client->sent[place].waits)
        place++;
    if (place == UNANSWERED_MAX)
        return false;
    size = snprintf(text, sizeof text, "%" PRIu64 " buy %" PRIu64 " ACME 42.50", number, number % 900 + 100);
    client->sent[place] = (struct sent){client, number, true};
    client->sent_at[place] = llm_clock();
    result = llm_connection_request(client->connection, text, (size_t)size, PATIENCE_NS, on_reply,
                                    &client->sent[place]);
    if (result == LLM_OK)
        return true;
    client->sent[place].waits = false;
    if (result != LLM_EAGAIN)
        check(result, "llm_connection_request");
    return false;
}

static void send_orders(struct llm_context *context, struct client *client, uint64_t first, uint64_t count,
                        uint64_t interval_ns)
{
    const uint64_t begun_at = llm_clock();
    uint64_t sent = 0;

    while (client->answered < count && !client->over) {
        const uint64_t now = llm_clock(), due_at = begun_at + sent * interval_ns;

        if (sent < count && now >= due_at && send_order(client, first + sent))
            sent++;
        else
            check(llm_wait(context, sent < count && due_at > now ? due_at - now : 1000000), "llm_wait");
    }
}

int main(int argc, char **argv)
{
    struct llm_connection_handlers handlers;
    struct llm_context_options options;
    struct client client = {.over = false};
    struct llm_context *context;
    uint64_t first, count, rate;

    if (argc < 4 || argc > 6) {
        fprintf(stderr, "usage: order_client FILE FIRST COUNT [RATE [CHANNEL]]\n");
        return EXIT_FAILURE;
    }
    first = argument_number(argv[2], 0, ORDER_NUMBER_MAX - 1);
    count = argument_number(argv[3], 1, ORDER_NUMBER_MAX - first);
    rate = argc > 4 ? argument_number(argv[4], 1, 1000000) : 1000;
    client.file = fopen(argv[1], "a");
    if (client.file == NULL) {
        perror(argv[1]);
        return EXIT_FAILURE;
    }
    setvbuf(client.file, NULL, _IOLBF, 0);

    llm_context_options_init(&options);
    options.wait = LLM_WAIT_BLOCK;
    check(llm_context_open(&options, &context), "llm_context_open");
    llm_connection_handlers_init(&handlers);
    handlers.arg = &client;
    handlers.event = on_event;
    check(llm_connection_open(context, argc > 5 ? argv[5] : ORDER_CHANNEL, NULL, &handlers, NULL,
                              &client.connection),
          "llm_connection_open");
    while (!client.connected && !client.over)
        check(llm_wait(context, PATIENCE_NS), "llm_wait");
    send_orders(context, &client, first, count, 1000000000 / rate);
    printf("%" PRIu64 " of %" PRIu64 " orders confirmed, the slowest after %" PRIu64 " us\n",
           client.confirmed, count, client.slowest_ns / 1000);

    check(llm_connection_close(&client.connection), "llm_connection_close");
    check(llm_context_close(&context), "llm_context_close");
    return fclose(client.file) == 0 && client.confirmed == count ? EXIT_SUCCESS : EXIT_FAILURE;
}
