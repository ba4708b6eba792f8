/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the top of the book of every symbol sent by feed_handler: a table that refreshes on a terminal, else
 * a line per quote. With --relay it makes the books itself, of the messages that feed_handler --relay sends. See
 * feed_consumer --help for usage.
 */
#define _GNU_SOURCE /* isatty, TIOCGWINSZ */
#include "arguments.h"
#include "book_quote.h"

#include <llm/llm.h>

#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define ROWS_MAX 65536
#define REDRAW_NS 100000000u
#define TERMINAL_LINES 24

struct arguments {
    const char *channel;
    const char *final; /* NULL: do not print */
    uint64_t count;
    bool once;
    bool relay;
};

/* State of a symbol. */
struct row {
    char symbol[ITCH_SYMBOL_BYTES + 1];
    uint64_t session; /* session of its quote */
    struct quote quote;
};

struct consumer {
    struct arguments arguments;
    bool terminal;
    bool ended;
    uint32_t sessions;    /* followed at present */
    struct market market; /* with --relay */
    uint64_t quotes;
    uint64_t messages_bad; /* messages that are no quotes of a symbol */
    uint64_t messages_lost;
    uint64_t redraw_at;
    uint32_t row_count;
    struct row rows[ROWS_MAX]; /* sorted by symbol */
};

static volatile sig_atomic_t stopped;

static void stop(int signal_number)
{
    (void)signal_number;
    stopped = 1;
}

/* --------------------------------------------------------------------------------------------------- rows */

/* Returns the index of the symbol, or where it belongs. */
static uint32_t row_index(const struct consumer *consumer, const char *symbol)
{
    uint32_t low = 0;
    uint32_t high = consumer->row_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (strcmp(consumer->rows[middle].symbol, symbol) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Returns the row of a symbol, adding one if needed; NULL if there is no room. */
static struct row *row_of(struct consumer *consumer, const char *symbol)
{
    uint32_t i = row_index(consumer, symbol);
    struct row *row = &consumer->rows[i];

    if (i < consumer->row_count && strcmp(row->symbol, symbol) == 0)
        return row;
    if (consumer->row_count == ROWS_MAX)
        return NULL;
    memmove(row + 1, row, (consumer->row_count - i) * sizeof *row);
    *row = (struct row){0};
    memcpy(row->symbol, symbol, strlen(symbol) + 1);
    consumer->row_count++;
    return row;
}

/* Marks the quotes of a session stale until a new quote comes for each symbol. */
static void rows_are_stale(struct consumer *consumer, uint64_t session)
{
    /* Books of relayed messages are those of all sessions together. */
    if (consumer->arguments.relay)
        return;
    for (uint32_t i = 0; i < consumer->row_count; i++) {
        if (consumer->rows[i].session == session)
            consumer->rows[i].quote.flags |= QUOTE_STALE;
    }
}

/* Shows the books that have changed. */
static void show_books(struct consumer *consumer)
{
    const struct book *book;

    for (; (book = market_changed(&consumer->market)) != NULL; market_pop(&consumer->market)) {
        const struct quote quote = quote_of_book(book);
        struct row *row = row_of(consumer, book->symbol);

        if (row == NULL || quote_same(&row->quote, &quote))
            continue;
        row->quote = quote;
        consumer->quotes++;
        if (!consumer->terminal)
            quote_write_line(stdout, row->symbol, &row->quote);
    }
}

/* ----------------------------------------------------------------------------------------------- handlers */

/* Anyone may send on the channel: names that are no symbols are ignored, and never reach the terminal. */
static bool is_symbol(const char *name)
{
    size_t size = strlen(name);

    if (size == 0 || size > ITCH_SYMBOL_BYTES)
        return false;
    for (size_t i = 0; i < size; i++) {
        if (name[i] <= ' ' || name[i] > '~')
            return false;
    }
    return true;
}

static bool on_accept(void *arg, const struct llm_source *source)
{
    (void)arg;
    return source->topic == NULL || is_symbol(source->topic);
}

static bool has_enough(const struct consumer *consumer)
{
    return consumer->quotes == consumer->arguments.count;
}

/* Takes a message of the feed: its number is that in the feed, whichever handler sent it. */
static void take_relayed(struct consumer *consumer, const struct llm_message *message)
{
    struct itch_message decoded;

    switch (itch_decode(message->data, message->size, &decoded)) {
    case ITCH_OK:
        market_apply(&consumer->market, &decoded, message->number);
        break;
    case ITCH_OTHER:
        break;
    case ITCH_BAD:
        consumer->messages_bad++;
        market_lost(&consumer->market);
        break;
    }
    show_books(consumer);
}

static void on_message(void *arg, const struct llm_message *message)
{
    struct consumer *consumer = arg;
    struct quote quote;
    struct row *row;

    if (consumer->arguments.relay) {
        take_relayed(consumer, message);
        return;
    }

    /* A single llm_wait() may deliver more messages than requested. */
    if (has_enough(consumer))
        return;
    /* A topic with an unknown name is delivered with an empty one. */
    if (!is_symbol(message->topic) || !quote_decode(&quote, message->data, message->size)) {
        consumer->messages_bad++;
        return;
    }
    row = row_of(consumer, message->topic);
    if (row == NULL)
        return;
    row->quote = quote;
    row->session = message->session;
    consumer->quotes++;
    if (!consumer->terminal)
        quote_write_line(stdout, row->symbol, &row->quote);
}

static void print_event(const struct llm_event *event)
{
    printf("* %s, session %016" PRIx64, llm_event_name(event->kind), event->session);
    if (event->reason != LLM_REASON_NONE)
        printf(", %s", llm_reason_name(event->reason));
    if (event->kind == LLM_EVENT_GAP)
        printf(", %" PRIu64 " messages lost", event->last + 1 - event->first);
    printf("\n");
}

static void on_event(void *arg, const struct llm_event *event)
{
    struct consumer *consumer = arg;

    switch (event->kind) {
    case LLM_EVENT_GAP:
    case LLM_EVENT_STREAM_GAP:
        consumer->messages_lost += event->last + 1 - event->first;
        rows_are_stale(consumer, event->session);
        if (consumer->arguments.relay) {
            market_lost(&consumer->market);
            show_books(consumer);
        }
        break;
    case LLM_EVENT_HEARTBEAT_LOST:
        rows_are_stale(consumer, event->session);
        break;
    case LLM_EVENT_SESSION_NEW:
        consumer->sessions++;
        break;
    case LLM_EVENT_SESSION_END:
        consumer->sessions--;
        consumer->ended = consumer->sessions == 0;
        /* The last quotes of a handler that closed its session remain valid. */
        if (event->reason != LLM_REASON_CLOSED)
            rows_are_stale(consumer, event->session);
        break;
    case LLM_EVENT_TOPIC_NEW:
        return;
    case LLM_EVENT_RESUMED:
    case LLM_EVENT_JOIN_REFUSED:
    case LLM_EVENT_LIVE:
    case LLM_EVENT_CACHE_LOST:
    case LLM_EVENT_WARNED:
    case LLM_EVENT_UNICAST_ONLY:
    case LLM_EVENT_SUSPENDED:
    case LLM_EVENT_EXPELLED:
    case LLM_EVENT_READMITTED:
    case LLM_EVENT_CONNECTED:
    case LLM_EVENT_DISCONNECTED:
    case LLM_EVENT_STREAM_AGAIN:
    case LLM_EVENT_STREAM_REFUSED:
    case LLM_EVENT_LINE_DOWN:
    case LLM_EVENT_LINE_UP:
    case LLM_EVENT_UNREACHABLE:
    case LLM_EVENT_KEYS:
    case LLM_EVENT_FORGED:
    case LLM_EVENT_DIVERGED:
    case LLM_EVENT_ACKNOWLEDGED:
    case LLM_EVENT_UNACKNOWLEDGED:
    case LLM_EVENT_STORE_STOPPED:
    case LLM_EVENT_LIMITED:
    case LLM_EVENT_RECEIVER_LIMITED:
        break;
    }
    if (!consumer->terminal)
        print_event(event);
}

/* ------------------------------------------------------------------------------------------------- screen */

static uint32_t screen_lines(void)
{
    struct winsize size;

    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : TERMINAL_LINES;
}

static void draw_row(const struct row *row)
{
    const struct quote *quote = &row->quote;

    printf("%-8s %10" PRIu64 " %12.4f %12.4f %10" PRIu64 "  %s\033[K\n", row->symbol, quote->bid_size,
           (double)quote->bid_price / 10000, (double)quote->ask_price / 10000, quote->ask_size,
           (quote->flags & QUOTE_STALE) != 0 ? "stale" : "");
}

/* Moves home, overwrites, and clears the rest, to avoid flicker. */
static void draw(const struct consumer *consumer)
{
    uint32_t lines = screen_lines();
    uint32_t room = lines > 3 ? lines - 3 : 0;

    printf("\033[H%" PRIu64 " quotes of %" PRIu32 " symbols, %" PRIu64 " lost\033[K\n", consumer->quotes,
           consumer->row_count, consumer->messages_lost);
    printf("%-8s %10s %12s %12s %10s\033[K\n", "symbol", "size", "bid", "ask", "size");
    for (uint32_t i = 0; i < consumer->row_count && i < room; i++)
        draw_row(&consumer->rows[i]);
    printf("\033[J");
    fflush(stdout);
}

/* --------------------------------------------------------------------------------------------------- main */

static void redraw(struct consumer *consumer)
{
    uint64_t now = llm_clock();

    if (!consumer->terminal || now < consumer->redraw_at)
        return;
    consumer->redraw_at = now + REDRAW_NS;
    draw(consumer);
}

static bool write_final(const struct consumer *consumer, const char *path)
{
    FILE *file = fopen(path, "w");

    if (file == NULL) {
        perror(path);
        return false;
    }
    for (uint32_t i = 0; i < consumer->row_count; i++)
        quote_write_line(file, consumer->rows[i].symbol, &consumer->rows[i].quote);
    if (fclose(file) != 0) {
        perror(path);
        return false;
    }
    return true;
}

static void usage(FILE *file)
{
    fprintf(file, "usage: feed_consumer [OPTION]...\n"
                  "  --channel CHANNEL  where the quotes come from; default udp://239.192.1.3:5003\n"
                  "  --count N          end after N quotes\n"
                  "  --once             end when a session has ended and none is left\n"
                  "  --relay            the channel is that of feed_handler --relay\n"
                  "  --final FILE       write the last quote of each symbol to FILE at the end\n");
}

static struct arguments parse(int argc, char **argv)
{
    static const struct option options[] = {
        {"channel", required_argument, NULL, 'c'},
        {"count", required_argument, NULL, 'n'},
        {"once", no_argument, NULL, '1'},
        {"final", required_argument, NULL, 'f'},
        {"relay", no_argument, NULL, 'r'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    struct arguments arguments = {.channel = "udp://239.192.1.3:5003", .count = UINT64_MAX};

    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 'c':
            arguments.channel = optarg;
            break;
        case 'n':
            arguments.count = argument_number("count", optarg, 1, UINT64_MAX);
            break;
        case '1':
            arguments.once = true;
            break;
        case 'r':
            arguments.relay = true;
            break;
        case 'f':
            arguments.final = optarg;
            break;
        case 'h':
            usage(stdout);
            exit(EXIT_SUCCESS);
        default:
            usage(stderr);
            exit(EXIT_FAILURE);
        }
    }
    return arguments;
}

static int receiver_open(struct consumer *consumer, struct llm_context *context)
{
    struct llm_receiver_handlers handlers;
    struct llm_receiver *receiver;

    llm_receiver_handlers_init(&handlers);
    handlers.arg = consumer;
    handlers.accept = on_accept;
    handlers.message = on_message;
    handlers.event = on_event;
    /* owned and closed by the context */
    return llm_receiver_open(context, consumer->arguments.channel, NULL, &handlers, &receiver);
}

static int run(struct consumer *consumer, struct llm_context *context)
{
    int result = receiver_open(consumer, context);

    if (result < 0)
        return result;
    if (!consumer->terminal)
        printf("* listening on %s\n", consumer->arguments.channel);
    while (result >= 0 && !stopped && !has_enough(consumer) &&
           !(consumer->arguments.once && consumer->ended)) {
        result = llm_wait(context, REDRAW_NS);
        redraw(consumer);
    }
    return result < 0 ? result : 0;
}

/* False without memory. */
static bool books_open(struct consumer *consumer)
{
    const struct market_limits limits = {.symbols_max = 1024, .orders_max = 1 << 20, .levels_max = 1024};

    return !consumer->arguments.relay || market_init(&consumer->market, &limits);
}

static int open_and_run(struct consumer *consumer)
{
    struct llm_context_options options;
    struct llm_context *context;
    int result;

    llm_context_options_init(&options);
    options.wait = LLM_WAIT_BLOCK;
    result = llm_context_open(&options, &context);
    if (result < 0)
        return result;
    result = run(consumer, context);
    llm_context_close(&context);
    return result;
}

int main(int argc, char **argv)
{
    static struct consumer consumer;
    int result;

    consumer.arguments = parse(argc, argv);
    consumer.terminal = isatty(STDOUT_FILENO) == 1;
    setvbuf(stdout, NULL, consumer.terminal ? _IOFBF : _IOLBF, BUFSIZ);
    signal(SIGINT, stop);
    signal(SIGTERM, stop);

    result = books_open(&consumer) ? open_and_run(&consumer) : LLM_ENOMEM;
    if (result < 0) {
        fprintf(stderr, "feed_consumer: %s: %s\n", consumer.arguments.channel, llm_error_text(result));
        return EXIT_FAILURE;
    }
    if (consumer.arguments.relay)
        market_fini(&consumer.market);
    if (consumer.messages_bad > 0)
        fprintf(stderr, "feed_consumer: %" PRIu64 " messages were no quotes of a symbol\n",
                consumer.messages_bad);
    if (consumer.arguments.final != NULL && !write_final(&consumer, consumer.arguments.final))
        return EXIT_FAILURE;
    return EXIT_SUCCESS;
}
